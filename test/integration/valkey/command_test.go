package valkey_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

// adminACL closes the default user and opens one for the test to watch with.
func adminACL(t *testing.T) string {
	t.Helper()
	text, err := acl.Render(acl.Input{
		Cluster: []acl.Binding{{
			Username: "watcher", PasswordHashes: []string{sha("watch")},
			Permissions: []acl.Permission{{Role: "all", Keys: []acl.Key{{Pattern: "*"}}}},
		}},
		Roles:            map[string]acl.Role{"all": {Categories: []acl.Category{{Name: "all"}}}},
		OperatorPassword: valkeyproc.OperatorPassword, ReplPassword: valkeyproc.ReplPassword,
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func watch(t *testing.T, s *valkeyproc.Server, args ...string) string {
	t.Helper()
	return s.CLI(t, append([]string{"--no-auth-warning", "--user", "watcher", "--pass", "watch"}, args...)...)
}

// Each command of the client, once, on a cluster whose users are those of users.acl: what the
// server counted is what was sent, by whatever way. None was refused, and none is granted
// that is neither sent nor on the contract's list.
func TestTheOperatorsUserMayDoExactlyWhatTheClientSends(t *testing.T) {
	t.Parallel()
	servers := valkeyproc.Start(t, 4, valkeyproc.Options{ACL: adminACL(t), Override: map[string]string{"cluster-node-timeout": "1000"}})
	valkeyproc.Form(t, servers[:3], 2) // sets epochs, meets, adds slots and replicates
	for _, s := range servers {
		watch(t, s, "CONFIG", "RESETSTAT")
	}
	everyCommand(t, servers)
	sent := map[string]bool{}
	for _, s := range servers[:3] { // the fourth was killed
		for name, stat := range commandStats(watch(t, s, "INFO", "commandstats")) {
			if !slices.Contains(byOthers, name) {
				sent[name] = true
			}
			// A replica that connects anew says PING before it logs in.
			if !strings.Contains(stat, "rejected_calls=0,") && name != "ping" {
				t.Errorf("%s: %s has %s", s.IP, name, stat)
			}
		}
		if log := watch(t, s, "ACL", "LOG"); strings.TrimSpace(log) != "" {
			t.Errorf("%s denied:\n%s", s.IP, log)
		}
	}
	granted, used := operatorGrants(t), map[string]bool{"ping": true} // on the contract's list, whether sent or not
	for name := range sent {
		command, _, _ := strings.Cut(name, "|")
		if !granted[name] && !granted[command] {
			t.Errorf("%s was sent and is not granted by name", name)
		}
		used[name], used[command] = true, true
	}
	for name := range granted {
		if !used[name] {
			t.Errorf("%s is granted and never sent", name)
		}
	}
}

// byOthers are commands of replication, of slot migration and of this test.
var byOthers = []string{"auth", "replconf", "psync", "config|resetstat", "acl|log", "hello", "cluster|syncslots", "select", "monitor", "function|load", "function|list"}

var statLine = regexp.MustCompile(`(?m)^cmdstat_([^:]+):(.*?)\r?$`)

func commandStats(info string) map[string]string {
	stats := map[string]string{}
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		stats[m[1]] = m[2]
	}
	return stats
}

func operatorGrants(t *testing.T) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	for line := range strings.Lines(adminACL(t)) {
		if !strings.HasPrefix(line, "user "+acl.OperatorUser+" ") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(word, "+"); ok {
				granted[name] = true
			}
		}
	}
	if len(granted) < 5 {
		t.Fatalf("grants are %v", granted)
	}
	return granted
}

