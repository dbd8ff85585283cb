package valkey_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mediocregopher/radix/v4"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
	"github.com/momentohq/valkey-operator/test/monitor"
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

// All that the client can send, on a cluster whose users are those of users.acl, while a MONITOR follows every server. What MONITOR
// does not show (commands that the server flags admin or skip_monitor) is counted by INFO commandstats. None was refused,
// none is granted that is neither sent nor on the contract's list, and a list with a command more or less is found.
func TestTheOperatorsUserMayDoExactlyWhatTheClientSends(t *testing.T) {
	t.Parallel()
	servers := valkeyproc.Start(t, 4, valkeyproc.Options{ACL: adminACL(t), Override: map[string]string{"cluster-node-timeout": "1000"}})
	watch(t, servers[0], "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('one', function() return 1 end)")
	followers := follow(t, servers)
	valkeyproc.Form(t, servers[:3], 2)
	everyCommand(t, servers)
	sent := map[string]bool{"ping": true} // on the contract's list, whether sent or not
	for name := range shown(t, servers, followers) {
		sent[name] = true
	}
	for name := range hidden(t, servers[:3]) {
		sent[name] = true
	}
	granted := operatorGrants(t)
	for _, problem := range differences(granted, sent) {
		t.Error(problem)
	}
	for i, name := range granted {
		less := slices.Concat(granted[:i], granted[i+1:])
		if found := differences(less, sent); !strings.Contains(strings.Join(found, "\n"), strings.Split(name, "|")[0]) {
			t.Errorf("a list without %s is taken for right: %v", name, found)
		}
	}
	for _, name := range []string{"get", "shutdown", "config|get", "acl|setuser", "function|delete"} {
		if found := differences(append(slices.Clone(granted), name), sent); !slices.Contains(found, name+" is granted and never sent") {
			t.Errorf("a list with %s is taken for right: %v", name, found)
		}
	}
}

// follow begins to watch all servers: what was counted before is forgotten.
func follow(t *testing.T, servers []*valkeyproc.Server) []*monitor.Follower {
	t.Helper()
	var out []*monitor.Follower
	for _, s := range servers {
		watch(t, s, "CONFIG", "RESETSTAT")
		conn, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		f, err := monitor.Follow(conn, "watcher", "watch")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f)
	}
	return out
}

