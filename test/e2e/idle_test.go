package e2e

import (
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Idle means: no API write, and no command but reads, the 30 s ACL LOAD and the re-issue of the TLS files (contract §6).
func TestAnIdleClusterIsOnlyRead(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	time.Sleep(35 * time.Second) // the last Events and status of the formation, and what a first tick tells
	mark, before := s.Mark(), c.Calls()
	time.Sleep(2 * time.Minute)
	commands := c.Calls()
	if writes := s.Writes(mark, "leases"); len(writes) > 0 {
		t.Errorf("%d API writes in two idle minutes: %v", len(writes), writes)
	}
	allowed := map[string]bool{
		"cluster|nodes": true, "cluster|info": true, "cluster|myid": true, "cluster|getslotmigrations": true, "info": true,
		"ping": true, "auth": true, "acl|load": true, "acl|getuser": true, "replconf": true, "config|set": true,
	}
	for name, n := range commands {
		if commands[name] = n - before[name]; commands[name] == 0 {
			delete(commands, name)
		} else if !allowed[name] {
			t.Errorf("%d × %s in two idle minutes", commands[name], name)
		}
	}
	// Six nodes, four or five ticks: more is a reload without a reason.
	for name, what := range map[string]string{"acl|load": "load of users.acl", "config|set": "re-issue of the TLS files"} {
		if n := commands[name]; n < 6*3 || n > 6*5 {
			t.Errorf("%d × %s on 6 nodes in two minutes, want one %s each 30 s", n, name, what)
		}
	}
	t.Logf("commands in two minutes, with those of the watching test: %v", commands)
}
