package main

import (
	"context"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version = ""

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// usageError is a mistake in flags, files or environment: nothing was started.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func wrong(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// oneLine keeps an answer in one line, as a log collector wants it.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// options are all that the operator is told.
type options struct {
	kubeconfig  string
	namespaces  []string
	verbosity   int
	bindAddress string
	workers     int
	qps         float32
	burst       int
	election    election
	controller.Config
}

// election says how several operators agree who works.
type election struct {
	enabled             bool
	namespace, name     string
	lease, renew, retry time.Duration
}

const description = `valkey-operator runs Valkey clusters on Kubernetes.

It watches ValkeyClusters, creates a pod for each node, forms the cluster and keeps
it as described: repairs, scales and updates it.

environment:
  DEFAULT_ZONE_SPREAD  bestEffort or required: for ValkeyClusters that do not say (bestEffort)
  CLUSTER_DOMAIN       what the DNS names of Services end with (cluster.local)
  POD_USER             user and group ID of Valkey pods; empty leaves them to the platform (999)
  FAILOVER             fast: elect at once where a primary is proven dead; native: leave it to Valkey (fast)
  POD_NAMESPACE        namespace of the Lease, unless --leader-elect-namespace says it
  RUST_LOG             debug is -v=4

exit codes: 0 asked to end, 1 failed while running, 2 wrong flags, files or environment`

// command is the command line. Start is called once everything is known to be right.
func command(env func(string) (string, bool), start func(context.Context, options) error) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "valkey-operator",
		Short:         "Run Valkey clusters on Kubernetes",
		Long:          description,
		Version:       versionText(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.readEnv(env, cmd.Flags()); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return start(cmd.Context(), o)
		},
	}
	cmd.SetVersionTemplate("valkey-operator {{.Version}}\n")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong("%w (try --help)", err) })
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return wrong("unknown argument %q (try --help)", args[0])
		}
		return nil
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *options) addFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file to reach the API server with (default: the pod's ServiceAccount)")
	f.StringSliceVar(&o.namespaces, "namespaces", nil, "serve only these namespaces, separated by commas (default: all)")
	f.IntVarP(&o.verbosity, "v", "v", 0, "how much to log: 0 faults and deeds, 2 decisions, 4 what was seen")
	f.StringVar(&o.bindAddress, "metrics-bind-address", ":8080", "address for /metrics, /healthz and /readyz; 0 for none")
	f.IntVar(&o.workers, "workers", 8, "clusters, and nodes, worked on at the same time")
	f.Float32Var(&o.qps, "qps", 100, "requests to the API server a second, over time")
	f.IntVar(&o.burst, "burst", 200, "requests to the API server at once")
	f.BoolVar(&o.election.enabled, "leader-elect", true, "work only while holding a Lease, so that several operators may run")
	f.StringVar(&o.election.namespace, "leader-elect-namespace", "", "namespace of the Lease (default: POD_NAMESPACE)")
	f.StringVar(&o.election.name, "leader-elect-name", "valkey-operator", "name of the Lease")
	f.DurationVar(&o.election.lease, "leader-elect-lease-duration", 15*time.Second, "how long a Lease that is not renewed is respected")
	f.DurationVar(&o.election.renew, "leader-elect-renew-deadline", 10*time.Second, "how long the leader acts without having renewed its Lease")
	f.DurationVar(&o.election.retry, "leader-elect-retry-period", 2*time.Second, "how often to try to get or renew the Lease")
}

