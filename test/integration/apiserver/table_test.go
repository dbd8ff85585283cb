package apiserver

import (
	"fmt"
	"strings"
	"testing"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A row says how the smallest valid object of a kind is bent and what the API server says to it. The YAML is merged
// into the object as kubectl patch --type merge would. In it, {{rep 3 "ab"}} is ababab, {{list 2 "a%d"}} is
// [a0, a1], {{map 2 "k%d" "v"}} is {k0: v, k1: v}, {{hash}} is a password hash and {{hashes 2}} a list of them.
type row struct {
	sentence string
	yaml     string
	refused  string // What the refusal says; empty where the object is accepted.
}

// check runs the rows of a table, each as a create that the server validates but does not store.
func check(t *testing.T, k kind, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.sentence, func(t *testing.T) {
			object := k.bent(t, r.yaml)
			created, err := k.client().Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{"All"}, FieldValidation: "Strict"})
			judge(t, r.refused, err)
			if err == nil && created.GetKind() != k.kind {
				t.Errorf("the server answered with a %q", created.GetKind())
			}
		})
	}
}

// judge compares what the server said with what the row expects.
func judge(t *testing.T, refused string, err error) {
	t.Helper()
	switch {
	case refused == "" && err != nil:
		t.Errorf("refused, want it accepted: %v", err)
	case refused != "" && err == nil:
		t.Errorf("accepted, want it refused with %q", refused)
	case refused != "" && !strings.Contains(err.Error(), refused):
		t.Errorf("refused with\n\t%v\nwant\n\t%s", err, refused)
	}
}

// bent returns the smallest valid object of the kind with a row's YAML merged in.
func (k kind) bent(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	name := "cache"
	if k.kind == node.kind {
		name = "cache-0a1b2"
	}
	object := k.object(name, parse(t, k.spec))
	merge(object.Object, parse(t, expand(t, text)))
	return object
}

// parse reads YAML that is a map.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// merge is JSON merge patch: maps merge, null removes, everything else replaces.
func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		old, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			into[key] = value
		}
	}
}

// words are the functions that rows may use.
var words = template.FuncMap{
	"rep":  func(n int, s string) string { return strings.Repeat(s, n) },
	"hash": func() string { return strings.Repeat("0123456789abcdef", 4) },
	"hashes": func(n int) string {
		items := make([]string, n)
		for i := range items {
			items[i] = `"` + strings.Repeat(fmt.Sprint(i), 64) + `"`
		}
		return "[" + strings.Join(items, ", ") + "]"
	},
	"list": func(n int, format string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = numbered(format, i)
		}
		return "[" + strings.Join(items, ", ") + "]"
	},
	"map": func(n int, key, value string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = numbered(key, i) + ": " + value
		}
		return "{" + strings.Join(items, ", ") + "}"
	},
}

// numbered puts a number into a format that asks for one.
func numbered(format string, i int) string {
	return strings.ReplaceAll(format, "%d", fmt.Sprint(i))
}

// expand evaluates the functions in a row's YAML.
func expand(t *testing.T, text string) string {
	t.Helper()
	parsed, err := template.New("row").Funcs(words).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
