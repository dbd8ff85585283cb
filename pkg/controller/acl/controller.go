// Package acl has every server of a cluster load users.acl, on a tick and when the file has
// changed, and sees to it that each has loaded this very file (contract §4). It rotates the system
// users' passwords too, which is a sequence of such files.
//
// The file itself is rendered by the valkeycluster controller, and brought to the pods by
// their kubelets: that takes up to a minute and a half, in which ACL LOAD loads the old one. So a
// server is asked afterwards which one it has.
package acl

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	informers "github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions/valkey/v1alpha1"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Name of the controller, in metrics.
const Name = "acl"

// fieldManager owns the condition ACLsInSync, and writes the passwords of a rotation.
const fieldManager = "valkey-operator-acl"

const (
	// retry is for servers whose kubelet has not brought the new file yet, and for the steps of
	// a rotation.
	retry = 5 * time.Second
	// passTimeout: three calls to each server, all servers at once.
	passTimeout = 25 * time.Second
)

// Options are what New needs. All but Connect and Now are required.
type Options struct {
	Kube      kubernetes.Interface
	Valkey    versioned.Interface
	Informers informers.Interface
	// Pods and ConfigMaps need to have only what is labelled
	// app.kubernetes.io/managed-by=valkey-operator.
	Pods       coreinformers.PodInformer
	ConfigMaps coreinformers.ConfigMapInformer
	Events     record.EventRecorder
	Config     controller.Config
	Leading    controller.Leading
	Metrics    *metrics.Metrics
	// Wake asks for a pass of the valkeycluster controller, which renders the file.
	Wake func(cache.ObjectName)
	// Connect reaches servers. Default: reach.Dialing with a pool of its own.
	Connect reach.Connect
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Controller works on ValkeyClusters. Make it with New, then Run it once.
type Controller struct {
	kube       kubernetes.Interface
	valkey     versioned.Interface
	clusters   listers.ValkeyClusterLister
	configMaps corelisters.ConfigMapLister
	menu       resolve.Menu
	finder     reach.Finder
	copier     tls.Copier
	events     record.EventRecorder
	domain     string
	leading    controller.Leading
	wake       func(cache.ObjectName)
	connect    reach.Connect
	now        func() time.Time
	loop       *loop.Loop
	ticks      reach.Ticks
}

// New connects the controller to the informers. It starts nothing.
func New(o Options) (*Controller, error) {
	if o.Kube == nil || o.Valkey == nil || o.Informers == nil || o.Pods == nil || o.ConfigMaps == nil || o.Events == nil ||
		o.Leading == nil || o.Metrics == nil || o.Wake == nil {
		return nil, errors.New("acl: an option is missing")
	}
	if o.Connect == nil {
		o.Connect = reach.Dialing(&client.Pool{})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	i := o.Informers
	c := &Controller{
		kube: o.Kube, valkey: o.Valkey, clusters: i.ValkeyClusters().Lister(), configMaps: o.ConfigMaps.Lister(),
		menu: resolve.Menu{
			Configs: i.ValkeyConfigs().Lister(), Images: i.ValkeyImages().Lister(), Roles: i.ValkeyRoles().Lister(),
		},
		finder: reach.Finder{Nodes: i.ValkeyNodes().Lister(), Pods: o.Pods.Lister()},
		copier: tls.Copier{Kube: o.Kube, Domain: o.Config.ClusterDomain},
		events: o.Events, domain: o.Config.ClusterDomain, leading: o.Leading, wake: o.Wake, connect: o.Connect, now: o.Now,
	}
	c.loop = loop.New(loop.Options{Name: Name, Field: "cluster_name", Sync: c.sync, Observe: o.Metrics.Passes(Name)})
	return c, c.watch(o)
}

// watch: the file's ConfigMap says what to load; the menu may make the file impossible, or possible again.
func (c *Controller) watch(o Options) error {
	c.loop.Needs(o.Informers.ValkeyNodes().Informer())
	c.loop.Needs(o.Pods.Informer())
	for informer, keys := range map[cache.SharedInformer]loop.Keys{
		o.ConfigMaps.Informer():                ownFile,
		o.Informers.ValkeyConfigs().Informer(): c.everyCluster,
		o.Informers.ValkeyImages().Informer():  c.everyCluster,
		o.Informers.ValkeyRoles().Informer():   c.everyCluster,
	} {
		if err := c.loop.Watch(informer, keys); err != nil {
			return fmt.Errorf("acl: %w", err)
		}
	}
	return reach.OnSpec(c.loop, o.Informers.ValkeyClusters().Informer())
}

// ownFile is the cluster whose users.acl a ConfigMap has.
func ownFile(object metav1.Object) []cache.ObjectName {
	keys := loop.ControlledBy(v1alpha1.Kind(v1alpha1.KindValkeyCluster))(object)
	if len(keys) == 1 && object.GetName() == keys[0].Name+v1alpha1.SuffixACLConfigMap {
		return keys
	}
	return nil
}

func (c *Controller) everyCluster(metav1.Object) []cache.ObjectName {
	all, err := c.clusters.List(labels.Everything())
	if err != nil {
		return nil // the cache has no other error than none
	}
	out := make([]cache.ObjectName, len(all))
	for i, cluster := range all {
		out[i] = cache.MetaObjectToName(cluster)
	}
	return out
}

// Run works until the context ends and returns when the last pass has.
func (c *Controller) Run(ctx context.Context, workers int) { c.loop.Run(ctx, workers) }

// sync is one pass over one cluster.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (loop.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	cached, err := c.clusters.ValkeyClusters(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.ticks.Forget(key)
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("get ValkeyCluster from the cache: %w", err)
	}
	if cached.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	cluster := cached.DeepCopy()
	if cluster.Annotations[v1alpha1.AnnotationPaused] == "true" || !c.leading() {
		return loop.Result{RequeueAfter: reach.Tick}, nil
	}
	auth, err := c.kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, cluster.Name+v1alpha1.SuffixAuthSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return loop.Result{RequeueAfter: retry}, nil // not made yet, or deleted: the valkeycluster controller says so
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("get the operator's password: %w", err)
	}
	return c.pass(ctx, key, cluster, auth)
}

