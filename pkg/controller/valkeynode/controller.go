// Package valkeynode gives each ValkeyNode its one pod and takes it away again. It creates and
// removes, and never changes a pod: what a pod is made of is frozen in the ValkeyNode.
//
// A node without `status.podUID` gets a ConfigMap, a pod and then that UID, in this order. Where the
// process dies in between, the next pass finds what is there and goes on. A node with
// `status.podUID` never gets another pod. All else in the status but the conditions is
// written by the valkeycluster controller, which talks to the server.
package valkeynode

import (
	"context"
	"fmt"

	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	informers "github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions/valkey/v1alpha1"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// Name of the controller, in metrics.
const Name = "valkeynode"

// Options are what New needs; all are required.
type Options struct {
	Kube   kubernetes.Interface
	Valkey versioned.Interface
	// Clusters and Nodes of all namespaces that the operator serves, Pods those with its label.
	Clusters informers.ValkeyClusterInformer
	Nodes    informers.ValkeyNodeInformer
	Pods     coreinformers.PodInformer
	Events   record.EventRecorder
	Config   controller.Config
	Leading  controller.Leading
	Metrics  *metrics.Metrics
}

// Controller keeps pods for ValkeyNodes.
type Controller struct {
	kube     kubernetes.Interface
	valkey   versioned.Interface
	clusters listers.ValkeyClusterLister
	nodes    listers.ValkeyNodeLister
	pods     corelisters.PodLister
	events   record.EventRecorder
	config   controller.Config
	leading  controller.Leading
	// written are our own writes of ValkeyNodes.
	written *loop.Writes
	loop    *loop.Loop
}

// New connects the controller to the informers. It starts nothing.
func New(o Options) (*Controller, error) {
	c := &Controller{
		kube: o.Kube, valkey: o.Valkey,
		clusters: o.Clusters.Lister(), nodes: o.Nodes.Lister(), pods: o.Pods.Lister(),
		events: o.Events, config: o.Config, leading: o.Leading,
		written: loop.NewWrites(o.Nodes.Informer().GetStore()),
	}
	c.loop = loop.New(loop.Options{Name: Name, Field: "node", Sync: c.sync, Observe: o.Metrics.Passes(Name)})
	if err := c.loop.Watch(o.Nodes.Informer(), loop.Self); err != nil {
		return nil, fmt.Errorf("watch ValkeyNodes: %w", err)
	}
	if err := c.loop.Watch(o.Pods.Informer(), loop.ControlledBy(v1alpha1.Kind(v1alpha1.KindValkeyNode))); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	c.loop.Needs(o.Clusters.Informer())
	return c, nil
}

// Run works until the context ends and returns when the last pass has.
func (c *Controller) Run(ctx context.Context, workers int) { c.loop.Run(ctx, workers) }
