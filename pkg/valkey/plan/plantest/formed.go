package plantest

import (
	"fmt"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Formed is the world of a cluster that is as wanted, without going the way there: for
// benchmarks, and to break things in.
func Formed(shards, replicas int) plan.World {
	w := plan.World{Target: plan.Target{
		Shards: shards, Replicas: replicas, Revisions: []string{"r0"}, Failover: plan.FailoverFast, NodeTimeout: Timeout,
	}}
	w.Observation.Formed = true
	var peers []topology.Peer
	first := 0
	for i := range shards {
		last := first + slot.Share(i, shards) - 1
		for j := range replicas + 1 {
			p := topology.Peer{
				ID: topology.NodeID(fmt.Sprintf("%02x%038d", j, i)), IP: fmt.Sprintf("10.%d.%d.%d", j, i/250, i%250),
				Port: clientPort, BusPort: busPort, Role: topology.Primary, Epoch: uint64(i + 1), Linked: true,
			}
			if j == 0 {
				p.Slots = []slot.Range{{First: first, Last: last}}
			} else {
				p.Role, p.PrimaryID = topology.Replica, topology.NodeID(fmt.Sprintf("%02x%038d", 0, i))
			}
			peers = append(peers, p)
			w.Observation.Nodes = append(w.Observation.Nodes, plan.Node{
				Name: plan.NodeName(fmt.Sprintf("n%03d-%d", i, j)), Shard: i, Lifecycle: plan.Active, Revision: "r0", KnownID: p.ID,
				Pod: plan.Pod{UID: fmt.Sprintf("u%d-%d", i, j), Phase: plan.PodRunning, Ready: true, IP: p.IP, Host: fmt.Sprintf("h%d", j)},
			})
		}
		first = last + 1
	}
	for i := range w.Observation.Nodes {
		n, me := &w.Observation.Nodes[i], peers[i]
		n.Server = &topology.Server{
			View: topology.View{Self: me.ID, Peers: peers}, Version: "9.1.2", StateOK: true,
			SlotsAssigned: slot.Count, SlotsOK: slot.Count, CurrentEpoch: uint64(shards), Offset: 1000, Keys: 1000,
			LinkUp: me.Role == topology.Replica,
		}
		if me.Role == topology.Primary {
			for _, f := range peers[i+1 : i+1+replicas] {
				n.Server.Followers = append(n.Server.Followers, topology.Follower{IP: f.IP, Port: f.Port, Online: true, Offset: 1000})
			}
		}
	}
	return w
}
