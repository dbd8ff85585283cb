package valkeycluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

func TestAClusterIsFormedWithFewWrites(t *testing.T) {
	b := newBench(t, 3, 1)
	b.settle()
	want := "Active, 6 nodes, 6 pods, 6 servers, 16384 slots\n" +
		"5461 slots, 1 replicas, primary true\n5461 slots, 1 replicas, primary true\n5462 slots, 1 replicas, primary true"
	if got := b.shape(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	news := b.news()
	// The valkeynode controller writes ConfigMap, Pod and podUID of each node besides.
	if total := len(b.api.writes) + 6*3 + len(news); total > 80 {
		t.Errorf("%d API writes, Events included:\n%s\n%s", total, strings.Join(b.api.writes, "\n"), strings.Join(news, "\n"))
	} else {
		t.Logf("%d API writes, of which %d Events", total, len(news))
	}
	if all := strings.Join(news, "\n"); strings.Contains(all, strings.Repeat("0", 30)) {
		t.Errorf("Events name nodes by ID:\n%s", all)
	}
	if len(news) > 8 {
		t.Errorf("%d Events:\n%s", len(news), strings.Join(news, "\n"))
	}
	status := b.cluster().Status
	if status.TargetSpec != nil || status.NodeSerial != 6 {
		t.Errorf("targetSpec %v, nodeSerial %d", status.TargetSpec, status.NodeSerial)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionAvailable) || meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionDegraded) {
		t.Errorf("%+v", status.Conditions)
	}
	for _, n := range b.nodes() {
		if n.Status.NodeID == "" || n.Status.PodIP == "" || n.Status.Zone == "" || n.Status.Role == "" || n.Spec.Lifecycle != v1alpha1.NodeLifecycleActive {
			t.Errorf("%s: %s, %+v", n.Name, n.Spec.Lifecycle, n.Status)
		}
	}
}

func TestAnIdleClusterCostsNoWriteAndNoCommand(t *testing.T) {
	b := newBench(t, 3, 1)
	b.settle()
	b.step()
	b.news()
	writes, commands := len(b.api.writes), len(b.valkey.commands)
	for range 30 {
		b.step()
	}
	b.restart()
	for range 30 {
		b.step()
	}
	if len(b.api.writes) != writes || len(b.valkey.commands) != commands {
		t.Errorf("writes %v, commands %v", b.api.writes[writes:], b.valkey.commands[commands:])
	}
	if news := b.news(); len(news) > 0 {
		t.Errorf("Events: %v", news)
	}
}

func TestWhatTheAPIServerRefusesIsTold(t *testing.T) {
	b := newBench(t, 1, 0)
	b.api.fault = func(call string, _ bool) error {
		if strings.HasPrefix(call, "create valkeynodes") {
			return apierrors.NewForbidden(v1alpha1.Resource("valkeynodes"), "cart-1", errors.New("exceeded quota: small, requested: 1, used: 6, limited: 6"))
		}
		return nil
	}
	for range 20 {
		b.step()
	}
	if news := strings.Join(b.news(), "\n"); b.lastErr == nil || !strings.Contains(news, "Warning Refused") || !strings.Contains(news, "exceeded quota: small") {
		t.Errorf("%v:\n%s", b.lastErr, news)
	}
	b.api.fault = nil
	b.settle()
}

func TestAFailedStatusWriteForbidsTheAct(t *testing.T) {
	b := newBench(t, 1, 0)
	b.api.fault = func(call string, _ bool) error {
		if strings.Contains(call, "valkeyclusters/status") {
			return errCrash
		}
		return nil
	}
	for range 20 {
		b.step()
	}
	if len(b.nodes()) > 0 || len(b.valkey.commands) > 0 {
		t.Errorf("%d nodes, commands %v", len(b.nodes()), b.valkey.commands)
	}
}

func TestWithoutTheLeaseNothingIsDone(t *testing.T) {
	b := newBench(t, 1, 1)
	for range 6 {
		b.step()
	}
	b.leading = false
	nodes, commands := len(b.nodes()), len(b.valkey.commands)
	for range 20 {
		b.step()
	}
	if len(b.nodes()) != nodes || len(b.valkey.commands) != commands {
		t.Errorf("%d nodes, were %d; commands %v", len(b.nodes()), nodes, b.valkey.commands[commands:])
	}
	b.leading = true
	b.settle()
}

