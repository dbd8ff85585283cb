package plan_test

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan/plantest"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

type deciding = func(plan.Observation, plan.Target, plan.Decision) plan.Decision

var failoverMutants = []mutant{
	{name: "forgets a dead primary before its replica is promoted", world: native(world(3, 1, fault(plantest.KillPrimary, 0, 0))),
		guard: true, decide: forgetFirst, caught: []string{plantest.GuardAgrees}},
	{name: "forgets a dead primary first, and no guard is there", world: native(world(3, 1, fault(plantest.KillPrimary, 0, 0))),
		decide: forgetFirst, caught: []string{plantest.HeirFirst}},
	{name: "takes over although it is the operator who is cut off", world: world(3, 1, fault(plantest.CutOperator, 0, 20*time.Second)),
		decide: takeOver, caught: []string{plantest.TakeoverOnly}},
	{name: "the guard forbids a takeover by an operator who is cut off", world: world(3, 1, fault(plantest.CutOperator, 0, 20*time.Second)),
		guard: true, decide: takeOver, caught: []string{plantest.GuardAgrees}},
	{name: "forces a failover as soon as a primary is silent", world: world(3, 1, fault(plantest.Sleep, 0, 3*time.Second)),
		decide: forceAtOnce, caught: []string{plantest.NoForce}},
	{name: "the guard lets nobody be forced whose primary is alive for it", world: world(3, 1, fault(plantest.CutOperator, 0, 20*time.Second)),
		guard: true, decide: forceAtOnce, caught: []string{plantest.GuardAgrees}},
	{name: "repeats the command while the votes are counted", world: world(3, 1, fault(plantest.Deaf, 0, 8*time.Second), fault(plantest.KillPrimary, 0, 0)),
		see: forgetful, caught: []string{plantest.OneCommand}},
	{name: "promotes the replica with the least data",
		world:  world(3, 2, fault(plantest.Lag, 1, 10*time.Second), plantest.Event{At: later + 5*time.Second, Kind: plantest.KillPrimary, N: 0}, plantest.Event{At: later + 5*time.Second, Kind: plantest.KillPrimary, N: 1}),
		decide: promoteWorst, caught: []string{plantest.BestReplica}},
	{name: "fails over a shard whose slots move", world: world(3, 1, edit(plantest.Change{Shards: 4})),
		decide: failOverMoving, caught: []string{plantest.NoMoveFailover}},
}

func forgetFirst(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if d.Rule != "PrimaryDown" {
		return d
	}
	dead := find(obs, func(n plan.Node) bool { return n.Server == nil && n.Pod.Gone() })
	if dead == nil {
		return d
	}
	f := plan.Forget{ID: dead.KnownID}
	for _, n := range obs.Nodes {
		if n.Server == nil || me(n).PrimaryID == dead.KnownID {
			continue
		}
		if _, knows := n.Server.View.Find(dead.KnownID); knows {
			f.On = append(f.On, n.ID())
		}
	}
	if len(f.On) == 0 {
		return d
	}
	return instead(d, f)
}

// replicaOfSilent is a replica that answers and whose primary does not.
func replicaOfSilent(obs plan.Observation) (replica, primary topology.NodeID) {
	for _, n := range obs.Nodes {
		if n.Server != nil || n.KnownID == "" {
			continue
		}
		if r := find(obs, follows(n.KnownID)); r != nil {
			return r.ID(), n.KnownID
		}
	}
	return "", ""
}

func takeOver(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if r, p := replicaOfSilent(obs); r != "" && !plan.IsDeed(d.Action) {
		return instead(d, plan.Failover{Replica: r, Primary: p, Mode: plan.Takeover})
	}
	return d
}

func forceAtOnce(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if r, p := replicaOfSilent(obs); r != "" && d.Rule == "PrimaryDown" {
		return instead(d, plan.Failover{Replica: r, Primary: p, Mode: plan.Force})
	}
	return d
}

// forgetful has no memory of what was tried.
func forgetful(obs plan.Observation, t plan.Target) (plan.Observation, plan.Target) {
	obs.Attempts = nil
	return obs, t
}

func promoteWorst(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	f, promotes := d.Action.(plan.Failover)
	if !promotes {
		return d
	}
	worst := int64(-1)
	for _, n := range obs.Nodes {
		if follows(f.Primary)(n) && (worst < 0 || n.Server.Offset < worst) {
			worst, f.Replica = n.Server.Offset, n.ID()
		}
	}
	return instead(d, f)
}

func failOverMoving(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if d.Rule != "SlotsMoving" {
		return d
	}
	for _, n := range obs.Nodes {
		if n.Server == nil || len(n.Server.Migrations) == 0 || n.Server.Migrations[0].State != topology.Running {
			continue
		}
		if r := find(obs, follows(n.ID())); r != nil {
			return instead(d, plan.Failover{Replica: r.ID(), Primary: n.ID(), Mode: plan.Coordinated})
		}
	}
	return d
}

