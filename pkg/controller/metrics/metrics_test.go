package metrics

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

func show(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.Code != 200 {
		t.Fatalf("%d, %v", answer.Code, err)
	}
	return string(text)
}

func TestEveryNumberIsShownAndAClustersAreDroppedWithIt(t *testing.T) {
	m := New("v1.2.3")
	kept, dropped := cache.ObjectName{Namespace: "ns", Name: "kept"}, cache.ObjectName{Namespace: "ns", Name: "dropped"}
	for _, key := range []cache.ObjectName{kept, dropped} {
		m.Cluster(key, &v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateCreating, SlotsAssigned: 1})
		m.Cluster(key, &v1alpha1.ValkeyClusterStatus{State: v1alpha1.ClusterStateActive, SlotsAssigned: 16384,
			Nodes: make([]v1alpha1.NodeSummary, 6)})
	}
	for _, key := range []cache.ObjectName{kept, dropped} {
		m.Certificate(key, time.Unix(1900000000, 0))
	}
	m.Forget(dropped)
	m.Decided("MeetStrangers", "Meet")
	m.Looked(20 * time.Millisecond)
	m.Passes("valkeynode")(kept, time.Second, errors.New("no"))
	m.Leading(true)
	text := show(t, m)
	for _, line := range []string{
		`valkey_cluster_state{cluster="kept",namespace="ns",state="Active"} 1`,
		`valkey_cluster_state{cluster="kept",namespace="ns",state="Creating"} 0`,
		`valkey_cluster_slots_assigned{cluster="kept",namespace="ns"} 16384`,
		`valkey_cluster_nodes{cluster="kept",namespace="ns"} 6`,
		`valkey_cluster_certificate_expiry_timestamp_seconds{cluster="kept",namespace="ns"} 1.9e+09`,
		`valkey_operator_decisions_total{action="Meet",rule="MeetStrangers"} 1`,
		`valkey_operator_look_duration_seconds_count 1`,
		`valkey_operator_pass_duration_seconds_count{controller="valkeynode"} 1`,
		`valkey_operator_pass_errors_total{controller="valkeynode"} 1`,
		`valkey_operator_leader 1`,
		`valkey_operator_build_info{version="v1.2.3"} 1`,
		`go_goroutines`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, "dropped") {
		t.Error("a cluster that is no more is still shown")
	}
	m.Leading(false)
	if !strings.Contains(show(t, m), "valkey_operator_leader 0") {
		t.Error("a lost lease is not shown")
	}
}
