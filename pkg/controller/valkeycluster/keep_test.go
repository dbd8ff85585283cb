package valkeycluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

func (b *bench) service() *corev1.Service { return b.api.all("services")[0].(*corev1.Service) }

func (b *bench) podsOf() []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range b.api.all("pods") {
		out = append(out, o.(*corev1.Pod))
	}
	return out
}

func TestAnObjectThatSomebodyBentIsMadeStraight(t *testing.T) {
	b := newBench(t, 1, 0)
	b.settle()
	b.asTest(func(ctx context.Context) {
		s := b.service()
		s.Spec.PublishNotReadyAddresses, s.Spec.SessionAffinity = false, corev1.ServiceAffinityClientIP
		_, _ = b.api.kube.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		_ = b.api.kube.CoreV1().ConfigMaps(s.Namespace).Delete(ctx, "cart-acl", metav1.DeleteOptions{})
	})
	b.refresh()
	b.settle()
	if s := b.service(); !s.Spec.PublishNotReadyAddresses || s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		t.Errorf("own fields and no others: %+v", s.Spec)
	}
	if len(b.api.all("configmaps")) != 1 {
		t.Error("users.acl is not there")
	}
}

func TestAnObjectOfSomebodyElseIsLeftAlone(t *testing.T) {
	b := newBench(t, 1, 0)
	b.asTest(func(ctx context.Context) {
		_, _ = b.api.kube.CoreV1().Services(theKey.Namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: theKey.Namespace, Name: theKey.Name}}, metav1.CreateOptions{})
	})
	b.refresh()
	for range 5 {
		b.step()
	}
	last := b.cluster().Status.LastAction
	if last == nil || last.Rule != string(ruleNameTaken) || len(b.nodes()) > 0 || b.service().Spec.ClusterIP != "" {
		t.Fatalf("%+v, %d nodes, Service %+v", last, len(b.nodes()), b.service().Spec)
	}
	b.asTest(func(ctx context.Context) {
		_ = b.api.kube.CoreV1().Services(theKey.Namespace).Delete(ctx, theKey.Name, metav1.DeleteOptions{})
	})
	b.refresh()
	b.settle()
}

func TestAFailingServiceDoesNotHoldUpARepair(t *testing.T) {
	b := newBench(t, 2, 1)
	b.settle()
	b.asTest(func(ctx context.Context) {
		_ = b.api.kube.CoreV1().Services(theKey.Namespace).Delete(ctx, theKey.Name, metav1.DeleteOptions{})
	})
	b.api.fault = func(call string, _ bool) error {
		if strings.HasPrefix(call, "patch services") {
			return errCrash
		}
		return nil
	}
	b.killPrimary()
	for range 60 {
		b.step()
	}
	c := meta.FindStatusCondition(b.cluster().Status.Conditions, v1alpha1.ConditionDegraded)
	if b.lastErr == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "apply Service cart") {
		t.Errorf("that the Service cannot be made is not told: %v, %+v", b.lastErr, c)
	}
	if len(b.nodes()) != 4 || b.cluster().Status.SlotsAssigned != 16384 {
		t.Error(b.shape())
	}
}

func TestAnnotationsAndRolesReachRunningPods(t *testing.T) {
	b := newBench(t, 1, 1)
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.PodAnnotations = map[string]string{"team": "a", "cost": "1"} })
	b.settle()
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.PodAnnotations = map[string]string{"team": "b"} })
	b.settle()
	var roles []string
	for _, p := range b.podsOf() {
		if p.Annotations["team"] != "b" || p.Annotations["cost"] != "1" {
			t.Errorf("%s: %v: changed keys are merged, removed ones stay", p.Name, p.Annotations)
		}
		roles = append(roles, p.Labels[v1alpha1.LabelRole])
	}
	slices.Sort(roles)
	if diff := cmp.Diff([]string{"primary", "replica"}, roles); diff != "" {
		t.Error(diff)
	}
}

func TestAPausedClusterIsLookedAtAndNotTouched(t *testing.T) {
	b := newBench(t, 2, 1)
	b.settle()
	b.edit(func(c *v1alpha1.ValkeyCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		c.Spec.Shards = 3
		c.Spec.PodAnnotations = map[string]string{"a": "b"}
	})
	b.asTest(func(ctx context.Context) {
		_ = b.api.kube.CoreV1().Services(theKey.Namespace).Delete(ctx, theKey.Name, metav1.DeleteOptions{})
	})
	b.refresh()
	b.killPrimary()
	writes, commands := len(b.api.writes), len(b.valkey.commands)
	for range 20 {
		b.step()
	}
	for _, w := range b.api.writes[writes:] {
		if !strings.HasPrefix(w, "update valkeyclusters/status") {
			t.Errorf("while paused: %s", w)
		}
	}
	if len(b.valkey.commands) != commands || !meta.IsStatusConditionTrue(b.cluster().Status.Conditions, v1alpha1.ConditionPaused) {
		t.Errorf("%v, %+v", b.valkey.commands[commands:], b.cluster().Status.Conditions)
	}
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Annotations = nil })
	b.settle()
	if len(b.nodes()) != 6 {
		t.Error(b.shape())
	}
}

