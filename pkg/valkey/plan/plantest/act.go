package plantest

import (
	"fmt"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// act carries out a decision as the real actor does: in small parts, each for whom it names,
// the first error ends it. The operator may die before, amid or after the parts.
func (o *Operator) act(a plan.Action) {
	if o.planner.Act != nil {
		a = o.planner.Act(a)
	}
	parts := o.parts(a)
	until := len(parts)
	switch o.crash {
	case crashBefore:
		until = 0
	case crashAmid:
		until = len(parts) / 2
	}
	for _, part := range parts[:until] {
		if err := part(); err != nil {
			o.m.note("  refused: %v", err)
			break
		}
	}
	if o.crash != noCrash {
		o.dies(o.m.beats(1, 20))
	}
}

type part func() error

// parts are the API calls and commands of an action.
func (o *Operator) parts(a plan.Action) []part {
	switch a := a.(type) {
	case plan.Snapshot:
		return []part{func() error { o.snapshot = &a; return nil }}
	case plan.Complete:
		return []part{o.complete}
	case plan.CreateNodes:
		return each(a.Nodes, func(n plan.NewNode) error {
			o.m.create(n, o.Spec.Revisions[0], o.Spec.Restart)
			return nil
		})
	case plan.RemoveNodes:
		return each(a.Nodes, o.m.remove)
	case plan.SetLifecycle:
		return each(a.Nodes, func(n plan.NodeName) error { return o.m.setLifecycle(n, a.Lifecycle) })
	case plan.SetEpoch:
		return []part{o.command(a.ID, func(s *server) error { return s.setConfigEpoch(a.Epoch) })}
	case plan.Meet:
		return o.meet(a)
	case plan.Assign:
		return append([]part{o.command(a.Primary, func(s *server) error { return s.addSlots(a.Slots) })},
			o.introduce(a.Primary, a.Tell)...)
	case plan.Attach:
		return []part{o.command(a.Replica, func(s *server) error { return s.replicateFrom(a.Primary) })}
	case plan.Forget:
		return each(a.On, func(on topology.NodeID) error {
			return o.command(on, func(s *server) error {
				if n, _ := s.lookup(a.ID); n == nobody {
					return nil // done already
				}
				return s.forget(a.ID)
			})()
		})
	case plan.Failover:
		return []part{o.command(a.Replica, func(s *server) error { return s.failover(string(a.Mode)) })}
	case plan.MoveSlots:
		return each(a.Moves, func(v plan.Move) error {
			return o.command(v.From, func(s *server) error { return s.migrateSlots(v.Slots, v.To) })()
		})
	case plan.CancelMoves:
		return each(a.Sources, func(id topology.NodeID) error {
			return o.command(id, func(s *server) error { s.cancelMigrations(); return nil })()
		})
	case plan.CopyFunctions:
		return []part{o.command(a.From, func(from *server) error {
			return o.command(a.To, func(to *server) error { to.libraries = from.libraries; return nil })()
		})}
	}
	return nil
}

// complete makes the cluster Active, and then its users load their functions.
func (o *Operator) complete() error {
	o.snapshot, o.formed = nil, true
	for _, s := range o.m.servers {
		if s.running() {
			s.libraries = o.m.traits.Libraries
		}
	}
	return nil
}

func each[T any](list []T, do func(T) error) []part {
	var out []part
	for _, v := range list {
		out = append(out, func() error { return do(v) })
	}
	return out
}

// command sends something to the server with an ID, at the address of the node that has it: the
// server there is asked who it is first.
func (o *Operator) command(id topology.NodeID, do func(*server) error) part {
	return func() error {
		s, err := o.dial(id)
		if err != nil {
			return err
		}
		return do(s)
	}
}

func (o *Operator) dial(id topology.NodeID) (*server, error) {
	i := slices.IndexFunc(o.m.objects, func(obj *object) bool { return obj.knownID == id })
	if i < 0 || o.m.objects[i].shown == nil {
		return nil, fmt.Errorf("no node has the ID %s", id)
	}
	s, why := o.m.hears(o.m.objects[i])
	if s == nil {
		return nil, fmt.Errorf("%s does not answer: %s", id, why)
	}
	return s, nil
}

func (o *Operator) meet(a plan.Meet) []part {
	var out []part
	if a.Epoch > 0 {
		out = append(out, o.command(a.ID, func(s *server) error { return s.setConfigEpoch(a.Epoch) }))
	}
	return append(out, o.introduce(a.ID, a.With)...)
}

// introduce has a server shake hands with others.
func (o *Operator) introduce(id topology.NodeID, to []topology.NodeID) []part {
	return each(to, func(other topology.NodeID) error {
		with, err := o.dial(other)
		if err != nil {
			return err
		}
		return o.command(id, func(s *server) error { s.meet(with.ip); return nil })()
	})
}

// remove deletes a node and its pod; the pod's UID is a precondition.
func (m *Model) remove(r plan.Removal) error {
	obj := m.object(r.Node)
	switch {
	case obj == nil:
		return nil
	case obj.pod != nil && obj.pod.uid != r.PodUID && r.PodUID != "":
		return fmt.Errorf("the pod of %s is %s, not %s", r.Node, obj.pod.uid, r.PodUID)
	}
	obj.deleting = true
	return nil
}

func (m *Model) setLifecycle(name plan.NodeName, l plan.Lifecycle) error {
	obj := m.object(name)
	if obj == nil {
		return fmt.Errorf("node %s does not exist", name)
	}
	obj.lifecycle = l
	if l == plan.Active && obj.join == plan.JoinShard {
		obj.join = plan.JoinNone
	}
	return nil
}

// wake ends the operator's wait: an edit or a pod's change is an event.
func (o *Operator) wake() { o.next = min(o.next, o.m.now+time.Duration(Beat)) }
