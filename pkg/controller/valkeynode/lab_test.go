package valkeynode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	valkeyfake "github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned/fake"
	"github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions"
)

var (
	key      = cache.ObjectName{Namespace: "app", Name: "cache-0a1b2"}
	podsGVR  = corev1.SchemeGroupVersion.WithResource("pods")
	filesGVR = corev1.SchemeGroupVersion.WithResource("configmaps")
	nodesGVR = v1alpha1.SchemeGroupVersion.WithResource("valkeynodes")
)

// quiet keeps the log of a pass out of the tests.
var quiet = klog.NewContext(context.Background(), klog.Logger{})

// lab is a controller on an API server that gives UIDs and versions, refuses what was read too
// long ago, and lets pods linger, as the real one does. Its caches are filled by look only.
type lab struct {
	*Controller
	t        *testing.T
	kube     *kubefake.Clientset
	valkey   *valkeyfake.Clientset
	events   *record.FakeRecorder
	isLeader bool
	caches   []cached
	version  int
	// writes are all that were tried: "create pods".
	writes []string
	// intercept is asked about each write, before and after it is applied: an error is the answer.
	intercept func(n int, write string, applied bool) error
}

// cached is an informer's store and where its objects come from.
type cached struct {
	store   cache.Store
	tracker clienttesting.ObjectTracker
	gvr     schema.GroupVersionResource
	kind    schema.GroupVersionKind
}

// newLab has a cluster and a node, and a controller that has seen both.
func newLab(t *testing.T, node *v1alpha1.ValkeyNode) *lab {
	t.Helper()
	cluster := &v1alpha1.ValkeyCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "cache", UID: "cluster-uid", ResourceVersion: "1"},
		Spec: v1alpha1.ValkeyClusterSpec{PodAnnotations: map[string]string{"example.com/team": "blue"}}}
	node.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyCluster))}
	node.ResourceVersion = "2"
	l := &lab{t: t, version: 10, isLeader: true,
		kube: kubefake.NewClientset(), valkey: valkeyfake.NewSimpleClientset(cluster, node)}
	l.kube.PrependReactor("*", "*", l.react(l.kube.Tracker()))
	l.valkey.PrependReactor("*", "*", l.react(l.valkey.Tracker()))
	l.restart()
	return l
}

// restart is a new process: nothing remembered, caches as the API server is now.
func (l *lab) restart() {
	l.t.Helper()
	kube := informers.NewSharedInformerFactory(l.kube, 0)
	ours := externalversions.NewSharedInformerFactory(l.valkey, 0)
	l.events = record.NewFakeRecorder(100)
	api := ours.Valkey().V1alpha1()
	c, err := New(Options{Kube: l.kube, Valkey: l.valkey, Clusters: api.ValkeyClusters(), Nodes: api.ValkeyNodes(),
		Pods: kube.Core().V1().Pods(), Events: l.events, Config: bestEffort,
		Leading: func() bool { return l.isLeader }, Metrics: metrics.New("test")})
	if err != nil {
		l.t.Fatal(err)
	}
	l.Controller = c
	l.caches = []cached{
		{api.ValkeyClusters().Informer().GetStore(), l.valkey.Tracker(), v1alpha1.SchemeGroupVersion.WithResource("valkeyclusters"), v1alpha1.SchemeGroupVersion.WithKind("ValkeyCluster")},
		{api.ValkeyNodes().Informer().GetStore(), l.valkey.Tracker(), nodesGVR, v1alpha1.SchemeGroupVersion.WithKind("ValkeyNode")},
		{kube.Core().V1().Pods().Informer().GetStore(), l.kube.Tracker(), podsGVR, corev1.SchemeGroupVersion.WithKind("Pod")},
	}
	l.look()
}

// look fills the caches.
func (l *lab) look() {
	l.t.Helper()
	for _, c := range l.caches {
		list, err := c.tracker.List(c.gvr, c.kind, "app")
		if err != nil {
			l.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			l.t.Fatal(err)
		}
		var objects []any
		for _, item := range items {
			objects = append(objects, item)
		}
		if err := c.store.Replace(objects, strconv.Itoa(l.version)); err != nil {
			l.t.Fatal(err)
		}
	}
}

// pass runs one pass, without a look before it.
func (l *lab) pass() loop.Result {
	l.t.Helper()
	result, err := l.sync(quiet, key)
	if err != nil {
		l.t.Fatalf("the pass failed: %v", err)
	}
	return result
}

func (l *lab) react(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "create", "update", "patch", "delete":
		default:
			return false, nil, nil
		}
		n, write := len(l.writes), action.GetVerb()+" "+action.GetResource().Resource
		l.writes = append(l.writes, write)
		if l.intercept != nil {
			if err := l.intercept(n, write, false); err != nil {
				return true, nil, err
			}
		}
		object, err := l.apply(tracker, action)
		if err == nil && l.intercept != nil {
			err = l.intercept(n, write, true)
		}
		return true, object, err
	}
}

