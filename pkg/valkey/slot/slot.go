// Package slot has ranges and sets of hash slots: values without IO.
//
// A Valkey cluster spreads its keys over 16384 hash slots, numbered 0 to 16383
// (Valkey cluster specification, "Key distribution model").
package slot

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Count is the number of hash slots in every Valkey cluster.
const Count = 16384

// Range is a run of hash slots, both ends included; 0 <= First <= Last < Count.
type Range struct{ First, Last int }

// Len is the number of slots in the range.
func (r Range) Len() int { return r.Last - r.First + 1 }

// String is the form that CLUSTER NODES uses: "0-5460", or "7" for one slot.
func (r Range) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// ParseRange reads "0-5460" or "7". It refuses ends out of bounds or in the wrong order.
func ParseRange(text string) (Range, error) {
	first, last, two := strings.Cut(text, "-")
	if !two {
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	if errA != nil || errB != nil || a < 0 || b < a || b >= Count {
		return Range{}, fmt.Errorf("slot range %q: want N or N-M with 0 <= N <= M < %d", text, Count)
	}
	return Range{a, b}, nil
}

// Set is a set of hash slots. The zero value is empty; a Set is a value: two
// sets are equal if and only if they hold the same slots (==), and methods never change
// their receiver.
type Set struct{ words [Count / 64]uint64 }

// All is the set of all 16384 slots.
func All() Set { return Of(Range{0, Count - 1}) }

// Of is the union of the ranges. Parts out of bounds are left out.
func Of(ranges ...Range) Set {
	var s Set
	for _, r := range ranges {
		// A word at a time: a look at a large cluster makes thousands of sets.
		first, last := max(r.First, 0), min(r.Last, Count-1)
		for first <= last {
			end := min(first|63, last)
			s.words[first/64] |= ^uint64(0) >> (63 - (end - first)) << (first % 64)
			first = end + 1
		}
	}
	return s
}

// Has says whether slot n is in the set.
func (s *Set) Has(n int) bool {
	return n >= 0 && n < Count && s.words[n/64]&(1<<(n%64)) != 0
}

// Len is the number of slots in the set, 0 to 16384.
func (s *Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty says whether the set has no slot.
func (s *Set) Empty() bool { return *s == Set{} }

// Union is the set of slots in s or t.
func (s Set) Union(t Set) Set {
	for i := range s.words {
		s.words[i] |= t.words[i]
	}
	return s
}

// Minus is the set of slots in s and not in t.
func (s Set) Minus(t Set) Set {
	for i := range s.words {
		s.words[i] &^= t.words[i]
	}
	return s
}

// Intersect is the set of slots in both s and t.
func (s Set) Intersect(t Set) Set {
	for i := range s.words {
		s.words[i] &= t.words[i]
	}
	return s
}

// Ranges lists the set as the fewest ranges, in ascending order.
func (s Set) Ranges() []Range {
	var out []Range
	for n := 0; n < Count; n++ {
		if s.words[n/64] == 0 { // skip 64 slots at once: most sets are few long runs
			n |= 63
			continue
		}
		if !s.Has(n) {
			continue
		}
		first := n
		for s.Has(n + 1) {
			n++
		}
		out = append(out, Range{first, n})
	}
	return out
}

// Take splits off up to n slots. It takes whole ranges where it can, the
// largest ranges first, so that both halves stay in few pieces; a range that is
// larger than what is still wanted is cut from its end. The order is
// deterministic: of two ranges of one size the lower is taken first.
func (s Set) Take(n int) Set {
	var out Set
	for n > 0 && !s.Empty() {
		best := Range{0, -1}
		for _, r := range s.Ranges() {
			fits, bestFits := r.Len() <= n, best.Len() <= n
			switch {
			case best.Len() == 0,
				fits && !bestFits,
				fits && bestFits && r.Len() > best.Len(),
				!fits && !bestFits && r.Len() < best.Len():
				best = r
			}
		}
		if best.Len() > n {
			best.First = best.Last - n + 1
		}
		piece := Of(best)
		out, s, n = out.Union(piece), s.Minus(piece), n-best.Len()
	}
	return out
}

// First splits off the n lowest slots of the set.
func (s Set) First(n int) Set {
	var out Set
	for _, r := range s.Ranges() {
		if n <= 0 {
			break
		}
		r.Last = min(r.Last, r.First+n-1)
		out, n = out.Union(Of(r)), n-r.Len()
	}
	return out
}

// String lists the ranges with commas: "0-5460,5462"; the empty set is "none".
func (s Set) String() string { return Join(s.Ranges(), ",") }

// Join writes ranges with a separator between them; none at all is "none".
func Join(ranges []Range, separator string) string {
	if len(ranges) == 0 {
		return "none"
	}
	parts := make([]string, len(ranges))
	for i, r := range ranges {
		parts[i] = r.String()
	}
	return strings.Join(parts, separator)
}

// Parse reads what String writes.
func Parse(text string) (Set, error) {
	var s Set
	if text == "" || text == "none" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := ParseRange(part)
		if err != nil {
			return Set{}, err
		}
		s = s.Union(Of(r))
	}
	return s, nil
}

// Share is how many slots shard i of n holds in an even layout: counts differ
// by at most one and the first shards hold the odd ones. n must be positive.
func Share(i, n int) int {
	share := Count / n
	if i < Count%n {
		share++
	}
	return share
}
