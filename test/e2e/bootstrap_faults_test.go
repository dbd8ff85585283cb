package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// eachStep calls f whenever the status tells another action, until the cluster is Active.
func eachStep(c *lab.Cluster, within time.Duration, f func(valkeyv1alpha1.LastAction)) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		w, err := c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(c.Site.Name).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			got, ok := event.Object.(*valkeyv1alpha1.ValkeyCluster)
			if !ok || got.Name != c.Name {
				continue
			}
			if got.Status.State == valkeyv1alpha1.ClusterStateActive {
				w.Stop()
				return
			}
			if did := got.Status.LastAction; did != nil && did.Rule+did.Action != last {
				last = did.Rule + did.Action
				f(*did)
			}
		}
	}
	c.T.Errorf("%s was not Active within %v", c.Name, within)
}

// created counts the ValkeyNodes that the operator made, from the API server's audit log.
func created(s *lab.Site, mark int64) int {
	n := 0
	for _, w := range s.Writes(mark) {
		if w.Verb == "create" && w.Resource == "valkeynodes" && w.Code == "201" {
			n++
		}
	}
	return n
}

func TestTheOperatorKilledAtEveryStepOfBootstrapMakesTheSameCluster(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.NoLease})
	mark := s.Mark()
	c := s.Create("cache", 3, 1)
	kills := 0
	eachStep(c, 240*time.Second, func(did valkeyv1alpha1.LastAction) {
		s.Operator.Kill()
		kills++
		s.Operator.Start()
	})
	t.Logf("the operator was killed %d times", kills)
	c.Settle(60*time.Second, 3, 1)
	if n := created(s, mark); n != 6 {
		t.Errorf("%d ValkeyNodes were created, want 6", n)
	}
	if kills < 5 {
		t.Errorf("the operator was killed only %d times: the steps were not seen", kills)
	}
}

func TestTwoOperatorsAtOnceMakeTheSameCluster(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.QuickLease})
	s.Second().Start()
	mark := s.Mark()
	c := s.Create("cache", 3, 1)
	lab.Eventually(t, 30*time.Second, "the first nodes", func() error {
		if nodes, err := c.Nodes(); err != nil || len(nodes) < 2 {
			return fmt.Errorf("%d nodes (%v)", len(nodes), err)
		}
		return nil
	})
	s.Operator.Kill() // whoever of the two leads
	s.Operator.Start()
	c.Settle(90*time.Second, 3, 1)
	if n := created(s, mark); n != 6 {
		t.Errorf("%d ValkeyNodes were created, want 6", n)
	}
}

// Without election both act on everything, all the time: the worst case of a lease that changed hands late.
func TestTwoOperatorsThatBothActMakeNoNodeTwice(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.NoLease})
	s.Second().Start()
	mark := s.Mark()
	c := s.Create("cache", 3, 1)
	c.Settle(120*time.Second, 3, 1)
	if n := created(s, mark); n != 6 {
		t.Errorf("%d ValkeyNodes were created, want 6", n)
	}
}

func TestAPodDeletedAtEveryStepOfBootstrapIsReplaced(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1)
	seen := map[string]bool{}
	eachStep(c, 240*time.Second, func(did valkeyv1alpha1.LastAction) {
		if seen[did.Rule] {
			return
		}
		pods, err := c.Pods()
		if err != nil || len(pods) == 0 {
			return
		}
		seen[did.Rule] = true
		// The oldest in one step, the youngest in the next: seeds, primaries and replicas alike.
		victim := &pods[0]
		for i := range pods {
			older := pods[i].CreationTimestamp.Before(&victim.CreationTimestamp)
			if older == (len(seen)%2 == 0) {
				victim = &pods[i]
			}
		}
		t.Logf("%s at %q: pod %s is deleted", did.Rule, did.Action, victim.Name)
		lab.PodForceDeleted.Do(c, []*corev1.Pod{victim}...)
	})
	c.Settle(90*time.Second, 3, 1)
	if len(seen) < 3 {
		t.Errorf("pods were deleted only at the steps %v", seen)
	}
}
