package plan_test

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

var scaleMutants = []mutant{
	{name: "starts one migration job a range", world: world(2, 0, edit(plantest.Change{Shards: 3})),
		decide: jobARange, caught: []string{plantest.OneJobAPair}},
	{name: "retries failed migrations at once", world: world(2, 0, fault(plantest.BreakJobs, 5, 0), edit(plantest.Change{Shards: 3})),
		see: forgetful, caught: []string{plantest.BacksOff}},
	{name: "moves more slots than needed", world: world(2, 0, edit(plantest.Change{Shards: 3})),
		decide: moveAll, caught: []string{plantest.FewMoves}},
	{name: "removes a leaving shard before it is drained", world: world(3, 0, edit(plantest.Change{Shards: 2})),
		decide: removeUndrained, caught: []string{plantest.OwnerStays}},
	{name: "the guard keeps a leaving shard that is not drained", world: world(3, 0, edit(plantest.Change{Shards: 2})),
		guard: true, decide: removeUndrained, caught: []string{plantest.GuardAgrees}},
	{name: "forgets drained nodes before their pods are gone", world: world(3, 0, edit(plantest.Change{Shards: 2})),
		decide: forgetDrained, caught: []string{plantest.LivingStay}},
	{name: "leaves the functions behind", world: world(2, 0, edit(plantest.Change{Shards: 3})),
		see: noFunctions, caught: []string{plantest.InShape}},
	{name: "drops the replica that is in sync and keeps the other", world: world(2, 2, fault(plantest.Sleep, 2, 20*time.Second), edit(plantest.Change{Replicas: replicas(1)})),
		see: readyIsSync, decide: dropSynced, caught: []string{plantest.SyncedFirst, plantest.OneShard}},
}

func jobARange(_ plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	m, moves := d.Action.(plan.MoveSlots)
	if !moves {
		return d
	}
	var out plan.MoveSlots
	for _, v := range m.Moves {
		half := v.Slots.First(v.Slots.Len() / 2)
		for _, part := range []slot.Set{half, v.Slots.Minus(half)} {
			out.Moves = append(out.Moves, plan.Move{From: v.From, To: v.To, Slots: part})
		}
	}
	return instead(d, out)
}

func moveAll(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	m, moves := d.Action.(plan.MoveSlots)
	if !moves {
		return d
	}
	v := m.Moves[0]
	from := find(obs, func(n plan.Node) bool { return n.ID() == v.From })
	v.Slots = slot.Of(me(*from).Slots...)
	return instead(d, plan.MoveSlots{Moves: append([]plan.Move{v}, m.Moves[1:]...)})
}

func removeUndrained(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	n := find(obs, func(n plan.Node) bool { return n.Lifecycle == plan.Leaving && owns(n) })
	if n == nil {
		return d
	}
	return instead(d, plan.RemoveNodes{Nodes: []plan.Removal{{Node: n.Name, PodUID: n.Pod.UID}}})
}

func forgetDrained(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if d.Rule != "DrainedShard" {
		return d
	}
	gone := find(obs, func(n plan.Node) bool { return n.Lifecycle == plan.Leaving })
	f := plan.Forget{ID: gone.ID()}
	for _, n := range obs.Nodes {
		if n.Server != nil && n.Name != gone.Name {
			f.On = append(f.On, n.ID())
		}
	}
	return instead(d, f)
}

func noFunctions(obs plan.Observation, t plan.Target) (plan.Observation, plan.Target) {
	obs = seen(obs)
	for _, n := range obs.Nodes {
		if n.Server != nil {
			n.Server.Libraries = 0
		}
	}
	return obs, t
}

// readyIsSync takes, once the cluster has formed, every replica whose pod is Ready for one that is
// in sync (op#208).
func readyIsSync(obs plan.Observation, t plan.Target) (plan.Observation, plan.Target) {
	if obs.Creating {
		return obs, t
	}
	obs = seen(obs)
	primaries := map[topology.NodeID]*topology.Server{}
	for _, n := range obs.Nodes {
		if n.Server != nil {
			primaries[n.ID()] = n.Server
			n.Server.Followers = nil
		}
	}
	for _, n := range obs.Nodes {
		if p := primaries[me(n).PrimaryID]; n.Server != nil && p != nil && n.Pod.Ready {
			n.Server.LinkUp, n.Server.Syncing, n.Server.Offset = true, false, p.Offset
			p.Followers = append(p.Followers, topology.Follower{IP: n.Pod.IP, Online: true, Offset: p.Offset})
		}
	}
	return obs, t
}

