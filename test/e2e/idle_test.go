package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Idle means: no API write, and no command but reads, the 30 s ACL LOAD and the re-issue of the TLS files (contract §6).
//
// A MONITOR on every server shows each command with its arguments, whoever sent it, but none that the server flags "admin" or
// "skip_monitor": ACL LOAD and ACL GETUSER, the CONFIG SET of the TLS files, CLUSTER GETSLOTMIGRATIONS and replication's
// REPLCONF. Those are counted by INFO commandstats.
func TestAnIdleClusterIsOnlyRead(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	time.Sleep(35 * time.Second) // the last Events and status of the formation, and what a first tick tells
	monitored := c.Monitor()
	mark, before := s.Mark(), c.Calls()
	time.Sleep(2 * time.Minute)
	commands := c.Calls()
	lines := monitored()
	if writes := s.Writes(mark, "leases"); len(writes) > 0 {
		t.Errorf("%d API writes in two idle minutes: %v", len(writes), writes)
	}
	reads := []string{"cluster|nodes", "cluster|info", "cluster|myid", "info", "ping", "auth"}
	shown := map[string]int{}
	for _, line := range lines {
		name := line.Name(func(name string) bool { return slices.Contains(reads, name) })
		if shown[name]++; !slices.Contains(reads, name) {
			t.Errorf("from %s in two idle minutes: %q", line.From, line.Args)
		}
	}
	for _, name := range reads[:4] { // each look has them; PING is replication's
		if shown[name] < 6 {
			t.Errorf("MONITOR shows %d × %s on 6 nodes: does it show everything?", shown[name], name)
		}
	}
	allowed := append(reads, "cluster|getslotmigrations", "acl|load", "acl|getuser", "replconf", "config|set")
	for name, n := range commands {
		if commands[name] = n - before[name]; commands[name] == 0 {
			delete(commands, name)
		} else if !slices.Contains(allowed, name) {
			t.Errorf("%d × %s in two idle minutes", commands[name], name)
		}
	}
	// Six nodes, four or five ticks: more is a reload without a reason.
	for name, what := range map[string]string{"acl|load": "load of users.acl", "config|set": "re-issue of the TLS files"} {
		if n := commands[name]; n < 6*3 || n > 6*5 {
			t.Errorf("%d × %s on 6 nodes in two minutes, want one %s each 30 s", n, name, what)
		}
	}
	t.Logf("commands in two minutes, with those of the watching test: %v; shown by MONITOR: %v", commands, shown)
}
