package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

var one = cache.ObjectName{Namespace: "ns", Name: "one"}

// run starts a loop over sync with n workers and stops it when the test is over.
func run(t *testing.T, sync Sync, workers int) *Loop {
	t.Helper()
	l := New(Options{Name: "test", Field: "cluster_name", Sync: sync})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx, workers) }()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

func TestFailedPassesAreRepeatedEverSlowerAndAtMostOnceAMinuteApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		l := run(t, func(context.Context, cache.ObjectName) (Result, error) {
			at = append(at, time.Since(start))
			if len(at) > 8 {
				return Result{}, nil
			}
			return Result{}, errors.New("no")
		}, 1)
		l.Enqueue(one)
		time.Sleep(time.Hour)
		synctest.Wait()
		s := time.Second
		want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnExpectedWaitIsNotAFailureAndStartsTheDelayAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var at []time.Duration
		l := run(t, func(context.Context, cache.ObjectName) (Result, error) {
			at = append(at, time.Since(start))
			switch len(at) {
			case 1, 2, 4:
				return Result{}, errors.New("no")
			case 3:
				return Result{RequeueAfter: 5 * time.Second}, nil
			}
			return Result{}, nil
		}, 1)
		l.Enqueue(one)
		time.Sleep(time.Hour)
		synctest.Wait()
		s := time.Second
		if diff := cmp.Diff([]time.Duration{0, 1 * s, 3 * s, 8 * s, 9 * s}, at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestOneKeyHasOnePassAtATimeAndKeysRunBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running := map[cache.ObjectName]int{}
		most, total := 0, 0
		l := run(t, func(_ context.Context, key cache.ObjectName) (Result, error) {
			mu.Lock()
			running[key]++
			total++
			if running[key] > 1 {
				t.Errorf("two passes over %s at once", key)
			}
			most = max(most, len(running))
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			delete(running, key)
			mu.Unlock()
			return Result{}, nil
		}, 4)
		for range 3 {
			for _, name := range []string{"a", "b", "c"} {
				l.Enqueue(cache.ObjectName{Name: name})
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if most != 3 || total != 6 {
			t.Errorf("%d keys ran at once and there were %d passes, want 3 and 6 (repeats while running are one)", most, total)
		}
	})
}

func TestRunReturnsOnlyWhenTheLastPassHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finished := false
		l := New(Options{Name: "test", Sync: func(ctx context.Context, _ cache.ObjectName) (Result, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			finished = true
			return Result{}, ctx.Err()
		}, Observe: func(cache.ObjectName, time.Duration, error) { t.Error("a pass cut short by the end was reported") }})
		l.Enqueue(one)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.Run(ctx, 2)
		if !finished {
			t.Error("Run returned while a pass was running")
		}
	})
}

func TestANamespaceThatIsBeingDeletedIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := 0
		terminating := &apierrors.StatusError{ErrStatus: metav1.Status{Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}
		l := New(Options{Name: "test", Field: "node",
			Sync: func(context.Context, cache.ObjectName) (Result, error) {
				if passes++; passes > 10 {
					return Result{}, nil
				}
				return Result{}, errors.Join(errors.New("another"), fmt.Errorf("create a pod: %w", terminating))
			},
			Observe: func(_ cache.ObjectName, _ time.Duration, err error) {
				if err != nil {
					t.Errorf("counted as a fault: %v", err)
				}
			}})
		l.Enqueue(one)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		l.Run(ctx, 1)
		if passes != 11 {
			t.Errorf("%d passes in a minute", passes)
		}
	})
}

func TestAPassThatHangsIsEndedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passes := 0
		l := run(t, func(ctx context.Context, _ cache.ObjectName) (Result, error) {
			if passes++; passes > 1 {
				return Result{}, nil
			}
			<-ctx.Done()
			return Result{}, ctx.Err()
		}, 1)
		l.Enqueue(one)
		time.Sleep(passLimit + 2*time.Second)
		synctest.Wait()
		if passes != 2 {
			t.Errorf("%d passes", passes)
		}
	})
}

// handlers collects what Watch registers.
type handlers struct {
	cache.SharedInformer
	cache.ResourceEventHandler
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

func (registration) HasSynced() bool { return true }

func (h *handlers) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.ResourceEventHandler = handler
	return registration{}, nil
}

func ownedPod(owner, version string) *corev1.Pod {
	yes := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pod", ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Other", Name: "other"},
			{APIVersion: "example.com/v1", Kind: "Owner", Name: owner, Controller: &yes},
		},
	}}
}

func TestHandlersEnqueueOwnersOnceAndOnlyForChanges(t *testing.T) {
	var informer handlers
	l := New(Options{Name: "test"})
	if err := l.Watch(&informer, ControlledBy(schema.GroupKind{Group: "example.com", Kind: "Owner"})); err != nil {
		t.Fatal(err)
	}
	defer l.queue.ShutDown()
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"an update without a new version is a resync", func() { informer.OnUpdate(ownedPod("a", "1"), ownedPod("a", "1")) }, nil},
		{"an added object", func() { informer.OnAdd(ownedPod("a", "1"), true) }, []string{"ns/a"}},
		{"a changed object", func() { informer.OnUpdate(ownedPod("a", "1"), ownedPod("a", "2")) }, []string{"ns/a"}},
		{"an object with a new owner", func() { informer.OnUpdate(ownedPod("a", "1"), ownedPod("b", "2")) }, []string{"ns/a", "ns/b"}},
		{"a removed object", func() { informer.OnDelete(ownedPod("a", "1")) }, []string{"ns/a"}},
		{"a removal that the watch missed", func() {
			informer.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/pod", Obj: ownedPod("a", "1")})
		}, []string{"ns/a"}},
		{"something that is no object", func() { informer.OnDelete("what?") }, nil},
		{"an object without an owner", func() { informer.OnAdd(&corev1.Pod{}, false) }, nil},
	} {
		step.do()
		var got []string
		for l.queue.Len() > 0 {
			key, _ := l.queue.Get()
			got = append(got, key.String())
			l.queue.Done(key)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
}

func TestOnlyTheControllerReferenceOfTheVeryKindOwns(t *testing.T) {
	pod := ownedPod("a", "1")
	for kind, want := range map[schema.GroupKind]int{
		{Group: "example.com", Kind: "Owner"}: 1,
		{Group: "example.org", Kind: "Owner"}: 0,
		{Group: "example.com", Kind: "Other"}: 0,
		{Kind: "Other"}:                       0,
	} {
		if got := ControlledBy(kind)(pod); len(got) != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
	pod.OwnerReferences[1].APIVersion = "a/b/c"
	if got := ControlledBy(schema.GroupKind{Group: "example.com", Kind: "Owner"})(pod); got != nil {
		t.Errorf("a reference with a broken group owns: %v", got)
	}
	if diff := cmp.Diff([]cache.ObjectName{{Namespace: "ns", Name: "pod"}}, Self(pod)); diff != "" {
		t.Error(diff)
	}
}