// shown are the names of the commands that MONITOR showed, but for those that servers sent each other. The server
// itself says of each, with its arguments, whether the operator's user may.
func shown(t *testing.T, servers []*valkeyproc.Server, followers []*monitor.Follower) map[string]bool {
	t.Helper()
	seen := make([][]monitor.Line, len(followers))
	for i, f := range followers {
		var err error
		if seen[i], err = f.Stop(); err != nil && i < 3 || len(seen[i]) == 0 { // the fourth was killed
			t.Errorf("%s: %d lines, %v", servers[i].IP, len(seen[i]), err)
		}
	}
	known := map[string]bool{}
	for name := range strings.Lines(watch(t, servers[0], "COMMAND", "LIST")) {
		known[strings.TrimSpace(name)] = true
	}
	judge, err := radix.Dialer{AuthUser: "watcher", AuthPass: "watch"}.Dial(t.Context(), "tcp", servers[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = judge.Close() }()
	names := map[string]bool{}
	for i, lines := range seen {
		for _, line := range lines {
			ip, _, _ := strings.Cut(line.From, ":")
			if slices.ContainsFunc(servers, func(s *valkeyproc.Server) bool { return s.IP == ip }) {
				continue // replication and slot migration
			}
			if strings.EqualFold(line.Args[0], "auth") {
				continue // needs no right
			}
			names[line.Name(func(name string) bool { return known[name] })] = true
			var answer string
			if err := judge.Do(t.Context(), radix.Cmd(&answer, "ACL", append([]string{"DRYRUN", acl.OperatorUser}, line.Args...)...)); err != nil || answer != "OK" {
				t.Errorf("%s was sent %q: %s, %v", servers[i].IP, line.Args, answer, err)
			}
		}
	}
	for name := range names {
		if isHidden(t, servers[0], name) {
			t.Errorf("MONITOR shows %s, which is flagged as hidden", name)
		}
	}
	return names
}

// hidden are the names of the commands that servers counted and MONITOR does not show. No command was rejected.
func hidden(t *testing.T, servers []*valkeyproc.Server) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, s := range servers {
		for name, stat := range commandStats(watch(t, s, "INFO", "commandstats")) {
			if !slices.Contains(byOthers, name) && isHidden(t, s, name) {
				names[name] = true
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
	return names
}

// isHidden says whether the server's MONITOR leaves the command out.
func isHidden(t *testing.T, s *valkeyproc.Server, name string) bool {
	t.Helper()
	flags := strings.Fields(watch(t, s, "COMMAND", "INFO", name))
	return slices.Contains(flags, "admin") || slices.Contains(flags, "skip_monitor")
}

// byOthers are the hidden commands of replication, of slot migration, of the server's own Lua engine (CONFIG GET) and of this
// test. What the operator's user is not granted is not lost by that: it would be rejected, which is looked for too.
var byOthers = []string{"replconf", "psync", "cluster|syncslots", "config|get", "config|resetstat", "acl|log", "acl|dryrun", "monitor"}

// differences compares the words that an ACL grants with the commands that were sent, both ways.
func differences(granted []string, sent map[string]bool) []string {
	var out []string
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(sent)) {
		command, _, _ := strings.Cut(name, "|")
		if !slices.Contains(granted, name) && !slices.Contains(granted, command) {
			out = append(out, name+" was sent and is not granted by name")
		}
		used[name], used[command] = true, true
	}
	for _, name := range granted {
		if !used[name] {
			out = append(out, name+" is granted and never sent")
		}
	}
	return out
}

var statLine = regexp.MustCompile(`(?m)^cmdstat_([^:]+):(.*?)\r?$`)

func commandStats(info string) map[string]string {
	stats := map[string]string{}
	for _, m := range statLine.FindAllStringSubmatch(info, -1) {
		stats[m[1]] = m[2]
	}
	return stats
}

// operatorGrants are the words that the line of the operator's user grants.
func operatorGrants(t *testing.T) []string {
	t.Helper()
	var granted []string
	for line := range strings.Lines(adminACL(t)) {
		if !strings.HasPrefix(line, "user "+acl.OperatorUser+" ") {
			continue
		}
		for _, word := range strings.Fields(line) {
			if name, ok := strings.CutPrefix(word, "+"); ok {
				granted = append(granted, name)
			}
		}
	}
	if len(granted) < 5 {
		t.Fatalf("grants are %v", granted)
	}
	return granted
}

// everyCommand calls every method of the client: servers are two primaries, a replica of the
// first, and one that is in no cluster.
func everyCommand(t *testing.T, servers []*valkeyproc.Server) {
	t.Helper()
	ctx := t.Context()
	first, second, replica, lone := servers[0], servers[1], servers[2], servers[3]
	called := map[string]bool{"AddSlots": true} // by Form
	check := func(method string, err error) {
		t.Helper()
		called[method] = true
		if err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	check("SetConfigEpoch", lone.Node(t).SetConfigEpoch(ctx, 99))
	check("Meet", lone.Node(t).Meet(ctx, first.IP, valkeyproc.Port, valkeyproc.BusPort))
	valkeyproc.Eventually(t, 10*time.Second, "all to know each other", func() bool {
		return slices.IndexFunc(servers, func(s *valkeyproc.Server) bool { return len(s.Look(t).View.Peers) != 4 }) < 0
	})
	dump, err := first.Node(t).DumpFunctions(ctx)
	check("DumpFunctions", err)
	check("RestoreFunctions", second.Node(t).RestoreFunctions(ctx, dump))
	check("RestoreFunctions", second.Node(t).RestoreFunctions(ctx, dump))
	if got := second.Look(t).Libraries; got != 1 {
		t.Errorf("the other primary has %d libraries", got)
	}
	moving := slot.Of(slot.Range{First: 0, Last: 99}, slot.Range{First: 200, Last: 200})
	check("MigrateSlots", first.Node(t).MigrateSlots(ctx, moving, second.ID(t)))
	check("CancelMigrations", first.Node(t).CancelMigrations(ctx))
	check("LoadACL", first.Node(t).LoadACL(ctx))
	revision, err := first.Node(t).ACLRevision(ctx)
	check("ACLRevision", err)
	if want := acl.Revision(adminACL(t)); revision != want {
		t.Errorf("the ACL revision is %q, want %q", revision, want)
	}
	check("SetConfig", first.Node(t).SetConfig(ctx, map[string]string{"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}))
	check("Replicate", lone.Node(t).Replicate(ctx, second.ID(t)))
	failover(t, replica, client.Coordinated)
	failover(t, first, client.Force)
	failover(t, replica, client.Takeover)
	called["Failover"] = true
	id := lone.ID(t)
	lone.Kill(t)
	for _, s := range servers[:3] {
		check("Forget", s.Node(t).Forget(ctx, id))
	}
	for method := range reflect.TypeFor[client.Node]().Methods() {
		if !called[method.Name] {
			t.Errorf("the client can %s, and this test does not: what it sends is not compared", method.Name)
		}
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
