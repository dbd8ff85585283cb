package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// awaitMoves waits for running migration jobs: an edit in the middle becomes the target
// of the next pass.
func (p *picture) awaitMoves() answer {
	for _, u := range p.core {
		for _, job := range u.server.Migrations {
			if job.Export && job.State == topology.Running {
				return wait(soon, "slots %s to move from %s to %s", slot.Join(job.Slots, ","), u.name(), p.nameOf(job.Target))
			}
		}
	}
	return answer{}
}

func (p *picture) nameOf(id topology.NodeID) string {
	if u := p.byID[id]; u != nil {
		return u.name()
	}
	return string(id)
}

// chooseLeaving keeps as many shards leaving as are too many: the smallest leave first, and
// where a scale-in is reverted, the largest come back.
func (p *picture) chooseLeaving() answer {
	leave := len(p.shards) - p.target.Shards // how many should be leaving
	leaving := p.leavingShards()
	bySize := slices.Clone(p.shards)
	slices.SortStableFunc(bySize, func(a, b *shard) int {
		return cmp.Or(cmp.Compare(a.slots().Len(), b.slots().Len()), cmp.Compare(b.index, a.index))
	})
	if leaving < leave {
		for _, s := range bySize {
			if !s.leaving() {
				return do(SetLifecycle{s.nodeNames(), Leaving}, "%d shards are wanted and shard %d is the smallest", p.target.Shards, s.index)
			}
		}
	}
	slices.Reverse(bySize)
	for _, s := range bySize {
		if leaving > max(leave, 0) && s.leaving() && !s.primary.node.Deleting {
			return do(SetLifecycle{s.nodeNames(), Active}, "%d shards are wanted again", p.target.Shards)
		}
	}
	return answer{}
}

// nodeNames lists the shard's ValkeyNodes in order.
func (s *shard) nodeNames() []NodeName {
	var out []NodeName
	for _, u := range s.all() {
		if u.node != nil && !u.node.Deleting {
			out = append(out, u.node.Name)
		}
	}
	slices.Sort(out)
	return out
}

// retireDrained removes the nodes of a leaving shard that owns nothing any more, and a leaving node that
// a staying shard has in its place: an interrupted scale-in leaves one.
func (p *picture) retireDrained() answer {
	for _, s := range p.shards {
		candidates := s.all()
		switch {
		case !s.leaving():
			candidates = slices.Concat(s.replicas, s.coming)
		case !s.slots().Empty():
			continue
		}
		var gone []Removal
		for _, u := range candidates {
			if u.node != nil && !u.node.Deleting && u.node.Lifecycle == Leaving {
				gone = append(gone, u.removal())
			}
		}
		switch {
		case len(gone) > 0:
			return do(RemoveNodes{gone}, "they are leaving and own nothing (shard %d)", s.index)
		case s.leaving():
			return wait(soon, "the nodes of drained shard %d to end", s.index)
		}
	}
	return answer{}
}

// rebalance moves slots until shards differ by at most one and leaving shards have none. It
// moves no slot that need not move, in one job per source and target.
func (p *picture) rebalance() answer {
	moves := p.moves()
	if len(moves) == 0 {
		return answer{}
	}
	var ready []Move
	var waiting answer
	for _, m := range moves {
		tried := p.obs.attempts("SlotsUneven", m.pair())
		if pause := movePause(tried.Count); tried.Ago < pause {
			waiting = wait(min(pause-tried.Ago, later), "the next try to move slots from %s to %s after %d failures: %s",
				p.nameOf(m.From), p.nameOf(m.To), tried.Count, tried.Message)
			continue
		}
		// After failures, fewer slots at once: what keeps failing is found that way.
		m.Slots = m.Slots.Take(max(m.Slots.Len()>>min(tried.Count, 14), 1))
		ready = append(ready, m)
	}
	if len(ready) == 0 {
		return waiting
	}
	for _, m := range ready {
		if a := p.copyFunctions(p.byID[m.To]); a.action != nil {
			return a
		}
	}
	return do(MoveSlots{ready}, "%d slots are not where they belong", total(ready))
}

// movePause is how long the next try waits after a number of failed migrations between a pair.
func movePause(failures int) time.Duration { return backoff(failures, time.Second, time.Minute) }

func (m Move) pair() string { return fmt.Sprintf("%s>%s", m.From, m.To) }

func total(moves []Move) int {
	n := 0
	for _, m := range moves {
		n += m.Slots.Len()
	}
	return n
}

// moves is the whole plan, deterministic and minimal: shards keep what they may keep, the
// largest shards keep the odd slots, sources give in order to targets in order.
func (p *picture) moves() []Move {
	var staying []*shard
	for _, s := range p.shards {
		if !s.leaving() && s.primary.core {
			staying = append(staying, s)
		}
	}
	if len(staying) == 0 {
		return nil
	}
	slices.SortStableFunc(staying, func(a, b *shard) int { return cmp.Compare(b.slots().Len(), a.slots().Len()) })
	share := map[*shard]int{}
	for i, s := range staying {
		share[s] = slot.Share(i, len(staying))
	}
	type want struct {
		s *shard
		n int
	}
	var wants []want
	for _, s := range p.shards {
		if n := share[s] - s.slots().Len(); n > 0 {
			wants = append(wants, want{s, n})
		}
	}
	var out []Move
	for _, s := range p.shards {
		left := *s.slots()
		for surplus := left.Len() - share[s]; surplus > 0 && len(wants) > 0; {
			w := &wants[0]
			piece := left.Take(min(surplus, w.n))
			n := piece.Len()
			out = append(out, Move{From: s.primary.id, To: w.s.primary.id, Slots: piece})
			left, surplus, w.n = left.Minus(piece), surplus-n, w.n-n
			if w.n == 0 {
				wants = wants[1:]
			}
		}
	}
	return out
}

// copyFunctions brings function libraries to a new shard before its first slots: they do not
// move with them, and a shard that took the place of a lost one has none either. Later they are
// the users': whoever lacks one then may have been told to delete it.
func (p *picture) copyFunctions(to *unit) answer {
	if !to.slots.Empty() {
		return answer{}
	}
	var loading *unit
	known := false
	for _, s := range p.shards {
		from := s.keeper()
		switch {
		case from == nil || s.slots().Empty():
		case from.server.Loading:
			loading = from
		case to.server.Libraries < from.server.Libraries:
			return do(CopyFunctions{From: from.id, To: to.id}, "%s lacks function libraries", to.name())
		default:
			known = true
		}
	}
	if loading != nil && !known {
		return wait(soon, "%s to load: no other node of a shard can tell which function libraries there are", loading.name())
	}
	return answer{}
}

// keeper is who has the shard's functions: its primary, or the replica that will take the place of
// one that is lost; nil if there is neither. While it loads it does not know what it has.
func (s *shard) keeper() *unit {
	if s.primary.core {
		return s.primary
	}
	if best := s.best(); best != nil {
		return best
	}
	for _, u := range s.replicas {
		if u.core {
			return u
		}
	}
	return nil
}

// addShards creates the nodes of shards that are wanted in addition.
func (p *picture) addShards() answer { return p.create(p.missing(JoinShard)) }
