package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// manifest reads the objects of a file by "Kind/name", each as strictly as the API server.
func manifest(t *testing.T, file string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../manifests/" + file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, one := range bytes.Split(text, []byte("\n---\n")) {
		var is struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(one, &is); err != nil {
			t.Fatal(err)
		}
		out[is.Kind+"/"+is.Metadata.Name] = one
	}
	return out
}

func read[T any](t *testing.T, text []byte) T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// rights writes rules as "verb resource", one right each.
func rights(rules []rbacv1.PolicyRule) []string {
	all := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[fmt.Sprintf("%s %s/%s %v", verb, group, resource, rule.ResourceNames)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func TestAnOperatorOfAFewNamespacesHasTheSameRightsInThem(t *testing.T) {
	all, few := manifest(t, "operator.yaml"), manifest(t, "rbac/namespaced.yaml")
	want := rights(read[rbacv1.ClusterRole](t, all["ClusterRole/valkey-operator"]).Rules)
	got := rights(append(read[rbacv1.ClusterRole](t, few["ClusterRole/valkey-operator-menu"]).Rules,
		read[rbacv1.Role](t, few["Role/valkey-operator"]).Rules...))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheOperatorsRightsAreFew(t *testing.T) {
	for _, right := range rights(read[rbacv1.ClusterRole](t, manifest(t, "operator.yaml")["ClusterRole/valkey-operator"]).Rules) {
		verb, resource, _ := strings.Cut(right, " ")
		if strings.Contains(right, "*") {
			t.Errorf("%s: for everything", right)
		}
		if strings.HasPrefix(resource, "/secrets ") && (verb == "list" || verb == "watch") {
			t.Errorf("%s: Secrets are read by name only", right)
		}
		if strings.HasPrefix(resource, "/nodes ") && verb != "get" {
			t.Errorf("%s: a Kubernetes node is read for its zone only", right)
		}
		for _, menu := range []string{"valkeyimages", "valkeyconfigs", "valkeyroles"} {
			if strings.Contains(resource, menu) && !slices.Contains([]string{"get", "list", "watch"}, verb) {
				t.Errorf("%s: the menu is the platform team's", right)
			}
		}
	}
}

func TestTheDeploymentIsRestrictedAndTakesItsConfiguration(t *testing.T) {
	objects := manifest(t, "operator.yaml")
	for _, name := range []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment"} {
		if objects[name+"/valkey-operator"] == nil {
			t.Errorf("there is no %s valkey-operator", name)
		}
	}
	data := read[corev1.ConfigMap](t, objects["ConfigMap/valkey-operator-config"]).Data
	deployment := read[appsv1.Deployment](t, objects["Deployment/valkey-operator"])
	pod := deployment.Spec.Template.Spec
	if deployment.Spec.Template.Labels["app"] != "valkey-operator" || len(pod.Containers) != 1 {
		t.Fatalf("%+v", deployment.Spec.Template)
	}
	c := pod.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
			if ref.Name != "valkey-operator-config" || ref.Optional == nil || !*ref.Optional {
				t.Errorf("%s: an absent key must have its default", e.Name)
			}
			env[e.Name] = ref.Key
		}
	}
	want := map[string]string{"DEFAULT_ZONE_SPREAD": "defaultZoneSpread", "CLUSTER_DOMAIN": "clusterDomain", "POD_USER": "podUser", "FAILOVER": "failover"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
	values := map[string]string{"POD_NAMESPACE": "valkey-operator"}
	for name, key := range want {
		values[name] = data[key]
	}
	var o options
	cmd := command(func(name string) (string, bool) { v, ok := values[name]; return v, ok }, nil)
	if err := cmd.ParseFlags(c.Args); err != nil {
		t.Error(err)
	}
	if err := o.readEnv(func(name string) (string, bool) { v, ok := values[name]; return v, ok }, cmd.Flags()); err != nil {
		t.Errorf("the ConfigMap of the manifest is refused: %v", err)
	}
	s := c.SecurityContext
	if !*pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Error("the pod does not satisfy the restricted Pod Security Standard")
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.LivenessProbe.HTTPGet.Path != "/healthz" || c.Resources.Requests == nil {
		t.Error("probes or resource requests are missing")
	}
}