// dropSynced removes, as soon as there is one replica too many, one that is in sync.
func dropSynced(obs plan.Observation, t plan.Target, d plan.Decision) plan.Decision {
	for _, p := range obs.Nodes {
		if !owns(p) || len(p.Server.Followers) != t.Replicas {
			continue
		}
		n := find(obs, func(n plan.Node) bool { return follows(p.ID())(n) && n.Server.LinkUp && !n.Deleting })
		if n != nil && d.Rule == "NodeSilent" {
			return instead(plan.Decision{Rule: "ExcessReplicas"}, plan.RemoveNodes{Nodes: []plan.Removal{{Node: n.Name, PodUID: n.Pod.UID}}})
		}
	}
	return d
}

var rollMutants = []mutant{
	{name: "trusts a pod that is Ready to be in sync", world: rollWorld(), see: readyIsSync,
		caught: []string{plantest.SyncedFirst, plantest.NothingLost, plantest.OneShard}},
	{name: "retires a replica before its replacement joins", world: rollWorld(),
		decide: retireFirst, caught: []string{plantest.SyncedFirst}},
	{name: "rolls two shards at once", world: rollWorld(), decide: rollTwo, caught: []string{plantest.SyncedFirst, plantest.OneShard}},
	{name: "the guard lets only one shard be rolled", world: rollWorld(), guard: true, decide: rollTwo, caught: []string{plantest.GuardAgrees}},
	{name: "deletes an outdated primary", world: rollWorld(), decide: deletePrimary, caught: []string{plantest.OwnerStays}},
	{name: "the guard keeps an outdated primary", world: rollWorld(), guard: true, decide: deletePrimary, caught: []string{plantest.GuardAgrees}},
	{name: "fails over more than once", world: rollWorld(), decide: failOverAgain(), caught: []string{plantest.OneFailover, plantest.OneCommand}},
	{name: "promotes by force what a coordinated failover would", world: rollWorld(), decide: forceInRoll,
		caught: []string{plantest.NoForce}},
}

// rollWorld has three shards with a replica each, slow syncs, and a new revision.
func rollWorld() plantest.Scenario {
	sc := world(3, 1, edit(plantest.Change{Revision: "r1"}))
	sc.Traits.SlowSync = 30
	return sc
}

func outdatedReplica(obs plan.Observation, t plan.Target, except plan.NodeName) *plan.Node {
	return find(obs, func(n plan.Node) bool {
		return n.Server != nil && me(n).Role == topology.Replica && !n.Deleting && n.Revision != t.Revisions[0] && n.Name != except
	})
}

func retireFirst(obs plan.Observation, t plan.Target, d plan.Decision) plan.Decision {
	n := outdatedReplica(obs, t, "")
	if _, creates := d.Action.(plan.CreateNodes); !creates || d.Rule != "OutdatedNodes" || n == nil {
		return d
	}
	return instead(d, plan.RemoveNodes{Nodes: []plan.Removal{{Node: n.Name, PodUID: n.Pod.UID}}})
}

func rollTwo(obs plan.Observation, t plan.Target, d plan.Decision) plan.Decision {
	r, removes := d.Action.(plan.RemoveNodes)
	if !removes || d.Rule != "OutdatedNodes" {
		return d
	}
	if n := outdatedReplica(obs, t, r.Nodes[0].Node); n != nil {
		r.Nodes = append(r.Nodes[:1:1], plan.Removal{Node: n.Name, PodUID: n.Pod.UID})
	}
	return instead(d, r)
}

func deletePrimary(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	f, failsOver := d.Action.(plan.Failover)
	if !failsOver {
		return d
	}
	n := find(obs, func(n plan.Node) bool { return n.ID() == f.Primary })
	return instead(d, plan.RemoveNodes{Nodes: []plan.Removal{{Node: n.Name, PodUID: n.Pod.UID}}})
}

// failOverAgain gives a shard back to its old primary before that one retires.
func failOverAgain() deciding {
	return func(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
		r, removes := d.Action.(plan.RemoveNodes)
		if !removes || d.Rule != "OutdatedNodes" {
			return d
		}
		n := find(obs, func(n plan.Node) bool { return n.Name == r.Nodes[0].Node })
		return instead(d, plan.Failover{Replica: n.ID(), Primary: me(*n).PrimaryID, Mode: plan.Coordinated})
	}
}

func forceInRoll(_ plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if f, failsOver := d.Action.(plan.Failover); failsOver {
		f.Mode = plan.Force
		return instead(d, f)
	}
	return d
}