func TestAServerAtAReusedAddressIsNotTakenForTheNode(t *testing.T) {
	b := newBench(t, 1, 1)
	b.settle()
	victim := b.podsOf()[0]
	known := len(b.valkey.commands)
	b.valkey.stop(victim.Status.PodIP)
	b.valkey.start(victim.Status.PodIP, 77)
	stranger := b.valkey.servers[victim.Status.PodIP+":6379"]
	for range 10 {
		b.step()
	}
	for _, c := range b.valkey.commands[known:] {
		if strings.HasSuffix(c, victim.Name) {
			t.Errorf("sent to a server that is not the recorded one: %s", c)
		}
	}
	for _, n := range b.nodes() {
		if n.Status.NodeID == string(stranger.id) {
			t.Errorf("%s is recorded with the stranger's ID", n.Name)
		}
	}
}

func TestADepartedNodeIsForgottenBeforeItsLastLinkBreaks(t *testing.T) {
	b := newBench(t, 1, 2)
	b.settle()
	// The replica goes with its ValkeyNode before the operator sees either of them fail.
	name := b.cluster().Status.Shards[0].Replicas[0]
	id := b.cluster().Status.Nodes[slices.IndexFunc(b.cluster().Status.Nodes, func(n v1alpha1.NodeSummary) bool { return n.Name == name })].NodeID
	b.asTest(func(ctx context.Context) {
		_ = b.api.valkey.ValkeyV1alpha1().ValkeyNodes(theKey.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
	b.kubelet()
	b.refresh()
	b.step()
	if last := b.cluster().Status.LastAction; last.Rule != "DepartedMember" || !strings.Contains(last.Action, "forget "+id) {
		t.Errorf("%+v", last)
	}
	b.settle()
	if slices.ContainsFunc(b.cluster().Status.Nodes, func(n v1alpha1.NodeSummary) bool { return n.Name == name }) {
		t.Error("still in the status")
	}
}

func TestWhatAValkeyNodeIsMadeOf(t *testing.T) {
	cluster := &v1alpha1.ValkeyCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "u", Annotations: map[string]string{v1alpha1.AnnotationRestart: "r1"}},
		Spec: v1alpha1.ValkeyClusterSpec{TLS: &v1alpha1.ValkeyTLS{SecretRef: "s"},
			Placement: &v1alpha1.Placement{Zones: []string{"b", "a"}, NodeSelector: map[string]string{"disk": "none"}}},
	}
	from := resolve.Resolved{Image: "valkey:9", Settings: map[string]string{"maxmemory": "1gb", "port": "1"}}
	op := controller.Config{DefaultZoneSpread: v1alpha1.ZoneSpreadRequired, ClusterDomain: "example.org"}
	got := newNode(stage{cluster: cluster, resolved: from, tlsSecret: "cart-tls"}, op, "cart-12345", plan.NewNode{Shard: 2, Join: plan.JoinShard})
	yes := true
	want := &v1alpha1.ValkeyNode{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "cart-12345", Finalizers: []string{"valkey.gomomento.com/node-cleanup"},
			Labels: map[string]string{"app.kubernetes.io/instance": "cart", "app.kubernetes.io/managed-by": "valkey-operator",
				"valkey.gomomento.com/join-type": "shard"},
			Annotations: map[string]string{"valkey.gomomento.com/restart": "r1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "valkey.gomomento.com/v1alpha1", Kind: "ValkeyCluster",
				Name: "cart", UID: "u", Controller: &yes, BlockOwnerDeletion: &yes}},
		},
		Spec: v1alpha1.ValkeyNodeSpec{
			ClusterName: "cart", Image: "valkey:9", ShardIndex: 2, TLSSecret: "cart-tls", Lifecycle: "Joining",
			Placement:      &v1alpha1.Placement{Zones: []string{"b", "a"}, ZoneSpread: "required", NodeSelector: map[string]string{"disk": "none"}},
			ValkeySettings: config.Freeze(from.Settings, &config.TLS{Hostname: "cart-12345.cart.shop.svc.example.org"}),
			Revision:       config.Revision(config.Inputs{Image: "valkey:9", Valkey: from.Settings, Zones: []string{"a", "b"}, NodeSelector: map[string]string{"disk": "none"}}),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if cluster.Spec.Placement.ZoneSpread != "" {
		t.Error("the cluster's own placement was changed")
	}
}

func TestARevisionThatANewerReleaseWroteIsNotOutdated(t *testing.T) {
	cluster := &v1alpha1.ValkeyCluster{Spec: v1alpha1.ValkeyClusterSpec{Shards: 3, ReplicasPerShard: 1}}
	node := func(revision string) *v1alpha1.ValkeyNode {
		return &v1alpha1.ValkeyNode{Spec: v1alpha1.ValkeyNodeSpec{Revision: revision}}
	}
	now := config.Revision(resolve.Resolved{}.Inputs(nil))
	got := targetOf(cluster, resolve.Resolved{}, controller.Config{}, []*v1alpha1.ValkeyNode{node("v1:old"), node("v2:new"), node(now), node("v2:new")})
	if diff := cmp.Diff([]string{now, "v2:new"}, got.Revisions); diff != "" {
		t.Error(diff)
	}
	cluster.Status.TargetSpec = &v1alpha1.TargetSpec{Shards: 5, ReplicasPerShard: 2}
	if got := targetOf(cluster, resolve.Resolved{}, controller.Config{}, nil); got.Shards != 5 || got.Replicas != 2 {
		t.Errorf("in a bootstrap the snapshot counts: %+v", got)
	}
}
