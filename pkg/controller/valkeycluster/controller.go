// Package valkeycluster forms, repairs, scales, rolls and removes Valkey clusters: it looks, has
// the planner decide, and carries out one action a pass.
//
// The order of a pass is in sync.go. observe.go looks, actor.go and commands.go act, keep.go and
// keepnodes.go maintain what has no order, remove.go sees a cluster out. Pure are owned.go (what
// objects look like), status.go, shards.go and conditions.go (what is told), pod.go (what a pod's
// state means).
package valkeycluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	informers "github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions/valkey/v1alpha1"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Options are what New needs. All but Connect and Now are required.
type Options struct {
	Kube   kubernetes.Interface
	Valkey versioned.Interface
	// Informers are those of the generated factory.
	Informers informers.Interface
	// Pods, Services and ConfigMaps need to have only what is labelled
	// app.kubernetes.io/managed-by=valkey-operator.
	Pods       coreinformers.PodInformer
	Services   coreinformers.ServiceInformer
	ConfigMaps coreinformers.ConfigMapInformer
	Events     record.EventRecorder
	Config     controller.Config
	// Leading is asked before each act.
	Leading controller.Leading
	Metrics *metrics.Metrics
	// Connect reaches a cluster's servers. Default: Dialing with a pool of its own.
	Connect Connect
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Controller works on ValkeyClusters. Make it with New, then Run it once.
type Controller struct {
	valkey   versioned.Interface
	clusters listers.ValkeyClusterLister
	menu     resolve.Menu
	leading  func() bool
	connect  Connect
	now      func() time.Time
	metrics  *metrics.Metrics
	writes   writes
	loop     *loop.Loop

	observer observer
	keeper   keeper
	scribe   scribe
	actor    actor
	remover  remover
	herald   herald
}

// New makes the controller and connects it with the informers. It starts nothing.
func New(o Options) (*Controller, error) {
	if o.Kube == nil || o.Valkey == nil || o.Informers == nil || o.Pods == nil || o.Services == nil ||
		o.ConfigMaps == nil || o.Events == nil || o.Leading == nil || o.Metrics == nil {
		return nil, errors.New("valkeycluster: an option is missing")
	}
	if o.Connect == nil {
		o.Connect = Dialing(&client.Pool{})
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controller{
		valkey:   o.Valkey,
		clusters: o.Informers.ValkeyClusters().Lister(),
		menu: resolve.Menu{
			Configs: o.Informers.ValkeyConfigs().Lister(),
			Images:  o.Informers.ValkeyImages().Lister(),
			Roles:   o.Informers.ValkeyRoles().Lister(),
		},
		leading: o.Leading,
		connect: o.Connect,
		now:     o.Now,
		metrics: o.Metrics,
		writes: writes{
			clusters:   loop.NewWrites(o.Informers.ValkeyClusters().Informer().GetStore()),
			nodes:      loop.NewWrites(o.Informers.ValkeyNodes().Informer().GetStore()),
			pods:       loop.NewWrites(o.Pods.Informer().GetStore()),
			services:   loop.NewWrites(o.Services.Informer().GetStore()),
			configMaps: loop.NewWrites(o.ConfigMaps.Informer().GetStore()),
		},
		herald: herald{o.Events},
	}
	nodes := o.Informers.ValkeyNodes().Lister()
	c.observer = observer{kube: o.Kube, valkey: o.Valkey, nodes: nodes, pods: o.Pods.Lister()}
	c.keeper = keeper{kube: o.Kube, services: o.Services.Lister(), configMaps: o.ConfigMaps.Lister(), menu: c.menu, writes: c.writes,
		memory: &credentials.Memory{}, copier: tls.Copier{Kube: o.Kube, Domain: o.Config.ClusterDomain, Now: o.Now}}
	c.scribe = scribe{kube: o.Kube, valkey: o.Valkey, writes: c.writes}
	c.actor = actor{valkey: o.Valkey, config: o.Config, writes: c.writes}
	c.remover = remover{kube: o.Kube, valkey: o.Valkey, nodes: nodes, leading: o.Leading, writes: c.writes}
	c.loop = loop.New(loop.Options{Name: "valkeycluster", Field: "cluster_name", Sync: c.sync, Observe: o.Metrics.Passes("valkeycluster")})
	return c, c.watch(o)
}

// watch connects the queue. Any change of the menu may concern any cluster; passes that find
// nothing new are cheap.
func (c *Controller) watch(o Options) error {
	ours := loop.ControlledBy(clusterKind.GroupKind())
	for _, w := range []struct {
		informer cache.SharedInformer
		keys     loop.Keys
	}{
		{o.Informers.ValkeyClusters().Informer(), loop.Self},
		{o.Informers.ValkeyNodes().Informer(), ours},
		{o.Services.Informer(), ours},
		{o.ConfigMaps.Informer(), ours},
		{o.Pods.Informer(), byInstance},
		{o.Informers.ValkeyConfigs().Informer(), c.everyCluster},
		{o.Informers.ValkeyImages().Informer(), c.everyCluster},
		{o.Informers.ValkeyRoles().Informer(), c.everyCluster},
	} {
		if err := c.loop.Watch(w.informer, w.keys); err != nil {
			return fmt.Errorf("valkeycluster: %w", err)
		}
	}
	return nil
}

// byInstance is the cluster that a pod's label names: enough to look, proof of nothing.
func byInstance(pod metav1.Object) []cache.ObjectName {
	name := pod.GetLabels()[v1alpha1.LabelInstance]
	if name == "" {
		return nil
	}
	return []cache.ObjectName{{Namespace: pod.GetNamespace(), Name: name}}
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

// Run works until the context ends, with at most this many clusters at a time, and returns when
// the last pass has. The informers are started by the caller.
func (c *Controller) Run(ctx context.Context, workers int) { c.loop.Run(ctx, workers) }

// Enqueue asks for a pass over a cluster, for controllers that changed what it stands on.
func (c *Controller) Enqueue(key cache.ObjectName) { c.loop.Enqueue(key) }
