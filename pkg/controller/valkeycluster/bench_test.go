package valkeycluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// bench is the controller between a fake API server and fake Valkey servers. Nothing runs by
// itself: a test makes passes, lets the kubelet work, and says what the caches get to see.
type bench struct {
	t       testing.TB
	api     *fakeAPI
	valkey  *fakeValkey
	stores  map[string]cache.Indexer
	options Options
	ctrl    *Controller
	events  *record.FakeRecorder
	leading bool
	clock   time.Time
	pods    int
	// lagging are the kinds whose cache is not refreshed; stuck: no new pod comes up.
	lagging map[string]bool
	seen    map[string]int // the version that a cache is at
	stuck   bool
	// launch starts a pod's server and gives its address.
	launch func() (ip string)
	// last is how the last pass ended.
	last    loop.Result
	lastErr error
}

var theKey = cache.ObjectName{Namespace: "shop", Name: "cart"}

func newBench(t testing.TB, shards, replicas int32) *bench {
	b := &bench{
		t: t, api: newFakeAPI(), valkey: newFakeValkey(), events: record.NewFakeRecorder(10000),
		leading: true, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), lagging: map[string]bool{}, seen: map[string]int{},
	}
	b.launch = func() string {
		ip := fmt.Sprintf("10.0.0.%d", b.pods)
		b.valkey.start(ip, b.pods)
		return ip
	}
	own := externalversions.NewSharedInformerFactory(b.api.valkey, 0)
	core := kubeinformers.NewSharedInformerFactory(b.api.kube, 0).Core().V1()
	all := own.Valkey().V1alpha1()
	b.options = Options{
		Kube: b.api.kube, Valkey: b.api.valkey, Informers: all,
		Pods: core.Pods(), Services: core.Services(), ConfigMaps: core.ConfigMaps(),
		Events: b.events, Leading: func() bool { return b.leading }, Metrics: metrics.New("test"),
		Config:  controller.Config{DefaultZoneSpread: v1alpha1.ZoneSpreadBestEffort, ClusterDomain: "cluster.local", Failover: plan.FailoverFast},
		Connect: func(Access) (Servers, error) { return b.valkey, nil },
		Now:     func() time.Time { return b.clock },
	}
	b.stores = map[string]cache.Indexer{
		"valkeyclusters": all.ValkeyClusters().Informer().GetIndexer(), "valkeynodes": all.ValkeyNodes().Informer().GetIndexer(),
		"valkeyconfigs": all.ValkeyConfigs().Informer().GetIndexer(), "valkeyimages": all.ValkeyImages().Informer().GetIndexer(),
		"valkeyroles": all.ValkeyRoles().Informer().GetIndexer(), "pods": core.Pods().Informer().GetIndexer(),
		"services": core.Services().Informer().GetIndexer(), "configmaps": core.ConfigMaps().Informer().GetIndexer(),
	}
	b.restart()
	b.asTest(func(ctx context.Context) {
		for i := range 3 {
			_, _ = b.api.kube.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("host-%d", i), Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i)}}}, metav1.CreateOptions{})
		}
		menu := b.api.valkey.ValkeyV1alpha1()
		_, _ = menu.ValkeyImages().Create(ctx, &v1alpha1.ValkeyImage{ObjectMeta: metav1.ObjectMeta{Name: "v9"},
			Spec: v1alpha1.ValkeyImageSpec{Repository: "example/valkey", Tag: "9.1.2", Version: "9.1.2"}}, metav1.CreateOptions{})
		_, _ = menu.ValkeyConfigs().Create(ctx, &v1alpha1.ValkeyConfig{ObjectMeta: metav1.ObjectMeta{Name: "small"},
			Spec: v1alpha1.ValkeyConfigSpec{ImageRef: "v9"}}, metav1.CreateOptions{})
		_, _ = menu.ValkeyClusters(theKey.Namespace).Create(ctx, &v1alpha1.ValkeyCluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: theKey.Namespace, Name: theKey.Name},
			Spec:       v1alpha1.ValkeyClusterSpec{ConfigRef: "small", Shards: shards, ReplicasPerShard: replicas},
		}, metav1.CreateOptions{})
	})
	b.refresh()
	return b
}

