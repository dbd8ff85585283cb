package loop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

// TestARealInformerTellsHowNewItsStoreIs holds what Writes relies on in client-go: every kind of
// event moves the version of the store.
func TestARealInformerTellsHowNewItsStoreIs(t *testing.T) {
	events := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 10})
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "50"}, Items: []corev1.Pod{*pod("old", "7")}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return events, nil },
	}, noWatchList{}), &corev1.Pod{}, 0, cache.Indexers{})
	handled := make(chan struct{}, 10)
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { handled <- struct{}{} },
		UpdateFunc: func(any, any) { handled <- struct{}{} },
		DeleteFunc: func(any) { handled <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); informer.RunWithContext(ctx) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		t.Fatal("the informer did not start")
	}
	<-handled
	writes := NewWrites(informer.GetStore())
	want := func(version string, behind bool) {
		t.Helper()
		writes.Forget(one)
		writes.Record(one, pod("another", version))
		if got := writes.Behind(one); got != behind {
			t.Errorf("a write at %s: behind is %v, the store says %q", version, got, informer.GetStore().LastStoreSyncResourceVersion())
		}
	}
	want("50", false)
	want("51", true)
	events.Add(pod("new", "51"))
	<-handled
	want("51", false)
	events.Modify(pod("new", "60"))
	<-handled
	want("60", false)
	events.Delete(pod("new", "100"))
	<-handled
	want("100", false)
	want("101", true)
}

// noWatchList says that the list comes by list, not by watch.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// oldStore is a store that cannot tell its version.
type oldStore map[string]*corev1.Pod

func (oldStore) LastStoreSyncResourceVersion() string { return "" }

func (s oldStore) GetByKey(key string) (any, bool, error) {
	p, ok := s[key]
	return p, ok, nil
}

func TestAStoreThatCannotTellItsVersionIsAskedForTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := oldStore{"ns/a": pod("a", "9")}
		writes := NewWrites(store)
		writes.Record(one, pod("a", "10"))
		if !writes.Behind(one) {
			t.Error("version 9 is older than what was written")
		}
		store["ns/a"] = pod("a", "11")
		if writes.Behind(one) {
			t.Error("a newer version was seen")
		}
		writes.Record(one, pod("gone", "12"))
		if !writes.Behind(one) {
			t.Error("the object has not arrived")
		}
		time.Sleep(missing + time.Second)
		if writes.Behind(one) {
			t.Error("an object that was removed again is waited for without end")
		}
	})
}

func TestEachKeyWaitsForItsOwnWritesOnly(t *testing.T) {
	writes := NewWrites(oldStore{})
	writes.Record(one, pod("a", "10"))
	if writes.Behind(cache.ObjectName{Namespace: "ns", Name: "two"}) {
		t.Error("another key waits")
	}
	for range 2 {
		if !writes.Behind(one) {
			t.Error("the key does not wait")
		}
	}
	writes.Forget(one)
	if writes.Behind(one) {
		t.Error("a key that is no more waits")
	}
}
