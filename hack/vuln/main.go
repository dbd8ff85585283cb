// Command vuln is what hack/vulncheck.sh needs around govulncheck, which expects a database that a build machine may
// not reach:
//
//	vuln index FROM TO   makes that database from the reports in the module golang.org/x/vulndb
//	vuln judge           reads govulncheck's JSON on stdin, prints what the code reaches, and exits 1 if a module is at fault
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 3 && args[0] == "index":
		err = index(args[1], args[2])
	case len(args) == 1 && args[0] == "judge":
		err = judge(os.Stdin, os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, "usage: vuln index FROM TO | vuln judge")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vuln:", err)
		os.Exit(1)
	}
}

// report is the part of an OSV report that the index needs.
type report struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
	} `json:"affected"`
}

// entry is a report in the index of a module.
type entry struct {
	ID       string    `json:"id"`
	Modified time.Time `json:"modified"`
}

// module is one line of the index: the reports that touch a module. It names no fixed version, so that govulncheck
// judges each report by its own ranges.
type module struct {
	Path  string  `json:"path"`
	Vulns []entry `json:"vulns"`
}

// index writes the database to a directory: the reports as they are, and which touch which module.
func index(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no report in %s", from)
	}
	for _, dir := range []string{"ID", "index"} {
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			return err
		}
	}
	modules := map[string]map[string]entry{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r report
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("parse %s: %w", file, err)
		}
		for _, a := range r.Affected {
			if modules[a.Package.Name] == nil {
				modules[a.Package.Name] = map[string]entry{}
			}
			modules[a.Package.Name][r.ID] = entry{r.ID, r.Modified}
		}
		if err := os.WriteFile(filepath.Join(to, "ID", r.ID+".json"), data, 0o644); err != nil {
			return err
		}
	}
	var lines []module
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		byID := func(a, b entry) int { return cmp.Compare(a.ID, b.ID) }
		lines = append(lines, module{path, slices.SortedFunc(maps.Values(modules[path]), byID)})
	}
	if err := write(filepath.Join(to, "index", "modules.json"), lines); err != nil {
		return err
	}
	return write(filepath.Join(to, "index", "db.json"), map[string]time.Time{"modified": time.Unix(0, 0).UTC()})
}

// write writes a value as JSON.
func write(file string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// finding is the part of govulncheck's findings that a person acts on.
type finding struct {
	OSV   string `json:"osv"`
	Fixed string `json:"fixed_version"`
	Trace []struct {
		Module   string `json:"module"`
		Version  string `json:"version"`
		Package  string `json:"package"`
		Function string `json:"function"`
	} `json:"trace"`
}

// judge prints one line for each vulnerability that the code reaches. The standard library's are the building
// machine's, which the project cannot change: they are told but do not fail.
func judge(in io.Reader, out io.Writer) error {
	reached := map[string]bool{}
	blamed := 0
	for decoder := json.NewDecoder(in); ; {
		var message struct {
			Finding *finding `json:"finding"`
		}
		if err := decoder.Decode(&message); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read govulncheck's findings: %w", err)
		}
		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" {
			continue
		}
		at := f.Trace[0]
		line := fmt.Sprintf("%s in %s %s, fixed in %s", f.OSV, at.Module, at.Version, cmp.Or(f.Fixed, "no version yet"))
		if reached[line] {
			continue
		}
		reached[line] = true
		if at.Module != "stdlib" {
			blamed++
			line += fmt.Sprintf(" (reached: %s.%s)", at.Package, at.Function)
		}
		fmt.Fprintln(out, line)
	}
	if blamed > 0 {
		return fmt.Errorf("%d of these are in modules: go get the fixed versions", blamed)
	}
	if len(reached) > 0 {
		fmt.Fprintln(out, "All of them are in the Go release on this machine: build what you publish with the fixed one.")
	}
	return nil
}
