// Package metrics has every number that the operator shows on /metrics.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// Metrics are the operator's numbers. The zero value is of no use; make one with New. All
// methods may be called from any goroutine.
type Metrics struct {
	registry  *prometheus.Registry
	decisions *prometheus.CounterVec
	passes    *prometheus.HistogramVec
	errors    *prometheus.CounterVec
	looks     prometheus.Histogram
	leader    prometheus.Gauge
	state     *prometheus.GaugeVec
	slots     *prometheus.GaugeVec
	nodes     *prometheus.GaugeVec
	expiry    *prometheus.GaugeVec
}

// A pass takes from microseconds, when nothing is new, to the cap of 3 s on a look at servers
// and the deadlines of what it does then.
var seconds = []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10}

var ofCluster = []string{"namespace", "cluster"}

// New makes the numbers and a registry of their own, with those of the Go runtime and the
// process.
func New(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "valkey_operator_decisions_total",
			Help: "Decisions of the planner, by the rule that decided and the kind of action.",
		}, []string{"rule", "action"}),
		passes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "valkey_operator_pass_duration_seconds", Buckets: seconds,
			Help: "Time that one pass over one object took.",
		}, []string{"controller"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "valkey_operator_pass_errors_total",
			Help: "Passes that ended in an error and are tried again.",
		}, []string{"controller"}),
		looks: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "valkey_operator_look_duration_seconds", Buckets: seconds,
			Help: "Time to ask every server of one Valkey cluster for its view.",
		}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "valkey_operator_leader",
			Help: "1 while this process holds the lease, or needs none.",
		}),
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "valkey_cluster_state",
			Help: "1 for the state that the ValkeyCluster is in, 0 for the others.",
		}, append(ofCluster, "state")),
		slots: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "valkey_cluster_slots_assigned",
			Help: "Hash slots that have an owner, of 16384.",
		}, ofCluster),
		nodes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "valkey_cluster_nodes",
			Help: "ValkeyNodes of the cluster.",
		}, ofCluster),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "valkey_cluster_certificate_expiry_timestamp_seconds",
			Help: "When the cluster's TLS certificate expires, in seconds since 1970; absent without TLS.",
		}, ofCluster),
	}
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "valkey_operator_build_info", ConstLabels: prometheus.Labels{"version": version},
		Help: "Always 1; the label is the operator's version.",
	}, func() float64 { return 1 })
	m.registry.MustRegister(m.decisions, m.passes, m.errors, m.looks, m.leader, m.state, m.slots, m.nodes, m.expiry, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the numbers in Prometheus' text form.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Decided counts one decision. Action is the kind of action, not its text: "Meet".
func (m *Metrics) Decided(rule, action string) { m.decisions.WithLabelValues(rule, action).Inc() }

// Looked takes how long one look at all servers of a cluster took.
func (m *Metrics) Looked(took time.Duration) { m.looks.Observe(took.Seconds()) }

// Passes gives the Observe of a controller's loop.
func (m *Metrics) Passes(controller string) func(cache.ObjectName, time.Duration, error) {
	took, failed := m.passes.WithLabelValues(controller), m.errors.WithLabelValues(controller)
	return func(_ cache.ObjectName, d time.Duration, err error) {
		took.Observe(d.Seconds())
		if err != nil {
			failed.Inc()
		}
	}
}

// Leading says whether this process may act.
func (m *Metrics) Leading(yes bool) {
	m.leader.Set(0)
	if yes {
		m.leader.Set(1)
	}
}

var states = []v1alpha1.ClusterState{
	v1alpha1.ClusterStateCreating, v1alpha1.ClusterStateActive, v1alpha1.ClusterStateInvalid,
}

// Cluster shows what the status of a cluster says.
func (m *Metrics) Cluster(key cache.ObjectName, status *v1alpha1.ValkeyClusterStatus) {
	for _, state := range states {
		value := 0.0
		if state == status.State {
			value = 1
		}
		m.state.WithLabelValues(key.Namespace, key.Name, string(state)).Set(value)
	}
	m.slots.WithLabelValues(key.Namespace, key.Name).Set(float64(status.SlotsAssigned))
	m.nodes.WithLabelValues(key.Namespace, key.Name).Set(float64(len(status.Nodes)))
}

// Certificate shows when the certificate of a cluster expires.
func (m *Metrics) Certificate(key cache.ObjectName, expires time.Time) {
	m.expiry.WithLabelValues(key.Namespace, key.Name).Set(float64(expires.Unix()))
}

// Forget drops the numbers of a cluster that is no more.
func (m *Metrics) Forget(key cache.ObjectName) {
	labels := prometheus.Labels{"namespace": key.Namespace, "cluster": key.Name}
	for _, gauge := range []*prometheus.GaugeVec{m.state, m.slots, m.nodes, m.expiry} {
		gauge.DeletePartialMatch(labels)
	}
}
