package valkey_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mediocregopher/radix/v4"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

func sha(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}

func TestUsersMayDoWhatTheirBindingsSayAndNoMore(t *testing.T) {
	users := acl.Input{
		Config: []acl.Binding{{
			Username: "app", PasswordHashes: []string{sha("one"), sha("two")},
			Permissions: []acl.Permission{
				{Role: "reader", Keys: []acl.Key{{Pattern: "all:*"}}, Channels: []string{"news"}},
				{Role: "writer", Keys: []acl.Key{{Pattern: "w:*", Access: acl.Write}, {Pattern: "par(en)"}, {Pattern: `esc\)`}}},
				{Role: "admin", Keys: []acl.Key{{Pattern: "r:*", Access: acl.Read}}},
			},
		}},
		Roles: map[string]acl.Role{
			"reader": {Categories: []acl.Category{{Name: "read"}, {Name: "pubsub"}}, Commands: []acl.Command{{Name: "mget", Deny: true}}},
			"writer": {Categories: []acl.Category{{Name: "write"}}},
			"admin":  {Commands: []acl.Command{{Name: "config", Subcommand: "get"}, {Name: "copy"}}},
		},
		OperatorPassword: valkeyproc.OperatorPassword, ReplPassword: valkeyproc.ReplPassword,
	}
	text, err := acl.Render(users)
	if err != nil {
		t.Fatal(err)
	}
	s := valkeyproc.Start(t, 1, valkeyproc.Options{ACL: text})[0]
	for _, password := range []string{"one", "two"} {
		if got := s.CLI(t, "--no-auth-warning", "--user", "app", "--pass", password, "CONFIG", "GET", "port"); !strings.Contains(got, "6379") {
			t.Errorf("as app with %s: %s", password, got)
		}
	}
	c, err := radix.Dialer{AuthUser: acl.OperatorUser, AuthPass: valkeyproc.OperatorPassword}.Dial(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Do(t.Context(), radix.Cmd(nil, "GET", "x")); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("the operator reads a key: %v", err)
	}
	asked := oracle(t, text)
	for command, allowed := range map[string]bool{
		"GET all:1": true, "GET other": false, "MGET all:1": false, "SET all:1 v": false, "PUBLISH news x": true, "PUBLISH other x": false,
		"SET w:1 v": true, "SET par(en) v": true, "SET esc) v": true, "SET paren v": false, "SET other v": false,
		"COPY r:1 r:2": false, "CONFIG GET x": true, "CONFIG SET a b": false, "FLUSHALL": true, "ACL LIST": false,
	} {
		if got := isAllowed(t, asked, "app", command); got != allowed {
			t.Errorf("%s is allowed: %v, want %v", command, got, allowed)
		}
	}
}

