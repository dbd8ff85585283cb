package valkeycluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

func said(rule plan.RuleName, why string, a plan.Action) seen {
	return seen{
		cluster: &v1alpha1.ValkeyCluster{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: v1alpha1.ValkeyClusterSpec{ConfigRef: "small", Shards: 3}},
		looked:  true, decision: plan.Decision{Rule: rule, Why: why, Action: a}, now: noon,
	}
}

func last(rule, action string) v1alpha1.ValkeyClusterStatus {
	return v1alpha1.ValkeyClusterStatus{LastAction: &v1alpha1.LastAction{Rule: rule, Action: action, Time: at(-60)}}
}

func TestALastActionIsRewrittenOnlyWhenTheMindHasChanged(t *testing.T) {
	attach := plan.Attach{Replica: "r", Primary: "p"}
	wait := plan.Wait{For: "n7 to catch up", Again: time.Second}
	creating := func(s seen) seen { s.obs.Creating = true; return s }
	troubled := func(s seen) seen {
		s.obs.Nodes = []plan.Node{{Name: "n7", Pod: plan.Pod{Reason: "Unschedulable: no cpu"}}}
		return s
	}
	for _, test := range []struct {
		name string
		old  v1alpha1.ValkeyClusterStatus
		now  seen
		new  bool
	}{
		{"the first decision", v1alpha1.ValkeyClusterStatus{}, said("A", "", attach), true},
		{"the same deed again", last("A", attach.String()), said("A", "", attach), false},
		{"the same rule, another deed", last("A", attach.String()), said("A", "", plan.Attach{Replica: "q", Primary: "p"}), true},
		{"another rule", last("A", attach.String()), said("B", "", attach), true},
		{"the same wait, for somebody else", last("A", "wait for n6 (look again in 1s)"), said("A", "", wait), false},
		{"a wait after a deed of the same rule", last("A", attach.String()), said("A", "", wait), true},
		{"another reason to hold", last("A", "hold: x"), said("A", "", plan.Hold{Because: "y"}), true},
		{"the next deed of a series in a bootstrap", last("A", attach.String()), creating(said("A", "", plan.Attach{Replica: "q", Primary: "p"})), false},
		{"a deed of another rule in a bootstrap", last("A", attach.String()), creating(said("B", "", attach)), true},
		{"a wait after a deed in a bootstrap", last("A", attach.String()), creating(said("B", "", wait)), false},
		{"a wait in a bootstrap that has trouble", last("A", attach.String()), troubled(creating(said("B", "", wait))), true},
		{"a wait in a bootstrap after a hold", last("A", "hold: x"), creating(said("B", "", wait)), true},
		{"a wait whose trouble is new", last("A", "wait for n6 (look again in 1s)"), troubled(said("A", "", wait)), true},
	} {
		got := deriveStatus(test.old, test.now).LastAction
		if isNew := got.Time.Time.Equal(noon); isNew != test.new {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}

func TestWhatTheStateIs(t *testing.T) {
	forming := v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateCreating, TargetSpec: &v1alpha1.TargetSpec{Shards: 3}}
	active := v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateActive, SlotsAssigned: 16384}
	invalid := active
	invalid.State = v1alpha1.ClusterStateInvalid
	broken := said("TLSInvalid", "", plan.Hold{Because: "no SAN"})
	broken.invalid = "no SAN"
	for _, test := range []struct {
		name string
		old  v1alpha1.ValkeyClusterStatus
		now  seen
		want v1alpha1.ClusterState
	}{
		{"new", v1alpha1.ValkeyClusterStatus{}, said("A", "", plan.Snapshot{Shards: 3}), v1alpha1.ClusterStateCreating},
		{"blocked before it began", v1alpha1.ValkeyClusterStatus{}, said("A", "", plan.Hold{}), v1alpha1.ClusterStateCreating},
		{"forming", forming, said("A", "", plan.Wait{}), v1alpha1.ClusterStateCreating},
		{"formed", forming, said("A", "", plan.Complete{}), v1alpha1.ClusterStateActive},
		{"repaired", active, said("A", "", plan.Failover{}), v1alpha1.ClusterStateActive},
		{"everything is lost", active, said("A", "", plan.Snapshot{Shards: 3}), v1alpha1.ClusterStateCreating},
		{"its TLS material breaks", active, broken, v1alpha1.ClusterStateInvalid},
		{"its TLS material is mended", invalid, said("A", "", plan.Wait{}), v1alpha1.ClusterStateCreating},
		{"and then it is Active by itself", v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateCreating, SlotsAssigned: 16384}, said("A", "", plan.Done{}), v1alpha1.ClusterStateActive},
	} {
		next := deriveStatus(test.old, test.now)
		if next.State != test.want || (next.Message != "") != (test.want == v1alpha1.ClusterStateInvalid) {
			t.Errorf("%s: %s, message %q", test.name, next.State, next.Message)
		}
	}
}

