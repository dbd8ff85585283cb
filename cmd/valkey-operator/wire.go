package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/acl"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/tls"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeycluster"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions"
	valkeyinformers "github.com/momentohq/valkey-operator/pkg/generated/informers/externalversions/valkey/v1alpha1"
)

// factory is a set of informers, ours or Kubernetes' own.
type factory interface {
	StartWithContext(ctx context.Context)
	Shutdown()
}

// parts are what runs: informers and the controllers that read them.
type parts struct {
	factories []factory
	synced    []cache.InformerSynced
	workers   []worker
}

// wire builds informers and controllers: one set for all namespaces, or one for each that
// was named, beside one for the cluster-scoped menu. A kind has one informer in a set.
func wire(o options, c clients, events record.EventRecorder, leading controller.Leading, m *metrics.Metrics) (*parts, error) {
	p := &parts{}
	menu := externalversions.NewSharedInformerFactoryWithOptions(c.valkey, 0, externalversions.WithTransform(trim))
	p.factories = append(p.factories, menu)
	namespaces := o.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := p.wireNamespace(namespace, menu, o, c, events, leading, m); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *parts) wireNamespace(namespace string, menu externalversions.SharedInformerFactory, o options, c clients,
	events record.EventRecorder, leading controller.Leading, m *metrics.Metrics) error {
	ours := externalversions.NewSharedInformerFactoryWithOptions(c.valkey, 0,
		externalversions.WithNamespace(namespace), externalversions.WithTransform(trim))
	kube := informers.NewSharedInformerFactoryWithOptions(c.kube, 0,
		informers.WithNamespace(namespace), informers.WithTransform(trim),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.LabelManagedByValue
		}))
	p.factories = append(p.factories, ours, kube)
	valkey, all, core := ours.Valkey().V1alpha1(), menu.Valkey().V1alpha1(), kube.Core().V1()
	clusters, err := valkeycluster.New(valkeycluster.Options{
		Kube: c.kube, Valkey: c.valkey,
		Informers: withMenu{Interface: valkey, menu: all},
		Pods:      core.Pods(), ConfigMaps: core.ConfigMaps(), Services: core.Services(),
		Events: events, Config: o.Config, Leading: leading, Metrics: m,
	})
	if err != nil {
		return fmt.Errorf("build the valkeycluster controller: %w", err)
	}
	nodes, err := valkeynode.New(valkeynode.Options{
		Kube: c.kube, Valkey: c.valkey,
		Clusters: valkey.ValkeyClusters(), Nodes: valkey.ValkeyNodes(), Pods: core.Pods(),
		Events: events, Config: o.Config, Leading: leading, Metrics: m,
	})
	if err != nil {
		return fmt.Errorf("build the valkeynode controller: %w", err)
	}
	users, err := acl.New(acl.Options{
		Kube: c.kube, Valkey: c.valkey,
		Informers: withMenu{Interface: valkey, menu: all},
		Pods:      core.Pods(), ConfigMaps: core.ConfigMaps(),
		Events: events, Config: o.Config, Leading: leading, Metrics: m, Wake: clusters.Enqueue,
	})
	if err != nil {
		return fmt.Errorf("build the acl controller: %w", err)
	}
	certificates, err := tls.New(tls.Options{
		Kube: c.kube, Valkey: c.valkey, Informers: valkey, Pods: core.Pods(),
		Events: events, Config: o.Config, Leading: leading, Metrics: m, Wake: clusters.Enqueue,
	})
	if err != nil {
		return fmt.Errorf("build the tls controller: %w", err)
	}
	p.workers = append(p.workers, clusters, nodes, users, certificates)
	for _, informer := range []cache.SharedInformer{
		valkey.ValkeyClusters().Informer(), valkey.ValkeyNodes().Informer(),
		all.ValkeyConfigs().Informer(), all.ValkeyImages().Informer(), all.ValkeyRoles().Informer(),
		core.Pods().Informer(), core.ConfigMaps().Informer(), core.Services().Informer(),
	} {
		p.synced = append(p.synced, informer.HasSynced)
	}
	return nil
}

// withMenu are the informers of one namespace, and of the menu that has none.
type withMenu struct {
	valkeyinformers.Interface
	menu valkeyinformers.Interface
}

// ValkeyConfigs are the menu's.
func (w withMenu) ValkeyConfigs() valkeyinformers.TypedValkeyConfigInformer {
	return w.menu.ValkeyConfigs()
}

// ValkeyImages are the menu's.
func (w withMenu) ValkeyImages() valkeyinformers.TypedValkeyImageInformer {
	return w.menu.ValkeyImages()
}

// ValkeyRoles are the menu's.
func (w withMenu) ValkeyRoles() valkeyinformers.TypedValkeyRoleInformer { return w.menu.ValkeyRoles() }

// startInformers fills the caches. It is not ok if the process is asked to end before.
func (p *parts) startInformers(informing, asked context.Context) (ok bool) {
	for _, f := range p.factories {
		f.StartWithContext(informing)
	}
	return cache.WaitForCacheSync(asked.Done(), p.synced...)
}

// shutdown waits for the informers to end, but not for one that hangs in the network.
func (p *parts) shutdown() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, f := range p.factories {
			f.Shutdown()
		}
	}()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
}
