package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

func TestRolling(t *testing.T) {
	s := lab.NewSite(t, roomy)
	c := s.Create("bench", 3, 1)
	c.Settle(120*time.Second, 3, 1)
	lab.Fill(t, c.Client(), data)
	w := c.Follow(10*time.Millisecond, 64)
	time.Sleep(2 * time.Second)
	start := time.Now()
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Bed.Images.OtherTag))
	lab.Eventually(t, 300*time.Second, "every pod to be new", func() error {
		pods, err := c.Pods()
		for _, p := range pods {
			if !strings.HasSuffix(p.Spec.Containers[0].Image, ":"+s.Bed.Images.OtherTag) {
				return fmt.Errorf("%s is old", p.Name)
			}
		}
		return err
	})
	c.AwaitShape(60*time.Second, 3, 1)
	took := time.Since(start)
	gap := w.LongestGap(start, slot.All())
	failovers := len(c.Watch().Failovers())
	c.Watch().Settled()
	heading(fmt.Sprintf("roll of 3 shards x 2 nodes, %d MB", data))
	add("image edit to last pod new", seconds(took), "(72 s) *", "<= 45 s")
	add("longest gap between two writes", milliseconds(gap.Length), "", "<= 250 ms")
	add("failovers", fmt.Sprint(failovers), "", "3")
	add("acknowledged writes lost", fmt.Sprintf("%d of %d", len(w.Finish()), w.Acknowledged()), "", "0")
	put(row{what: "  * an operator with the same contract"})
}
