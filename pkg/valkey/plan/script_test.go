package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

var rewrite = flag.Bool("rewrite", false, "write the decisions found into the scripts; read the diff before you commit it")

// TestScripts runs testdata/*.txt. A script is a list of cases: a comment that says the
// situation and the outcome, a world, and after `----` the expected decision. A case ends at an
// empty line after the decision.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, c := range cases(string(raw)) {
		t.Run(c.title, func(t *testing.T) {
			w, err := plan.ParseWorld(c.world)
			if err != nil {
				t.Fatal(err)
			}
			d := plan.Plan(w.Observation, w.Target)
			out.WriteString(c.world + "----\n" + d.String() + "\n\n")
			if diff := cmp.Diff(c.want, d.String()); diff != "" && !*rewrite {
				t.Errorf("decision (-want +got):\n%s\ntrace:\n%s", diff, trace(w))
			}
			if err := plan.Allowed(w.Observation, d.Action); err != nil {
				t.Errorf("the guard refuses: %v", err)
			}
			again, err := plan.ParseWorld(w.String())
			if err != nil {
				t.Fatalf("the world's own text: %v\n%s", err, w)
			}
			if diff := cmp.Diff(w, again); diff != "" {
				t.Errorf("the world does not come back from its text:\n%s\n%s", diff, w)
			}
		})
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func trace(w plan.World) string {
	var b strings.Builder
	for _, v := range plan.Trace(w.Observation, w.Target) {
		if v.Action != nil {
			b.WriteString("  " + string(v.Group) + "/" + string(v.Rule) + ": " + v.Action.String() + "\n")
		}
	}
	return b.String()
}

type scriptCase struct{ title, world, want string }

func cases(text string) []scriptCase {
	var out []scriptCase
	for _, block := range strings.Split(text, "----\n") {
		if len(out) > 0 {
			want, rest, _ := strings.Cut(block, "\n")
			out[len(out)-1].want = want
			block = strings.TrimLeft(rest, "\n")
		}
		if strings.TrimSpace(block) == "" {
			continue
		}
		title, _, _ := strings.Cut(block, "\n")
		out = append(out, scriptCase{title: strings.TrimPrefix(title, "# "), world: block})
	}
	return out
}
