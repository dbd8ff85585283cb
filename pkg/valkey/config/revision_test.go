package config

import "testing"

// A changed value here would roll every node of every cluster: the computation
// of v1 never changes.
func TestRevisionsNeverChange(t *testing.T) {
	full := Inputs{
		Image: "valkey/valkey:9.1.2", CPU: "1", Memory: "2Gi",
		Valkey:       map[string]string{"maxmemory": "1500mb", "maxmemory-policy": "allkeys-lru", "save": ""},
		Zones:        []string{"zone-b", "zone-a"},
		NodeSelector: map[string]string{"pool": "cache"},
	}
	for _, c := range []struct {
		name string
		in   Inputs
		want string
	}{
		{"nothing", Inputs{}, "v1:8222c842adcb335d27a6716e41e66b5ff48fddca7e572ef914680d9a6c278436"},
		{"everything", full, "v1:c51b85b57dbb1f3d04cc08d5bdc59c95ff0e9f5258cf877e464f2b6bcbcad4ba"},
	} {
		if got := Revision(c.in); got != c.want {
			t.Errorf("%s: revision is %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRevisionsDifferExactlyWhenTheInputsDo(t *testing.T) {
	seen := map[string]int{}
	for i, in := range []Inputs{
		{}, {Image: "a"}, {CPU: "a"}, {Memory: "a"}, {CPU: "1", Memory: ""}, {CPU: "", Memory: "1"},
		{Valkey: map[string]string{"a": "b"}}, {Valkey: map[string]string{"ab": ""}},
		{Valkey: map[string]string{"a": "", "b": ""}}, {NodeSelector: map[string]string{"a": "b"}},
		{Zones: []string{"a"}}, {Zones: []string{"a", "b"}}, {Zones: []string{"ab"}}, {Zones: []string{""}},
		{Image: "1:a"}, {Valkey: map[string]string{"a": "b5:zones1:01:0"}}, {Zones: []string{"a1:b"}},
	} {
		r := Revision(in)
		if j, ok := seen[r]; ok {
			t.Errorf("inputs %d and %d have one revision", i, j)
		}
		seen[r] = i
	}
}

func TestZonesAreASetAndEmptyMapsAreNone(t *testing.T) {
	a := Inputs{Zones: []string{"x", "y", "x"}}
	b := Inputs{Zones: []string{"y", "x"}, Valkey: map[string]string{}, NodeSelector: map[string]string{}}
	if Revision(a) != Revision(b) {
		t.Error("order, repetition or an empty map made a difference")
	}
	if a.Zones[2] != "x" || b.Zones[0] != "y" {
		t.Error("the zones of the caller were sorted")
	}
}

func TestOnlyANodeOfAKnownKindIsOutdated(t *testing.T) {
	now := Inputs{Image: "new"}
	for revision, want := range map[string]bool{
		Revision(now):                  false,
		Revision(Inputs{Image: "old"}): true,
		"v1:":                          true,
		"v2:0123":                      false,
		"":                             false,
	} {
		if got := Outdated(revision, now); got != want {
			t.Errorf("outdated(%q) is %v, want %v", revision, got, want)
		}
	}
}
