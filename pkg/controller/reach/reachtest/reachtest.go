// Package reachtest has a small Kubernetes and servers to reach in it, for tests of the
// controllers that tell all servers of a cluster the same thing.
package reachtest

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	valkeyfake "github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned/fake"
	"github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// The only cluster.
const (
	Namespace = "ns"
	Cluster   = "c"
	clusterID = types.UID("cluster-uid")
)

// Bench is one cluster. Its informers show what is in the API as of the last Sync.
type Bench struct {
	T         testing.TB
	Kube      *fake.Clientset
	Valkey    *valkeyfake.Clientset
	Informers externalversions.SharedInformerFactory
	Core      kubeinformers.SharedInformerFactory
	Events    *record.FakeRecorder
	Now       time.Time
	// Servers by pod name.
	Servers map[string]*Server
	woken   int
	// applied are the condition types of each field manager.
	applied map[string][]string
}

// New makes a cluster with this many nodes that run, and the menu that it needs.
func New(t testing.TB, nodes int, change ...func(*v1alpha1.ValkeyCluster)) *Bench {
	t.Helper()
	b := &Bench{
		T: t, Kube: fake.NewClientset(), Valkey: valkeyfake.NewSimpleClientset(), Events: record.NewFakeRecorder(1000),
		Now: time.Now().Truncate(time.Second), Servers: map[string]*Server{}, applied: map[string][]string{},
	}
	b.Valkey.PrependReactor("patch", "valkeyclusters", b.applyStatus)
	b.Informers = externalversions.NewSharedInformerFactory(b.Valkey, 0)
	b.Core = kubeinformers.NewSharedInformerFactory(b.Kube, 0)
	cluster := &v1alpha1.ValkeyCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Cluster, UID: clusterID, Generation: 1},
		Spec:       v1alpha1.ValkeyClusterSpec{ConfigRef: "config", Shards: 1},
	}
	for _, f := range change {
		f(cluster)
	}
	api := b.Valkey.ValkeyV1alpha1()
	b.must(api.ValkeyImages().Create(t.Context(), &v1alpha1.ValkeyImage{
		ObjectMeta: metav1.ObjectMeta{Name: "image"}, Spec: v1alpha1.ValkeyImageSpec{Repository: "valkey", Tag: "9", Version: "9.1.2"}}, metav1.CreateOptions{}))
	b.must(api.ValkeyConfigs().Create(t.Context(), &v1alpha1.ValkeyConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "config"}, Spec: v1alpha1.ValkeyConfigSpec{ImageRef: "image"}}, metav1.CreateOptions{}))
	b.must(api.ValkeyClusters(Namespace).Create(t.Context(), cluster, metav1.CreateOptions{}))
	for i := range nodes {
		b.AddNode(fmt.Sprintf("c-%d", i))
	}
	return b
}

func (b *Bench) must(_ any, err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}

// Owned is an owner reference to the cluster.
func Owned() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(
		&metav1.ObjectMeta{Name: Cluster, UID: clusterID}, v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyCluster))}
}

// AddNode adds a node whose pod runs.
func (b *Bench) AddNode(name string) {
	b.T.Helper()
	uid := "uid-of-" + name
	b.must(b.Valkey.ValkeyV1alpha1().ValkeyNodes(Namespace).Create(b.T.Context(), &v1alpha1.ValkeyNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, OwnerReferences: Owned()},
		Spec:       v1alpha1.ValkeyNodeSpec{ClusterName: Cluster},
		Status:     v1alpha1.ValkeyNodeStatus{PodUID: uid, NodeID: "id-of-" + name},
	}, metav1.CreateOptions{}))
	b.must(b.Kube.CoreV1().Pods(Namespace).Create(b.T.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, UID: types.UID(uid)},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", len(b.Servers)+1)},
	}, metav1.CreateOptions{}))
	b.Servers[name] = &Server{}
}

// SetPhase changes the phase of a node's pod.
func (b *Bench) SetPhase(name string, phase corev1.PodPhase) {
	b.T.Helper()
	pod, err := b.Kube.CoreV1().Pods(Namespace).Get(b.T.Context(), name, metav1.GetOptions{})
	b.must(pod, err)
	pod.Status.Phase = phase
	b.must(b.Kube.CoreV1().Pods(Namespace).UpdateStatus(b.T.Context(), pod, metav1.UpdateOptions{}))
}