func TestASnapshotOmitsWhatIsReadLive(t *testing.T) {
	s := said("A", "", plan.Snapshot{Shards: 3, Replicas: 2})
	s.cluster.Spec.Acl = []v1alpha1.AclBinding{{Username: "u"}}
	s.cluster.Spec.Placement = &v1alpha1.Placement{Zones: []string{"z"}}
	next := deriveStatus(v1alpha1.ValkeyClusterStatus{}, s)
	want := &v1alpha1.TargetSpec{ConfigRef: "small", Shards: 3, ReplicasPerShard: 2, Placement: &v1alpha1.Placement{Zones: []string{"z"}}}
	if diff := cmp.Diff(want, next.TargetSpec); diff != "" {
		t.Error(diff)
	}
	if next = deriveStatus(next, said("A", "", plan.Complete{})); next.TargetSpec != nil {
		t.Error("kept after the bootstrap")
	}
}

// member is an answering node of a two-shard cluster.
func member(name string, me topology.Peer, others ...topology.Peer) plan.Node {
	me.ID = topology.NodeID("id-" + name)
	return plan.Node{Name: plan.NodeName(name), Pod: plan.Pod{Phase: plan.PodRunning}, KnownID: me.ID, Server: &topology.Server{
		View: topology.View{Self: me.ID, Peers: append(others, me)}, Version: "9.1.2", StateOK: true}}
}

func owner(first, last int) topology.Peer {
	return topology.Peer{Role: topology.Primary, Slots: []slot.Range{{First: first, Last: last}}}
}

func TestShardsAreWhatTheServersSayOfThemselvesAndPeersOfTheSilent(t *testing.T) {
	lost := owner(8192, 16383)
	lost.ID, lost.Epoch = "id-c", 5
	older := owner(0, 16383)
	older.ID, older.Epoch = "id-c", 3
	s := said("PrimaryDown", "", plan.Wait{For: "an election"})
	s.obs.Nodes = []plan.Node{
		member("a", owner(0, 8191), older),
		member("b", topology.Peer{Role: topology.Replica, PrimaryID: "id-a"}, lost),
		{Name: "c", KnownID: "id-c", Pod: plan.Pod{Phase: plan.PodRunning}},
		member("d", topology.Peer{Role: topology.Replica, PrimaryID: "id-c"}),
	}
	next := deriveStatus(v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateActive}, s)
	want := []v1alpha1.ShardStatus{
		{ID: "id-a", Primary: "a", Replicas: []string{"b"}, Slots: []string{"0-8191"}, SlotCount: 8192},
		{ID: "id-c", Primary: "c", Replicas: []string{"d"}, Slots: []string{"8192-16383"}, SlotCount: 8192},
	}
	if diff := cmp.Diff(want, next.Shards); diff != "" {
		t.Error(diff)
	}
	if next.SlotsAssigned != 16384 {
		t.Errorf("%d slots", next.SlotsAssigned)
	}
	for kind, want := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionAvailable: metav1.ConditionFalse, v1alpha1.ConditionDegraded: metav1.ConditionTrue,
		v1alpha1.ConditionProgressing: metav1.ConditionTrue, v1alpha1.ConditionPaused: metav1.ConditionFalse,
		v1alpha1.ConditionReferencesResolved: metav1.ConditionTrue, v1alpha1.ConditionVersionSupported: metav1.ConditionTrue,
	} {
		c := meta.FindStatusCondition(next.Conditions, kind)
		if c == nil || c.Status != want || c.ObservedGeneration != 7 || c.Reason == "" {
			t.Errorf("%s: %+v", kind, c)
		}
	}
}

