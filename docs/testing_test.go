package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// faults are the ids of the faults of other operators that docs/testing.md must answer for.
const faults = "A1 A3 A4 A5 A7 A8 A9 A10 A11 A13 B1 B2 B3 B5 B6 B7 B8 B9 B11 B12 B13 B14 B15 B16 B17 B19 B20 B21 B23 B24 C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C13 C14 C16 D1 D3 D4 D5 D6 D7 D8 D10 D11 D12 D14 D15 D17 D18 D19 D21 D22 D23 D24 E1 E2 E3 E4 E6 E7 E9 E10 E11 E12 E14 E16 E17 E18 E19 E20 F1 F2 F3 F5 F6 F7 F8 F9 F11 F12 F14 F15 F16 F17 F18 G1 G3 G4 G5 G6 G7 G8 G11 G13 G14 G16 G18 G20 G21 G23"

var (
	row         = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| ([^|]+) \| (.*) \|$`)
	name        = regexp.MustCompile("`([^`]+)`")
	declaration = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// TestEveryFaultNamesATestOrAReason: a row of docs/testing.md that names a test which does not
// exist, or nothing, fails; so does a fault without a row.
func TestEveryFaultNamesATestOrAReason(t *testing.T) {
	text, err := os.ReadFile("testing.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, sources := testsOfTheProject(t)
	seen := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		id, held := m[1], m[3]
		if seen[id] {
			t.Errorf("%s has two rows", id)
		}
		seen[id] = true
		for _, why := range missing(held, tests, sources) {
			t.Errorf("%s: %s", id, why)
		}
	}
	for _, id := range strings.Fields(faults) {
		if !seen[id] {
			t.Errorf("%s has no row", id)
		}
	}
}

func TestARowThatHoldsNothingIsFound(t *testing.T) {
	tests := map[string]bool{"TestScripts": true}
	sources := "# a title\n"
	for held, want := range map[string]int{
		"`TestScripts/repair/a title`":      0,
		"`TestScripts/repair/no title`":     1,
		"`TestGone`, `TestScripts`":         1,
		"somebody looks at it":              1,
		"Reason: no":                        1,
		"Reason: it cannot happen because.": 0,
	} {
		if got := missing(held, tests, sources); len(got) != want {
			t.Errorf("%s: %q", held, got)
		}
	}
}

// missing says what of the tests that hold a row does not exist.
func missing(held string, tests map[string]bool, sources string) []string {
	if reason, isReason := strings.CutPrefix(held, "Reason: "); isReason {
		if len(strings.Fields(reason)) < 4 {
			return []string{"no reason: " + reason}
		}
		return nil
	}
	names := name.FindAllStringSubmatch(held, -1)
	if len(names) == 0 {
		return []string{"neither a test nor a reason: " + held}
	}
	var out []string
	for _, n := range names {
		test, rest, _ := strings.Cut(n[1], "/")
		if !tests[test] {
			out = append(out, "no test is called "+test)
			continue
		}
		found := rest == "" || strings.Contains(sources, `"`+rest+`"`)
		if test == "TestScripts" && rest != "" {
			_, title, _ := strings.Cut(rest, "/")
			found = strings.Contains(sources, "# "+title+"\n")
		}
		if !found {
			out = append(out, test+" has no case "+rest)
		}
	}
	return out
}

// testsOfTheProject are the names of all tests, and the text of all tests and scripts.
func testsOfTheProject(t *testing.T) (map[string]bool, string) {
	tests := map[string]bool{}
	var sources strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		isTest := strings.HasSuffix(path, "_test.go")
		isScript := strings.Contains(path, "testdata") && strings.HasSuffix(path, ".txt")
		if err != nil || d.IsDir() || !isTest && !isScript {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if isTest {
			for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = true
			}
		}
		sources.Write(text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, sources.String()
}
