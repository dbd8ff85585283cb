package slot

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRangesAndTextComeBackAsTheSameSet(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Set
		for range random.IntN(9) {
			first := random.IntN(Count)
			s = s.Union(Of(Range{first, min(Count-1, first+random.IntN(3000))}))
		}
		back, err := Parse(s.String())
		if err != nil || back != s || Of(s.Ranges()...) != s {
			t.Fatalf("set %s came back as %s (%v)", s, back, err)
		}
		total := 0
		for _, r := range s.Ranges() {
			total += r.Len()
		}
		if total != s.Len() {
			t.Fatalf("set %s: ranges hold %d slots, Len says %d", s, total, s.Len())
		}
	}
}

func TestParseRefusesWhatIsNoSlotRange(t *testing.T) {
	for _, text := range []string{"-1", "16384", "5-4", "a", "1-b", "1,,2", "0-16384", "1-2-3"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %s, want an error", text, s)
		}
	}
}

func TestTakeKeepsPiecesFewAndCountsExact(t *testing.T) {
	for _, c := range []struct {
		from string
		n    int
		want string
	}{
		{"0-99", 10, "90-99"},
		{"0-99", 100, "0-99"},
		{"0-99", 200, "0-99"},
		{"0-99,200-209", 10, "200-209"},
		{"0-99,200-209", 15, "95-99,200-209"},
		{"0-9,20-29,40-49", 20, "0-9,20-29"},
		{"none", 5, "none"},
	} {
		from, err := Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := from.Take(c.n).String(); got != c.want {
			t.Errorf("%s Take(%d) = %s, want %s", c.from, c.n, got, c.want)
		}
	}
}

func TestSetAlgebra(t *testing.T) {
	a, b := Of(Range{0, 99}), Of(Range{50, 149})
	got := []string{a.Union(b).String(), a.Minus(b).String(), a.Intersect(b).String(), a.First(3).String()}
	if d := cmp.Diff([]string{"0-149", "0-49", "50-99", "0-2"}, got); d != "" {
		t.Error(d)
	}
	if all := All(); all.Len() != Count {
		t.Errorf("All has %d slots", all.Len())
	}
}

func TestSharesAreEvenAndCoverAllSlots(t *testing.T) {
	for n := 1; n <= 300; n++ {
		total := 0
		for i := range n {
			total += Share(i, n)
			if d := Share(0, n) - Share(i, n); d < 0 || d > 1 {
				t.Fatalf("shares of %d shards differ by %d", n, d)
			}
		}
		if total != Count {
			t.Fatalf("shares of %d shards sum up to %d", n, total)
		}
	}
}

func TestASetOfARangeHasItsSlotsAndNoOthers(t *testing.T) {
	for _, r := range []Range{{0, 0}, {0, 63}, {0, 64}, {1, 62}, {63, 64}, {64, 127}, {70, 300}, {16383, 16383}, {16320, 16383}, {-5, 3}, {16380, 20000}, {9, 8}} {
		s := Of(r)
		for n := range Count {
			if want := n >= r.First && n <= r.Last; s.Has(n) != want {
				t.Fatalf("slot %d in the set of %v: %t", n, r, s.Has(n))
			}
		}
	}
}
