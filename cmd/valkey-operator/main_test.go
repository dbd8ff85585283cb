package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary be the operator: main runs with its flags, its environment and
// its exit code.
func TestMain(m *testing.M) {
	if os.Getenv("BE_THE_OPERATOR") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// operator runs the operator with nothing but these variables in its environment.
func operator(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append([]string{"BE_THE_OPERATOR=1"}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String(), errs.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, out.String(), errs.String()
}

func TestHelpAndVersionTellWhatIsThere(t *testing.T) {
	code, help, stderr := operator(t, nil, "--help")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, word := range []string{"--kubeconfig", "--namespaces", "-v,", "--metrics-bind-address", "--leader-elect", "--workers", "--qps", "--burst",
		"--version", "DEFAULT_ZONE_SPREAD", "CLUSTER_DOMAIN", "POD_USER", "FAILOVER", "RUST_LOG", "POD_NAMESPACE", "exit codes"} {
		if !strings.Contains(help, word) {
			t.Errorf("--help does not tell of %s", word)
		}
	}
	code, text, _ := operator(t, nil, "--version")
	if code != 0 || !strings.HasPrefix(text, "valkey-operator ") || strings.Count(text, "\n") != 1 {
		t.Errorf("exit code %d, %q", code, text)
	}
}

const (
	badYAML    = ": {"
	noServer   = "apiVersion: v1\nkind: Config\n"
	noSuchCert = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {client-certificate: /does/not/exist, client-key: /does/not/exist}}]
`
	badServer = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "ht tp://nowhere"}}]
`
	badCA = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority-data: "bm90IGEgY2VydGlmaWNhdGU="}}]
`
	noContext = `