func (c *Controller) pass(ctx context.Context, key cache.ObjectName, cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret) (loop.Result, error) {
	members, err := c.finder.Members(cluster)
	if err != nil {
		return loop.Result{}, err
	}
	file, err := c.present(cluster)
	if err != nil {
		return loop.Result{}, err
	}
	if err := c.keepSpare(ctx, cluster, auth, file); err != nil {
		return loop.Result{}, err
	}
	wanted := c.wanted(cluster, auth)
	if wanted.err != nil {
		return loop.Result{}, wanted.err
	}
	access, err := c.access(ctx, cluster, auth)
	if err != nil {
		return loop.Result{}, err
	}
	isTick := c.ticks.IsDue(key, c.now())
	if isTick {
		klog.FromContext(ctx).Info("ACL reconcile tick")
	}
	state := sum(file, wanted, members, c.load(ctx, access, file, members, isTick))
	if err := c.tell(ctx, cluster, state); err != nil {
		return loop.Result{}, err
	}
	isRotating, err := c.rotate(ctx, scene{cluster, auth, file, access, members}, state)
	if err != nil {
		return loop.Result{}, err
	}
	if state.again || isRotating {
		return loop.Result{RequeueAfter: retry}, nil
	}
	return loop.Result{RequeueAfter: c.ticks.Left(key, c.now())}, nil
}

// present is the users.acl that is in force, empty while there is none.
func (c *Controller) present(cluster *v1alpha1.ValkeyCluster) (string, error) {
	have, err := c.configMaps.ConfigMaps(cluster.Namespace).Get(cluster.Name + v1alpha1.SuffixACLConfigMap)
	if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(have, cluster) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get users.acl from the cache: %w", err)
	}
	return have.Data[v1alpha1.ConfigMapKeyACL], nil
}

func (c *Controller) access(ctx context.Context, cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret) (reach.Access, error) {
	kept, err := c.copier.Peek(ctx, cluster)
	if err != nil {
		return reach.Access{}, err
	}
	return reach.AccessTo(cluster, auth, kept.Trust, c.domain), nil
}

// tell writes the condition and, if it is news, an Event.
func (c *Controller) tell(ctx context.Context, cluster *v1alpha1.ValkeyCluster, state verdict) error {
	if state.status == "" {
		return nil
	}
	now := metav1.NewTime(c.now())
	news, err := reach.Tell(ctx, c.valkey, fieldManager, cluster, now, metav1.Condition{
		Type: v1alpha1.ConditionACLsInSync, Status: state.status, Reason: state.reason, Message: state.message,
	})
	if err != nil {
		return err
	}
	for _, n := range news {
		switch {
		case n.Status == metav1.ConditionTrue:
			c.events.Event(cluster, corev1.EventTypeNormal, "ACLs"+n.Reason, n.Message)
		case n.Reason != reasonPending:
			c.events.Event(cluster, corev1.EventTypeWarning, n.Reason, n.Message)
		}
	}
	return nil
}
