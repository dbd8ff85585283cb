package plan_test

import (
	"fmt"
	"testing"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// TestAFailedMigrationIsRememberedUntilItsPauseIsOver: an edit may have no use for the pair now and ask for it again at once.
func TestAFailedMigrationIsRememberedUntilItsPauseIsOver(t *testing.T) {
	for ago, kept := range map[string]int{"500ms": 1, "3s": 1, "4s": 0} {
		w, err := plan.ParseWorld(fmt.Sprintf(`target shards=2 replicas=0 revision=r
formed
node a shard=0 rev=r id=A pod=running ready ip=1 host=h1
node b shard=1 rev=r id=B pod=running ready ip=2 host=h2
peer A ip=1 primary epoch=1 slots=0-8191
peer B ip=2 primary epoch=2 slots=8192-16383
attempt SlotsUneven A>B count=3 ago=%s message="FLUSHALL"
`, ago))
		if err != nil {
			t.Fatal(err)
		}
		d := plan.Plan(w.Observation, w.Target)
		if got := plan.Remember(w.Observation, w.Target, d); d.Rule != plan.InShape || len(got) != kept {
			t.Errorf("%s after the third failure, at %s, there are %v, want %d attempts", ago, d, got, kept)
		}
	}
}