apiVersion: v1
kind: Config
current-context: other
contexts: [{name: c, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
`
)

// mistake is a command line or a variable, and what the answer has.
type mistake struct{ args, env, want string }

var mistakes = []mistake{
	{args: "--nonsense", want: "unknown flag: --nonsense"},
	{args: "-x", want: "unknown shorthand flag"},
	{args: "start", want: `unknown argument "start"`},
	{args: "--kubeconfig", want: "flag needs an argument"},
	{args: "--v=much", want: "invalid argument"},
	{args: "-v=-1", want: "-v is -1"},
	{args: "-v=11", want: "-v is 11"},
	{args: "--workers=0", want: "--workers is 0"},
	{args: "--workers=1001", want: "--workers is 1001"},
	{args: "--workers=1.5", want: "invalid argument"},
	{args: "--qps=0", want: "--qps is 0"},
	{args: "--qps=NaN", want: "--qps is NaN"},
	{args: "--qps=Inf", want: "--qps is +Inf"},
	{args: "--burst=0", want: "--burst is 0"},
	{args: "--burst=99999999999999999999", want: "invalid argument"},
	{args: "--namespaces=a,,b", want: "--namespaces has an empty name"},
	{args: "--namespaces=A_b", want: `"A_b" is no namespace`},
	{args: "--namespaces=\"a", want: "invalid argument"},
	{args: "--metrics-bind-address=nowhere", want: "--metrics-bind-address"},
	{args: "--metrics-bind-address=:99999", want: "--metrics-bind-address"},
	{args: "--metrics-bind-address=", want: "--metrics-bind-address"},
	{args: "--leader-elect=perhaps", want: "invalid argument"},
	{args: "--leader-elect --leader-elect-namespace=", want: "leader election wants a namespace"},
	{args: "--leader-elect-namespace=a/b --leader-elect", want: `"a/b" is no namespace`},
	{args: "--leader-elect --leader-elect-namespace=a --leader-elect-name=", want: "--leader-elect-name"},
	{args: "--leader-elect --leader-elect-namespace=a --leader-elect-retry-period=0s", want: "--leader-elect-retry-period is 0s"},
	{args: "--leader-elect --leader-elect-namespace=a --leader-elect-renew-deadline=3s", want: "--leader-elect-renew-deadline is 3s"},
	{args: "--leader-elect --leader-elect-namespace=a --leader-elect-lease-duration=10s", want: "--leader-elect-lease-duration is 10s"},
	{args: "--leader-elect --leader-elect-namespace=a --leader-elect-lease-duration=2h", want: "--leader-elect-lease-duration is 2h"},
	{args: "--leader-elect-lease-duration=long", want: "invalid argument"},
	{env: "DEFAULT_ZONE_SPREAD=none", want: `DEFAULT_ZONE_SPREAD is "none": it must be bestEffort or required`},
	{env: "DEFAULT_ZONE_SPREAD=", want: `DEFAULT_ZONE_SPREAD is ""`},
	{env: "DEFAULT_ZONE_SPREAD=BestEffort", want: `DEFAULT_ZONE_SPREAD is "BestEffort"`},
	{env: "CLUSTER_DOMAIN=", want: `CLUSTER_DOMAIN is ""`},
	{env: "CLUSTER_DOMAIN=a..b", want: `CLUSTER_DOMAIN is "a..b"`},
	{env: "POD_USER=root", want: `POD_USER is "root"`},
	{env: "POD_USER=0", want: `POD_USER is "0"`},
	{env: "POD_USER=-1", want: `POD_USER is "-1"`},
	{env: "POD_USER=2147483648", want: `POD_USER is "2147483648"`},
	{env: "FAILOVER=slow", want: `FAILOVER is "slow": it must be fast or native`},
	{env: "FAILOVER=", want: `FAILOVER is ""`},
	{args: "--leader-elect", env: "POD_NAMESPACE=a b", want: `"a b" is no namespace`},
}

// fileMistakes are those in a kubeconfig.
func fileMistakes(dir string, file func(name, text string) string) []mistake {
	good := "--kubeconfig=" + file("good", strings.ReplaceAll(badServer, "ht tp://nowhere", "https://127.0.0.1:1"))
	return []mistake{
		{want: "not in a pod, so --kubeconfig is needed"},
		{args: "--kubeconfig=" + dir + "/missing", want: "no such file"},
		{args: "--kubeconfig=" + dir, want: "is a directory"},
		{args: "--kubeconfig=" + file("empty", ""), want: "--kubeconfig"},
		{args: "--kubeconfig=" + file("yaml", badYAML), want: "error loading config file"},
		{args: "--kubeconfig=" + file("noserver", noServer), want: "--kubeconfig"},
		{args: "--kubeconfig=" + file("nocontext", noContext), want: "--kubeconfig"},
		{args: "--kubeconfig=" + file("nocert", noSuchCert), want: "/does/not/exist"},
		{args: "--kubeconfig=" + file("badserver", badServer), want: "kubeconfig"},
		{args: "--kubeconfig=" + file("badca", badCA), want: "kubeconfig"},
		{args: good + " --metrics-bind-address=192.0.2.1:1", want: "--metrics-bind-address"},
	}
}

func TestEveryMistakeEndsInOneClearLineAndExitCodeTwo(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range append(fileMistakes(dir, file), mistakes...) {
		t.Run(test.args+test.env, func(t *testing.T) {
			t.Parallel()
			var env []string
			if test.env != "" {
				env = []string{test.env}
			}
			args := strings.Fields(test.args)
			if !strings.Contains(test.args, "--leader-elect") {
				args = append([]string{"--leader-elect=false"}, args...)
			}
			code, _, stderr := operator(t, env, args...)
			if code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if !strings.HasPrefix(stderr, "valkey-operator: ") || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, test.want) {
				t.Errorf("want one line with %q, got:\n%s", test.want, stderr)
			}
		})
	}
}

func TestTheEnvironmentIsTakenWhereItIsRight(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		args []string
		want func(options) bool
	}{
		{nil, nil, func(o options) bool {
			return o.DefaultZoneSpread == "bestEffort" && o.ClusterDomain == "cluster.local" && *o.PodUser == 999 && o.Failover == "fast" && o.verbosity == 0
		}},
		{map[string]string{"DEFAULT_ZONE_SPREAD": "required", "CLUSTER_DOMAIN": "k8s.example", "POD_USER": "", "FAILOVER": "native"}, nil, func(o options) bool {
			return o.DefaultZoneSpread == "required" && o.ClusterDomain == "k8s.example" && o.PodUser == nil && o.Failover == "native"
		}},
		{map[string]string{"POD_USER": "1000"}, nil, func(o options) bool { return *o.PodUser == 1000 }},
		{map[string]string{"RUST_LOG": "debug"}, nil, func(o options) bool { return o.verbosity == 4 }},
		{map[string]string{"RUST_LOG": "info,kube=warn"}, nil, func(o options) bool { return o.verbosity == 0 }},
		{map[string]string{"RUST_LOG": "debug"}, []string{"-v", "2"}, func(o options) bool { return o.verbosity == 2 }},
		{map[string]string{"POD_NAMESPACE": "ops"}, nil, func(o options) bool { return o.election.namespace == "ops" }},
		{map[string]string{"POD_NAMESPACE": "ops"}, []string{"--leader-elect-namespace=other"}, func(o options) bool { return o.election.namespace == "other" }},
		{nil, []string{"--namespaces=b,a,b"}, func(o options) bool { return strings.Join(o.namespaces, " ") == "a b" }},
	} {
		var got options
		cmd := command(func(name string) (string, bool) { value, ok := test.env[name]; return value, ok }, func(_ context.Context, o options) error {
			got = o
			return nil
		})
		args := test.args
		if test.env["POD_NAMESPACE"] == "" {
			args = append(args, "--leader-elect=false")
		}
		cmd.SetArgs(args)
		if err := cmd.Execute(); err != nil || !test.want(got) {
			t.Errorf("%v %v: %v, %+v", test.env, test.args, err, got)
		}
	}
}