// readEnv takes the environment. What is absent has its default; a flag wins.
func (o *options) readEnv(env func(string) (string, bool), flags *pflag.FlagSet) error {
	get := func(name, otherwise string) string {
		if value, ok := env(name); ok {
			return value
		}
		return otherwise
	}
	o.DefaultZoneSpread = v1alpha1.ZoneSpread(get("DEFAULT_ZONE_SPREAD", string(v1alpha1.ZoneSpreadBestEffort)))
	if s := o.DefaultZoneSpread; s != v1alpha1.ZoneSpreadBestEffort && s != v1alpha1.ZoneSpreadRequired {
		return wrong("DEFAULT_ZONE_SPREAD is %q: it must be bestEffort or required", s)
	}
	o.ClusterDomain = get("CLUSTER_DOMAIN", "cluster.local")
	if problems := validation.IsDNS1123Subdomain(o.ClusterDomain); len(problems) > 0 {
		return wrong("CLUSTER_DOMAIN is %q: %s", o.ClusterDomain, problems[0])
	}
	o.Failover = plan.FailoverMode(get("FAILOVER", string(plan.FailoverFast)))
	if f := o.Failover; f != plan.FailoverFast && f != plan.FailoverNative {
		return wrong("FAILOVER is %q: it must be fast or native", f)
	}
	if user := get("POD_USER", "999"); user != "" {
		id, err := strconv.ParseInt(user, 10, 64)
		// 0 is root, which the restricted Pod Security Standard refuses; the largest is the kernel's.
		if err != nil || id < 1 || id > 1<<31-1 {
			return wrong("POD_USER is %q: it must be a user ID from 1 to 2147483647, or empty", user)
		}
		o.PodUser = &id
	}
	if get("RUST_LOG", "") == "debug" && !flags.Changed("v") {
		o.verbosity = 4
	}
	if o.election.namespace == "" {
		o.election.namespace = get("POD_NAMESPACE", "")
	}
	return nil
}

func (o *options) check() error {
	for _, name := range append(slices.Clone(o.namespaces), o.election.namespace) {
		if problems := validation.IsDNS1123Label(name); name != "" && len(problems) > 0 {
			return wrong("%q is no namespace: %s", name, problems[0])
		}
	}
	if slices.Contains(o.namespaces, "") {
		return wrong("--namespaces has an empty name")
	}
	slices.Sort(o.namespaces)
	o.namespaces = slices.Compact(o.namespaces)
	switch {
	case o.verbosity < 0 || o.verbosity > 10:
		return wrong("-v is %d: it must be from 0 to 10", o.verbosity)
	case o.workers < 1 || o.workers > 1000:
		return wrong("--workers is %d: it must be from 1 to 1000", o.workers)
	case !(o.qps > 0 && o.qps <= 1e6): // NaN too
		return wrong("--qps is %v: it must be above 0 and at most 1000000", o.qps)
	case o.burst < 1 || o.burst > 1_000_000:
		return wrong("--burst is %d: it must be from 1 to 1000000", o.burst)
	}
	if o.bindAddress != "0" {
		_, port, err := net.SplitHostPort(o.bindAddress)
		if n, errPort := strconv.Atoi(port); err != nil || errPort != nil || n < 1 || n > 65535 {
			return wrong("--metrics-bind-address is %q: it must be HOST:PORT, :PORT or 0", o.bindAddress)
		}
	}
	if o.election.enabled {
		return o.election.check()
	}
	return nil
}

func (e *election) check() error {
	switch {
	case e.namespace == "":
		return wrong("leader election wants a namespace: set --leader-elect-namespace or POD_NAMESPACE, or --leader-elect=false")
	case len(validation.IsDNS1123Subdomain(e.name)) > 0:
		return wrong("--leader-elect-name is %q: it must be the name of a Lease", e.name)
	case e.retry < 100*time.Millisecond:
		return wrong("--leader-elect-retry-period is %s: it must be at least 100ms", e.retry)
	case e.renew < 2*e.retry:
		return wrong("--leader-elect-renew-deadline is %s: it must be at least twice the retry period, %s", e.renew, e.retry)
	case e.lease < e.renew+e.retry || e.lease < time.Second:
		return wrong("--leader-elect-lease-duration is %s: it must be at least 1s and the renew deadline and the retry period together, %s", e.lease, e.renew+e.retry)
	case e.lease > time.Hour:
		return wrong("--leader-elect-lease-duration is %s: it must be at most 1h", e.lease)
	}
	return nil
}
