package e2e

import (
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Idle means: no API write, and no command but reads, the 30 s ACL LOAD and the re-issue of the TLS files (contract §6).
func TestAnIdleClusterIsOnlyRead(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{Plain: true}) // so that the default user may MONITOR
	c := s.Create("cache", 3, 1)
	c.Settle(60*time.Second, 3, 1)
	time.Sleep(5 * time.Second) // the last Events and status of the formation
	mark, monitor := s.Mark(), c.Monitor()
	time.Sleep(2 * time.Minute)
	commands := monitor.Commands()
	if writes := s.Writes(mark, "leases"); len(writes) > 0 {
		t.Errorf("%d API writes in two idle minutes: %v", len(writes), writes)
	}
	allowed := map[string]bool{
		"CLUSTER NODES": true, "CLUSTER INFO": true, "CLUSTER MYID": true, "CLUSTER GETSLOTMIGRATIONS": true, "INFO": true,
		"PING": true, "AUTH": true, "ACL LOAD": true, "ACL GETUSER": true, "REPLCONF": true, "MONITOR": true, "CONFIG SET": true,
	}
	for name, n := range commands {
		if !allowed[name] {
			t.Errorf("%d × %s in two idle minutes", n, name)
		}
	}
	// Six nodes, four or five ticks: more is a reload without a reason.
	if n := commands["ACL LOAD"]; n < 6*2 || n > 6*6 {
		t.Errorf("%d × ACL LOAD on 6 nodes in two minutes, want one each 30 s", n)
	}
	if n := commands["CONFIG SET"]; n < 6*2 || n > 6*6 {
		t.Errorf("%d × CONFIG SET on 6 nodes in two minutes, want one re-issue of the TLS files each 30 s", n)
	}
	t.Logf("commands in two minutes, with those of the watching test: %v", commands)
}
