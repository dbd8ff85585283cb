package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/logging"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned/scheme"
)

// clients reach the API server.
type clients struct {
	kube   kubernetes.Interface
	valkey versioned.Interface
}

// connect makes the clients. Its errors are in flags or files: nothing is sent yet.
func connect(o options) (clients, error) {
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return clients{}, err
	}
	config.UserAgent = "valkey-operator/" + versionText()
	config.QPS, config.Burst = o.qps, o.burst
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return clients{}, wrong("use the kubeconfig: %w", err)
	}
	valkey, err := versioned.NewForConfig(config)
	if err != nil {
		return clients{}, wrong("use the kubeconfig: %w", err)
	}
	return clients{kube, valkey}, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, wrong("not in a pod, so --kubeconfig is needed: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, wrong("read --kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}

// run is the operator's life: connect, wait for the CRDs, fill the caches, wait for the lease,
// work, and leave in the reverse order.
func run(ctx context.Context, o options) error {
	if err := logging.Install(os.Stdout, o.verbosity); err != nil {
		return err
	}
	logger := klog.Background()
	ctx = klog.NewContext(ctx, logger)
	c, err := connect(o)
	if err != nil {
		return err
	}
	logger.Info("starting valkey-operator", "version", versionText(), "namespaces", o.namespaces,
		"default_zone_spread", o.DefaultZoneSpread, "cluster_domain", o.ClusterDomain,
		"pod_user", podUserText(o.PodUser), "failover", o.Failover, "leader_election", o.election.enabled)
	m := metrics.New(versionText())
	h := &health{alive: func() error { return nil }}
	lead, leading, err := candidacy(o, c, h)
	if err != nil {
		return err
	}
	closeServer, err := serve(ctx, o.bindAddress, m, h)
	if err != nil {
		return err
	}
	defer closeServer()
	if err := waitForCRDs(ctx, c.kube.Discovery().RESTClient()); err != nil {
		return asked(ctx, err)
	}
	events, stopEvents := recorder(c.kube)
	defer stopEvents()
	parts, err := wire(o, c, events, leading, m)
	if err != nil {
		return err
	}
	// The caches end after the workers that read them.
	informing, stopInforming := context.WithCancel(context.WithoutCancel(ctx))
	defer parts.shutdown()
	defer stopInforming()
	if !parts.startInformers(informing, ctx) {
		return asked(ctx, ctx.Err())
	}
	h.ready.Store(true)
	err = lead(ctx, func(ctx context.Context) {
		m.Leading(true)
		defer m.Leading(false)
		parts.work(ctx, o.workers)
	})
	logger.Info("stopped valkey-operator", "asked", ctx.Err() != nil)
	return err
}

// asked makes the end that was asked for no error.
func asked(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func podUserText(user *int64) string {
	if user == nil {
		return ""
	}
	return fmt.Sprint(*user)
}

// candidacy says how the workers come to run, and whether they may act. Without election
// the answer is always yes.
func candidacy(o options, c clients, h *health) (lead func(context.Context, func(context.Context)) error, leading controller.Leading, err error) {
	if !o.election.enabled {
		return func(ctx context.Context, work func(context.Context)) error {
			work(ctx)
			return nil
		}, func() bool { return true }, nil
	}
	e, err := newElector(o.election, c.kube)
	if err != nil {
		return nil, nil, err
	}
	h.alive = func() error { return e.candidate.Check(20 * time.Second) }
	return e.run, e.leading, nil
}

// recorder sends Events. Its end waits for nothing: an Event is news, not a duty.
func recorder(kube kubernetes.Interface) (record.EventRecorder, func()) {
	// A cluster that forms has more news in a minute than the default lets through.
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: 100, QPS: 1. / 30})
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "valkey-operator"}), broadcaster.Shutdown
}

// worker is a controller.
type worker interface {
	Run(ctx context.Context, workers int)
}

// work runs all controllers and returns when the last has ended.
func (p *parts) work(ctx context.Context, workers int) {
	var running sync.WaitGroup
	for _, w := range p.workers {
		running.Go(func() { w.Run(ctx, workers) })
	}
	running.Wait()
}