// Get is the cluster as the API has it.
func (b *Bench) Get() *v1alpha1.ValkeyCluster {
	b.T.Helper()
	c, err := b.Valkey.ValkeyV1alpha1().ValkeyClusters(Namespace).Get(b.T.Context(), Cluster, metav1.GetOptions{})
	b.must(c, err)
	return c
}

// Put writes the cluster.
func (b *Bench) Put(c *v1alpha1.ValkeyCluster) {
	b.T.Helper()
	b.must(b.Valkey.ValkeyV1alpha1().ValkeyClusters(Namespace).Update(b.T.Context(), c, metav1.UpdateOptions{}))
}

// Secret is a Secret as the API has it; nil if there is none.
func (b *Bench) Secret(name string) *corev1.Secret {
	s, err := b.Kube.CoreV1().Secrets(Namespace).Get(b.T.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return s
}

// PutSecret makes or overwrites a Secret.
func (b *Bench) PutSecret(s *corev1.Secret) {
	b.T.Helper()
	s = s.DeepCopy()
	s.Namespace = Namespace
	secrets := b.Kube.CoreV1().Secrets(Namespace)
	if b.Secret(s.Name) == nil {
		b.must(secrets.Create(b.T.Context(), s, metav1.CreateOptions{}))
		return
	}
	b.must(secrets.Update(b.T.Context(), s, metav1.UpdateOptions{}))
}

// applyStatus does for conditions what the API server does: those that the manager applies are set, those that it
// has applied before and leaves out are removed, others stay.
func (b *Bench) applyStatus(action ktesting.Action) (bool, runtime.Object, error) {
	patch, ok := action.(ktesting.PatchActionImpl)
	if !ok || patch.GetPatchType() != types.ApplyPatchType || patch.GetSubresource() != "status" {
		return false, nil, nil
	}
	var applied v1alpha1.ValkeyCluster
	if err := json.Unmarshal(patch.GetPatch(), &applied); err != nil {
		return true, nil, err
	}
	object, err := b.Valkey.Tracker().Get(action.GetResource(), action.GetNamespace(), patch.GetName())
	if err != nil {
		return true, nil, err
	}
	c := object.(*v1alpha1.ValkeyCluster).DeepCopy()
	if applied.UID != c.UID {
		return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), patch.GetName(), errors.New("another UID"))
	}
	manager := patch.PatchOptions.FieldManager
	for _, kind := range b.applied[manager] {
		if meta.FindStatusCondition(applied.Status.Conditions, kind) == nil {
			meta.RemoveStatusCondition(&c.Status.Conditions, kind)
		}
	}
	b.applied[manager] = nil
	for _, condition := range applied.Status.Conditions {
		meta.RemoveStatusCondition(&c.Status.Conditions, condition.Type)
		c.Status.Conditions = append(c.Status.Conditions, condition)
		b.applied[manager] = append(b.applied[manager], condition.Type)
	}
	return true, c, b.Valkey.Tracker().Update(action.GetResource(), c, action.GetNamespace())
}

// Sync makes the informers show what the API has.
func (b *Bench) Sync() {
	b.T.Helper()
	valkey, core := b.Informers.Valkey().V1alpha1(), b.Core.Core().V1()
	ctx, all := b.T.Context(), metav1.ListOptions{}
	api := b.Valkey.ValkeyV1alpha1()
	clusters, err := api.ValkeyClusters("").List(ctx, all)
	b.must(clusters, err)
	b.must(nil, replace(valkey.ValkeyClusters().Informer().GetStore().Replace, clusters.Items))
	nodes, err := api.ValkeyNodes("").List(ctx, all)
	b.must(nodes, err)
	b.must(nil, replace(valkey.ValkeyNodes().Informer().GetStore().Replace, nodes.Items))
	configs, err := api.ValkeyConfigs().List(ctx, all)
	b.must(configs, err)
	b.must(nil, replace(valkey.ValkeyConfigs().Informer().GetStore().Replace, configs.Items))
	images, err := api.ValkeyImages().List(ctx, all)
	b.must(images, err)
	b.must(nil, replace(valkey.ValkeyImages().Informer().GetStore().Replace, images.Items))
	roles, err := api.ValkeyRoles().List(ctx, all)
	b.must(roles, err)
	b.must(nil, replace(valkey.ValkeyRoles().Informer().GetStore().Replace, roles.Items))
	pods, err := b.Kube.CoreV1().Pods("").List(ctx, all)
	b.must(pods, err)
	b.must(nil, replace(core.Pods().Informer().GetStore().Replace, pods.Items))
	files, err := b.Kube.CoreV1().ConfigMaps("").List(ctx, all)
	b.must(files, err)
	b.must(nil, replace(core.ConfigMaps().Informer().GetStore().Replace, files.Items))
}

