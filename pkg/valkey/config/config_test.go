package config

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func render(t *testing.T, settings map[string]string) string {
	t.Helper()
	text, err := Render(settings)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var user = map[string]string{
	"maxmemory":                  "1500mb",
	"maxmemory-policy":           "allkeys-lru",
	"save":                       "3600 1 300 100",
	"client-output-buffer-limit": "replica 256mb 64mb 60",
	"notify-keyspace-events":     "",
	"syslog-ident":               `my "cache" #1 C:\x ünï`,
	"loadmodule":                 `/usr/lib/mod.so one "two words"`,
	"cluster-node-timeout":       "100",
	"tls-protocols":              "TLSv1.2 TLSv1.3",
}

func TestAPlainNodesFileIsExactlyThis(t *testing.T) {
	golden(t, "plain.conf", render(t, Freeze(user, nil)))
}

func TestATLSNodesFileIsExactlyThis(t *testing.T) {
	golden(t, "tls.conf", render(t, Freeze(user, &TLS{Hostname: "c-12345.c.ns.svc.cluster.local"})))
}

func TestWithoutUserSettingsTheFileHasDefaultsAndForcedSettings(t *testing.T) {
	golden(t, "empty.conf", render(t, Freeze(nil, nil)))
}

func TestTheUserOverridesDefaultsAndNeverForcedSettings(t *testing.T) {
	given := map[string]string{
		"save": "60 1", "repl-diskless-sync-delay": "3", "shutdown-on-sigterm": "nosave",
		"port": "1", "dir": "/", "bind": "127.0.0.1", "cluster-slave-validity-factor": "10",
		"primaryauth": "x", "masteruser": "x",
	}
	got := Freeze(given, nil)
	for key, want := range map[string]string{
		"save": "60 1", "repl-diskless-sync-delay": "3", "shutdown-on-sigterm": "nosave",
		"port": "6379", "dir": "/var/lib/valkey", "bind": "0.0.0.0 -::*",
		"cluster-replica-validity-factor": "0", "primaryuser": "_momento_repl",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for _, key := range []string{"cluster-slave-validity-factor", "primaryauth", "masteruser"} {
		if value, ok := got[key]; ok {
			t.Errorf("%s %q stayed beside the forced setting", key, value)
		}
	}
	want := []string{"bind", "cluster-slave-validity-factor", "dir", "masteruser", "port", "primaryauth"}
	if diff := cmp.Diff(want, Overridden(given, false)); diff != "" {
		t.Errorf("overridden (-want +got):\n%s", diff)
	}
	if given["port"] != "1" {
		t.Error("the user's map was changed")
	}
}

func TestTLSSettingsAreForcedOnlyWithTLS(t *testing.T) {
	given := map[string]string{"cluster-preferred-endpoint-type": "ip", "tls-ciphers": "x"}
	if got := Overridden(given, false); got != nil {
		t.Errorf("without TLS %v is overridden", got)
	}
	if diff := cmp.Diff([]string{"cluster-preferred-endpoint-type"}, Overridden(given, true)); diff != "" {
		t.Errorf("with TLS (-want +got):\n%s", diff)
	}
	if got := Freeze(given, nil)["cluster-preferred-endpoint-type"]; got != "ip" {
		t.Errorf("without TLS the endpoint type is %q", got)
	}
}

func TestForcedSettingsAndTheIncludeComeLast(t *testing.T) {
	text := render(t, Freeze(map[string]string{"zzz": "1", "aaa": "2"}, nil))
	if strings.Index(text, "zzz 1") > strings.Index(text, "aclfile") {
		t.Error("a user's setting stands after a forced one")
	}
	if !strings.HasSuffix(text, "\ninclude /etc/valkey/auth/primaryauth.conf\n") {
		t.Errorf("the last line is not the include:\n%s", text)
	}
}

func TestRenderRefusesWhatIsNoDirective(t *testing.T) {
	for _, key := range []string{"", "-a", "1a", "A", "a b", "a\nport", "a.b", "a\"", "#a"} {
		if text, err := Render(map[string]string{key: "1"}); err == nil {
			t.Errorf("key %q was written:\n%s", key, text)
		}
	}
}

func TestQuotesOfAModulesArgumentsThatDoNotBalanceAreNoQuotes(t *testing.T) {
	text := render(t, map[string]string{"loadmodule": `/a.so  "b c`})
	if want := "\nloadmodule /a.so \"\\\"b\" c\n"; !strings.Contains(text, want) {
		t.Errorf("%q is not in:\n%s", want, text)
	}
}

func TestPrimaryAuthHoldsThePasswordAlone(t *testing.T) {
	if got, want := PrimaryAuth("0aF"), "primaryauth 0aF\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestQuoteIsReadBackAsTheSameBytes(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	special := []byte("\"'\\ #\n\r\t\x00\x07\x08\x0b\x0c\x7f\x80\xffxnrtba0fé")
	for range 20000 {
		b := make([]byte, source.IntN(12))
		for i := range b {
			if source.IntN(3) == 0 {
				b[i] = byte(source.IntN(256))
			} else {
				b[i] = special[source.IntN(len(special))]
			}
		}
		assertQuoted(t, string(b))
	}
}

func FuzzQuoteIsReadBackAsTheSameBytes(f *testing.F) {
	for _, s := range []string{"", " ", `"`, `\`, "#", "a b", "\n", "\x80", "é", `\x41`} {
		f.Add(s)
	}
	f.Fuzz(assertQuoted)
}

func assertQuoted(t *testing.T, s string) {
	t.Helper()
	quoted := Quote(s)
	if strings.ContainsAny(quoted, "\n\r\x00") {
		t.Errorf("%q is quoted as %q, which is more than a line", s, quoted)
	}
	words, err := split("key " + quoted)
	if err != nil || len(words) != 2 || words[1] != s {
		t.Errorf("%q is quoted as %s and read as %q, %v", s, quoted, words, err)
	}
}

func TestLinesAreSplitAsValkeyDoes(t *testing.T) {
	for line, want := range map[string][]string{
		"":                        nil,
		"  \v a\tb ":              {"a", "b"},
		`a"b c"`:                  {"ab c"},
		`"" ''`:                   {"", ""},
		`"\x41\xzz\n\q\\\""`:      {"Axzz\nq\\\""},
		`'it\'s \n "x"'`:          {`it's \n "x"`},
		"é\v\"q\"":                {"é\vq"},
		`"end\x4`:                 nil,
		`"a"b`:                    nil,
		`'a'"b"`:                  nil,
		`"a`:                      nil,
		`'a\`:                     nil,
		`"\`:                      nil,
		"/m.so a 'b c' \"d\\\"\"": {"/m.so", "a", "b c", `d"`},
	} {
		got, err := split(line)
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil && line != "") {
			t.Errorf("%q: error %v, words (-want +got):\n%s", line, err, diff)
		}
	}
}
