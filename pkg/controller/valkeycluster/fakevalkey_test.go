package valkeycluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// fakeValkey has servers by address whose gossip needs no time. The real servers' habits are the
// planner's business and are tested there; here it is about the controller's order of things.
type fakeValkey struct {
	mu      sync.Mutex
	servers map[string]*fakeServer
	// commands are what was sent, but for reads, as "command pod".
	commands []string
	jobs     int
	fault    func(call string, done bool) error
}

type fakeServer struct {
	id      topology.NodeID
	ip      string
	epoch   uint64
	group   map[topology.NodeID]*fakeServer
	slots   slot.Set
	primary topology.NodeID
	version string
	jobs    []topology.Migration
}

func newFakeValkey() *fakeValkey { return &fakeValkey{servers: map[string]*fakeServer{}} }

// start is a new server with an empty directory.
func (f *fakeValkey) start(ip string, n int) {
	s := &fakeServer{id: topology.NodeID(fmt.Sprintf("%040d", n)), ip: ip, version: "9.1.2"}
	s.group = map[topology.NodeID]*fakeServer{s.id: s}
	f.servers[ip+":6379"] = s
}

func (f *fakeValkey) stop(ip string) { delete(f.servers, ip+":6379") }

func (f *fakeValkey) alive(s *fakeServer) bool { return s != nil && f.servers[s.ip+":6379"] == s }

// majority says whether more than half of the primaries with slots that s knows can vote.
func (f *fakeValkey) majority(s *fakeServer) bool {
	all, live := 0, 0
	for _, p := range s.group {
		if p.primary == "" && !p.slots.Empty() {
			all++
			if f.alive(p) {
				live++
			}
		}
	}
	return 2*live > all
}

func (s *fakeServer) role() topology.Role {
	if s.primary != "" {
		return topology.Replica
	}
	return topology.Primary
}

var errSilent = errors.New("connection refused")

func (f *fakeValkey) Look(_ context.Context, at Place) (topology.Server, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.servers[at.Addr]
	if s == nil {
		return topology.Server{}, errSilent
	}
	out := topology.Server{View: topology.View{Self: s.id}, Version: s.version, StateOK: true,
		LinkUp: s.primary != "" && f.alive(s.group[s.primary]), Migrations: s.jobs}
	ids := make([]topology.NodeID, 0, len(s.group))
	for id := range s.group {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		p := s.group[id]
		alive := f.alive(p)
		out.View.Peers = append(out.View.Peers, topology.Peer{
			ID: p.id, IP: p.ip, Port: 6379, BusPort: 16379, Role: p.role(), PrimaryID: p.primary,
			Epoch: p.epoch, Linked: alive, Failed: !alive, Slots: p.slots.Ranges(),
		})
		out.SlotsAssigned += p.slots.Len()
		if alive {
			out.SlotsOK += p.slots.Len()
		}
		out.CurrentEpoch = max(out.CurrentEpoch, p.epoch)
		if p.primary == s.id && alive {
			out.Followers = append(out.Followers, topology.Follower{IP: p.ip, Port: 6379, Online: true})
		}
	}
	out.StateOK = out.SlotsOK == slot.Count
	return out, nil
}

func (f *fakeValkey) Node(at Place, id topology.NodeID) Server { return fakeNode{f, at, id} }

type fakeNode struct {
	f  *fakeValkey
	at Place
	id topology.NodeID
}

// do is one command: a fault before, the deed, a fault after.
func (n fakeNode) do(command string, deed func(s *fakeServer) error) error {
	n.f.mu.Lock()
	defer n.f.mu.Unlock()
	s := n.f.servers[n.at.Addr]
	if s == nil {
		return &client.UnreachableError{Addr: n.at.Addr, Command: command, Err: errSilent}
	}
	if s.id != n.id {
		return &client.IdentityError{Addr: n.at.Addr, Want: n.id, Got: s.id}
	}
	n.f.commands = append(n.f.commands, command+" "+n.at.Pod)
	if n.f.fault != nil {
		if err := n.f.fault(command, false); err != nil {
			return err
		}
	}
	if err := deed(s); err != nil {
		return &client.ServerError{Command: command, Text: "ERR " + err.Error()}
	}
	if n.f.fault != nil {
		return n.f.fault(command, true)
	}
	return nil
}

