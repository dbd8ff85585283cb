// Package tls keeps the servers of clusters with TLS on the present certificate and bundle
// (contract §5). On a tick it has every server read its three files anew, in one command, and
// believes what the server then shows, not that the command went through.
package tls

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	"github.com/momentohq/valkey-operator/pkg/controller/tlscheck"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	informers "github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions/valkey/v1alpha1"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Name of the controller, in metrics.
const Name = "tls"

// fieldManager owns the two conditions, and writes the copy.
const fieldManager = "valkey-operator-tls"

const (
	// retry is for servers whose kubelet has not brought the new files yet.
	retry = 5 * time.Second
	// passTimeout: three calls to each server, all servers at once.
	passTimeout = 25 * time.Second
)

var clusterKind = v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyCluster)

// Options are what New needs. All but Connect and Now are required.
type Options struct {
	Kube      kubernetes.Interface
	Valkey    versioned.Interface
	Informers informers.Interface
	// Pods need to have only what is labelled app.kubernetes.io/managed-by=valkey-operator.
	Pods    coreinformers.PodInformer
	Events  record.EventRecorder
	Config  controller.Config
	Leading controller.Leading
	Metrics *metrics.Metrics
	// Wake asks for a pass of the valkeycluster controller, which shows the state.
	Wake func(cache.ObjectName)
	// Connect reaches servers. Default: reach.Dialing with a pool of its own.
	Connect reach.Connect
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Controller works on ValkeyClusters with TLS. Make it with New, then Run it once.
type Controller struct {
	kube     kubernetes.Interface
	valkey   versioned.Interface
	clusters listers.ValkeyClusterLister
	finder   reach.Finder
	copier   Copier
	events   record.EventRecorder
	domain   string
	leading  controller.Leading
	wake     func(cache.ObjectName)
	connect  reach.Connect
	now      func() time.Time
	metrics  *metrics.Metrics
	loop     *loop.Loop
	ticks    reach.Ticks
}

// New connects the controller to the informers. It starts nothing.
func New(o Options) (*Controller, error) {
	if o.Kube == nil || o.Valkey == nil || o.Informers == nil || o.Pods == nil || o.Events == nil ||
		o.Leading == nil || o.Metrics == nil || o.Wake == nil {
		return nil, errors.New("tls: an option is missing")
	}
	if o.Connect == nil {
		o.Connect = reach.Dialing(&client.Pool{})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	clusters, nodes := o.Informers.ValkeyClusters(), o.Informers.ValkeyNodes()
	c := &Controller{
		kube: o.Kube, valkey: o.Valkey, clusters: clusters.Lister(),
		finder: reach.Finder{Nodes: nodes.Lister(), Pods: o.Pods.Lister()},
		copier: Copier{Kube: o.Kube, Domain: o.Config.ClusterDomain, Now: o.Now},
		events: o.Events, domain: o.Config.ClusterDomain, leading: o.Leading, wake: o.Wake, connect: o.Connect, now: o.Now, metrics: o.Metrics,
	}
	c.loop = loop.New(loop.Options{Name: Name, Field: "cluster_name", Sync: c.sync, Observe: o.Metrics.Passes(Name)})
	c.loop.Needs(nodes.Informer())
	c.loop.Needs(o.Pods.Informer())
	return c, reach.OnSpec(c.loop, clusters.Informer())
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
	if cached.Spec.TLS == nil || cached.DeletionTimestamp != nil {
		return loop.Result{}, nil
	}
	cluster := cached.DeepCopy()
	if cluster.Annotations[v1alpha1.AnnotationPaused] == "true" || !c.leading() {
		return loop.Result{RequeueAfter: reach.Tick}, nil
	}
	return c.pass(ctx, key, cluster)
}

func (c *Controller) pass(ctx context.Context, key cache.ObjectName, cluster *v1alpha1.ValkeyCluster) (loop.Result, error) {
	members, err := c.finder.Members(cluster)
	if err != nil {
		return loop.Result{}, err
	}
	kept, err := c.copier.Renew(ctx, cluster, len(members) > 0)
	if apierrors.IsConflict(err) {
		return loop.Result{RequeueAfter: time.Second}, nil // the other controller was faster
	}
	if err != nil {
		return loop.Result{}, err
	}
	if kept.Invalid != cluster.Status.Message {
		c.wake(key)
	}
	isTick := c.ticks.IsDue(key, c.now())
	if isTick {
		klog.FromContext(ctx).Info("TLS reconcile tick")
	}
	shown, err := c.reissue(ctx, cluster, kept, members, isTick)
	if err != nil {
		return loop.Result{}, err
	}
	nodes := ofNodes(kept, shown, c.now())
	if nodes.status == metav1.ConditionTrue && len(shown) == len(members) && reach.AreUp(members) {
		if err := c.copier.InForce(ctx, kept); err != nil {
			return loop.Result{}, err
		}
	}
	state := sum(kept, nodes)
	if err := c.tell(ctx, cluster, kept, state); err != nil {
		return loop.Result{}, err
	}
	if state.again {
		return loop.Result{RequeueAfter: retry}, nil
	}
	return loop.Result{RequeueAfter: c.ticks.Left(key, c.now())}, nil
}

// tell writes the conditions and, for what is new in them, Events.
func (c *Controller) tell(ctx context.Context, cluster *v1alpha1.ValkeyCluster, kept Kept, state verdict) error {
	var all []metav1.Condition
	if state.status != "" {
		all = append(all, metav1.Condition{Type: v1alpha1.ConditionTLSInSync, Status: state.status, Reason: state.reason, Message: state.message})
	}
	if kept.copy != nil {
		if leaf := tlscheck.First(kept.copy.Data[v1alpha1.SecretKeyTLSCert]); leaf != nil {
			all = append(all, expiry(leaf, c.now()))
			c.metrics.Certificate(cache.MetaObjectToName(cluster), leaf.NotAfter)
		}
	}
	if len(all) == 0 {
		return nil
	}
	news, err := reach.Tell(ctx, c.valkey, fieldManager, cluster, metav1.NewTime(c.now()), all...)
	if err != nil {
		return err
	}
	for _, n := range news {
		if kind, say := eventOf(n); say {
			c.events.Event(cluster, kind, n.Reason, n.Message)
		}
	}
	return nil
}

// eventOf: what is as it should be is no news but after trouble, which the condition shows.
func eventOf(c metav1.Condition) (kind string, say bool) {
	switch {
	case c.Type == v1alpha1.ConditionCertificateExpiringSoon:
		return corev1.EventTypeWarning, c.Status == metav1.ConditionTrue
	case c.Status == metav1.ConditionFalse && c.Reason != reasonPending:
		return corev1.EventTypeWarning, true
	}
	return corev1.EventTypeNormal, c.Status == metav1.ConditionTrue
}
