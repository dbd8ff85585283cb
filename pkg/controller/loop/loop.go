// Package loop is the queue that every controller runs on, and the memory of a controller's
// own writes that tells it when its cache is behind.
package loop

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// Failed passes of one key are repeated after 1 s, 2 s, 4 s, … at most 60 s. There is no
// bucket over all keys: one broken cluster must not slow the others (engine.md).
const (
	firstRetry = time.Second
	lastRetry  = 60 * time.Second
)

// passLimit ends a pass that hangs, in whatever call, so that it holds no worker for ever. A
// healthy one takes seconds.
const passLimit = 2 * time.Minute

// terminatingRecheck is when a key whose namespace is being deleted is looked at again, should
// no event come.
const terminatingRecheck = 5 * time.Second

// Now as Result.RequeueAfter asks for the next pass at once.
const Now = time.Nanosecond

// Result says when a key wants its next pass although nothing happened to it. Zero: only
// at the next event. Waiting that is expected is a Result, not an error.
type Result struct{ RequeueAfter time.Duration }

// Sync is one pass over one key. At most one runs for a key at a time. Its context
// carries a logger with the key and ends when the loop stops, or after two minutes. An error is logged
// and the key tried again with growing delay.
type Sync func(ctx context.Context, key cache.ObjectName) (Result, error)

// Keys names which keys an object concerns: Self, ControlledBy or the user's own. It
// may look at nothing but the object and, for a menu object, the list of clusters.
type Keys func(obj metav1.Object) []cache.ObjectName

// Options are what New needs. Name and Sync are required.
type Options struct {
	// Name of the controller: the queue's name.
	Name string
	// Field is the log field that holds a key's name: "cluster_name" or "node" (contract §7).
	Field string
	Sync  Sync
	// Observe, if set, is told of each finished pass.
	Observe func(key cache.ObjectName, took time.Duration, err error)
}

// Loop is a queue of keys and the workers that empty it. Make one with New, connect it with
// Watch, then Run it once.
type Loop struct {
	Options
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	synced []cache.InformerSynced
}

// New makes a loop. Its queue holds what is enqueued until Run.
func New(o Options) *Loop {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry)
	return &Loop{Options: o, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: o.Name})}
}

// Enqueue asks for a pass over the key. Asking twice before it starts is asking once.
func (l *Loop) Enqueue(key cache.ObjectName) { l.queue.Add(key) }

// Watch enqueues what keys says whenever an object of the informer is added, changed or
// removed. Run waits until the informer has delivered its first list. Call it before Run.
func (l *Loop) Watch(informer cache.SharedInformer, keys Keys) error {
	enqueue := func(obj any) {
		// A deletion that the watch missed arrives wrapped, with the last state known.
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		object, ok := obj.(metav1.Object)
		if !ok {
			klog.Background().Error(nil, "informer delivered something that is no object", "type", fmt.Sprintf("%T", obj))
			return
		}
		for _, key := range keys(object) {
			l.queue.Add(key)
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			if sameVersion(before, after) {
				return
			}
			// The former owner too, should the owner have changed.
			enqueue(before)
			enqueue(after)
		},
		DeleteFunc: enqueue,
	})
	if err != nil {
		return fmt.Errorf("watch for %s: %w", l.Name, err)
	}
	l.synced = append(l.synced, registration.HasSynced)
	return nil
}

// Needs makes Run wait for an informer that passes read but that starts none. Call it before Run.
func (l *Loop) Needs(informer cache.SharedInformer) { l.synced = append(l.synced, informer.HasSynced) }

func sameVersion(before, after any) bool {
	b, ok := before.(metav1.Object)
	a, isObject := after.(metav1.Object)
	return ok && isObject && a.GetResourceVersion() != "" && a.GetResourceVersion() == b.GetResourceVersion()
}

// Run waits for the informers, then works until the context ends, and returns when the last
// pass has. It can be run once.
func (l *Loop) Run(ctx context.Context, workers int) {
	defer l.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), l.synced...) {
		return
	}
	var running sync.WaitGroup
	for range max(workers, 1) {
		running.Go(func() {
			for l.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	l.queue.ShutDown()
	running.Wait()
}

func (l *Loop) next(ctx context.Context) bool {
	key, shutdown := l.queue.Get()
	if shutdown {
		return false
	}
	defer l.queue.Done(key)
	if ctx.Err() != nil {
		return true // The queue is being emptied.
	}
	fields := []any{l.Field, key.Name}
	if key.Namespace != "" {
		fields = append(fields, "namespace", key.Namespace)
	}
	logger := klog.FromContext(ctx).WithName(l.Name).WithValues(fields...)
	start := time.Now()
	limited, cancel := context.WithTimeout(klog.NewContext(ctx, logger), passLimit)
	result, err := l.Sync(limited, key)
	cancel()
	if ctx.Err() != nil {
		return true // Cut short by the end of the process: no fault.
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// Nothing new may be made in a namespace that is being deleted. That is no fault, and
		// what is left to do is for the deletions that follow.
		logger.V(2).Info("the namespace is being deleted", "reason", err.Error())
		result, err = Result{RequeueAfter: terminatingRecheck}, nil
	}
	if l.Observe != nil {
		l.Observe(key, time.Since(start), err)
	}
	if err != nil {
		logger.Error(err, "reconcile error, requeuing")
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	if result.RequeueAfter > 0 {
		l.queue.AddAfter(key, result.RequeueAfter)
	}
	return true
}

// Self is the Keys of a controller's own kind.
func Self(obj metav1.Object) []cache.ObjectName {
	return []cache.ObjectName{cache.MetaObjectToName(obj)}
}

// ControlledBy is the Keys of objects that belong to a kind by controller reference; labels
// prove nothing.
func ControlledBy(kind schema.GroupKind) Keys {
	return func(obj metav1.Object) []cache.ObjectName {
		owner := metav1.GetControllerOf(obj)
		if owner == nil || owner.Kind != kind.Kind {
			return nil
		}
		if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != kind.Group {
			return nil
		}
		return []cache.ObjectName{{Namespace: obj.GetNamespace(), Name: owner.Name}}
	}
}