func TestAMissingReferenceBlocksIsToldAndHeals(t *testing.T) {
	b := newBench(t, 1, 0)
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.ConfigRef = "large" })
	for range 5 {
		b.step()
	}
	c := meta.FindStatusCondition(b.cluster().Status.Conditions, v1alpha1.ConditionReferencesResolved)
	if c == nil || c.Status != metav1.ConditionFalse || c.Message != `ValkeyConfig "large" not found` {
		t.Fatalf("%+v", c)
	}
	if news := b.news(); len(news) != 1 || news[0] != `Warning ReferenceUnresolved ValkeyConfig "large" not found` {
		t.Errorf("%q", news)
	}
	if len(b.nodes())+len(b.api.all("services"))+len(b.api.all("secrets")) > 0 {
		t.Error("something was created all the same")
	}
	b.asTest(func(ctx context.Context) {
		_, _ = b.api.valkey.ValkeyV1alpha1().ValkeyConfigs().Create(ctx, &v1alpha1.ValkeyConfig{ObjectMeta: metav1.ObjectMeta{Name: "large"},
			Spec: v1alpha1.ValkeyConfigSpec{ImageRef: "v9"}}, metav1.CreateOptions{})
	})
	b.refresh()
	b.settle()
	if !meta.IsStatusConditionTrue(b.cluster().Status.Conditions, v1alpha1.ConditionReferencesResolved) {
		t.Error("not resolved")
	}
}

func TestTheWholeLifeOfACluster(t *testing.T) {
	b := newBench(t, 1, 0)
	b.settle()
	for _, step := range []struct {
		name   string
		change func()
		nodes  int
	}{
		{"replicas are added", func() { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.ReplicasPerShard = 1 }) }, 2},
		{"shards are added", func() { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 3 }) }, 6},
		{"a setting rolls all nodes", func() {
			b.editConfig(func(c *v1alpha1.ValkeyConfig) { c.Spec.Valkey = map[string]string{"maxmemory": "1gb"} })
		}, 6},
		{"a restart rolls all nodes", func() {
			b.edit(func(c *v1alpha1.ValkeyCluster) {
				c.Annotations = map[string]string{v1alpha1.AnnotationRestart: "1"}
			})
		}, 6},
		{"a shard is taken away", func() { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 2 }) }, 4},
		{"a primary dies", func() { b.killPrimary() }, 4},
		{"every pod dies", func() {
			for _, n := range b.nodes() {
				b.kill(n.Name)
			}
		}, 4},
		{"replicas are taken away", func() { b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.ReplicasPerShard = 0 }) }, 2},
	} {
		before := b.api.version
		step.change()
		b.refresh()
		b.settle()
		status := b.cluster().Status
		if len(b.nodes()) != step.nodes || len(b.api.all("pods")) != step.nodes || status.SlotsAssigned != 16384 || status.State != v1alpha1.ClusterStateActive {
			t.Fatalf("%s: %s", step.name, b.shape())
		}
		if b.api.version == before {
			t.Errorf("%s: nothing happened", step.name)
		}
	}
}

// kill takes a pod away.
func (b *bench) kill(name string) {
	b.killPod(name)
	b.refresh()
}

func (b *bench) killPrimary() { b.killPrimaries(1) }

func TestADeletedClusterTakesEverythingOfItsOwnAlongAndNothingElse(t *testing.T) {
	b := newBench(t, 2, 1)
	b.settle()
	foreign := &v1alpha1.ValkeyNode{ObjectMeta: metav1.ObjectMeta{Namespace: theKey.Namespace, Name: "cart-99999",
		Labels: map[string]string{v1alpha1.LabelInstance: theKey.Name}}}
	b.asTest(func(ctx context.Context) {
		_, _ = b.api.valkey.ValkeyV1alpha1().ValkeyNodes(theKey.Namespace).Create(ctx, foreign, metav1.CreateOptions{})
		_ = b.api.valkey.ValkeyV1alpha1().ValkeyClusters(theKey.Namespace).Delete(ctx, theKey.Name, metav1.DeleteOptions{})
	})
	b.refresh()
	created := len(b.api.writes)
	for range 20 {
		b.step()
		b.restart()
	}
	if b.cluster() != nil || len(b.nodes()) != 1 || len(b.api.all("services"))+len(b.api.all("secrets"))+len(b.api.all("configmaps")) > 0 {
		t.Errorf("left: cluster %v, %d nodes", b.cluster(), len(b.nodes()))
	}
	for _, w := range b.api.writes[created:] {
		if strings.HasPrefix(w, "create") {
			t.Errorf("after the deletion: %s", w)
		}
	}
}
