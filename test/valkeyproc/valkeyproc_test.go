package valkeyproc

import (
	"strings"
	"testing"
	"time"
)

func TestServersFormAClusterAndSurviveAKill(t *testing.T) {
	servers := Start(t, 4, Options{Override: map[string]string{"cluster-node-timeout": "1000"}})
	begun := time.Now()
	Form(t, servers, 3)
	t.Logf("formed in %v", time.Since(begun))
	if got := servers[3].Look(t).View.Me(); got.PrimaryID != servers[0].ID(t) {
		t.Errorf("the replica's own line is %+v", got)
	}
	servers[0].Kill(t)
	Eventually(t, 20*time.Second, "the replica to be promoted", func() bool {
		return servers[3].Look(t).View.Me().Role == "primary" && servers[1].Look(t).StateOK
	})
	next := servers[0].Successor(t, Options{})
	if got := len(next.Look(t).View.Peers); got != 1 {
		t.Errorf("a fresh server at an old address knows %d servers", got)
	}
	servers[1].Pause(t)
	servers[1].Resume(t)
	servers[1].Stop(t)
	if log := servers[1].Log(t); !strings.Contains(log, "SIGTERM") {
		t.Errorf("the log says nothing of SIGTERM:\n%s", log)
	}
}
