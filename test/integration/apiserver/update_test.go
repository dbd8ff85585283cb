package apiserver

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// remove deletes a stored object.
func remove(t *testing.T, k kind, name string) {
	t.Helper()
	if err := k.client().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete %s %s: %v", k.kind, name, err)
	}
}

// stored creates the object of a row and returns it as the server reads it back.
func stored(t *testing.T, k kind, text string) *unstructured.Unstructured {
	t.Helper()
	object := k.bent(t, text)
	remove(t, k, object.GetName())
	if _, err := k.client().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	t.Cleanup(func() { remove(t, k, object.GetName()) })
	got, err := k.client().Get(t.Context(), object.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// checkUpdates stores an object and runs each row as an update of it that the server validates but does not store.
func checkUpdates(t *testing.T, k kind, before string, rows []row) {
	t.Helper()
	original := stored(t, k, before)
	for _, r := range rows {
		t.Run(r.sentence, func(t *testing.T) {
			object := original.DeepCopy()
			merge(object.Object, parse(t, expand(t, r.yaml)))
			_, err := k.client().Update(t.Context(), object, metav1.UpdateOptions{DryRun: []string{"All"}, FieldValidation: "Strict"})
			judge(t, r.refused, err)
		})
	}
}

func TestThePresenceOfTLSIsImmutable(t *testing.T) {
	const refused = "tls cannot be added to or removed from an existing ValkeyCluster; only its secretRef may change"
	t.Run("with TLS", func(t *testing.T) {
		checkUpdates(t, cluster, `spec: {tls: {secretRef: a}}`, []row{
			{"another secretRef is accepted", `spec: {tls: {secretRef: b}}`, ``},
			{"another number of shards is accepted", `spec: {shards: 7}`, ``},
			{"removing tls is refused", `spec: {tls: null}`, refused},
		})
	})
	t.Run("without TLS", func(t *testing.T) {
		checkUpdates(t, cluster, ``, []row{
			{"adding tls is refused", `spec: {tls: {secretRef: a}}`, refused},
			{"every other field may change", `spec: {configRef: b, shards: 1, replicasPerShard: 0, acl: [` + binding() + `], placement: {zones: [a]}, podAnnotations: {a: b}}`, ``},
		})
	})
}

func TestAnUpdateIsValidatedAsACreate(t *testing.T) {
	checkUpdates(t, cluster, ``, []row{
		{"no shard is refused", `spec: {shards: 0}`, `spec.shards in body should be greater than or equal to 1`},
		{"one user twice is refused", `spec: {acl: [` + binding() + `, ` + binding() + `]}`, `duplicate username in ACL bindings`},
		{"a reserved annotation is refused", `spec: {podAnnotations: {valkey.gomomento.com/x: z}}`, `annotation keys under valkey.gomomento.com/ are reserved`},
	})
	checkUpdates(t, config, ``, []row{
		{"a forbidden directive is refused", `spec: {valkey: {requirepass: x}}`, `requirepass, masterauth, masteruser, primaryauth, user and aclfile are not allowed`},
		{"another baseRef is accepted", `spec: {baseRef: other}`, ``},
	})
	checkUpdates(t, image, ``, []row{
		{"an older engine is refused", `spec: {version: 8.1.9}`, `version must be at least 9.0.0`},
		{"another tag is accepted", `spec: {tag: 9.1.3, version: 9.1.3}`, ``},
	})
}

func TestAValkeyNodeIsImmutableButForItsLifecycle(t *testing.T) {
	const full = `spec: {cpu: 500m, memory: 1Gi, valkeySettings: {save: ""}, tlsSecret: s, placement: {zones: [a]}, lifecycle: Joining, revision: "v1:a"}`
	t.Run("a node with every field", func(t *testing.T) {
		rows := []row{
			{"lifecycle may become Active", `spec: {lifecycle: Active}`, ``},
			{"lifecycle may become Leaving", `spec: {lifecycle: Leaving}`, ``},
			{"labels may change", `metadata: {labels: {a: b}}`, ``},
		}
		for field, changed := range map[string]string{
			"clusterName": "other", "image": "other:1", "cpu": "2", "memory": "2Gi", "valkeySettings": `{save: "60 1"}`,
			"shardIndex": "1", "tlsSecret": "other", "placement": "{zones: [b]}", "revision": "v1:b",
		} {
			rows = append(rows, row{field + " may not change", fmt.Sprintf(`spec: {%s: %s}`, field, changed), field + " is immutable"})
			if field != "clusterName" && field != "image" && field != "shardIndex" {
				rows = append(rows, row{field + " may not go", fmt.Sprintf(`spec: {%s: null}`, field), field + " is immutable"})
			}
		}
		checkUpdates(t, node, full, rows)
	})
	t.Run("a node with few fields", func(t *testing.T) {
		var rows []row
		for field, added := range map[string]string{
			"cpu": "2", "memory": "2Gi", "valkeySettings": "{save: a}", "tlsSecret": "s", "placement": "{}", "revision": "v1:a",
		} {
			rows = append(rows, row{field + " may not come", fmt.Sprintf(`spec: {%s: %s}`, field, added), field + " is immutable"})
		}
		checkUpdates(t, node, ``, rows)
	})
}

func TestDefaultsAreFilledIn(t *testing.T) {
	t.Run("a new ValkeyCluster is Creating", func(t *testing.T) {
		got := stored(t, cluster, `spec: {acl: [`+binding()+`]}`)
		if state, _, _ := unstructured.NestedString(got.Object, "status", "state"); state != "Creating" {
			t.Errorf("state is %q, want Creating", state)
		}
		c, err := typed.ValkeyV1alpha1().ValkeyClusters(namespace).Get(t.Context(), got.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if access := c.Spec.Acl[0].Permissions[0].Keys[0].Access; access != v1alpha1.KeyAccessReadWrite {
			t.Errorf("access is %q, want readwrite", access)
		}
		if c.Spec.Placement != nil {
			t.Errorf("placement is %+v, want none: its default is the operator's", c.Spec.Placement)
		}
	})
	t.Run("a new ValkeyNode is Active", func(t *testing.T) {
		got := stored(t, node, ``)
		if lifecycle, _, _ := unstructured.NestedString(got.Object, "spec", "lifecycle"); lifecycle != "Active" {
			t.Errorf("lifecycle is %q, want Active", lifecycle)
		}
	})
}

func TestStatusIsASubresourceOfEveryKind(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.kind, func(t *testing.T) {
			object := stored(t, k, `status: {observedGeneration: 7}`)
			if n, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found {
				t.Errorf("a create wrote status.observedGeneration %d", n)
			}
			merge(object.Object, parse(t, `{spec: {bogus: 1}, status: {observedGeneration: 7}}`))
			got, err := k.client().UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n, _, _ := unstructured.NestedInt64(got.Object, "status", "observedGeneration"); n != 7 {
				t.Errorf("status.observedGeneration is %d, want 7", n)
			}
			if got.GetGeneration() != 1 {
				t.Errorf("a status update raised the generation to %d", got.GetGeneration())
			}
		})
	}
}

func TestAFullStatusSurvivesTheTypedClient(t *testing.T) {
	stored(t, cluster, `metadata: {name: full}`)
	clusters := typed.ValkeyV1alpha1().ValkeyClusters(namespace)
	c, err := clusters.Get(t.Context(), "full", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := metav1.Now().Rfc3339Copy()
	c.Status = v1alpha1.ValkeyClusterStatus{
		State: v1alpha1.ClusterStateActive, ObservedGeneration: 1, SlotsAssigned: v1alpha1.TotalSlots, NodeSerial: 3,
		TargetSpec: &v1alpha1.TargetSpec{ConfigRef: "small", Shards: 3, ReplicasPerShard: 1, Placement: &v1alpha1.Placement{Zones: []string{"a"}}, TLS: &v1alpha1.ValkeyTLS{SecretRef: "s"}},
		Nodes:      []v1alpha1.NodeSummary{{Name: "full-0a1b2", Role: v1alpha1.NodeRolePrimary, NodeID: "id", PodIP: "fd00::1", Zone: "a"}},
		Shards:     []v1alpha1.ShardStatus{{ID: "s1", Primary: "full-0a1b2", Replicas: []string{"full-1b2c3"}, Slots: []string{"0-5460", "7000"}, SlotCount: 5462}},
		LastAction: &v1alpha1.LastAction{Rule: "Meet", Action: "meet", Why: "not met", Time: now},
		Attempts:   []v1alpha1.Attempt{{Kind: "SlotsUneven", Subject: "a>b", Count: 2, LastTime: now, Message: "refused"}},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "Formed", LastTransitionTime: now}},
	}
	got, err := clusters.UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := c.Status
	if fmt.Sprintf("%+v", got.Status.Nodes) != fmt.Sprintf("%+v", want.Nodes) || fmt.Sprintf("%+v", got.Status.Shards) != fmt.Sprintf("%+v", want.Shards) ||
		got.Status.LastAction.Action != "meet" || got.Status.Attempts[0].Count != 2 || got.Status.TargetSpec.TLS.SecretRef != "s" {
		t.Errorf("status is\n%+v\nwant\n%+v", got.Status, want)
	}
}

func TestQuantitiesSurviveTheTypedClient(t *testing.T) {
	for text, want := range map[string]string{`2`: "2", `"2000m"`: "2", `500m`: "500m", `".5"`: "500m", `"1e3"`: "1e3"} {
		t.Run("cpu "+text, func(t *testing.T) {
			name := stored(t, config, `spec: {resources: {cpu: `+text+`}}`).GetName()
			c, err := typed.ValkeyV1alpha1().ValkeyConfigs().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Spec.Resources.CPU.Cmp(resource.MustParse(want)) != 0 {
				t.Errorf("cpu is %s, want %s", c.Spec.Resources.CPU, want)
			}
		})
	}
}
