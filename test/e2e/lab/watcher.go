package lab

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// every is the time between two samples of a Watcher.
const every = 300 * time.Millisecond

// Failover is a change of a shard's primary to one of its replicas.
type Failover struct {
	At         time.Time
	ShardIndex int32
	From, To   string // ValkeyNode names
}

// Watcher looks at a cluster all the time, from its creation to its deletion, and asserts what the operator may do on
// the way (issue: in-flight order). As soon as the cluster has been settled once:
//
//   - a node that the operator retires owns no slot, and its shard has its full count of replicas in sync without it;
//   - while it is retired, no other shard lacks a replica;
//   - all 16384 slots have an answering owner, at every moment;
//   - at most one failover a shard between two calls of Settled.
//
// A test that breaks something itself says so with Fault: until the next Settled, repairs are allowed.
type Watcher struct {
	cluster *Cluster
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu        sync.Mutex
	armed     bool // settled once
	fault     bool
	last      Sample
	failovers []Failover // since Settled
	retired   []string   // since Settled
	gap       int        // samples in a row without full coverage
	covered   bool
	broken    []string
}

func (c *Cluster) watch() *Watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watcher{cluster: c, cancel: cancel}
	w.done.Go(func() { w.sampleAll(ctx) })
	w.done.Go(func() { w.followNodes(ctx) })
	return w
}

func (w *Watcher) stop() {
	w.cancel()
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkFailovers()
	if len(w.broken) > 0 {
		w.cluster.T.Errorf("the watcher of %s saw:\n  %s", w.cluster.Name, strings.Join(w.broken, "\n  "))
		w.broken = nil
	}
}

// Settled says that the cluster is whole: what the operator disturbs from now on must be in order.
func (w *Watcher) Settled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkFailovers()
	w.armed, w.fault, w.failovers, w.retired, w.gap = true, false, nil, nil, 0
}

// Fault says that the test itself breaks something from now on, until Settled.
func (w *Watcher) Fault() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = true
}

// Failovers lists the changes of primaries since Settled.
func (w *Watcher) Failovers() []Failover {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Failover(nil), w.failovers...)
}

// Retired lists the ValkeyNodes that were deleted since Settled.
func (w *Watcher) Retired() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.retired...)
}

// The caller holds the lock.
func (w *Watcher) note(format string, args ...any) {
	if len(w.broken) < 20 {
		w.broken = append(w.broken, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// The caller holds the lock.
func (w *Watcher) checkFailovers() {
	if !w.armed || w.fault {
		return
	}
	count := map[int32]int{}
	for _, f := range w.failovers {
		if count[f.ShardIndex]++; count[f.ShardIndex] == 2 {
			w.note("shard index %d had more than one failover: %+v", f.ShardIndex, w.failovers)
		}
	}
}

func (w *Watcher) sampleAll(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := w.cluster.Look()
		if err != nil || ctx.Err() != nil {
			continue // not created yet
		}
		w.compare(s)
	}
}

// compare records failovers since the last sample, and holes in the coverage.
func (w *Watcher) compare(s Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range s.Primaries() {
		before := w.last.Node(p.Name())
		if before == nil || before.Err != nil || before.Server.View.Me().PrimaryID == "" {
			continue
		}
		from := string(before.Server.View.Me().PrimaryID)
		if old := w.last.ByID(before.Server.View.Me().PrimaryID); old != nil {
			from = old.Name()
		}
		w.failovers = append(w.failovers, Failover{s.At, p.Object.Spec.ShardIndex, from, p.Name()})
	}
	owned := s.Owned()
	switch {
	case owned == slot.All():
		w.gap, w.covered = 0, true
	case w.armed && !w.fault:
		// A look is not one moment: during a failover it may catch both sides as replicas, once.
		if w.gap++; w.gap == 3 {
			w.note("only %d slots have an answering owner", owned.Len())
		}
	}
	w.last = s
}

// followNodes sees each deletion of a ValkeyNode when it happens.
func (w *Watcher) followNodes(ctx context.Context) {
	c := w.cluster
	seen := map[string]bool{}
	for ctx.Err() == nil {
		events, err := c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyNodes(c.Site.Name).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			time.Sleep(every)
			continue
		}
		for event := range events.ResultChan() {
			n, ok := event.Object.(*valkeyv1alpha1.ValkeyNode)
			if !ok || n.Spec.ClusterName != c.Name || seen[string(n.UID)] {
				continue
			}
			if n.DeletionTimestamp != nil || event.Type == watch.Deleted {
				seen[string(n.UID)] = true
				w.retire(n.Name)
			}
		}
		events.Stop()
	}
}

// retire judges a deletion by the operator: by the last sample before it, and by one right after it.
func (w *Watcher) retire(name string) {
	got, err := w.cluster.get()
	if err != nil || got.DeletionTimestamp != nil {
		return
	}
	after, err := w.cluster.Look()
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired = append(w.retired, name)
	n := w.last.Node(name)
	if !w.armed || w.fault || n == nil || n.Err != nil || n.Pod == nil || n.Pod.Status.Phase != corev1.PodRunning || n.Pod.DeletionTimestamp != nil {
		return // it was no live member: nothing was disturbed
	}
	if now := after.Node(name); now != nil && now.Err == nil {
		n = now
	}
	// A move takes less time than lies between two samples: what others own by now was not taken with it.
	slots := n.Slots()
	for _, other := range after.Nodes {
		if other.Name() != name && other.Err == nil {
			slots = slots.Minus(other.Slots())
		}
	}
	if !slots.Empty() {
		w.note("%s was deleted while it owned %d slots", name, slots.Len())
	}
	replicas := int(got.Spec.ReplicasPerShard)
	for _, p := range after.Primaries() {
		synced := 0
		for _, r := range after.InSync(p) {
			if r.Name() != name {
				synced++
			}
		}
		if synced < replicas {
			w.note("%s was deleted while %s (shard index %d) had %d of %d replicas in sync without it: %s",
				name, p.Name(), p.Object.Spec.ShardIndex, synced, replicas, after.describe(p))
		}
	}
}

func (s Sample) describe(primary *Node) string {
	var out []string
	for _, r := range s.Replicas(primary) {
		out = append(out, fmt.Sprintf("%s: %v", r.Name(), lag(primary, r)))
	}
	return strings.Join(out, "; ")
}
