package loop

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// missing is how long a write may be missing from a cache that cannot tell its own version. By
// then the object was removed again, which such a cache does not show.
const missing = 30 * time.Second

// Store is what Writes asks of an informer's store.
type Store interface {
	// LastStoreSyncResourceVersion is the newest version that the cache has seen, or empty where
	// client-go's feature AtomicFIFO is off.
	LastStoreSyncResourceVersion() string
	GetByKey(key string) (item any, exists bool, err error)
}

// Writes remembers, for one kind, what was written for whom until the cache has seen it. A
// pass that acts on a cache behind its own last write does things twice. It may be lost at any
// time: a new process starts with a fresh list.
//
// Deletions need no memory: each carries the UID of what it means.
type Writes struct {
	store Store
	mu    sync.Mutex
	// pending has what the cache is not known to have seen, by the key of whom it was written for.
	pending map[cache.ObjectName][]write
}

type write struct {
	object  string // key in the store
	version string
	at      time.Time
}

// NewWrites watches the writes of the kind in the store: `informer.GetStore()`.
func NewWrites(store Store) *Writes {
	return &Writes{store: store, pending: map[cache.ObjectName][]write{}}
}

// Record takes the object as the API server returned it from a create, update or patch, and
// the key of the controller's pass in which it was written.
func (w *Writes) Record(pass cache.ObjectName, written metav1.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending[pass] = append(w.pending[pass], write{
		object:  cache.MetaObjectToName(written).String(),
		version: written.GetResourceVersion(),
		at:      time.Now(),
	})
}

// Behind says whether the cache has yet to see something that was recorded for the key.
// Then wait: the event that brings it starts the next pass.
func (w *Writes) Behind(pass cache.ObjectName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []write
	for _, one := range w.pending[pass] {
		if !w.seen(one) {
			rest = append(rest, one)
		}
	}
	if len(rest) == 0 {
		delete(w.pending, pass)
		return false
	}
	w.pending[pass] = rest
	return true
}

// Forget drops what was recorded for a key that is no more.
func (w *Writes) Forget(pass cache.ObjectName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, pass)
}

func (w *Writes) seen(one write) bool {
	cached := w.store.LastStoreSyncResourceVersion()
	if newer, err := resourceversion.CompareResourceVersion(cached, one.version); err == nil && newer >= 0 {
		return true
	}
	item, exists, err := w.store.GetByKey(one.object)
	if object, ok := item.(metav1.Object); ok && exists && err == nil {
		newer, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), one.version)
		// Versions that are no numbers cannot be compared; the object itself is there.
		return err != nil || newer >= 0
	}
	return cached == "" && time.Since(one.at) > missing
}
