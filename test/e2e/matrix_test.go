package e2e

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Every shape of 1 to 4 shards with 0 to 2 replicas, three clusters at once: each is whole at the moment it says Active, and stays as it is.
func TestEveryShapeFromOneToFourShardsForms(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	for shards := 1; shards <= 4; shards++ {
		formThree(s, shards)
	}
}

// formThree makes clusters with 0, 1 and 2 replicas, watches them for a quiet window, and deletes them.
func formThree(s *lab.Site, shards int) {
	s.T.Helper()
	var clusters [3]*lab.Cluster
	for replicas := range clusters {
		clusters[replicas] = s.Create(fmt.Sprintf("c%dx%d", shards, replicas), int32(shards), int32(replicas))
	}
	var before [3]string
	for replicas, c := range clusters {
		c.WaitActive(60 * time.Second)
		c.AssertShape(shards, replicas)
		c.Watch().Settled()
		before[replicas] = fmt.Sprint(c.UIDs())
	}
	time.Sleep(10 * time.Second) // nothing is to be replaced
	for replicas, c := range clusters {
		if got := fmt.Sprint(c.UIDs()); got != before[replicas] {
			s.T.Errorf("%s had pods %s after it formed, then %s", c.Name, before[replicas], got)
		}
		c.AssertShape(shards, replicas)
		c.Delete(metav1.DeleteOptions{})
	}
	lab.Eventually(s.T, 45*time.Second, "the clusters to be gone", s.Empty)
}

func TestTenShardsWithTwoReplicasForm(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("wide", 10, 2)
	c.WaitActive(120 * time.Second)
	c.AssertShape(10, 2)
	c.Watch().Settled()
	c.Quiet(20*time.Second, 10, 2)
}

func TestAStatusTellsNodesAndShards(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1)
	c.WaitActive(60 * time.Second)
	sample := c.AssertShape(2, 1)
	status := c.Get().Status
	if status.SlotsAssigned != 16384 || len(status.Shards) != 2 || len(status.Nodes) != 4 || status.TargetSpec != nil || status.Message != "" {
		t.Errorf("status is %+v", status)
	}
	for _, n := range status.Nodes {
		seen := sample.Node(n.Name)
		if seen == nil || n.NodeID != string(seen.ID()) || n.PodIP != seen.Pod.Status.PodIP || string(n.Role) != string(seen.Server.View.Me().Role) || n.Zone != "zone-"+seen.Pod.Spec.NodeName[1:] {
			t.Errorf("status tells %+v", n)
		}
	}
	for _, node := range sample.Nodes {
		if got := node.Pod.Labels["valkey.gomomento.com/role"]; got != string(node.Server.View.Me().Role) {
			t.Errorf("pod %s is labelled role %q, it is a %s", node.Name(), got, node.Server.View.Me().Role)
		}
		if node.Object.Status.PodUID != string(node.Pod.UID) || node.Object.Status.NodeID != string(node.ID()) {
			t.Errorf("ValkeyNode %s tells %+v", node.Name(), node.Object.Status)
		}
	}
}
