// Package valkey_test holds the rule that the Valkey side stands on its own.
package valkey_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/momentohq/valkey-operator/"

// pure lists the packages without IO and what else of the module each may
// import: itself and its children may always. Tests may compare with go-cmp.
var pure = map[string][]string{
	"slot":     nil,
	"topology": {"slot"},
	"plan":     {"slot", "topology"},
	"config":   nil,
	"acl":      nil,
}

// io lists packages that decide nothing and act: a pure package has no use of them.
var io = []string{"net", "net/http", "os/exec", "crypto/tls", "log", "log/slog", "context", "math/rand", "math/rand/v2", "os", "syscall"}

func TestNothingHereImportsKubernetes(t *testing.T) {
	checked := eachImport(t, func(file, path string) {
		if strings.Contains(path, "k8s.io/") || strings.HasPrefix(path, module+"pkg/apis") ||
			strings.HasPrefix(path, module+"pkg/generated") || strings.HasPrefix(path, module+"pkg/controller") {
			t.Errorf("%s imports %s", file, path)
		}
	})
	if checked < 10 {
		t.Errorf("only %d imports were looked at: is this the right folder?", checked)
	}
}

func TestPurePackagesImportOnlyTheStandardLibraryAndEachOther(t *testing.T) {
	eachImport(t, func(file, path string) {
		name, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		others, isPure := pure[name]
		if !isPure {
			return
		}
		isTest := strings.HasSuffix(file, "_test.go") || strings.Contains(file, "plantest/")
		if own, ok := strings.CutPrefix(path, module+"pkg/valkey/"); ok {
			first, _, _ := strings.Cut(own, "/")
			if first != name && !slices.Contains(others, first) {
				t.Errorf("%s imports %s", file, path)
			}
			return
		}
		host, _, _ := strings.Cut(path, "/")
		standard := !strings.Contains(host, ".")
		switch {
		case isTest && (standard || strings.HasPrefix(path, "github.com/google/go-cmp")):
		case !standard:
			t.Errorf("%s imports %s", file, path)
		case !isTest && slices.Contains(io, path):
			t.Errorf("%s imports %s, which is not for a pure package", file, path)
		}
	})
}

// eachImport visits every import of every Go file below this folder.
func eachImport(t *testing.T, visit func(file, path string)) (imports int) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			visit(file, path)
			imports++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}
