package plan_test

import (
	"os"
	"testing"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
)

// TestTheModelAnswersAsServersDo runs testdata/servers on the model. The same scripts run on real
// servers in test/integration/model: where the two differ, the model is wrong.
func TestTheModelAnswersAsServersDo(t *testing.T) {
	raw, err := os.ReadFile("testdata/servers/servers.txt")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := plantest.ParseServerScripts(string(raw))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, s := range scripts {
		t.Run(s.Title, func(t *testing.T) {
			if err := s.Run(plantest.NewBare(s.Servers)); err != nil {
				t.Error(err)
			}
		})
	}
}
