// Command sizes prints the Go files and functions among its arguments that are longer than the project's limits:
// 400 lines a file, 60 a function. Test files may be longer, their functions may not.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
)

const (
	maxFile     = 400
	maxFunction = 60
)

func main() {
	for _, name := range os.Args[1:] {
		findings, err := check(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, "sizes:", err)
			os.Exit(1)
		}
		for _, f := range findings {
			fmt.Println(f)
		}
	}
}

// check returns a line for each limit that a file breaks.
func check(name string) ([]string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var findings []string
	if lines := files.File(parsed.Pos()).LineCount(); lines > maxFile && !strings.HasSuffix(name, "_test.go") {
		findings = append(findings, fmt.Sprintf("%s: %d lines", name, lines))
	}
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		from, to := files.Position(fn.Pos()), files.Position(fn.End())
		if lines := to.Line - from.Line + 1; lines > maxFunction {
			findings = append(findings, fmt.Sprintf("%s:%d: %s has %d lines", name, from.Line, fn.Name.Name, lines))
		}
	}
	return findings, nil
}
