package bench

import (
	"fmt"
	"strings"
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
	for _, shape := range []struct{ shards, replicas, rounds int }{{3, 1, rounds}, {10, 2, 1}} {
		nodes := shape.shards * (1 + shape.replicas)
		goal := ""
		if shape.shards == 3 {
			goal = "<= 80"
		}
		t.Run(fmt.Sprintf("%dx%d", shape.shards, 1+shape.replicas), func(t *testing.T) {
			var pods, formation, otherPods, otherFormation []time.Duration
			var last formed
			for range shape.rounds { // in turns, so that what else the machine does hits both
				last = formOurs(t, shape.shards, shape.replicas)
				pods, formation = append(pods, last.pods), append(formation, last.formation)
				p, f := formOther(t, shape.shards, shape.replicas)
				otherPods, otherFormation = append(otherPods, p), append(otherFormation, f)
			}
			heading(fmt.Sprintf("forming %d shards x %d nodes, median of %d", shape.shards, 1+shape.replicas, shape.rounds))
			add(fmt.Sprintf("until %d pods run", nodes), seconds(median(pods)), seconds(median(otherPods)), "")
			add("from then to all in sync", seconds(median(formation)), seconds(median(otherFormation)), "<= valkey-cli")
			add("  best and worst", spread(formation), spread(otherFormation), "")
			add("API writes, and Events", fmt.Sprintf("%d + %d", last.writes, last.events), "", goal)
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
	args = append(args, "--cluster-replicas", fmt.Sprint(replicas), "--cluster-yes")
	// A pod runs a moment before its server listens; valkey-cli connects to all before it changes anything.
	_, err := b.CLI(args...)
	for end := time.Now().Add(10 * time.Second); err != nil && strings.Contains(err.Error(), "Could not connect") && time.Now().Before(end); {
		_, err = b.CLI(args...)
	}
	if err != nil {
		t.Fatalf("valkey-cli --cluster create: %v", err)
	}
	b.AwaitShape(60*time.Second, shards, replicas)
}