// everyCommand sends all that Form did not: servers are two primaries, a replica of the
// first, and one that is in no cluster.
func everyCommand(t *testing.T, servers []*valkeyproc.Server) {
	t.Helper()
	ctx := t.Context()
	first, second, replica, lone := servers[0], servers[1], servers[2], servers[3]
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	check("set epoch", lone.Node(t).SetConfigEpoch(ctx, 99))
	check("meet", lone.Node(t).Meet(ctx, first.IP, valkeyproc.Port, valkeyproc.BusPort))
	valkeyproc.Eventually(t, 10*time.Second, "all to know each other", func() bool {
		return slices.IndexFunc(servers, func(s *valkeyproc.Server) bool { return len(s.Look(t).View.Peers) != 4 }) < 0
	})
	watch(t, first, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('one', function() return 1 end)")
	dump, err := first.Node(t).DumpFunctions(ctx)
	check("dump functions", err)
	check("restore functions", second.Node(t).RestoreFunctions(ctx, dump))
	check("restore functions again", second.Node(t).RestoreFunctions(ctx, dump))
	if got := second.Look(t).Libraries; got != 1 {
		t.Errorf("the other primary has %d libraries", got)
	}
	moving := slot.Of(slot.Range{First: 0, Last: 99}, slot.Range{First: 200, Last: 200})
	check("migrate", first.Node(t).MigrateSlots(ctx, moving, second.ID(t)))
	check("cancel", first.Node(t).CancelMigrations(ctx))
	check("load ACL", first.Node(t).LoadACL(ctx))
	revision, err := first.Node(t).ACLRevision(ctx)
	check("ACL revision", err)
	if want := acl.Revision(adminACL(t)); revision != want {
		t.Errorf("the ACL revision is %q, want %q", revision, want)
	}
	check("set config", first.Node(t).SetConfig(ctx, map[string]string{"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}))
	check("replicate", lone.Node(t).Replicate(ctx, second.ID(t)))
	failover(t, replica, client.Coordinated)
	failover(t, first, client.Force)
	failover(t, replica, client.Takeover)
	id := lone.ID(t)
	lone.Kill(t)
	for _, s := range servers[:3] {
		check("forget", s.Node(t).Forget(ctx, id))
	}
}

func failover(t *testing.T, replica *valkeyproc.Server, mode client.FailoverMode) {
	t.Helper()
	valkeyproc.Eventually(t, 15*time.Second, "the replica to be in sync", func() bool { return replica.Look(t).LinkUp })
	if err := replica.Node(t).Failover(t.Context(), mode); err != nil {
		t.Errorf("failover %q: %v", mode, err)
	}
	valkeyproc.Eventually(t, 15*time.Second, fmt.Sprintf("a promotion by %q", mode), func() bool {
		return replica.Look(t).View.Me().Role == topology.Primary
	})
}

func TestSlotsMoveWithTheirKeysWhileTheDefaultUserIsOff(t *testing.T) {
	t.Parallel()
	servers := valkeyproc.Start(t, 3, valkeyproc.Options{
		ACL: adminACL(t), Settings: map[string]string{"dual-channel-replication-enabled": "yes"},
		Override: map[string]string{"cluster-node-timeout": "1000"},
	})
	valkeyproc.Form(t, servers, 2)
	for i := range 200 {
		watch(t, servers[0], "-c", "SET", fmt.Sprint("key", i), fmt.Sprint("value", i))
	}
	all := slot.All()
	low := all.First(8192)
	if err := servers[0].Node(t).MigrateSlots(t.Context(), low, servers[1].ID(t)); err != nil {
		t.Fatal(err)
	}
	var jobs []topology.Migration
	valkeyproc.Eventually(t, 20*time.Second, "the job to end", func() bool {
		jobs = servers[0].Look(t).Migrations
		return len(jobs) == 1 && jobs[0].State != topology.Running
	})
	if j := jobs[0]; j.State != topology.Success || !j.Export || j.Source != servers[0].ID(t) || j.Target != servers[1].ID(t) ||
		slot.Of(j.Slots...) != low || j.Created == 0 {
		t.Errorf("the job is %+v", j)
	}
	if jobs := servers[1].Look(t).Migrations; len(jobs) != 1 || jobs[0].Export || jobs[0].State != topology.Success {
		t.Errorf("the target's job is %+v", jobs)
	}
	if got := servers[1].Look(t); got.Keys != 200 || slot.Of(got.View.Me().Slots...) != all {
		t.Errorf("the target has %d keys and %v", got.Keys, got.View.Me().Slots)
	}
}

func TestAnACLIsInForceWhenItsRevisionIs(t *testing.T) {
	s := valkeyproc.Start(t, 1, valkeyproc.Options{})[0]
	node, next := s.Node(t), adminACL(t)
	before, err := node.ACLRevision(t.Context())
	if err != nil || before == "" || before == acl.Revision(next) {
		t.Fatalf("the revision is %q, %v", before, err)
	}
	file := filepath.Join(s.Dir, "etc/acl/users.acl")
	if err := os.WriteFile(file, []byte("user broken +nosuchcommand\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := node.LoadACL(t.Context()); err == nil || !strings.Contains(err.Error(), "nosuchcommand") && !strings.Contains(err.Error(), "Unknown command") {
		t.Errorf("a broken file: %v", err)
	}
	if now, err := node.ACLRevision(t.Context()); err != nil || now != before {
		t.Errorf("after a refused file the revision is %q, %v", now, err)
	}
	if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := node.LoadACL(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := node.ACLRevision(t.Context()); err != nil || now != acl.Revision(next) {
		t.Errorf("the revision is %q, %v", now, err)
	}
	if out, err := s.CLICommand(t, "GET", "x").CombinedOutput(); !strings.Contains(string(out), "NOAUTH") {
		t.Errorf("without a login: %s, %v", out, err)
	}
	wrong := s.Dialer(t)
	wrong.Password = "guess"
	if _, err := wrong.Look(t.Context(), s.Addr()); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
}
