package apiserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// binding returns the YAML of one ACL binding, bent: a word of the form field=yaml replaces a field of the valid one.
func binding(fields ...string) string {
	b := map[string]string{
		"username":       `app`,
		"passwordHashes": `["{{hash}}"]`,
		"permissions":    `[{roleRef: r, keys: [{pattern: "app:*"}]}]`,
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		b[name] = value
	}
	var parts []string
	for _, name := range []string{"username", "passwordHashes", "permissions"} {
		if b[name] != "" {
			parts = append(parts, name+": "+b[name])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// permission returns a binding with one permission, bent in the same way.
func permission(fields ...string) string {
	p := map[string]string{"roleRef": "r", "keys": `[]`}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		p[name] = value
	}
	var parts []string
	for _, name := range []string{"roleRef", "keys", "channels"} {
		if p[name] != "" {
			parts = append(parts, name+": "+p[name])
		}
	}
	return binding("permissions=[{" + strings.Join(parts, ", ") + "}]")
}

// acl returns rows whose YAML is a binding as rows whose YAML is a spec with that binding.
func acl(rows []row) []row {
	for i := range rows {
		rows[i].yaml = "spec: {acl: [" + rows[i].yaml + "]}"
	}
	return rows
}

// onBoth checks rows of bindings in both places that take them.
func onBoth(t *testing.T, rows []row) {
	t.Helper()
	rows = acl(rows)
	for _, k := range []kind{config, cluster} {
		t.Run(k.kind, func(t *testing.T) { check(t, k, rows) })
	}
}

func TestABindingNamesAUser(t *testing.T) {
	const (
		characters = "username has only letters, digits, '_' and '-'"
		reserved   = "username must not start with '_momento_', which is reserved for the operator"
	)
	onBoth(t, []row{
		{"the smallest binding is accepted", binding(), ``},
		{"a user of every kind of character is accepted", binding(`username=aZ0_-`), ``},
		{"the default user is accepted", binding(`username=default`), ``},
		{"a user of 128 characters is accepted", binding(`username={{rep 128 "u"}}`), ``},
		{"a user of 129 characters is refused", binding(`username={{rep 129 "u"}}`), `acl[0].username: Too long: may not be more than 128 bytes`},
		{"an empty user is refused", binding(`username=""`), `acl[0].username in body should be at least 1 chars long`},
		{"a missing user is refused", binding(`username=`), `acl[0].username: Required value`},
		{"a user with a dot is refused", binding(`username=a.b`), characters},
		{"a user with a space is refused", binding(`username="a b"`), characters},
		{"a user with a trailing line break is refused", binding(`username="a\n"`), characters},
		{"a user with an umlaut is refused", binding(`username=ä`), characters},
		{"the operator's user is refused", binding(`username=_momento_operator`), reserved},
		{"any user of the operator's prefix is refused", binding(`username=_momento_`), reserved},
		{"a user that has the prefix further on is accepted", binding(`username=a_momento_b`), ``},
		{"two different users are accepted", binding() + `, ` + binding(`username=other`), ``},
		{"users that differ in case are accepted", binding() + `, ` + binding(`username=App`), ``},
		{"one user twice is refused", binding() + `, ` + binding(`username=other`) + `, ` + binding(), `duplicate username in ACL bindings`},
	})
}

func TestABindingHasPasswordHashes(t *testing.T) {
	const hash = "a password hash is a SHA-256 in exactly 64 lower-case hex digits, without '#'"
	onBoth(t, []row{
		{"8 hashes are accepted", binding(`passwordHashes={{hashes 8}}`), ``},
		{"9 hashes are refused", binding(`passwordHashes={{hashes 9}}`), `acl[0].passwordHashes: Too many: 9: must have at most 8 items`},
		{"no hash is refused", binding(`passwordHashes=[]`), `acl[0].passwordHashes in body should have at least 1 items`},
		{"missing hashes are refused", binding(`passwordHashes=`), `acl[0].passwordHashes: Required value`},
		{"an upper-case hash is refused", binding(`passwordHashes=["{{rep 64 "A"}}"]`), hash},
		{"a hash of 63 digits is refused", binding(`passwordHashes=["{{rep 63 "a"}}"]`), hash},
		{"a hash of 65 digits is refused", binding(`passwordHashes=["{{rep 65 "a"}}"]`), hash},
		{"a hash with # is refused", binding(`passwordHashes=["#{{rep 64 "a"}}"]`), hash},
		{"a hash with a trailing line break is refused", binding(`passwordHashes=["{{rep 64 "a"}}\n"]`), hash},
		{"a password in plain text is refused", binding(`passwordHashes=[secret]`), hash},
		{"a text of 129 characters as hash is refused", binding(`passwordHashes=["{{rep 129 "a"}}"]`), `acl[0].passwordHashes[0]: Too long: may not be more than 128 bytes`},
		{"an empty hash is refused", binding(`passwordHashes=[""]`), hash},
	})
}

func TestABindingHasPermissions(t *testing.T) {
	onBoth(t, []row{
		{"16 permissions are accepted", binding(`permissions={{list 16 "{roleRef: r%d, keys: []}"}}`), ``},
		{"17 permissions are refused", binding(`permissions={{list 17 "{roleRef: r%d, keys: []}"}}`), `acl[0].permissions: Too many: 17: must have at most 16 items`},
		{"no permission is refused", binding(`permissions=[]`), `acl[0].permissions in body should have at least 1 items`},
		{"missing permissions are refused", binding(`permissions=`), `acl[0].permissions: Required value`},
		{"a roleRef of 253 characters is accepted", permission(`roleRef={{rep 253 "r"}}`), ``},
		{"a roleRef of 254 characters is refused", permission(`roleRef={{rep 254 "r"}}`), `permissions[0].roleRef: Too long: may not be more than 253 bytes`},
		{"an empty roleRef is refused", permission(`roleRef=""`), `permissions[0].roleRef in body should be at least 1 chars long`},
		{"a missing roleRef is refused", permission(`roleRef=`), `permissions[0].roleRef: Required value`},
		{"a permission without any key is accepted", permission(), ``},
		{"missing keys are refused", permission(`keys=`), `permissions[0].keys: Required value`},
		{"16 keys are accepted", permission(`keys={{list 16 "{pattern: k%d}"}}`), ``},
		{"17 keys are refused", permission(`keys={{list 17 "{pattern: k%d}"}}`), `permissions[0].keys: Too many: 17: must have at most 16 items`},
		{"each access is accepted", permission(`keys=[{pattern: a, access: read}, {pattern: b, access: write}, {pattern: c, access: readwrite}]`), ``},
		{"an unknown access is refused", permission(`keys=[{pattern: a, access: rw}]`), `Unsupported value: "rw": supported values: "read", "write", "readwrite"`},
		{"16 channels are accepted", permission(`channels={{list 16 "c%d"}}`), ``},
		{"17 channels are refused", permission(`channels={{list 17 "c%d"}}`), `permissions[0].channels: Too many: 17: must have at most 16 items`},
	})
}

func TestPatternsHaveNoControlCharacterSpaceOrQuote(t *testing.T) {
	const (
		key     = "a key pattern has no control character, space or quote"
		channel = "a channel pattern has no control character, space or quote"
	)
	rows := []row{
		{"a key of 256 characters is accepted", permission(`keys=[{pattern: {{rep 256 "k"}}}]`), ``},
		{"a key of 257 characters is refused", permission(`keys=[{pattern: {{rep 257 "k"}}}]`), `keys[0].pattern: Too long: may not be more than 256 bytes`},
		{"a key without a pattern is refused", permission(`keys=[{access: read}]`), `keys[0].pattern: Required value`},
		{"a channel of 128 characters is accepted", permission(`channels=[{{rep 128 "c"}}]`), ``},
		{"a channel of 129 characters is refused", permission(`channels=[{{rep 129 "c"}}]`), `channels[0]: Too long: may not be more than 128 bytes`},
	}
	for _, good := range []string{`*`, `a:{b}?[c-d]`, `a\\b`, `(a)`, `ä:*`, `#a`, `%R~a`, `a,b;c|d`} {
		rows = append(rows,
			row{"key " + good + " is accepted", permission(`keys=[{pattern: "` + good + `"}]`), ``},
			row{"channel " + good + " is accepted", permission(`channels=["` + good + `"]`), ``})
	}
	for name, bad := range map[string]string{
		"a space": `a b`, "a leading space": ` a`, "a double quote": `a\"b`, "a single quote": `a'b`, "a line break": `a\nb`,
		"a trailing line break": `a\n`, "a tab": `a\tb`, "a vertical tab": `a\u000bb`, "a NUL": `a\u0000b`, "DEL": `a\u007fb`, "a C1 control": `a\u0085b`,
	} {
		rows = append(rows,
			row{"a key with " + name + " is refused", permission(`keys=[{pattern: "` + bad + `"}]`), key},
			row{"a channel with " + name + " is refused", permission(`channels=["` + bad + `"]`), channel})
	}
	onBoth(t, rows)
}

func TestAListHasAtMost64Bindings(t *testing.T) {
	one := `{username: u%d, passwordHashes: [` + strings.Repeat("a", 64) + `], permissions: [{roleRef: r, keys: []}]}`
	rows := []row{
		{"64 bindings are accepted", `spec: {acl: {{list 64 "` + one + `"}}}`, ``},
		{"65 bindings are refused", `spec: {acl: {{list 65 "` + one + `"}}}`, `spec.acl: Too many: 65: must have at most 64 items`},
		{"an empty list is accepted", `spec: {acl: []}`, ``},
	}
	for _, k := range []kind{config, cluster} {
		t.Run(k.kind, func(t *testing.T) { check(t, k, rows) })
	}
}

// maximal is a list of 64 bindings with 16 permissions of 16 keys of 8 bytes each, and all hashes and channels.
func maximal() []any {
	var all []any
	for u := range 64 {
		var permissions []any
		for p := range 16 {
			var keys, channels []any
			for k := range 16 {
				keys = append(keys, map[string]any{"pattern": numbered("key%d-", 100+k) + numbered("%d", p%10)})
				channels = append(channels, numbered("chan%d-*", 10+k))
			}
			permissions = append(permissions, map[string]any{"roleRef": numbered("role%d", p), "keys": keys, "channels": channels})
		}
		var hashes []any
		for h := range 8 {
			hashes = append(hashes, strings.Repeat(numbered("%d", h), 64))
		}
		all = append(all, map[string]any{"username": numbered("user%d", u), "passwordHashes": hashes, "permissions": permissions})
	}
	return all
}

func TestAMaximalListIsStoredAndUpdated(t *testing.T) {
	for _, k := range []kind{config, cluster} {
		t.Run(k.kind, func(t *testing.T) {
			spec := parse(t, k.spec)
			spec["acl"] = maximal()
			name := "maximal"
			if _, err := k.client().Create(t.Context(), k.object(name, spec), metav1.CreateOptions{}); err != nil {
				t.Fatalf("create: %v", err)
			}
			t.Cleanup(func() { remove(t, k, name) })
			stored, err := k.client().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored.SetLabels(map[string]string{"touched": "yes"})
			if _, err := k.client().Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Errorf("update: %v", err)
			}
		})
	}
}
