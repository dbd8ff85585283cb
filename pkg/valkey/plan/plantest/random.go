package plantest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// RandomScenario makes a world and its fate from a seed.
func RandomScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0xfa7e))
	sc := Scenario{
		Seed:   seed,
		Traits: RandomTraits(r),
		Start: plan.Target{
			Shards: 1 + r.IntN(4), Replicas: r.IntN(3), Revisions: []string{"r0"},
			Failover: plan.FailoverFast, NodeTimeout: Timeout,
		},
	}
	if r.IntN(4) == 0 {
		sc.Start.Failover = plan.FailoverNative
	}
	at := time.Duration(0)
	if r.IntN(3) > 0 {
		at = 40 * time.Second // most fates begin after the bootstrap
	}
	count, pace := 1+r.IntN(5), 80
	if r.IntN(8) == 0 { // it never rains but it pours
		count, pace = 6+r.IntN(8), 16
	}
	for i := range count {
		at += time.Duration(r.IntN(pace)) * Beat
		e := randomFault(r)
		if r.IntN(3) == 0 {
			e = randomEdit(r, i)
		}
		e.At = at
		if r.IntN(3) == 0 {
			e.On = moments[r.IntN(len(moments))]
		}
		sc.Events = append(sc.Events, e)
		if bad := e.Edit.Revision; bad != "" && bad[0] != 'r' { // somebody corrects it
			sc.Events = append(sc.Events, Event{At: at + time.Duration(20+r.IntN(300))*Beat, Kind: Edit, Edit: Change{Revision: fmt.Sprintf("r%d-good", i)}})
		}
		if p := e.Edit.Paused; p != nil {
			on := false
			sc.Events = append(sc.Events, Event{At: at + time.Duration(1+r.IntN(60))*Beat, Kind: Edit, Edit: Change{Paused: &on}})
		}
	}
	slices.SortStableFunc(sc.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return sc
}

// RandomTraits makes some worlds friendly and most not.
func RandomTraits(r *rand.Rand) Traits {
	return Traits{
		Hosts: 2 + r.IntN(3), OneSided: r.IntN(40), Lost: r.IntN(30), Chains: r.IntN(4) == 0, Remeets: r.IntN(2) == 0, ForgetSpreads: r.IntN(2) == 0,
		SlowSync: 1 + r.IntN(20), SlowStart: r.IntN(3) * r.IntN(20), ReuseIPs: r.IntN(2) == 0, Libraries: r.IntN(2),
	}
}

// faults are drawn with equal chances; what is listed twice is likelier.
var faults = []Kind{
	KillPrimary, KillPrimary, KillReplica, KillShard, KillAll, KillNewest, DeletePod, DeletePod, ForceDelete,
	ForceDelete, DeleteAll, Evict, Drain, HostDown, HostCut, PairCut, Sleep, Sleep, Lag, Deaf, BreakJobs, NoRoom,
	OldCache, CutOperator, CrashNow, CrashBefore, CrashAmid, CrashAmid, CrashAfter, Flush, HandMove, LoadLibrary, Quota, Foreign,
}

// moments are decisions that something may happen right after.
var moments = []plan.RuleName{
	"SlotsMoving", "SlotsMoving", "SlotsUneven", "OutdatedNodes", "ReplicaNotInSync", "NodeNotRunning", "UnassignedSlots",
	"PrimaryDown", "DepartedMember", "NodeEnding", "ViewsDisagree", "UnknownNode", "DrainedShard", "ShardCount",
}

func randomFault(r *rand.Rand) Event {
	e := Event{Kind: faults[r.IntN(len(faults))], N: r.IntN(1000)}
	switch e.Kind {
	case HostDown:
		if r.IntN(2) == 0 {
			e.For = time.Duration(10+r.IntN(60)) * time.Second
		}
	case HostCut:
		e.For = time.Duration(2+r.IntN(70)) * time.Second
	case CutOperator:
		e.For = time.Duration(2+r.IntN(60)) * time.Second
	case CrashNow, OldCache, PairCut, Sleep, Lag, Deaf, NoRoom, Quota:
		e.For = time.Duration(1+r.IntN(20)) * time.Second
	}
	return e
}

func randomEdit(r *rand.Rand, i int) Event {
	e := Event{Kind: Edit}
	switch r.IntN(8) {
	case 0, 1:
		e.Edit.Shards = 1 + r.IntN(5)
	case 2:
		n := r.IntN(3)
		e.Edit.Replicas = &n
	case 3, 4:
		e.Edit.Revision = fmt.Sprintf("r%d", i+1)
	case 5:
		e.Edit.Restart = fmt.Sprintf("t%d", i+1)
	case 6:
		e.Edit.Revision = []string{BadImage, BadConfig, OldEngine}[r.IntN(3)]
	default:
		on := true
		e.Edit.Paused = &on
	}
	return e
}
