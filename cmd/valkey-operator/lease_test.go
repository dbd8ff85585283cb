package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

var electionForTests = election{enabled: true, namespace: "ops", name: "valkey-operator",
	lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}

func newTestElector(t *testing.T, kube *kubefake.Clientset) *elector {
	t.Helper()
	e, err := newElector(electionForTests, kube)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func leaseOf(t *testing.T, kube *kubefake.Clientset) *coordinationv1.Lease {
	t.Helper()
	lease, err := kube.CoordinationV1().Leases("ops").Get(context.Background(), "valkey-operator", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func quietContext(t *testing.T) context.Context { return klog.NewContext(t.Context(), klog.Logger{}) }

func TestTheLeaseIsReleasedOnlyAfterTheLastWorkerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		e := newTestElector(t, kube)
		ctx, cancel := context.WithTimeout(quietContext(t), time.Minute)
		defer cancel()
		if e.leading() {
			t.Error("leads before the election")
		}
		err := e.run(ctx, func(ctx context.Context) {
			if !e.leading() {
				t.Error("works without leading")
			}
			<-ctx.Done()
			// A pass that takes its time.
			time.Sleep(8 * time.Second)
			if holder := leaseOf(t, kube).Spec.HolderIdentity; holder == nil || *holder == "" || !e.leading() {
				t.Error("the lease is released while somebody works")
			}
		})
		if err != nil {
			t.Error(err)
		}
		if holder := leaseOf(t, kube).Spec.HolderIdentity; holder != nil && *holder != "" {
			t.Errorf("the lease is still held by %s: the next operator has to wait", *holder)
		}
	})
}

func TestAStandbyTakesOverAsSoonAsTheLeaseIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		first, second := newTestElector(t, kube), newTestElector(t, kube)
		ctxFirst, stopFirst := context.WithTimeout(quietContext(t), time.Minute)
		defer stopFirst()
		done := make(chan struct{})
		var working atomic.Int32
		work := func(ctx context.Context) {
			if working.Add(1) > 1 {
				t.Error("two work at once")
			}
			<-ctx.Done()
			working.Add(-1)
		}
		go func() {
			defer close(done)
			if err := first.run(ctxFirst, work); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		ctxSecond, stopSecond := context.WithCancel(quietContext(t))
		defer stopSecond()
		start := time.Now()
		if err := second.run(ctxSecond, func(context.Context) {
			if working.Load() != 0 {
				t.Error("the first still works")
			}
			if took := time.Since(start); took < time.Minute || took > time.Minute+5*time.Second {
				t.Errorf("took over after %s", took)
			}
			stopSecond()
		}); err != nil {
			t.Error(err)
		}
		<-done
	})
}

func TestWhoCannotRenewStopsActingBeforeAnotherMayBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		e := newTestElector(t, kube)
		var cut atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if cut.Load() {
				return true, nil, errors.New("no route to host")
			}
			return false, nil, nil
		})
		var stopped time.Duration
		err := e.run(quietContext(t), func(ctx context.Context) {
			start := time.Now()
			cut.Store(true)
			for e.leading() {
				time.Sleep(100 * time.Millisecond)
			}
			stopped = time.Since(start)
			<-ctx.Done()
		})
		if !errors.Is(err, errLeaseLost) {
			t.Errorf("ended with %v", err)
		}
		if most := electionForTests.lease - 4*time.Second; stopped == 0 || stopped > most {
			t.Errorf("acts for %s after the last renewal, another may begin after %s", stopped, electionForTests.lease)
		}
	})
}

func TestWhoNeverLedLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		holder, seconds, now := "another", int32(3600), metav1.NowMicro()
		kube := kubefake.NewClientset(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "valkey-operator"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now, AcquireTime: &now}})
		ctx, cancel := context.WithTimeout(quietContext(t), time.Minute)
		defer cancel()
		start := time.Now()
		if err := newTestElector(t, kube).run(ctx, func(context.Context) { t.Error("works") }); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > time.Minute+time.Second {
			t.Errorf("left after %s", took)
		}
	})
}
