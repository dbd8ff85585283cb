// Package valkey_test compares what pkg/valkey writes and reads with what real
// servers read and write.
package valkey_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mediocregopher/radix/v4"

	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

// Directives that take any text, as long as there is no TLS; but two are names of files.
var anyText = map[string]struct{ isFile bool }{
	"syslog-ident":      {},
	"availability-zone": {},
	"tls-ciphers":       {},
	"tls-ciphersuites":  {},
	"tls-protocols":     {},
	"dbfilename":        {isFile: true},
	"appendfilename":    {isFile: true},
}

func TestAnyValueOfADirectiveArrivesByteForByte(t *testing.T) {
	const seed = 20260101
	source := rand.New(rand.NewPCG(seed, seed))
	for _, fixed := range []string{
		"", " ", "  a  ", `"`, `'`, `\`, `\\`, `""`, `"a b"`, `'a'`, "#", "# a", "a # b", `a\`, `\x41`, `\n`, "a\tb", "é ü", "日本", "\xff\xfe", "\x7f",
		strings.Repeat("x", 8192), strings.Repeat(`"`, 4000),
	} {
		settings := map[string]string{}
		for name := range anyText {
			settings[name] = fixed
		}
		assertArrives(t, fmt.Sprintf("%.20q", fixed), settings)
	}
	for round := range 25 {
		settings := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(anyText)) {
			settings[name] = randomText(source)
		}
		assertArrives(t, fmt.Sprintf("seed %d round %d", seed, round), settings)
	}
}

// randomText has every byte but NUL, which ends a string for the server, and more of
// those that mean something in a line.
func randomText(source *rand.Rand) string {
	const special = "\"'\\ #\n\r\t\v\fxn0"
	b := make([]byte, source.IntN(24))
	for i := range b {
		if source.IntN(2) == 0 {
			b[i] = special[source.IntN(len(special))]
		} else {
			b[i] = byte(1 + source.IntN(255))
		}
	}
	return string(b)
}

func assertArrives(t *testing.T, name string, settings map[string]string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for name, text := range anyText {
			if text.isFile { // the server itself refuses others
				settings[name] = "f" + strings.NewReplacer("/", "", `\`, "").Replace(settings[name])
				settings[name] = settings[name][:min(len(settings[name]), 100)]
			}
		}
		s := valkeyproc.Start(t, 1, valkeyproc.Options{Settings: settings})[0]
		all := configOf(t, s)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if got := all[name]; got != settings[name] {
				t.Errorf("%s is %q, want %q", name, got, settings[name])
			}
		}
	})
}

// configOf is CONFIG GET *, binary safe.
func configOf(t *testing.T, s *valkeyproc.Server) map[string]string {
	t.Helper()
	c, err := radix.Dial(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	all := map[string]string{}
	if err := c.Do(t.Context(), radix.Cmd(&all, "CONFIG", "GET", "*")); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirectivesMeanWhatTheirDocumentationSays(t *testing.T) {
	type settings = map[string]string
	for _, c := range []struct{ given, want settings }{
		{settings{}, settings{
			// Defaults, and what is forced.
			"save": "", "repl-diskless-sync-delay": "0", "shutdown-on-sigterm": "failover", "cluster-enabled": "yes",
			"cluster-node-timeout": "5000", "cluster-allow-replica-migration": "no", "cluster-replica-validity-factor": "0",
			"port": "6379", "protected-mode": "no", "primaryuser": "_momento_repl", "primaryauth": valkeyproc.ReplPassword,
		}},
		{settings{"save": "3600 1 300 100"}, settings{"save": "3600 1 300 100"}},
		{settings{"save": "60  1"}, settings{"save": "60 1"}},
		{settings{"save": `""`}, settings{"save": ""}},
		{
			settings{"client-output-buffer-limit": "replica 256mb 64mb 60"},
			settings{"client-output-buffer-limit": "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"},
		},
		{
			settings{"client-output-buffer-limit": "normal 1mb 1mb 1 replica 2mb 2mb 2 pubsub 3mb 3mb 3"},
			settings{"client-output-buffer-limit": "normal 1048576 1048576 1 slave 2097152 2097152 2 pubsub 3145728 3145728 3"},
		},
		{settings{
			"oom-score-adj-values": "0 100 200", "maxmemory": "1500mb", "maxmemory-policy": "allkeys-lru", "notify-keyspace-events": "",
			"latency-tracking-info-percentiles": "50 99 99.9", "shutdown-on-sigterm": "nosave force", "slowlog-log-slower-than": "-1",
			"repl-diskless-sync-delay": "7", "proc-title-template": "{title} of {config-file} # x", "tls-protocols": "TLSv1.2 TLSv1.3",
			"cluster-node-timeout": "1", "cluster-slave-validity-factor": "3", "replica-priority": "7", "timeout": "30",
		}, settings{
			"oom-score-adj-values": "0 100 200", "maxmemory": "1572864000", "maxmemory-policy": "allkeys-lru", "notify-keyspace-events": "",
			"latency-tracking-info-percentiles": "50 99 99.9", "shutdown-on-sigterm": "nosave force", "slowlog-log-slower-than": "-1",
			"repl-diskless-sync-delay": "7", "proc-title-template": "{title} of {config-file} # x", "tls-protocols": "TLSv1.2 TLSv1.3",
			"cluster-node-timeout": "5000", "cluster-replica-validity-factor": "0", "slave-priority": "7", "timeout": "30",
		}},
		{settings{"notify-keyspace-events": "KEA"}, settings{"notify-keyspace-events": "AKE"}},
	} {
		t.Run(fmt.Sprintf("%.60v", c.given), func(t *testing.T) {
			all := configOf(t, valkeyproc.Start(t, 1, valkeyproc.Options{Settings: c.given})[0])
			for name, want := range c.want {
				if got, ok := all[name]; !ok || got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestEverythingThatAServerShowsCanBeWrittenDownAgain(t *testing.T) {
	first := valkeyproc.Start(t, 1, valkeyproc.Options{Settings: map[string]string{"save": "3600 1", "oom-score-adj-values": "1 2 3"}})[0]
	shown := configOf(t, first)
	for name := range shown {
		// What the API server refuses, and what is this server's own.
		if strings.Contains(name, "_") || strings.HasPrefix(name, "cluster-announce-") || strings.HasPrefix(name, "tls-") || slices.Contains([]string{
			"requirepass", "masterauth", "masteruser", "primaryauth", "aclfile", "replicaof", "slaveof", "cluster-port", "unixsocket",
			"daemonize", "logfile", "dir", "bind", "bind-source-addr",
		}, name) {
			delete(shown, name)
		}
	}
	if len(shown) < 150 {
		t.Fatalf("only %d directives are left", len(shown))
	}
	again := configOf(t, valkeyproc.Start(t, 1, valkeyproc.Options{Settings: shown})[0])
	for name := range again {
		if _, asked := shown[name]; !asked {
			delete(again, name)
		}
	}
	for _, files := range []string{"cluster-config-file", "pidfile"} { // below each server's own folder
		delete(shown, files)
		delete(again, files)
	}
	if diff := cmp.Diff(shown, again); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
}

func TestAModulesPathAndArgumentsArriveApart(t *testing.T) {
	s := valkeyproc.Launch(t, valkeyproc.Options{Settings: map[string]string{"loadmodule": `"/nowhere/my module.so" one 'two 2'`}})
	<-s.Ended()
	if log := s.Log(t); !strings.Contains(log, "/nowhere/my module.so") || strings.Contains(log, "FATAL CONFIG FILE ERROR") {
		t.Errorf("the log is\n%s", log)
	}
}