var repairMutants = []mutant{
	{name: "takes silence for death", world: world(3, 0, fault(plantest.HostCut, 0, 30*time.Second)),
		see: silenceIsDeath, caught: []string{plantest.LivingStay, plantest.SlotsStay}},
	{name: "the guard does not take silence for death", world: world(3, 0, fault(plantest.HostCut, 0, 30*time.Second)),
		guard: true, see: silenceIsDeath, caught: []string{plantest.GuardAgrees}},
	{name: "acts while the cluster is paused", world: world(2, 1, edit(plantest.Change{Paused: yes(true)}),
		plantest.Event{At: later + time.Second, Kind: plantest.KillReplica}, plantest.Event{At: later + 20*time.Second, Kind: plantest.Edit, Edit: plantest.Change{Paused: yes(false)}}),
		see: ignorePause, caught: []string{plantest.NoDeedPaused}},
	{name: "creates two nodes for one seat", world: world(2, 1, fault(plantest.KillReplica, 0, 0)),
		decide: createTwice, caught: []string{plantest.OneNodeASeat}},
	{name: "creates two nodes for one seat of a shard that a failover split", world: plantest.RandomScenario(500165),
		decide: createTwiceBeside, caught: []string{plantest.OneNodeASeat}},
	{name: "lets a newcomer join at epoch 0", world: world(3, 0, fault(plantest.KillShard, 0, 0)),
		decide: epochZero, caught: []string{plantest.JoinsAbove}},
	{name: "attaches every replica to one primary", world: world(2, 1), decide: attachWrong(),
		caught: []string{plantest.Converges, plantest.InShape, plantest.FormedWhole, plantest.OneNodeASeat}},
	{name: "removes the replicas of a dead primary", world: native(world(3, 1, fault(plantest.KillPrimary, 0, 0))),
		guard: true, decide: removeOrphans, caught: []string{plantest.GuardAgrees}},
	{name: "removes the replicas of a dead primary, and no guard is there", world: native(world(3, 1, fault(plantest.KillPrimary, 0, 0))),
		decide: removeOrphans, caught: []string{plantest.NothingLost}},
}

func yes(v bool) *bool { return &v }

func silenceIsDeath(obs plan.Observation, t plan.Target) (plan.Observation, plan.Target) {
	obs = seen(obs)
	for i := range obs.Nodes {
		if n := &obs.Nodes[i]; n.Server == nil && n.KnownID != "" {
			n.Pod.Phase = plan.PodFailed
		}
	}
	return obs, t
}

func ignorePause(obs plan.Observation, t plan.Target) (plan.Observation, plan.Target) {
	t.Paused = false
	return obs, t
}

func createTwice(_ plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if c, creates := d.Action.(plan.CreateNodes); creates {
		return instead(d, plan.CreateNodes{Nodes: append(c.Nodes[:1:1], c.Nodes...)})
	}
	return d
}

// createTwiceBeside does so only while a replica waits to take the place of its lost primary.
func createTwiceBeside(obs plan.Observation, t plan.Target, d plan.Decision) plan.Decision {
	if r, _ := replicaOfSilent(obs); r != "" {
		return createTwice(obs, t, d)
	}
	return d
}

func epochZero(_ plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if m, meets := d.Action.(plan.Meet); meets {
		m.Epoch = 0
		return instead(d, m)
	}
	return d
}

func attachWrong() deciding {
	return func(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
		a, attaches := d.Action.(plan.Attach)
		if p := find(obs, owns); attaches && p != nil {
			a.Primary = p.ID()
			return instead(d, a)
		}
		return d
	}
}

func removeOrphans(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if d.Rule != "PrimaryDown" {
		return d
	}
	id, _ := replicaOfSilent(obs)
	if n := find(obs, func(n plan.Node) bool { return n.ID() == id && !n.Deleting }); id != "" && n != nil {
		return instead(d, plan.RemoveNodes{Nodes: []plan.Removal{{Node: n.Name, PodUID: n.Pod.UID}}})
	}
	return d
}

var formMutants = []mutant{
	{name: "calls a cluster formed before its replicas are in sync", world: world(2, 1),
		decide: formedEarly, caught: []string{plantest.FormedWhole}},
	{name: "gives slots that a living owner has", world: world(2, 0, fault(plantest.CutOperator, 0, 20*time.Second)),
		decide: assignPartial, caught: []string{plantest.SlotsStay}},
	{name: "the guard lets nobody assign with a partial view", world: world(2, 0, fault(plantest.CutOperator, 0, 20*time.Second)),
		guard: true, decide: assignPartial, caught: []string{plantest.GuardAgrees}},
	{name: "the guard keeps slots with an owner that answers", world: world(2, 0), guard: true, decide: assignOwned,
		caught: []string{plantest.GuardAgrees}},
}

func formedEarly(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	if d.Rule == "ReplicaNotInSync" && obs.Creating {
		return instead(d, plan.Complete{})
	}
	return d
}

// assignPartial gives the slots of a silent owner to one that answers.
func assignPartial(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	silent := find(obs, func(n plan.Node) bool { return n.Server == nil && n.KnownID != "" })
	taker := find(obs, owns)
	if silent == nil || taker == nil || plan.IsDeed(d.Action) {
		return d
	}
	peer, _ := taker.Server.View.Find(silent.KnownID)
	return instead(d, plan.Assign{Primary: taker.ID(), Slots: slot.Of(peer.Slots...)})
}

// assignOwned gives the slots of one owner to another once there is nothing to do.
func assignOwned(obs plan.Observation, _ plan.Target, d plan.Decision) plan.Decision {
	from := find(obs, owns)
	if from == nil || plan.IsDeed(d.Action) {
		return d
	}
	to := find(obs, func(n plan.Node) bool { return owns(n) && n.Name != from.Name })
	if to == nil {
		return d
	}
	return instead(d, plan.Assign{Primary: to.ID(), Slots: slot.Of(me(*from).Slots...)})
}
