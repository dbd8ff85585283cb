package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// Twelve clusters at once, each of which is whole at the moment it says Active, and stays as it is.
func TestEveryShapeFromOneToFourShardsForms(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	type shape struct{ shards, replicas int }
	clusters := map[shape]*lab.Cluster{}
	for shards := 1; shards <= 4; shards++ {
		for replicas := range 3 {
			clusters[shape{shards, replicas}] = s.Create(fmt.Sprintf("c%dx%d", shards, replicas), int32(shards), int32(replicas))
		}
	}
	for shape, c := range clusters {
		c.WaitActive(120 * time.Second)
		c.AssertShape(shape.shards, shape.replicas)
		c.Watch().Settled()
	}
	before := map[shape]map[string]string{}
	for shape, c := range clusters {
		before[shape] = uids(c)
	}
	time.Sleep(40 * time.Second) // a quiet window: nothing is to be replaced
	for shape, c := range clusters {
		if got := uids(c); fmt.Sprint(got) != fmt.Sprint(before[shape]) {
			t.Errorf("%s had pods %v after it formed, then %v", c.Name, before[shape], got)
		}
		c.AssertShape(shape.shards, shape.replicas)
	}
}

func uids(c *lab.Cluster) map[string]string {
	out := map[string]string{}
	for name, uid := range c.UIDs() {
		out[name] = string(uid)
	}
	return out
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
