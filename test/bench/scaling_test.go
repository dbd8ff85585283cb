package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// data is how many megabytes a cluster with data holds.
const data = 500

// roomy are nodes that can hold the data of any shape measured here.
var roomy = lab.Options{Plain: true, Memory: "768Mi"}

func TestScaling(t *testing.T) {
	for _, megabytes := range []int{0, data} {
		t.Run(fmt.Sprintf("%dMB", megabytes), func(t *testing.T) {
			out, in, moving := scaleOurs(t, megabytes)
			bare := bareMove(t, megabytes)
			key := rebalance(t, megabytes)
			atomic := rebalance(t, megabytes, "--cluster-use-atomic-slot-migration")
			heading(fmt.Sprintf("3->4->3 shards x 2 nodes, %d MB", megabytes))
			limit := time.Duration(1.2*float64(bare)) + 500*time.Millisecond
			add("3->4, spec to even and in sync", seconds(out), "", "")
			add("  of it slots moving", seconds(moving), seconds(bare)+" *", "<= "+seconds(limit))
			add("  rebalance, key by key", "", seconds(key), "beaten")
			add("  rebalance, atomic", "", seconds(atomic), "beaten")
			add("4->3, spec to pods gone", seconds(in), "", "")
			add("* bare MIGRATESLOTS, 3 sources", "", "", "")
		})
	}
}

// scaleOurs measures 3→4 and 4→3, and of the former the time from the last look at which nothing had moved yet.
func scaleOurs(t *testing.T, megabytes int) (out, in, moving time.Duration) {
	s := lab.NewSite(t, roomy)
	c := s.Create("bench", 3, 1)
	c.Settle(120*time.Second, 3, 1)
	lab.Fill(t, c.Client(), megabytes)
	start := time.Now()
	before := start
	c.Scale(4, 1)
	lab.Eventually(t, 180*time.Second, "four shards to be even", func() error {
		sample, err := c.Look()
		if err != nil {
			return err
		}
		if !moved(sample) {
			before = sample.At
		}
		return sample.Shape(4, 1)
	})
	out, moving = time.Since(start), time.Since(before)
	c.Watch().Settled()
	start = time.Now()
	c.Scale(3, 1)
	c.AwaitShape(180*time.Second, 3, 1)
	in = time.Since(start)
	c.Watch().Settled()
	return out, in, moving
}

// moved says that some primary of three gives slots to a fourth, or has given.
func moved(s lab.Sample) bool {
	for _, n := range s.Nodes {
		if n.Err == nil && len(n.Server.Migrations) > 0 {
			return true
		}
	}
	return len(s.Primaries()) > 3
}

// four is a bare cluster of 3 × 1 with data, to which a fourth shard has been added that owns nothing yet.
func four(t *testing.T, megabytes int) (*lab.Bare, *lab.Node) {
	options := roomy
	options.NoOperator = true
	s := lab.NewSite(t, options)
	b := s.NewBare("bare", 6)
	create(t, b, 3, 1)
	lab.Fill(t, lab.ClientOf(t, b.Addresses()), megabytes)
	b.Add(2)
	addrs := b.Addresses()
	for _, addr := range addrs[6:] {
		// Refused until all nodes agree about the one before.
		lab.Eventually(t, 30*time.Second, "valkey-cli --cluster add-node", func() error {
			_, err := b.CLI("--cluster", "add-node", addr, addrs[0])
			return err
		})
	}
	sample := b.Look()
	target, replica := sample.Nodes[6], sample.Nodes[7]
	lab.Eventually(t, 30*time.Second, "the new replica to know its primary", func() error {
		return b.Dialer().Node(addrs[7], replica.ID()).Replicate(context.Background(), target.ID())
	})
	lab.Eventually(t, 60*time.Second, "every node to know the new shard in sync", func() error {
		now := b.Look()
		for _, n := range now.Nodes {
			if n.Err != nil || len(n.Server.View.Peers) != 8 || n.Server.SlotsOK != slot.Count {
				return fmt.Errorf("%s does not", n.Name())
			}
			// A new primary stays down for some seconds after it has met the others, and refuses keys until then.
			if !n.Server.StateOK {
				return fmt.Errorf("%s calls the cluster down", n.Name())
			}
		}
		if len(now.InSync(now.Nodes[6])) != 1 {
			return fmt.Errorf("the new replica is not in sync")
		}
		return nil
	})
	return b, target
}

// rebalance measures valkey-cli --cluster rebalance from 3 to 4 shards.
func rebalance(t *testing.T, megabytes int, args ...string) time.Duration {
	b, _ := four(t, megabytes)
	defer b.Delete()
	start := time.Now()
	out, err := b.CLI(append([]string{"--cluster", "rebalance", b.Addresses()[0], "--cluster-use-empty-masters"}, args...)...)
	// It exits with 0 even where it could move nothing.
	if err != nil || strings.Contains(out, "failed") || strings.Contains(out, "error") {
		t.Fatalf("valkey-cli --cluster rebalance: %v: %s", err, out)
	}
	b.AwaitShape(60*time.Second, 4, 1)
	return time.Since(start)
}

// bareMove measures one MIGRATESLOTS of each of the three sources, side by side: the floor.
func bareMove(t *testing.T, megabytes int) time.Duration {
	b, target := four(t, megabytes)
	defer b.Delete()
	sample := b.Look()
	start := time.Now()
	errs := make(chan error)
	sources := sample.Primaries()
	for _, p := range sources {
		addr := p.Pod.Status.PodIP + ":6379"
		// 16384/4 is 4096: of 5461 or 5462 slots that much stays.
		slots := p.Slots()
		given := slots.First(slots.Len() - slot.Count/4)
		go func() {
			errs <- b.Dialer().Node(addr, p.ID()).MigrateSlots(context.Background(), given, target.ID())
		}()
	}
	for range sources {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	b.AwaitShape(60*time.Second, 4, 1)
	return time.Since(start)
}
