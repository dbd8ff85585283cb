package plantest

import "time"

// How Kubernetes deals with lost nodes (kube-controller-manager's defaults).
const (
	hostGrace  = 40 * time.Second  // silent that long, a node is NotReady and so are its pods
	evictAfter = 300 * time.Second // NotReady that long, its pods are deleted
	podGrace   = 30 * time.Second  // terminationGracePeriodSeconds
)

// host is a Kubernetes node.
type host struct {
	name     string
	n        int
	up       bool // the machine runs
	ready    bool // by the API server's word
	cutUntil time.Duration
	lostAt   time.Duration // since when its kubelet is not heard
	backAt   time.Duration // when a machine that is down starts again; 0: never
}

// cut says whether its network link is down.
func (h *host) cut(now time.Duration) bool { return now < h.cutUntil }

// heard says whether its kubelet talks to the API server.
func (h *host) heard(now time.Duration) bool { return h.up && !h.cut(now) }

func (m *Model) tickHosts() {
	for _, h := range m.hosts {
		if !h.up && h.backAt > 0 && m.now >= h.backAt {
			h.up = true
		}
		if h.heard(m.now) {
			h.lostAt = 0
			h.ready = true
			continue
		}
		if h.lostAt == 0 {
			h.lostAt = m.now
		}
		h.ready = m.now-h.lostAt < hostGrace
		if m.now-h.lostAt >= hostGrace+evictAfter {
			m.evict(h)
		}
	}
}

// evict marks the pods of a lost node for deletion; nobody is there to end them.
func (m *Model) evict(h *host) {
	for _, o := range m.objects {
		if o.pod != nil && o.pod.host == h.n && o.pod.phase.live() && !o.pod.deleting {
			m.note("pod %s is evicted from lost node %s", o.name, h.name)
			o.pod.delete(m.now)
		}
	}
}

// place picks the host for a pod: one that is ready, with the fewest pods of its shard, then the
// fewest pods at all (spread constraints, contract §2).
func (m *Model) place(shard int) *host {
	var best *host
	var bestLoad [2]int
	for _, h := range m.hosts {
		if !h.ready || !h.up {
			continue
		}
		var load [2]int
		for _, o := range m.objects {
			if o.pod != nil && o.pod.host == h.n && o.pod.phase.live() {
				load[1]++
				if o.shard == shard {
					load[0]++
				}
			}
		}
		if best == nil || load[0] < bestLoad[0] || load[0] == bestLoad[0] && load[1] < bestLoad[1] {
			best, bestLoad = h, load
		}
	}
	return best
}