func TestSlotsThatTwoClaimForAMomentCountOnce(t *testing.T) {
	s := said("A", "", plan.Wait{})
	s.obs.Nodes = []plan.Node{member("a", owner(0, 16383)), member("b", owner(8192, 16383))}
	if n := deriveStatus(v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateActive}, s).SlotsAssigned; n != 16384 {
		t.Errorf("%d slots", n)
	}
}

func TestTheWorstEngineIsTold(t *testing.T) {
	for _, test := range []struct {
		versions []string
		want     string
	}{
		{nil, "Unknown NotSeenYet"},
		{[]string{"9.1.2", "9.0.1"}, "True Supported"},
		{[]string{"9.1.2", "9.1.0"}, "False EngineHasKnownFault"},
		{[]string{"9.0.0", "9.1.2"}, "False EngineHasKnownFault"},
		{[]string{"9.1.0", "8.1.1", "9.1.2"}, "False EngineTooOld"},
		{[]string{"unknown"}, "False EngineUnsupported"},
	} {
		var obs plan.Observation
		for _, v := range test.versions {
			n := member("n", owner(0, 1))
			n.Server.Version = v
			obs.Nodes = append(obs.Nodes, n)
		}
		status, reason, _ := versions(obs)
		if got := string(status) + " " + reason; got != test.want {
			t.Errorf("%v: %s, want %s", test.versions, got, test.want)
		}
	}
}

func TestConditionsOfOtherControllersStay(t *testing.T) {
	old := v1alpha1.ValkeyClusterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionACLsInSync, Status: metav1.ConditionTrue, Reason: "Loaded"}}}
	next := deriveStatus(old, said("A", "", plan.Done{}))
	if c := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionACLsInSync); c == nil || c.Reason != "Loaded" {
		t.Errorf("%+v", next.Conditions)
	}
	if len(old.Conditions) != 1 {
		t.Error("the old status was changed")
	}
}

func TestAnAttemptKeepsItsTimeUntilItIsMadeAgain(t *testing.T) {
	old := []v1alpha1.Attempt{{Kind: "PrimaryDown", Subject: "x", Count: 1, LastTime: at(-30)}, {Kind: "PrimaryDown", Subject: "y", Count: 2, LastTime: at(-40)}}
	got := remembered(old, []plan.Attempt{{Kind: "PrimaryDown", Subject: "x", Count: 1}, {Kind: "PrimaryDown", Subject: "y", Count: 3}}, noon)
	want := []v1alpha1.Attempt{{Kind: "PrimaryDown", Subject: "x", Count: 1, LastTime: at(-30)}, {Kind: "PrimaryDown", Subject: "y", Count: 3, LastTime: at(0)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLongTextsAreCutAtTheLimitOfTheSchema(t *testing.T) {
	s := said("A", strings.Repeat("ü", 5000), plan.Hold{Because: strings.Repeat("ü", 5000)})
	next := deriveStatus(v1alpha1.ValkeyClusterStatus{}, s)
	if len(next.LastAction.Action) > 4096 || len(next.LastAction.Why) > 4096 {
		t.Errorf("%d, %d bytes", len(next.LastAction.Action), len(next.LastAction.Why))
	}
	for _, c := range next.Conditions {
		if len(c.Message) > 32768 || !strings.HasPrefix(c.Message+"ü", strings.ToValidUTF8(c.Message, "!")) {
			t.Errorf("%s: %q", c.Type, c.Message)
		}
	}
}

func TestNamesFollowFromTheSerialAndSkipWhatIsTaken(t *testing.T) {
	c := &v1alpha1.ValkeyCluster{ObjectMeta: metav1.ObjectMeta{Name: "cart", UID: "u"}}
	free := func(string) bool { return false }
	first := nextNames(c, 4, free)
	if again := nextNames(c, 4, free); cmp.Diff(first, again) != "" {
		t.Errorf("%v, then %v", first, again)
	}
	taken := map[string]bool{first[0]: true, first[2]: true}
	got := nextNames(c, 2, func(name string) bool { return taken[name] })
	if diff := cmp.Diff([]string{first[1], first[3]}, got); diff != "" {
		t.Error(diff)
	}
	if n := nextSerial(c, func(name string) bool { return taken[name] }); n != 1 {
		t.Errorf("the serial is %d: it must not pass one whose node was not seen", n)
	}
	c.Status.NodeSerial = 2
	if got := nextNames(c, 1, free); got[0] != first[2] {
		t.Errorf("%v, want %s", got, first[2])
	}
}
