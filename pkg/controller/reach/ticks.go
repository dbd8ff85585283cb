package reach

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Tick is how often all servers of a cluster are told anew what they should know (contract §§4, 5).
const Tick = 30 * time.Second

// Ticks is when all servers of each cluster were last told. A new process tells them at once. The zero Ticks is ready.
type Ticks struct {
	mu   sync.Mutex
	last map[cache.ObjectName]time.Time
}

// IsDue says whether it is time to tell them again; then the next tick counts from now.
func (t *Ticks) IsDue(key cache.ObjectName, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	// A timer may be a little early.
	if last, ok := t.last[key]; ok && now.Sub(last) < Tick-time.Second {
		return false
	}
	if t.last == nil {
		t.last = map[cache.ObjectName]time.Time{}
	}
	t.last[key] = now
	return true
}

// Left is how long it is until the next tick, a second at least.
func (t *Ticks) Left(key cache.ObjectName, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(Tick-now.Sub(t.last[key]), time.Second)
}

// Forget drops a cluster that is gone.
func (t *Ticks) Forget(key cache.ObjectName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, key)
}