func replace[T any](store func([]any, string) error, items []T) error {
	var all []any
	for i := range items {
		all = append(all, &items[i])
	}
	return store(all, "1")
}

// Wake counts that it was called.
func (b *Bench) Wake() { b.woken++ }

// Woken says whether Wake was called since the last time.
func (b *Bench) Woken() bool {
	was := b.woken > 0
	b.woken = 0
	return was
}

// News are the Events since the last time.
func (b *Bench) News() []string {
	var out []string
	for {
		select {
		case e := <-b.Events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// Writes are the requests that changed something since the last time, as "verb resource/subresource".
func (b *Bench) Writes() []string {
	var out []string
	for _, a := range append(b.Kube.Actions(), b.Valkey.Actions()...) {
		if a.GetVerb() == "get" || a.GetVerb() == "list" || a.GetVerb() == "watch" {
			continue
		}
		out = append(out, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
	}
	b.Kube.ClearActions()
	b.Valkey.ClearActions()
	return out
}

// Connect reaches the servers of the bench, with the right password only.
func (b *Bench) Connect(a reach.Access, m reach.Member) (reach.Server, error) {
	s := b.Servers[m.Name]
	if s == nil || string(m.ID) != "id-of-"+m.Name {
		return nil, errors.New("no such server")
	}
	return &asked{Server: s, access: a}, nil
}

// Server is one server: what it has loaded, and what its kubelet has brought it.
type Server struct {
	mu sync.Mutex
	// Down is why it does not answer.
	Down error
	// Passwords log in; nil: any.
	Passwords []string
	// Brought and Loaded are revisions of users.acl.
	Brought, Loaded string
	// BroughtLeaf and BroughtCA are what the TLS files have, Leaf and CASerial what the server shows.
	BroughtLeaf, Leaf   *x509.Certificate
	BroughtCA, CASerial string
	// Commands are those that changed something.
	Commands []string
	Settings map[string]string
}

// Took gives the commands since the last time.
func (s *Server) Took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.Commands
	s.Commands = nil
	return out
}

type asked struct {
	*Server
	access reach.Access
}

func (a *asked) begin() (func(), error) {
	a.mu.Lock()
	if a.Down != nil {
		defer a.mu.Unlock()
		return nil, a.Down
	}
	if a.Passwords != nil && !strings.Contains(strings.Join(a.Passwords, "\n"), a.access.Password) {
		defer a.mu.Unlock()
		return nil, errors.New("WRONGPASS")
	}
	return a.mu.Unlock, nil
}

func (a *asked) LoadACL(context.Context) error {
	end, err := a.begin()
	if err != nil {
		return err
	}
	defer end()
	a.Commands = append(a.Commands, "ACL LOAD")
	a.Loaded = a.Brought
	return nil
}

func (a *asked) ACLRevision(context.Context) (string, error) {
	end, err := a.begin()
	if err != nil {
		return "", err
	}
	defer end()
	return a.Loaded, nil
}

func (a *asked) SetConfig(_ context.Context, settings map[string]string) error {
	end, err := a.begin()
	if err != nil {
		return err
	}
	defer end()
	if a.Settings == nil {
		a.Settings = map[string]string{}
	}
	maps.Copy(a.Settings, settings)
	a.Commands = append(a.Commands, fmt.Sprintf("CONFIG SET of %d", len(settings)))
	if settings["tls-cert-file"] != "" {
		a.Leaf, a.CASerial = a.BroughtLeaf, a.BroughtCA
	}
	return nil
}

func (a *asked) Certificate(context.Context) (*x509.Certificate, error) {
	end, err := a.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	return a.Leaf, nil
}

func (a *asked) Look(context.Context) (topology.Server, error) {
	end, err := a.begin()
	if err != nil {
		return topology.Server{}, err
	}
	defer end()
	return topology.Server{TLSCASerial: a.CASerial}, nil
}
