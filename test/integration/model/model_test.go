// Package model runs the scripts that the model cluster of plantest passes on real servers:
// where the two differ, the model is wrong.
package model

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

func TestRealServersAnswerAsTheModelDoes(t *testing.T) {
	raw, err := os.ReadFile("../../../pkg/valkey/plan/testdata/servers/servers.txt")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := plantest.ParseServerScripts(string(raw))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, s := range scripts {
		t.Run(s.Title, func(t *testing.T) {
			if err := s.Run(start(t, s.Servers)); err != nil {
				t.Error(err)
			}
		})
	}
}

// bench is real servers to run a script on.
type bench struct {
	t       *testing.T
	servers []*valkeyproc.Server
	ids     []topology.NodeID
	dead    map[int]bool
}

func start(t *testing.T, n int) *bench {
	b := &bench{t: t, dead: map[int]bool{}, servers: valkeyproc.Start(t, n, valkeyproc.Options{
		Override: map[string]string{
			"cluster-require-full-coverage": "no", // a key in part of the slots is enough
			"enable-debug-command":          "yes",
		},
	})}
	for _, s := range b.servers {
		b.ids = append(b.ids, s.ID(t))
	}
	return b
}

func (b *bench) Pass() { time.Sleep(500 * time.Millisecond) }

func (b *bench) Synced(i int) bool { return b.servers[i].Look(b.t).LinkUp }

func (b *bench) Views() string {
	views := make([]*topology.View, len(b.servers))
	numbers := map[topology.NodeID]int{}
	for i, s := range b.servers {
		numbers[b.ids[i]] = i
		if !b.dead[i] {
			v := s.Look(b.t).View
			views[i] = &v
		}
	}
	return plantest.ViewsText(views, numbers)
}

func (b *bench) Do(i int, verb string, args []string) error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	switch verb {
	case "kill":
		b.servers[i].Kill(b.t)
		b.dead[i] = true
		return nil
	case "key":
		b.servers[i].CLI(b.t, "SET", "lvb", "value") // slot 17, as in the model
		return nil
	case "deaf":
		b.servers[i].CLI(b.t, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-2") // all
		return nil
	case "hears":
		b.servers[i].CLI(b.t, "DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-1") // none
		return nil
	case "delslots":
		first, last, _ := strings.Cut(args[0], "-")
		b.servers[i].CLI(b.t, "CLUSTER", "DELSLOTSRANGE", first, last)
		return nil
	}
	node := b.servers[i].Node(b.t)
	switch verb {
	case "epoch":
		n, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return err
		}
		return node.SetConfigEpoch(ctx, n)
	case "cancel":
		return node.CancelMigrations(ctx)
	case "failover":
		return node.Failover(ctx, client.FailoverMode(strings.ToUpper(strings.Join(args, ""))))
	case "addslots", "migrate":
		set, err := slot.Parse(args[0])
		if err != nil {
			return err
		}
		if verb == "addslots" {
			return node.AddSlots(ctx, set)
		}
		return b.toward(args[1], func(to int) error { return node.MigrateSlots(ctx, set, b.ids[to]) })
	case "meet":
		return b.toward(args[0], func(to int) error {
			return node.Meet(ctx, b.servers[to].IP, valkeyproc.Port, valkeyproc.BusPort)
		})
	case "replicate":
		return b.toward(args[0], func(to int) error { return node.Replicate(ctx, b.ids[to]) })
	case "forget":
		return b.toward(args[0], func(to int) error { return node.Forget(ctx, b.ids[to]) })
	}
	return fmt.Errorf("no command %q", verb)
}

func (b *bench) toward(text string, do func(int) error) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(b.servers) {
		return fmt.Errorf("no server %q", text)
	}
	return do(n)
}
