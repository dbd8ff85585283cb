// Package acl renders users.acl, the file from which a Valkey server loads its
// users (contract §4). It does no IO.
//
// The file has, in this order: what becomes of the default user, the bindings
// of the config chain, those of the cluster, the operator's two own users, and the
// revision. A user that stood twice would make the server refuse the
// whole file, so nothing a binding says can override the operator's users.
package acl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// The users that the operator adds. Bindings cannot use the prefix.
const (
	ReservedPrefix = "_momento_"
	OperatorUser   = "_momento_operator"
	ReplUser       = "_momento_repl"
	// RevisionUser cannot log in. Its only password hash is the hash of
	// the file, so that a server can be asked which file it has loaded.
	RevisionUser = "_momento_rev"
)

// MaxSize is the largest file in bytes: a ConfigMap takes 1 MiB, and its
// metadata need room.
const MaxSize = 900 << 10

// Access is what a user may do with the keys of a pattern.
type Access string

// The accesses. The empty Access is ReadWrite.
const (
	Read      Access = "read"
	Write     Access = "write"
	ReadWrite Access = "readwrite"
)

// Category is one rule of a role for a command category ("read", without @).
type Category struct {
	Name string
	Deny bool
}

// Command is one rule of a role for a command or one of its subcommands.
type Command struct {
	Name, Subcommand string
	Deny             bool
}

// Role is a ValkeyRole: which commands, on whatever keys. The order counts:
// categories first, then commands, later rules override earlier ones.
type Role struct {
	Categories []Category
	Commands   []Command
}

// Key is a glob pattern of keys and what may be done with them.
type Key struct {
	Pattern string
	Access  Access
}

// Permission is a role upon keys and channels.
type Permission struct {
	Role     string
	Keys     []Key
	Channels []string
}

// Binding is one user. The first permission is the user's own, each further
// one a selector: a command is allowed if any of them allows it in full.
type Binding struct {
	Username string
	// PasswordHashes are sha256 in lower-case hexadecimal; any of them logs in.
	PasswordHashes []string
	Permissions    []Permission
}

// Input is all that a cluster's users.acl depends on.
type Input struct {
	// Config are the bindings of the config chain, Cluster those of the cluster
	// itself. No name may be in both, or twice in one.
	Config, Cluster []Binding
	// Roles has every ValkeyRole by name; those not referred to do not matter.
	Roles map[string]Role
	// OperatorPassword and ReplPassword are of the operator's two own users; only their
	// sha256 is written.
	OperatorPassword, ReplPassword string
	// OtherOperatorPassword and OtherReplPassword are in force beside them while passwords are
	// being rotated; empty: there is none. Which of two is the other makes no difference.
	OtherOperatorPassword, OtherReplPassword string
}

// operatorRules let the operator do exactly what pkg/valkey/client sends: no
// key, no channel. A test there sends everything and compares.
const operatorRules = "-@all +cluster +acl|load +acl|getuser +ping +info +config|set +function|dump +function|restore"

// replRules let a node replicate from another and take over slots with the keys in
// them; the second needs writes, but not those that empty a database.
const replRules = "-@all +psync +sync +replconf +ping +select +cluster|syncslots +@write -flushall -flushdb -swapdb ~*"

// Render writes users.acl. Equal inputs give equal bytes. Its errors are the
// user's to cure and are worded for a condition:
//
//	duplicate username "<user>" in merged ACL bindings
//	ValkeyRole "<role>" not found (referenced by user "<user>")
//
// and those for names and patterns that the API server does not let through, and
// for a file of more than MaxSize.
func Render(in Input) (string, error) {
	var b strings.Builder
	bindings := append(append([]Binding(nil), in.Config...), in.Cluster...)
	if err := checkNames(bindings); err != nil {
		return "", err
	}
	b.WriteString(defaultUser(bindings))
	for _, binding := range bindings {
		line, err := user(binding, in.Roles)
		if err != nil {
			return "", err
		}
		b.WriteString(line)
	}
	fmt.Fprintf(&b, "user %s reset on %s resetchannels %s\n", OperatorUser, hashes(in.OperatorPassword, in.OtherOperatorPassword), operatorRules)
	fmt.Fprintf(&b, "user %s reset on %s resetchannels %s\n", ReplUser, hashes(in.ReplPassword, in.OtherReplPassword), replRules)
	fmt.Fprintf(&b, "%s%s\n", revisionStart, hash(b.String()))
	if b.Len() > MaxSize {
		return "", fmt.Errorf("users.acl would have %d bytes, the limit is %d: use fewer bindings or permissions", b.Len(), MaxSize)
	}
	return b.String(), nil
}

