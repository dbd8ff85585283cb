package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAVulnerabilityOfAModuleFailsAndOneOfTheMachinesGoIsTold(t *testing.T) {
	const (
		called   = `{"finding":{"osv":"GO-1","fixed_version":"v1.2.0","trace":[{"module":"example.com/m","version":"v1.1.0","package":"example.com/m/p","function":"F"}]}}`
		standard = `{"finding":{"osv":"GO-2","fixed_version":"v1.26.9","trace":[{"module":"stdlib","version":"v1.26.8","package":"net/http","function":"Get"}]}}`
		required = `{"finding":{"osv":"GO-3","trace":[{"module":"example.com/m","version":"v1.1.0"}]}}`
	)
	for _, tt := range []struct {
		sentence, in, out string
		fails             bool
	}{
		{"nothing found", `{"config":{}}`, "", false},
		{"a module's code is called", called, "GO-1 in example.com/m v1.1.0, fixed in v1.2.0 (reached: example.com/m/p.F)", true},
		{"the same twice is told once", called + called, "GO-1 in", true},
		{"the standard library's code is called", standard, "GO-2 in stdlib v1.26.8, fixed in v1.26.9", false},
		{"a module is required but not called", required, "", false},
		{"both", standard + called, "GO-1", true},
		{"text that is not JSON", `oops`, "", true},
	} {
		t.Run(tt.sentence, func(t *testing.T) {
			var out bytes.Buffer
			err := judge(strings.NewReader(tt.in), &out)
			if (err != nil) != tt.fails {
				t.Errorf("error %v, want one: %v", err, tt.fails)
			}
			if !strings.Contains(out.String(), tt.out) || (tt.out == "" && out.Len() > 0) {
				t.Errorf("printed %q, want %q", out.String(), tt.out)
			}
			if n := strings.Count(out.String(), "GO-1"); n > 1 {
				t.Errorf("told %d times:\n%s", n, out.String())
			}
		})
	}
}

func TestTheIndexNamesEveryModuleThatAReportTouches(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"GO-1.json": `{"id":"GO-1","affected":[{"package":{"name":"b"}},{"package":{"name":"a"}},{"package":{"name":"b"}}]}`,
		"GO-2.json": `{"id":"GO-2","affected":[{"package":{"name":"b"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := index(from, to); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(to, "index", "modules.json"))
	if err != nil {
		t.Fatal(err)
	}
	const zero = `"modified":"0001-01-01T00:00:00Z"`
	want := `[{"path":"a","vulns":[{"id":"GO-1",` + zero + `}]},{"path":"b","vulns":[{"id":"GO-1",` + zero + `},{"id":"GO-2",` + zero + `}]}]`
	if string(got) != want {
		t.Errorf("index is\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(to, "ID", "GO-2.json")); err != nil {
		t.Error(err)
	}
	if err := index(t.TempDir(), to); err == nil {
		t.Error("an empty directory makes a database without an error")
	}
}
