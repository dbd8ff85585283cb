package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// All other tests have TLS and users; a cluster without either forms, scales, rolls and survives as well.
func TestWithoutTLSAndUsersAClusterScalesRollsAndSurvivesToo(t *testing.T) {
	t.Parallel()
	s, c, w := ready(t, 3, 1, lab.Options{Plain: true})
	c.Scale(4, 1)
	c.Settle(150*time.Second, 4, 1)
	c.Scale(3, 1)
	c.Settle(150*time.Second, 3, 1)
	before := c.UIDs()
	s.PatchConfig(s.Name, `{"spec":{"valkey":{"maxmemory-policy":"allkeys-lru"}}}`)
	lab.Eventually(t, 240*time.Second, "every pod to be another one", func() error {
		now := c.UIDs()
		for name := range before {
			if _, ok := now[name]; ok {
				return fmt.Errorf("%s is still there", name)
			}
		}
		return nil
	})
	c.Settle(60*time.Second, 3, 1)
	w.FinishComplete()
	c.Watch().Fault()
	c.DeletePods(nil, lab.Pods(c.AssertShape(3, 1).Primaries()[0])...)
	time.Sleep(2 * time.Second)
	c.Settle(120*time.Second, 3, 1)
	c.Quiet(10*time.Second, 3, 1)
}