const revisionStart = "user " + RevisionUser + " off #"

// Revision is the hash in a rendered file's last line: what the server shows as the
// password of RevisionUser once it has loaded this file. It is empty if the text
// was not written by Render.
func Revision(file string) string {
	lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
	sum, ok := strings.CutPrefix(lines[len(lines)-1], revisionStart)
	if !ok {
		return ""
	}
	return sum
}

func checkNames(bindings []Binding) error {
	seen := map[string]bool{}
	for _, binding := range bindings {
		name := binding.Username
		switch {
		case seen[name]:
			return fmt.Errorf("duplicate username %q in merged ACL bindings", name)
		case name == "" || !isWord(name):
			return fmt.Errorf("username %q is not a word", name)
		case strings.HasPrefix(name, ReservedPrefix):
			return fmt.Errorf("username %q: the prefix %s is reserved", name, ReservedPrefix)
		}
		seen[name] = true
	}
	return nil
}

// defaultUser closes the door that Valkey leaves open, as soon as anybody has a key
// of his own; a binding named default decides for itself.
func defaultUser(bindings []Binding) string {
	if len(bindings) == 0 {
		return "user default reset on nopass ~* &* +@all\n"
	}
	for _, b := range bindings {
		if b.Username == "default" {
			return ""
		}
	}
	return "user default reset off\n"
}

func user(binding Binding, roles map[string]Role) (string, error) {
	words := []string{"user", binding.Username, "reset", "on"}
	for _, h := range binding.PasswordHashes {
		words = append(words, "#"+h)
	}
	for i, permission := range binding.Permissions {
		role, ok := roles[permission.Role]
		if !ok {
			return "", fmt.Errorf("ValkeyRole %q not found (referenced by user %q)", permission.Role, binding.Username)
		}
		granted := rules(permission, role, i > 0)
		if i > 0 {
			granted[0] = "(" + granted[0]
			granted[len(granted)-1] += ")"
		}
		words = append(words, granted...)
	}
	for _, w := range words {
		if !isWord(w) {
			return "", fmt.Errorf("user %q: %q has a space, a quote or a control character", binding.Username, w)
		}
	}
	return strings.Join(words, " ") + "\n", nil
}

// rules are resetchannels, keys, channels, -@all, categories, commands. A selector
// says resetchannels too: acl-pubsub-default could open all of them.
func rules(p Permission, role Role, selector bool) []string {
	words := []string{"resetchannels"}
	pattern := func(s string) string { return s }
	if selector {
		pattern = insideSelector
	}
	// Behind a pattern that says everything, the server takes no other: it would
	// refuse the whole file for one that changes nothing.
	for _, k := range p.Keys {
		word := keyPrefix(k.Access) + pattern(k.Pattern)
		words = append(words, word)
		if word == "~*" {
			break
		}
	}
	for _, c := range p.Channels {
		words = append(words, "&"+pattern(c))
		if c == "*" {
			break
		}
	}
	words = append(words, "-@all")
	for _, c := range role.Categories {
		words = append(words, sign(c.Deny)+"@"+c.Name)
	}
	for _, c := range role.Commands {
		name := c.Name
		if c.Subcommand != "" {
			name += "|" + c.Subcommand
		}
		words = append(words, sign(c.Deny)+name)
	}
	return words
}

func keyPrefix(a Access) string {
	switch a {
	case Read:
		return "%R~"
	case Write:
		return "%W~"
	default:
		return "~"
	}
}

func sign(deny bool) string {
	if deny {
		return "-"
	}
	return "+"
}

// isWord says whether the server reads s as one word of the line.
func isWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '\'' })
}

// hashes are sorted: that a rotation has gone from one password to the other is no new file.
func hashes(password, other string) string {
	one, two := "#"+hash(password), "#"+hash(other)
	switch {
	case other == "" || one == two:
		return one
	case two < one:
		return two + " " + one
	}
	return one + " " + two
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
