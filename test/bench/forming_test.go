package bench

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// formed is how long the parts of a formation took.
type formed struct {
	pods, formation time.Duration
	writes, events  int
}

func TestForming(t *testing.T) {
	for _, shape := range []struct{ shards, replicas int }{{3, 1}, {10, 2}} {
		nodes := shape.shards * (1 + shape.replicas)
		goal := ""
		if shape.shards == 3 {
			goal = "<= 80"
		}
		t.Run(fmt.Sprintf("%dx%d", shape.shards, 1+shape.replicas), func(t *testing.T) {
			ours := formOurs(t, shape.shards, shape.replicas)
			pods, other := formOther(t, shape.shards, shape.replicas)
			heading(fmt.Sprintf("forming %d shards x %d nodes", shape.shards, 1+shape.replicas))
			add(fmt.Sprintf("until %d pods run", nodes), seconds(ours.pods), seconds(pods), "")
			add("from then to all in sync", seconds(ours.formation), seconds(other), "<= valkey-cli")
			add("together", seconds(ours.pods+ours.formation), seconds(pods+other), "<= valkey-cli")
			add("API writes, and Events", fmt.Sprintf("%d + %d", ours.writes, ours.events), "", goal)
		})
	}
}

// formOurs measures from the creation of the ValkeyCluster to Active, which includes that all replicas are in sync. A view that is not
// complete at that moment fails: then Active came too early, and the number means nothing.
func formOurs(t *testing.T, shards, replicas int) formed {
	s := lab.NewSite(t, lab.Options{Plain: true})
	time.Sleep(3 * time.Second) // the operator waits for its lease and caches
	mark := s.Mark()
	start := time.Now()
	c := s.Create("bench", int32(shards), int32(replicas))
	c.StopWatching() // its looks cost time
	var running time.Time
	lab.Eventually(t, 120*time.Second, "Active", func() error {
		got := c.Get()
		if running.IsZero() {
			pods, err := c.Pods()
			if err != nil {
				return err
			}
			if len(pods) == shards*(1+replicas) && allRun(pods) {
				running = time.Now()
			}
		}
		if got.Status.State != valkeyv1alpha1.ClusterStateActive {
			return fmt.Errorf("state %s", got.Status.State)
		}
		return nil
	})
	end := time.Now()
	c.AssertShape(shards, replicas)
	time.Sleep(time.Second)
	all, quiet := s.Writes(mark, "leases"), s.Writes(mark, "leases", "events")
	return formed{running.Sub(start), end.Sub(running), len(quiet), len(all) - len(quiet)}
}

func allRun(pods []corev1.Pod) bool {
	for _, p := range pods {
		if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
			return false
		}
	}
	return true
}

// formOther measures valkey-cli --cluster create on pods of the same image, settings and number.
func formOther(t *testing.T, shards, replicas int) (pods, formation time.Duration) {
	s := lab.NewSite(t, lab.Options{NoOperator: true, Plain: true})
	start := time.Now()
	b := s.NewBare("bare", shards*(1+replicas))
	running := time.Now()
	create(t, b, shards, replicas)
	return running.Sub(start), time.Since(running)
}

// create forms bare pods with valkey-cli and waits until every view is complete and every replica in sync.
func create(t *testing.T, b *lab.Bare, shards, replicas int) {
	args := append([]string{"--cluster", "create"}, b.Addresses()...)
	if _, err := b.CLI(append(args, "--cluster-replicas", fmt.Sprint(replicas), "--cluster-yes")...); err != nil {
		t.Fatalf("valkey-cli --cluster create: %v", err)
	}
	b.AwaitShape(60*time.Second, shards, replicas)
}