func (n fakeNode) SetConfigEpoch(_ context.Context, epoch uint64) error {
	return n.do("SET-CONFIG-EPOCH", func(s *fakeServer) error {
		if len(s.group) > 1 || s.epoch != 0 {
			return errors.New("Node config epoch is already non-zero")
		}
		s.epoch = epoch
		return nil
	})
}

func (n fakeNode) Meet(_ context.Context, ip string, _, _ int) error {
	return n.do("MEET", func(s *fakeServer) error {
		other := n.f.servers[ip+":6379"]
		if other == nil {
			return nil
		}
		all := map[topology.NodeID]*fakeServer{}
		for _, group := range []map[topology.NodeID]*fakeServer{s.group, other.group} {
			for id, p := range group {
				all[id] = p
			}
		}
		for _, p := range all {
			p.group = all
		}
		return nil
	})
}

func (n fakeNode) AddSlots(_ context.Context, slots slot.Set) error {
	return n.do("ADDSLOTSRANGE", func(s *fakeServer) error {
		for _, p := range s.group {
			if both := p.slots.Intersect(slots); !both.Empty() {
				return errors.New("Slot is already busy")
			}
		}
		s.slots = s.slots.Union(slots)
		return nil
	})
}

func (n fakeNode) Replicate(_ context.Context, primary topology.NodeID) error {
	return n.do("REPLICATE", func(s *fakeServer) error {
		if s.group[primary] == nil {
			return errors.New("Unknown node " + string(primary))
		}
		if !s.slots.Empty() {
			return errors.New("to set a primary the node must be empty")
		}
		s.primary = primary
		return nil
	})
}

func (n fakeNode) Forget(_ context.Context, id topology.NodeID) error {
	return n.do("FORGET", func(s *fakeServer) error {
		if s.group[id] == nil {
			return errors.New("Unknown node " + string(id))
		}
		rest := map[topology.NodeID]*fakeServer{}
		for other, p := range s.group {
			if other != id {
				rest[other] = p
			}
		}
		s.group = rest
		return nil
	})
}

func (n fakeNode) Failover(_ context.Context, mode client.FailoverMode) error {
	return n.do(strings.TrimSpace("FAILOVER "+string(mode)), func(s *fakeServer) error {
		old := s.group[s.primary]
		if old == nil {
			return errors.New("I am not a replica")
		}
		if mode == client.Coordinated && !n.f.alive(old) {
			return errors.New("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
		}
		if mode != client.Takeover && !n.f.majority(s) {
			return nil // an election that nobody wins
		}
		for _, p := range s.group {
			s.epoch = max(s.epoch, p.epoch+1)
		}
		s.slots, old.slots = old.slots, slot.Set{}
		s.primary, old.primary = "", s.id
		for _, p := range s.group {
			if p != s && p.primary == old.id {
				p.primary = s.id
			}
		}
		return nil
	})
}

func (n fakeNode) MigrateSlots(_ context.Context, slots slot.Set, target topology.NodeID) error {
	return n.do("MIGRATESLOTS", func(s *fakeServer) error {
		other := s.group[target]
		if other == nil {
			return errors.New("Unknown node " + string(target))
		}
		s.slots, other.slots = s.slots.Minus(slots), other.slots.Union(slots)
		n.f.jobs++
		job := topology.Migration{Name: fmt.Sprint(n.f.jobs), Export: true, Source: s.id, Target: target,
			Slots: slots.Ranges(), State: topology.Success, Created: int64(n.f.jobs)}
		s.jobs = append([]topology.Migration{job}, s.jobs...)
		job.Export = false
		other.jobs = append([]topology.Migration{job}, other.jobs...)
		return nil
	})
}

func (n fakeNode) CancelMigrations(context.Context) error {
	return n.do("CANCELSLOTMIGRATIONS", func(*fakeServer) error { return errors.New("No migrations ongoing") })
}

func (n fakeNode) DumpFunctions(context.Context) ([]byte, error) { return []byte("dump"), nil }

func (n fakeNode) RestoreFunctions(context.Context, []byte) error {
	return n.do("FUNCTION RESTORE", func(*fakeServer) error { return nil })
}
