package plan

import (
	"cmp"
	"slices"
)

// dropExcess removes replicas above the target, one shard at a time: outdated ones first, then
// those on a host where the shard has another node, then by name.
func (p *picture) dropExcess() answer {
	for _, s := range p.shards {
		extra := len(s.usable()) - p.target.Replicas - 1
		if extra <= 0 || s.leaving() {
			continue
		}
		hosts := map[string]int{}
		for _, u := range s.usable() {
			hosts[u.node.Pod.Host]++
		}
		replicas := slices.DeleteFunc(slices.Clone(s.replicas), func(u *unit) bool {
			return u.node == nil || u.ending() || u.gone()
		})
		slices.SortStableFunc(replicas, func(a, b *unit) int {
			return cmp.Or(
				-compareBool(p.outdated(a), p.outdated(b)),
				-cmp.Compare(hosts[a.node.Pod.Host], hosts[b.node.Pod.Host]),
				-cmp.Compare(a.node.Name, b.node.Name))
		})
		var victims []Removal
		for _, u := range replicas[:min(extra, len(replicas))] {
			victims = append(victims, u.removal())
		}
		if len(victims) > 0 {
			return do(RemoveNodes{victims}, "shard %d has %d replicas too many", s.index, extra)
		}
	}
	return answer{}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// dropIdle removes nodes that belong to no shard and own nothing.
func (p *picture) dropIdle() answer {
	var victims []Removal
	for _, u := range p.idle {
		if !u.gone() && !u.node.Deleting && u.slots.Empty() {
			victims = append(victims, u.removal())
		}
	}
	if len(victims) == 0 {
		return answer{}
	}
	return do(RemoveNodes{victims}, "they belong to no shard")
}
