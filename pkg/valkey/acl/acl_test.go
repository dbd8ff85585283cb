package acl

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	hashA = strings.Repeat("a1", 32)
	hashB = strings.Repeat("b2", 32)
	roles = map[string]Role{
		"reader": {Categories: []Category{{Name: "read"}}},
		"app": {
			Categories: []Category{{Name: "read"}, {Name: "write"}, {Name: "dangerous", Deny: true}},
			Commands: []Command{
				{Name: "keys", Deny: true}, {Name: "config", Subcommand: "get"},
				{Name: "config", Subcommand: "set", Deny: true}, {Name: "FLUSHALL"},
			},
		},
		"nothing": {},
	}
)

func input(config, cluster []Binding) Input {
	return Input{Config: config, Cluster: cluster, Roles: roles, OperatorPassword: "op", ReplPassword: "re"}
}

func binding(name, role string) Binding {
	return Binding{Username: name, PasswordHashes: []string{hashA}, Permissions: []Permission{{Role: role, Keys: []Key{{Pattern: "*"}}}}}
}

func TestEachFormIsWrittenExactlySo(t *testing.T) {
	for name, in := range map[string]Input{
		"no-bindings": input(nil, nil),
		"config-then-cluster": input(
			[]Binding{binding("zoe", "reader"), binding("adam", "app")},
			[]Binding{binding("mike", "nothing")}),
		"bound-default": input([]Binding{binding("default", "reader")}, []Binding{binding("eve", "app")}),
		"everything": input([]Binding{{
			Username: "app-user_1", PasswordHashes: []string{hashA, hashB},
			Permissions: []Permission{
				{Role: "app", Keys: []Key{{"a:*", ReadWrite}, {"b:[x]?", Read}, {`c:\*`, Write}, {"d:é", ""}}, Channels: []string{"news:*", "x"}},
				{Role: "reader", Keys: []Key{{"open:*", Read}}},
				{Role: "nothing", Keys: []Key{{"p(1)", Write}}, Channels: []string{"(c)"}},
				{Role: "reader", Keys: []Key{{"a", Read}, {"*", Read}, {"*", ReadWrite}, {"b", Read}}, Channels: []string{"c", "*", "d"}},
			},
		}}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Render(in)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".acl")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeRenderedIsToldInTheseWords(t *testing.T) {
	long := make([]Binding, 0, 64)
	for i := range 64 {
		b := Binding{Username: fmt.Sprint("u", i)}
		for range 16 {
			p := Permission{Role: "reader"}
			for range 16 {
				p.Keys = append(p.Keys, Key{Pattern: strings.Repeat("k", 64)})
			}
			b.Permissions = append(b.Permissions, p)
		}
		long = append(long, b)
	}
	with := func(change func(*Binding)) Input {
		b := binding("u", "reader")
		change(&b)
		return input([]Binding{b}, nil)
	}
	for want, in := range map[string]Input{
		`duplicate username "eve" in merged ACL bindings`:                                            input([]Binding{binding("eve", "app")}, []Binding{binding("eve", "app")}),
		`duplicate username "bob" in merged ACL bindings`:                                            input(nil, []Binding{binding("bob", "app"), binding("bob", "app")}),
		`ValkeyRole "ghost" not found (referenced by user "eve")`:                                    input([]Binding{binding("eve", "ghost")}, nil),
		`username "_momento_repl": the prefix _momento_ is reserved`:                                 input([]Binding{binding("_momento_repl", "app")}, nil),
		`username "a b" is not a word`:                                                               input([]Binding{binding("a b", "app")}, nil),
		`username "" is not a word`:                                                                  input([]Binding{binding("", "app")}, nil),
		`user "u": "~a\nuser x on" has a space, a quote or a control character`:                      with(func(b *Binding) { b.Permissions[0].Keys[0].Pattern = "a\nuser x on" }),
		`user "u": "&a b" has a space, a quote or a control character`:                               with(func(b *Binding) { b.Permissions[0].Channels = []string{"a b"} }),
		`user "u": "#x\"" has a space, a quote or a control character`:                               with(func(b *Binding) { b.PasswordHashes[0] = `x"` }),
		`users.acl would have 1112580 bytes, the limit is 921600: use fewer bindings or permissions`: input(long, nil),
	} {
		if text, err := Render(in); err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s; text has %d bytes", err, want, len(text))
		}
	}
}

func TestAMaximalClusterFits(t *testing.T) {
	var all []Binding
	for i := range 64 {
		b := Binding{Username: fmt.Sprint("u", i), PasswordHashes: []string{hashA, hashA, hashA, hashA, hashA, hashA, hashA, hashA}}
		for range 16 {
			p := Permission{Role: "app"}
			for range 16 {
				p.Keys = append(p.Keys, Key{Pattern: "12345678", Access: Read})
			}
			b.Permissions = append(b.Permissions, p)
		}
		all = append(all, b)
	}
	if _, err := Render(input(all, nil)); err != nil {
		t.Error(err)
	}
}

func TestTheRevisionIsTheHashOfAllLinesAboveIt(t *testing.T) {
	text, err := Render(input(nil, []Binding{binding("eve", "app")}))
	if err != nil {
		t.Fatal(err)
	}
	above, last, ok := strings.Cut(text, "user _momento_rev off #")
	if !ok || last != hash(above)+"\n" {
		t.Errorf("the last line is %q", last)
	}
	if got := Revision(text); got != hash(above) {
		t.Errorf("Revision is %q", got)
	}
	for _, other := range []string{"", "\n", "user a on", above} {
		if got := Revision(other); got != "" {
			t.Errorf("Revision(%q) is %q", other, got)
		}
	}
}

func TestARotationHasBothPasswordsInForceAndNoOrderAmongThem(t *testing.T) {
	render := func(op, otherOp, re, otherRe string) string {
		in := input(nil, nil)
		in.OperatorPassword, in.OtherOperatorPassword, in.ReplPassword, in.OtherReplPassword = op, otherOp, re, otherRe
		text, err := Render(in)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before, during, after := render("op", "", "re", ""), render("op", "op2", "re", "re2"), render("op2", "", "re2", "")
	for _, password := range []string{"op", "re", "op2", "re2"} {
		if !strings.Contains(during, "#"+hash(password)) {
			t.Errorf("%s is not in force during the rotation:\n%s", password, during)
		}
	}
	if during == before || during == after || before == after {
		t.Error("the steps do not differ")
	}
	if diff := cmp.Diff(during, render("op2", "op", "re2", "re")); diff != "" {
		t.Errorf("the order of two passwords makes a difference:\n%s", diff)
	}
	if diff := cmp.Diff(before, render("op", "op", "re", "re")); diff != "" {
		t.Errorf("a password that is its own other is written twice:\n%s", diff)
	}
}

func TestRenderDoesNotTouchItsInput(t *testing.T) {
	config := make([]Binding, 1, 4)
	config[0] = binding("a", "app")
	if _, err := Render(input(config, []Binding{binding("b", "app")})); err != nil {
		t.Fatal(err)
	}
	if extra := config[:2][1].Username; extra != "" {
		t.Errorf("the caller's slice was appended to: %q", extra)
	}
}

func TestAPatternInASelectorNeverEndsTheSelector(t *testing.T) {
	for pattern, want := range map[string]string{
		"":         "",
		"a":        "a",
		"(a":       "(a",
		")a":       ")a",
		"a)":       "a[)]",
		"))":       ")[)]",
		`a\)`:      "a[)]",
		`a\\)`:     `a\\[)]`,
		"[a)":      "[a)]",
		"[^)":      "[^)]",
		`[\)`:      `[\)]`,
		`[\])`:     `[\])]`,
		"[a])":     "[a][)]",
		"[a-)":     "[a-)]",
		"[a-])":    "[a-])]",
		"[])":      "[][)]",
		"[^])":     "[^][)]",
		"x[ab]y*)": "x[ab]y*[)]",
	} {
		if got := insideSelector(pattern); got != want {
			t.Errorf("%q becomes %q, want %q", pattern, got, want)
		}
	}
}

func FuzzNothingEndsASelectorEarly(f *testing.F) {
	for _, s := range []string{"a)", `\)`, "[)", "[a-)", `[\`, "[^"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if got := insideSelector(pattern); strings.HasSuffix(got, ")") {
			t.Errorf("%q becomes %q", pattern, got)
		}
	})
}