func (l *lab) apply(tracker clienttesting.ObjectTracker, action clienttesting.Action) (runtime.Object, error) {
	gvr, ns := action.GetResource(), action.GetNamespace()
	switch a := action.(type) {
	case clienttesting.DeleteActionImpl:
		return nil, l.remove(tracker, a)
	case clienttesting.PatchActionImpl:
		old, err := tracker.Get(gvr, ns, a.Name)
		if err != nil {
			return nil, err
		}
		next, err := merged(old, a.Patch)
		if err != nil {
			return nil, err
		}
		return l.store(tracker, gvr, next, old)
	case clienttesting.UpdateActionImpl:
		object := a.Object.(metav1.Object)
		old, err := tracker.Get(gvr, ns, object.GetName())
		if err != nil {
			return nil, err
		}
		return l.store(tracker, gvr, a.Object.DeepCopyObject(), old)
	case clienttesting.CreateActionImpl:
		object := a.Object.DeepCopyObject()
		accessor := object.(metav1.Object)
		l.version++
		accessor.SetResourceVersion(strconv.Itoa(l.version))
		accessor.SetUID(types.UID(fmt.Sprintf("%s-uid-%d", accessor.GetName(), l.version)))
		return object, tracker.Create(gvr, object, ns)
	}
	return nil, fmt.Errorf("the lab does not know %T", action)
}

// store replaces an object as the API server would: never by what was read too long ago, and
// one that is being deleted is gone with its last finalizer.
func (l *lab) store(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, next, old runtime.Object) (runtime.Object, error) {
	n, o := next.(metav1.Object), old.(metav1.Object)
	if n.GetResourceVersion() != o.GetResourceVersion() || n.GetUID() != o.GetUID() {
		return nil, apierrors.NewConflict(gvr.GroupResource(), o.GetName(), errors.New("the object has been modified"))
	}
	l.version++
	n.SetResourceVersion(strconv.Itoa(l.version))
	if n.GetDeletionTimestamp() != nil && len(n.GetFinalizers()) == 0 {
		return next, tracker.Delete(gvr, o.GetNamespace(), o.GetName())
	}
	return next, tracker.Update(gvr, next, n.GetNamespace())
}

func merged(old runtime.Object, patch []byte) (runtime.Object, error) {
	next := old.DeepCopyObject()
	var p struct {
		Metadata struct {
			Finalizers      []string  `json:"finalizers"`
			ResourceVersion string    `json:"resourceVersion"`
			UID             types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	accessor := next.(metav1.Object)
	accessor.SetFinalizers(p.Metadata.Finalizers)
	accessor.SetResourceVersion(p.Metadata.ResourceVersion)
	accessor.SetUID(p.Metadata.UID)
	return next, nil
}

// remove lets a pod linger until killed.
func (l *lab) remove(tracker clienttesting.ObjectTracker, a clienttesting.DeleteActionImpl) error {
	object, err := tracker.Get(a.Resource, a.Namespace, a.Name)
	if err != nil {
		return err
	}
	accessor := object.(metav1.Object)
	if p := a.DeleteOptions.Preconditions; p == nil || p.UID == nil || *p.UID != accessor.GetUID() {
		return apierrors.NewConflict(a.Resource.GroupResource(), a.Name, errors.New("the UID in the precondition does not match"))
	}
	l.setDeleted(tracker, a.Resource, object, time.Now().Add(30*time.Second))
	return nil
}

func (l *lab) setDeleted(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, object runtime.Object, deadline time.Time) {
	l.t.Helper()
	accessor := object.(metav1.Object)
	at := metav1.NewTime(deadline)
	accessor.SetDeletionTimestamp(&at)
	l.put(tracker, gvr, object)
}

// put is what somebody else writes.
func (l *lab) put(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, object runtime.Object) {
	l.t.Helper()
	accessor := object.(metav1.Object)
	l.version++
	accessor.SetResourceVersion(strconv.Itoa(l.version))
	err := tracker.Update(gvr, object, accessor.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = tracker.Create(gvr, object, accessor.GetNamespace())
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// node is the ValkeyNode as the API server has it; nil if it is gone.
func (l *lab) node() *v1alpha1.ValkeyNode {
	l.t.Helper()
	object, err := l.valkey.Tracker().Get(nodesGVR, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return object.(*v1alpha1.ValkeyNode)
}

// pod is the node's pod as the API server has it; nil if it is gone.
func (l *lab) pod() *corev1.Pod {
	l.t.Helper()
	object, err := l.kube.Tracker().Get(podsGVR, key.Namespace, key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return object.(*corev1.Pod)
}

// kill is the kubelet ending the pod: it is gone.
func (l *lab) kill() {
	l.t.Helper()
	if err := l.kube.Tracker().Delete(podsGVR, key.Namespace, key.Name); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) count(write string) int {
	n := 0
	for _, w := range l.writes {
		if w == write {
			n++
		}
	}
	return n
}

// news are the Events so far.
func (l *lab) news() []string {
	var out []string
	for len(l.events.Events) > 0 {
		out = append(out, <-l.events.Events)
	}
	return out
}

// conditionNow is a condition's reason and message.
func (l *lab) conditionNow(kind string) string {
	l.t.Helper()
	c := meta.FindStatusCondition(l.node().Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}
