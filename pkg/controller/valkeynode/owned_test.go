package valkeynode

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// golden compares with testdata/NAME; UPDATE_GOLDEN=1 writes it instead.
func golden(t *testing.T, name string, objects ...any) {
	t.Helper()
	var text bytes.Buffer
	for i, object := range objects {
		one, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			text.WriteString("---\n")
		}
		text.Write(one)
	}
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("%s (UPDATE_GOLDEN=1 writes it anew): %s", path, diff)
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

var user999 = int64(999)

var bestEffort = controller.Config{DefaultZoneSpread: v1alpha1.ZoneSpreadBestEffort, ClusterDomain: "cluster.local", PodUser: &user999}

// plainNode is a node of a cluster without anything that may be left out.
func plainNode() *v1alpha1.ValkeyNode {
	return &v1alpha1.ValkeyNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "cache-0a1b2", UID: "node-uid", Generation: 1,
			Finalizers: []string{v1alpha1.FinalizerNode}},
		Spec: v1alpha1.ValkeyNodeSpec{
			ClusterName: "cache", Image: "example/valkey:9.1.2", ShardIndex: 2,
			ValkeySettings: config.Freeze(map[string]string{"maxmemory": "100mb"}, nil),
		},
	}
}

// fullNode has everything.
func fullNode() *v1alpha1.ValkeyNode {
	node := plainNode()
	node.Spec.CPU, node.Spec.Memory = quantity("500m"), quantity("1Gi")
	node.Spec.TLSSecret = "cache-tls"
	node.Spec.Placement = &v1alpha1.Placement{
		Zones: []string{"zone-b", "zone-a"}, ZoneSpread: v1alpha1.ZoneSpreadRequired,
		NodeSelector: map[string]string{"disk": "none", "pool": "cache"},
	}
	node.Spec.ValkeySettings = config.Freeze(map[string]string{"maxmemory": "100mb"},
		&config.TLS{Hostname: "cache-0a1b2.cache.app.svc.cluster.local"})
	return node
}

func TestTheObjectsOfAPlainNode(t *testing.T) {
	node := plainNode()
	file, err := ConfigMap(node)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "plain.yaml", file, Pod(node, nil, bestEffort))
}

func TestTheObjectsOfANodeWithEverything(t *testing.T) {
	node := fullNode()
	file, err := ConfigMap(node)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "full.yaml", file, Pod(node, map[string]string{"example.com/team": "blue"}, bestEffort))
}

func TestAPodUserThatIsLeftToThePlatformIsNotNamed(t *testing.T) {
	pod := Pod(plainNode(), nil, controller.Config{DefaultZoneSpread: v1alpha1.ZoneSpreadBestEffort})
	s := pod.Spec.SecurityContext
	if s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil || !*s.RunAsNonRoot {
		t.Errorf("%+v", s)
	}
}

func TestZonesSpreadAsHardAsTheNodeOrElseTheOperatorSays(t *testing.T) {
	const soft, hard = corev1.ScheduleAnyway, corev1.DoNotSchedule
	for _, test := range []struct {
		node, operator v1alpha1.ZoneSpread
		want           []corev1.UnsatisfiableConstraintAction
	}{
		{"", v1alpha1.ZoneSpreadBestEffort, []corev1.UnsatisfiableConstraintAction{soft, soft}},
		{"", v1alpha1.ZoneSpreadRequired, []corev1.UnsatisfiableConstraintAction{soft, hard, soft}},
		{v1alpha1.ZoneSpreadBestEffort, v1alpha1.ZoneSpreadRequired, []corev1.UnsatisfiableConstraintAction{soft, soft}},
		{v1alpha1.ZoneSpreadRequired, v1alpha1.ZoneSpreadBestEffort, []corev1.UnsatisfiableConstraintAction{soft, hard, soft}},
	} {
		node := plainNode()
		node.Spec.Placement = &v1alpha1.Placement{ZoneSpread: test.node}
		var got []corev1.UnsatisfiableConstraintAction
		for _, c := range Pod(node, nil, controller.Config{DefaultZoneSpread: test.operator}).Spec.TopologySpreadConstraints {
			got = append(got, c.WhenUnsatisfiable)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q under %q: %s", test.node, test.operator, diff)
		}
	}
}

func TestNoPasswordIsInAnythingThatManyMayRead(t *testing.T) {
	file, err := ConfigMap(fullNode())
	if err != nil {
		t.Fatal(err)
	}
	text := file.Data[v1alpha1.ConfigMapKeyConfig]
	if strings.Contains(text, "primaryauth ") || !strings.HasSuffix(text, "include "+config.AuthFile+"\n") {
		t.Errorf("valkey.conf is\n%s", text)
	}
	pod := Pod(fullNode(), nil, bestEffort)
	for _, v := range pod.Spec.Volumes {
		if v.Name == volumeAuth && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != v1alpha1.SecretKeyPrimaryAuth) {
			t.Errorf("the pod mounts more of the Secret than its replication password: %+v", v.Secret.Items)
		}
	}
	for _, e := range pod.Spec.Containers[0].Env {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			t.Errorf("environment variable %s is not from the pod itself", e.Name)
		}
	}
}

func TestWhatIsBuiltSharesNothingWithTheNode(t *testing.T) {
	node := fullNode()
	annotations := map[string]string{"a": "b"}
	pod := Pod(node, annotations, bestEffort)
	pod.Annotations["a"] = "changed"
	pod.Spec.NodeSelector["disk"] = "changed"
	pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values[0] = "changed"
	if diff := cmp.Diff(fullNode(), node); diff != "" || annotations["a"] != "b" {
		t.Errorf("%s, %v", diff, annotations)
	}
}
