package controller_test

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

// mayImport lists which packages of pkg/controller each one may use besides itself and what has
// no dependencies of its own here: they depend downwards only, and controllers know of each
// other only where one calls a function of the other.
var mayImport = map[string][]string{
	"logging":       nil,
	"loop":          nil,
	"metrics":       nil,
	"resolve":       nil,
	"tlscheck":      nil,
	"credentials":   nil,
	"reach":         {"loop", "metrics", "resolve", "tlscheck", "credentials", "valkeynode"},
	"valkeynode":    {"loop", "metrics"},
	"valkeycluster": {"loop", "metrics", "resolve", "tlscheck", "credentials", "reach", "tls", "valkeynode"},
	"acl":           {"loop", "metrics", "resolve", "tlscheck", "credentials", "reach", "tls"},
	"tls":           {"loop", "metrics", "resolve", "tlscheck", "credentials", "reach"},
}

// pure decide without IO: whatever they need is handed to them.
var pure = []string{"resolve", "tlscheck", "credentials"}

// io is what a pure package has no use of. The clock is among them: it is an argument.
var io = []string{"context", "net", "net/http", "os", "os/exec", "log", "log/slog", "math/rand", "math/rand/v2", "syscall",
	"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "k8s.io/klog/v2"}

func TestControllersDependDownwardsOnly(t *testing.T) {
	seen := map[string]bool{}
	imports := eachImport(t, func(file, path string) {
		own, _, inFolder := strings.Cut(filepath.ToSlash(file), "/")
		if !inFolder {
			own = ""
		} else if _, known := mayImport[own]; !known && !seen[own] {
			t.Errorf("package %s is new: say in mayImport what it may import", own)
		}
		seen[own] = true
		other, ok := strings.CutPrefix(path, module+"pkg/controller/")
		if !ok {
			return
		}
		first, _, _ := strings.Cut(other, "/")
		isTest := strings.HasSuffix(file, "_test.go") || strings.Contains(file, "test/")
		if first != own && !slices.Contains(mayImport[own], first) && !isTest {
			t.Errorf("%s imports %s", file, path)
		}
	})
	if imports < 50 {
		t.Errorf("only %d imports were looked at: is this the right folder?", imports)
	}
}

func TestWhatIsPureImportsNothingThatActs(t *testing.T) {
	eachImport(t, func(file, path string) {
		own, _, _ := strings.Cut(filepath.ToSlash(file), "/")
		if slices.Contains(pure, own) && !strings.HasSuffix(file, "_test.go") && slices.Contains(io, path) {
			t.Errorf("%s imports %s, which is not for a pure package", file, path)
		}
	})
}

func TestNobodyImportsTheProcess(t *testing.T) {
	eachImport(t, func(file, path string) {
		if strings.HasPrefix(path, module+"cmd/") {
			t.Errorf("%s imports %s", file, path)
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