// restart is a new process: whatever was in memory is lost.
func (b *bench) restart() {
	ctrl, err := New(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.ctrl = ctrl
}

// asTest does something with the API server that is not the operator's deed.
func (b *bench) asTest(do func(ctx context.Context)) {
	was := b.api.byTest
	b.api.byTest = true
	defer func() { b.api.byTest = was }()
	do(b.t.Context())
}

// refresh lets every cache that does not lag see what the API server has.
func (b *bench) refresh() {
	for resource, store := range b.stores {
		if b.lagging[resource] || b.seen[resource] == b.api.version {
			continue
		}
		b.seen[resource] = b.api.version
		var items []any
		for _, o := range b.api.all(resource) {
			items = append(items, o)
		}
		if err := store.Replace(items, fmt.Sprint(b.api.version)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) pass() {
	b.clock = b.clock.Add(time.Second)
	var silent klog.Logger
	b.last, b.lastErr = b.ctrl.sync(klog.NewContext(b.t.Context(), silent), theKey)
}

// step is a pass, then time for the kubelet and the caches.
func (b *bench) step() {
	b.pass()
	b.kubelet()
	b.refresh()
}

// settle makes steps until the controller says that all is as wanted.
func (b *bench) settle() {
	b.t.Helper()
	for range 400 {
		b.step()
		if b.lastErr == nil && b.last.RequeueAfter == idleRecheck {
			return
		}
	}
	b.t.Fatalf("never done: last action %+v, error %v", b.cluster().Status.LastAction, b.lastErr)
}

// kubelet stands for the valkeynode controller, the scheduler and the kubelets: every node
// has its pod and UID at once, and goes with it.
func (b *bench) kubelet() {
	b.asTest(func(ctx context.Context) {
		for _, n := range b.nodes() {
			switch {
			case n.DeletionTimestamp != nil:
				b.killPod(n.Name)
				n.Finalizers = nil
				_, _ = b.api.valkey.ValkeyV1alpha1().ValkeyNodes(n.Namespace).Update(ctx, n, metav1.UpdateOptions{})
			case n.Status.PodUID == "" && !b.stuck:
				b.startPod(ctx, n)
			}
		}
	})
}

func (b *bench) startPod(ctx context.Context, n *v1alpha1.ValkeyNode) {
	b.pods++
	ip := b.launch()
	pod, err := b.api.kube.CoreV1().Pods(n.Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: n.Namespace, Labels: map[string]string{v1alpha1.LabelInstance: theKey.Name}},
		Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("host-%d", b.pods%3)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	n.Status.PodUID = string(pod.UID)
	if _, err := b.api.valkey.ValkeyV1alpha1().ValkeyNodes(n.Namespace).UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// killPod takes a pod away with its server.
func (b *bench) killPod(name string) {
	b.asTest(func(ctx context.Context) {
		pod, err := b.api.kube.CoreV1().Pods(theKey.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return
		}
		b.valkey.stop(pod.Status.PodIP)
		_ = b.api.kube.CoreV1().Pods(theKey.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func (b *bench) nodes() []*v1alpha1.ValkeyNode {
	var out []*v1alpha1.ValkeyNode
	for _, o := range b.api.all("valkeynodes") {
		out = append(out, o.(*v1alpha1.ValkeyNode))
	}
	return out
}

func (b *bench) cluster() *v1alpha1.ValkeyCluster {
	all := b.api.all("valkeyclusters")
	if len(all) == 0 {
		return nil
	}
	return all[0].(*v1alpha1.ValkeyCluster)
}

// edit changes the cluster's spec or annotations as its owner.
func (b *bench) edit(change func(c *v1alpha1.ValkeyCluster)) {
	b.asTest(func(ctx context.Context) {
		c := b.cluster()
		change(c)
		if _, err := b.api.valkey.ValkeyV1alpha1().ValkeyClusters(c.Namespace).Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	})
	b.refresh()
}

// editConfig changes the ValkeyConfig that the cluster is on.
func (b *bench) editConfig(change func(c *v1alpha1.ValkeyConfig)) {
	b.asTest(func(ctx context.Context) {
		c := b.api.all("valkeyconfigs")[0].(*v1alpha1.ValkeyConfig)
		change(c)
		if _, err := b.api.valkey.ValkeyV1alpha1().ValkeyConfigs().Update(ctx, c, metav1.UpdateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	})
	b.refresh()
}

// shape is what the cluster has become, for comparison: nodes and, shard by shard, its
// strength. Who is primary depends on what happened on the way.
func (b *bench) shape() string {
	status := b.cluster().Status
	var lines []string
	for _, s := range status.Shards {
		lines = append(lines, fmt.Sprintf("%d slots, %d replicas, primary %t", s.SlotCount, len(s.Replicas), s.Primary != ""))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s, %d nodes, %d pods, %d servers, %d slots\n%s", status.State, len(b.nodes()), len(b.api.all("pods")),
		len(b.valkey.servers), status.SlotsAssigned, strings.Join(lines, "\n"))
}

// news are the Events so far.
func (b *bench) news() []string {
	var out []string
	for {
		select {
		case e := <-b.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

var errCrash = errors.New("the process was killed")
