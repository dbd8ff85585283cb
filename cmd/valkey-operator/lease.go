package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// errLeaseLost ends the process: another one may be at work already.
var errLeaseLost = errors.New("the lease was lost")

// elector is one candidate for the Lease.
type elector struct {
	election
	candidate *leaderelection.LeaderElector
	// elected and lost are closed when this process becomes the leader, and when it is not
	// any more or never will be.
	elected, lost chan struct{}
}

func newElector(e election, kube kubernetes.Interface) (*elector, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the host's name: %w", err)
	}
	out := &elector{election: e, elected: make(chan struct{}), lost: make(chan struct{})}
	out.candidate, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: e.name},
			Client:    kube.CoordinationV1(),
			// A container that restarts in its pod is another process.
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: e.lease, RenewDeadline: e.renew, RetryPeriod: e.retry,
		ReleaseOnCancel: true,
		Name:            e.name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(out.elected) },
			OnStoppedLeading: func() { close(out.lost) },
		},
	})
	if err != nil {
		return nil, fmt.Errorf("prepare leader election: %w", err)
	}
	return out, nil
}

// leading says whether the lease is held and was renewed recently enough for one more act: what
// begins now ends before another process may take over.
func (e *elector) leading() bool {
	return e.candidate.IsLeader() && e.candidate.Check(e.renew-e.lease) == nil
}

// run waits for the lease and works while it is held. The lease is released only after the
// last worker has ended. It returns errLeaseLost if that was not our wish.
func (e *elector) run(ctx context.Context, work func(context.Context)) error {
	// The election outlives ctx: who still works must still hold the lease.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	go e.candidate.Run(electing)
	select {
	case <-ctx.Done():
	case <-e.lost:
	case <-e.elected:
		klog.FromContext(ctx).Info("became leader", "lease", e.namespace+"/"+e.name)
		working, halt := context.WithCancel(ctx)
		defer halt()
		stop := context.AfterFunc(ctx, halt)
		defer stop()
		go func() {
			<-e.lost
			halt()
		}()
		work(working)
	}
	wanted := ctx.Err() != nil
	release()
	<-e.lost
	if wanted {
		return nil
	}
	return errLeaseLost
}
