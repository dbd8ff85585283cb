package reach

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/controller/loop"
)

// OnSpec enqueues a cluster when it appears and when what people write of it changes: its spec or its
// annotations. A status is written again and again, and says nothing to a controller that
// works on a tick.
func OnSpec(l *loop.Loop, clusters cache.SharedInformer) error {
	enqueue := func(obj any) {
		if object, ok := obj.(metav1.Object); ok {
			l.Enqueue(cache.MetaObjectToName(object))
		}
	}
	_, err := clusters.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(before, after any) {
			b, wasObject := before.(metav1.Object)
			a, isObject := after.(metav1.Object)
			if wasObject && isObject && (a.GetGeneration() != b.GetGeneration() || !maps.Equal(a.GetAnnotations(), b.GetAnnotations()) || a.GetUID() != b.GetUID()) {
				enqueue(after)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			enqueue(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("watch ValkeyClusters: %w", err)
	}
	l.Needs(clusters)
	return nil
}