// oracle is a connection to a server with these users, and one more who may ask about them.
func oracle(t *testing.T, text string) radix.Conn {
	t.Helper()
	s := valkeyproc.Start(t, 1, valkeyproc.Options{ACL: text + "user oracle on nopass +@all\n"})[0]
	c, err := radix.Dialer{AuthUser: "oracle", AuthPass: "any"}.Dial(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func isAllowed(t *testing.T, oracle radix.Conn, user, command string) bool {
	t.Helper()
	var answer string
	args := append([]string{"DRYRUN", user}, strings.Fields(command)...)
	if err := oracle.Do(t.Context(), radix.Cmd(&answer, "ACL", args...)); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return answer == "OK"
}

// For each form of a rule, every command that the server has: what the rules name is allowed and nothing else.
func TestOfAllCommandsARoleAllowsThoseThatItNamesAndNoOther(t *testing.T) {
	allow, deny := func(name string) acl.Category { return acl.Category{Name: name} }, func(name string) acl.Category { return acl.Category{Name: name, Deny: true} }
	in := func(have []string, name string) bool { return slices.Contains(have, name) }
	of := func(name, command string) bool { return name == command || strings.HasPrefix(name, command+"|") }
	for title, form := range map[string]struct {
		role acl.Role
		// want says it of a command that is in these categories.
		want func(name string, categories []string) bool
	}{
		"nothing":                 {acl.Role{}, func(string, []string) bool { return false }},
		"a category":              {acl.Role{Categories: []acl.Category{allow("read")}}, func(_ string, c []string) bool { return in(c, "read") }},
		"a category less another": {acl.Role{Categories: []acl.Category{allow("write"), deny("dangerous")}}, func(_ string, c []string) bool { return in(c, "write") && !in(c, "dangerous") }},
		"a denial, then a category": {acl.Role{Categories: []acl.Category{deny("keyspace"), allow("read")}},
			func(_ string, c []string) bool { return in(c, "read") }},
		"a command":    {acl.Role{Commands: []acl.Command{{Name: "client"}}}, func(name string, _ []string) bool { return of(name, "client") }},
		"a subcommand": {acl.Role{Commands: []acl.Command{{Name: "config", Subcommand: "get"}}}, func(name string, _ []string) bool { return name == "config|get" }},
		"a command less a subcommand": {acl.Role{Commands: []acl.Command{{Name: "config"}, {Name: "config", Subcommand: "set", Deny: true}}},
			func(name string, _ []string) bool { return of(name, "config") && name != "config|set" }},
		"a category less a command": {acl.Role{Categories: []acl.Category{allow("string")}, Commands: []acl.Command{{Name: "incr", Deny: true}}},
			func(name string, c []string) bool { return in(c, "string") && name != "incr" }},
		"everything less a command": {acl.Role{Categories: []acl.Category{allow("all")}, Commands: []acl.Command{{Name: "acl", Deny: true}}},
			func(name string, _ []string) bool { return !of(name, "acl") }},
	} {
		t.Run(title, func(t *testing.T) {
			text, err := acl.Render(acl.Input{
				Config: []acl.Binding{{Username: "app", PasswordHashes: []string{sha("one")}, Permissions: []acl.Permission{{Role: "r", Keys: []acl.Key{{Pattern: "*"}}, Channels: []string{"*"}}}}},
				Roles:  map[string]acl.Role{"r": form.role}, OperatorPassword: valkeyproc.OperatorPassword, ReplPassword: valkeyproc.ReplPassword,
			})
			if err != nil {
				t.Fatal(err)
			}
			asked := oracle(t, text)
			for name, command := range allCommands(t, asked) {
				want := form.want(name, command.categories)
				if got := isAllowed(t, asked, "app", command.call); got != want && !command.needsNoRight {
					t.Errorf("%s is allowed: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// serverCommand is one command with arguments enough for the server to judge it.
type serverCommand struct {
	call         string
	categories   []string
	needsNoRight bool
}

func allCommands(t *testing.T, asked radix.Conn) map[string]serverCommand {
	t.Helper()
	var names []string
	if err := asked.Do(t.Context(), radix.Cmd(&names, "COMMAND", "LIST")); err != nil {
		t.Fatal(err)
	}
	var all [][]any
	if err := asked.Do(t.Context(), radix.Cmd(&all, "COMMAND", append([]string{"INFO"}, names...)...)); err != nil {
		t.Fatal(err)
	}
	out := map[string]serverCommand{}
	for i, name := range names {
		// name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands
		if subcommands, _ := all[i][9].([]any); len(subcommands) > 0 {
			continue // each of them is in the list
		}
		arity, _ := all[i][1].(int64)
		words := strings.Split(name, "|")
		for want := max(arity, -arity); int64(len(words)) < want; {
			words = append(words, "1")
		}
		c := serverCommand{call: strings.Join(words, " "), needsNoRight: strings.Contains(fmt.Sprint(all[i][2]), "no_auth")}
		for _, category := range all[i][6].([]any) {
			c.categories = append(c.categories, strings.TrimPrefix(fmt.Sprint(category), "@"))
		}
		out[name] = c
	}
	if len(out) < 300 {
		t.Fatalf("the server has %d commands only", len(out))
	}
	return out
}

func TestWithoutBindingsEverybodyMayDoEverything(t *testing.T) {
	s := valkeyproc.Start(t, 1, valkeyproc.Options{})[0]
	if got := s.CLI(t, "CONFIG", "SET", "maxmemory", "1gb"); got != "OK" {
		t.Errorf("config set: %s", got)
	}
	if got := s.CLI(t, "ACL", "DRYRUN", "default", "GET", "any"); got != "OK" {
		t.Errorf("get: %s", got)
	}
}

// Whatever pattern the API server lets through, the server has the same patterns in the same selectors
// afterwards, and no rule has moved from one to another.
func TestAnyPatternsStayInTheirPermission(t *testing.T) {
	const seed = 7
	source := rand.New(rand.NewPCG(seed, seed))
	role := map[string]acl.Role{"one": {Commands: []acl.Command{{Name: "get"}}}, "two": {Categories: []acl.Category{{Name: "all"}}}}
	var bindings []acl.Binding
	for i := range 60 {
		bindings = append(bindings, acl.Binding{Username: fmt.Sprint("u", i), PasswordHashes: []string{sha("x")}, Permissions: []acl.Permission{
			{Role: "one", Keys: []acl.Key{{Pattern: pattern(source)}}},
			{Role: "two", Keys: []acl.Key{{Pattern: pattern(source)}, {Pattern: pattern(source)}}, Channels: []string{pattern(source)}},
			{Role: "one", Keys: []acl.Key{{Pattern: pattern(source)}}},
		}})
	}
	text, err := acl.Render(acl.Input{Config: bindings, Roles: role, OperatorPassword: valkeyproc.OperatorPassword, ReplPassword: valkeyproc.ReplPassword})
	if err != nil {
		t.Fatal(err)
	}
	c := oracle(t, text)
	for _, b := range bindings {
		var got map[string]any
		if err := c.Do(t.Context(), radix.Cmd(&got, "ACL", "GETUSER", b.Username)); err != nil {
			t.Fatal(err)
		}
		selectors, _ := got["selectors"].([]any)
		summary := []string{str(got["commands"]), str(got["keys"]), fmt.Sprint(len(selectors))}
		if diff := cmp.Diff([]string{"-@all +get", "~" + b.Permissions[0].Keys[0].Pattern, "2"}, summary); diff != "" {
			t.Errorf("seed %d, %+v (-want +got):\n%s", seed, b, diff)
		}
	}
}

func str(v any) string {
	b, ok := v.([]byte)
	if !ok {
		return fmt.Sprint(v)
	}
	return string(b)
}

func pattern(source *rand.Rand) string {
	const letters = `()[]\^-*?ab|&~%#@+`
	b := make([]byte, 1+source.IntN(6))
	for i := range b {
		b[i] = letters[source.IntN(len(letters))]
	}
	// Half of them end as a selector would.
	if source.IntN(2) == 0 {
		b[len(b)-1] = ')'
	}
	return string(b)
}
