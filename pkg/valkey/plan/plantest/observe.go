package plantest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

const clientPort, busPort = 6379, 16379

// Observe is what the operator finds: its own objects at once, pods as its cache has them, and
// the words of the servers that it reaches.
func (m *Model) Observe() []plan.Node {
	var out []plan.Node
	taken := map[*server]bool{}
	for _, o := range m.objects {
		n := plan.Node{
			Name: o.name, Shard: o.shard, Lifecycle: o.lifecycle, Join: o.join, Revision: o.revision,
			Restart: o.restart, Deleting: o.deleting, KnownID: o.knownID, Pod: m.podFacts(o.shown),
		}
		if o.refused {
			n.Pod.Reason = "exceeded quota"
		}
		if s, why := m.hears(o); why != "" {
			n.Silence = why
		} else if s != nil && !taken[s] {
			taken[s] = true
			n.Server = s.look()
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// hears is the server that answers for a node, or why none does.
func (m *Model) hears(o *object) (*server, string) {
	if o.shown == nil || o.shown.phase != phase(plan.PodRunning) || o.shown.ip == "" {
		return nil, ""
	}
	s := m.at(o.shown.ip)
	switch {
	case m.podFacts(o.shown).Gone():
		return nil, ""
	case s != nil && s.object == nil:
		return nil, "WRONGPASS" // another cluster's server has another password
	case s == nil || !m.reaches(s) || m.now < m.operatorCutFrom[s.host]:
		return nil, "i/o timeout"
	case m.now < s.answersAt:
		return nil, "connection refused"
	case o.knownID != "" && s.id != o.knownID:
		return nil, fmt.Sprintf("server %s answers at its address", s.id)
	case o.knownID == "" && o.shown.server != s:
		return nil, "its address answers for another node too"
	}
	return s, ""
}

func (m *Model) podFacts(p *pod) plan.Pod {
	if p == nil {
		return plan.Pod{Phase: plan.PodNone}
	}
	if p.phase == phase(plan.PodAbsent) {
		return plan.Pod{UID: p.uid, Phase: plan.PodAbsent}
	}
	out := plan.Pod{UID: p.uid, Phase: plan.Phase(p.phase), Deleting: p.deleting, Reason: p.reason, Crashed: p.crashed, IP: p.ip}
	if p.host != nobody {
		out.Host = m.hosts[p.host].name
		out.Ready = p.phase == phase(plan.PodRunning) && m.hosts[p.host].ready
	}
	if p.deleting {
		out.Overdue = max(m.now-p.deadline, 0)
	}
	if !p.phase.live() {
		out.EndedFor = m.now - p.endedAt
	}
	return out
}

// look is the server's own word.
func (s *server) look() *topology.Server {
	m := s.m
	ok, assigned, fine := s.health()
	out := &topology.Server{
		View: s.words(), Version: s.version, StateOK: ok, SlotsAssigned: assigned, SlotsOK: fine,
		CurrentEpoch: s.current, Offset: s.offset, Saving: m.now < s.childUntil, Loading: s.loading, Keys: s.keys(),
		UsedMemory: 1 << 20, Libraries: s.libraries,
	}
	if !s.primary() {
		out.LinkUp, out.Syncing = s.linkUp, s.syncing
		if !s.linkUp {
			out.LinkDownFor = m.now - s.downSince
		}
	}
	for _, r := range m.servers {
		if r.running() && r.following == s.n && (r.linkUp || r.syncing) {
			out.Followers = append(out.Followers, topology.Follower{IP: r.ip, Port: clientPort, Online: r.linkUp, Offset: r.offset})
		}
	}
	for _, j := range s.jobs {
		out.Migrations = append(out.Migrations, topology.Migration{
			Name: j.name, Export: j.source == s, Source: j.source.id, Target: j.target.id, Slots: j.slots.Ranges(),
			State: j.state, Created: int64(j.created / time.Second), Updated: int64(j.updated / time.Second), Message: j.message,
		})
	}
	return out
}

// words is the server's CLUSTER NODES.
func (s *server) words() topology.View {
	m := s.m
	v := topology.View{Self: s.id, Peers: make([]topology.Peer, 0, len(s.view)+len(s.greetings))}
	for n, p := range s.view {
		if p == nil {
			continue
		}
		out := topology.Peer{
			ID: m.servers[n].id, IP: p.ip, Port: clientPort, BusPort: busPort, Role: topology.Primary,
			Failing: p.pfail && !p.fail, Failed: p.fail, NoAddr: p.noaddr, Epoch: p.epoch,
			Linked: p.linked || n == s.n, Slots: p.slots.ranges,
		}
		if p.replica {
			out.Role = topology.Replica
			if q := s.peer(p.of); q != nil {
				out.PrimaryID, out.Epoch = m.servers[p.of].id, q.epoch
			}
		}
		v.Peers = append(v.Peers, out)
	}
	for i, g := range s.greetings {
		v.Peers = append(v.Peers, topology.Peer{
			ID: topology.NodeID(fmt.Sprintf("%s?%d", s.id, i)), IP: g.ip, Port: clientPort, BusPort: busPort,
			Role: topology.Primary, Handshake: true,
		})
	}
	slices.SortFunc(v.Peers, func(a, b topology.Peer) int { return cmp.Compare(a.ID, b.ID) })
	return v
}
