package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
)

// manifest reads the objects of a file of manifests/.
func manifest(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../manifests", path))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var out []*unstructured.Unstructured
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if len(raw.Raw) == 0 || string(raw.Raw) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw.Raw); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, o)
	}
}

// apply applies a file of manifests/; names says which of its namespaces stands for which here.
func apply(t *testing.T, path string, namespaces map[string]string) {
	t.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(served))
	for _, o := range manifest(t, path) {
		kind := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		resource := objects.Resource(mapping.Resource)
		options := metav1.ApplyOptions{FieldManager: "test", Force: true}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if other, ok := namespaces[o.GetNamespace()]; ok {
				o.SetNamespace(other)
			}
			_, err = resource.Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o, options)
		} else {
			_, err = resource.Apply(t.Context(), o.GetName(), o, options)
		}
		if err != nil {
			t.Fatalf("apply %s %s of %s: %v", kind.Kind, o.GetName(), path, err)
		}
	}
}

func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

func ensureNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := admin(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// person is a ServiceAccount of a namespace with a token of its own, bound to ClusterRoles.
func person(t *testing.T, namespace, name string, inNamespace, everywhere []string) *rest.Config {
	t.Helper()
	kube, ctx := admin(t), t.Context()
	ensureNamespace(t, namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	subject := []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}}
	for _, role := range inNamespace {
		binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
		if _, err := kube.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	for _, role := range everywhere {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name + "-" + role}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}
		if _, err := kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = kube.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
		})
	}
	hour := int64(3600)
	token, err := kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(restConfig)
	config.BearerToken = token.Status.Token
	return config
}

// eventually waits for the authorizer's caches.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func TestATenantWritesItsClustersAndNothingElse(t *testing.T) {
	apply(t, "rbac/tenant.yaml", nil)
	apply(t, "rbac/menu-reader.yaml", nil)
	ensureNamespace(t, "other-team")
	config := person(t, "team", "tenant", []string{"valkey-tenant"}, []string{"valkey-menu-reader"})
	valkey, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant's rights", func() error {
		_, err := valkey.ValkeyV1alpha1().ValkeyClusters("team").List(t.Context(), metav1.ListOptions{})
		return err
	})
	t.Cleanup(func() {
		_ = typed.ValkeyV1alpha1().ValkeyClusters("team").Delete(context.Background(), "cache", metav1.DeleteOptions{})
	})
	anybody := person(t, "team", "anybody", nil, nil)
	for namespace, own := range map[string]map[string]string{
		"team":       {"valkeyclusters": "create delete get list patch update watch", "valkeyclusters/status": "get list watch", "valkeynodes": "get list watch"},
		"other-team": {},
	} {
		want := rightsIn(t, namespace, anybody)
		for _, resource := range []string{"valkeyimages", "valkeyconfigs", "valkeyroles"} {
			own[resource] = "get list watch"
		}
		for resource, verbs := range own {
			want[v1alpha1.SchemeGroupVersion.Group+"/"+resource] = verbs
		}
		if diff := cmp.Diff(want, rightsIn(t, namespace, config)); diff != "" {
			t.Errorf("rights in %s (-want +got):\n%s", namespace, diff)
		}
	}
	for _, d := range tenantsDeeds(t.Context(), valkey, kube) {
		err := d.do()
		if d.may && err != nil || !d.may && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; may it: %v", d.what, err, d.may)
		}
	}
}

// rightsIn is all that a person may do in a namespace, as the API server tells the person itself: verbs by "group/resource".
func rightsIn(t *testing.T, namespace string, who *rest.Config) map[string]string {
	t.Helper()
	kube, err := kubernetes.NewForConfig(who)
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	got, err := kube.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || got.Status.Incomplete || got.Status.EvaluationError != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	out := map[string]string{}
	for _, rule := range got.Status.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				key := group + "/" + resource
				verbs := append(strings.Fields(out[key]), rule.Verbs...)
				slices.Sort(verbs)
				out[key] = strings.Join(slices.Compact(verbs), " ")
			}
		}
	}
	return out
}

// deed is something that a person tries, and whether it must work.
type deed struct {
	what string
	do   func() error
	may  bool
}

func tenantsDeeds(ctx context.Context, valkey versioned.Interface, kube kubernetes.Interface) []deed {
	api := valkey.ValkeyV1alpha1()
	one := func() *v1alpha1.ValkeyCluster {
		return &v1alpha1.ValkeyCluster{ObjectMeta: metav1.ObjectMeta{Name: "cache"}, Spec: v1alpha1.ValkeyClusterSpec{ConfigRef: "small", Shards: 1}}
	}
	patch := []byte(`{"metadata":{"annotations":{"valkey.gomomento.com/paused":"true"}}}`)
	node := &v1alpha1.ValkeyNode{ObjectMeta: metav1.ObjectMeta{Name: "cache-00000"}, Spec: v1alpha1.ValkeyNodeSpec{ClusterName: "cache", Image: "x:y"}}
	list, get := metav1.ListOptions{}, metav1.GetOptions{}
	return []deed{
		{"create a cluster", func() error {
			_, err := api.ValkeyClusters("team").Create(ctx, one(), metav1.CreateOptions{})
			return err
		}, true},
		{"list clusters", func() error { _, err := api.ValkeyClusters("team").List(ctx, list); return err }, true},
		{"patch a cluster", func() error {
			_, err := api.ValkeyClusters("team").Patch(ctx, "cache", types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		}, true},
		{"list nodes", func() error { _, err := api.ValkeyNodes("team").List(ctx, list); return err }, true},
		{"read the menu: images", func() error { _, err := api.ValkeyImages().List(ctx, list); return err }, true},
		{"read the menu: configs", func() error { _, err := api.ValkeyConfigs().List(ctx, list); return err }, true},
		{"read the menu: roles", func() error { _, err := api.ValkeyRoles().List(ctx, list); return err }, true},
		{"write a status", func() error {
			_, err := api.ValkeyClusters("team").Patch(ctx, "cache", types.MergePatchType, []byte(`{"status":{"state":"Active"}}`), metav1.PatchOptions{}, "status")
			return err
		}, false},
		{"create a node", func() error { _, err := api.ValkeyNodes("team").Create(ctx, node, metav1.CreateOptions{}); return err }, false},
		{"delete a node", func() error { return api.ValkeyNodes("team").Delete(ctx, "cache-00000", metav1.DeleteOptions{}) }, false},
		{"write the menu", func() error {
			_, err := api.ValkeyImages().Create(ctx, &v1alpha1.ValkeyImage{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: v1alpha1.ValkeyImageSpec{Repository: "a", Tag: "b", Version: "9.1.2"}}, metav1.CreateOptions{})
			return err
		}, false},
		{"delete of the menu", func() error { return api.ValkeyConfigs().Delete(ctx, "any", metav1.DeleteOptions{}) }, false},
		{"see another team's clusters", func() error { _, err := api.ValkeyClusters("other-team").List(ctx, list); return err }, false},
		{"create a cluster of another team", func() error {
			_, err := api.ValkeyClusters("other-team").Create(ctx, one(), metav1.CreateOptions{})
			return err
		}, false},
		{"see everybody's clusters", func() error { _, err := api.ValkeyClusters("").List(ctx, list); return err }, false},
		{"read the system passwords", func() error { _, err := kube.CoreV1().Secrets("team").Get(ctx, "cache-operator-auth", get); return err }, false},
		{"read users.acl", func() error { _, err := kube.CoreV1().ConfigMaps("team").Get(ctx, "cache-acl", get); return err }, false},
		{"list pods", func() error { _, err := kube.CoreV1().Pods("team").List(ctx, list); return err }, false},
		{"delete a cluster", func() error { return api.ValkeyClusters("team").Delete(ctx, "cache", metav1.DeleteOptions{}) }, true},
	}
}

// Without the opt-in file Kubernetes' own roles know nothing of Valkey; with it, viewers read and editors
// write clusters, and nobody more than that.
func TestAggregationIsOptIn(t *testing.T) {
	kube := admin(t)
	apply(t, "rbac/aggregate/aggregate.yaml", nil)
	t.Cleanup(func() {
		for _, o := range manifest(t, "rbac/aggregate/aggregate.yaml") {
			_ = kube.RbacV1().ClusterRoles().Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
		}
	})
	for _, path := range []string{"operator.yaml", "rbac/tenant.yaml", "rbac/menu-reader.yaml", "rbac/menu-writer.yaml", "rbac/namespaced.yaml"} {
		for _, o := range manifest(t, path) {
			for key := range o.GetLabels() {
				if strings.HasPrefix(key, "rbac.authorization.k8s.io/aggregate") {
					t.Errorf("%s aggregates unasked: %s", path, key)
				}
			}
		}
	}
	eventually(t, "the aggregated roles", func() error {
		for role, want := range map[string]string{"view": "get list watch", "edit": "create delete get list patch update watch"} {
			got, err := kube.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if verbs := verbsOn(got.Rules, "valkeyclusters"); verbs != want {
				return fmt.Errorf("%s may %q with clusters, want %q", role, verbs, want)
			}
			if verbs := verbsOn(got.Rules, "valkeynodes"); verbs != "get list watch" {
				return fmt.Errorf("%s may %q with nodes", role, verbs)
			}
		}
		return nil
	})
}

func verbsOn(rules []rbacv1.PolicyRule, resource string) string {
	var verbs []string
	for _, rule := range rules {
		if slices.Contains(rule.APIGroups, v1alpha1.SchemeGroupVersion.Group) && slices.Contains(rule.Resources, resource) {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	slices.Sort(verbs)
	return strings.Join(slices.Compact(verbs), " ")
}

// The rights for a few namespaces are those for all, cut in two: what belongs to a namespace, and what does not.
func TestTheRightsForAFewNamespacesAreThoseForAll(t *testing.T) {
	rules := func(path, kind, name string) []rbacv1.PolicyRule {
		for _, o := range manifest(t, path) {
			if o.GetKind() == kind && o.GetName() == name {
				var role rbacv1.ClusterRole
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
					t.Fatal(err)
				}
				return role.Rules
			}
		}
		t.Fatalf("%s has no %s %s", path, kind, name)
		return nil
	}
	flat := func(all []rbacv1.PolicyRule) []string {
		var out []string
		for _, rule := range all {
			if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
				t.Errorf("a rule that this test does not read: %v", rule)
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if group == "*" || resource == "*" || verb == "*" {
							t.Errorf("a wildcard: %v", rule)
						}
						out = append(out, group+"/"+resource+" "+verb)
					}
				}
			}
		}
		slices.Sort(out)
		return out
	}
	everywhere := flat(rules("operator.yaml", "ClusterRole", "valkey-operator"))
	parts := append(rules("rbac/namespaced.yaml", "ClusterRole", "valkey-operator-menu"), rules("rbac/namespaced.yaml", "Role", "valkey-operator")...)
	if few := flat(parts); !slices.Equal(everywhere, few) {
		t.Errorf("for all namespaces: %v\nfor a few: %v", everywhere, few)
	}
}

// The policies select what there is, and let through what must pass.
func TestNetworkPoliciesMatchPodsAndPorts(t *testing.T) {
	ensureNamespace(t, "team-a")
	ensureNamespace(t, "valkey-operator")
	apply(t, "networkpolicy/operator.yaml", nil)
	apply(t, "networkpolicy/cluster.yaml", nil)
	node := &v1alpha1.ValkeyNode{Spec: v1alpha1.ValkeyNodeSpec{ClusterName: "cache"}}
	nodeLabels := labels.Set(valkeynode.Pod(node, nil, controller.Config{}).Labels)
	strange := labels.Set{v1alpha1.LabelName: v1alpha1.LabelNameValue, v1alpha1.LabelInstance: "another"}
	operator := labels.Set{"app": "valkey-operator"}
	client := labels.Set{"valkey.gomomento.com/client": "cache"}
	cluster := policy(t, "networkpolicy/cluster.yaml")
	if !selects(t, &cluster.Spec.PodSelector, nodeLabels) || selects(t, &cluster.Spec.PodSelector, strange) {
		t.Error("the cluster's policy is not about its pods alone")
	}
	for _, c := range []struct {
		who  string
		from labels.Set
		port int
		want bool
	}{
		{"a node, data", nodeLabels, v1alpha1.PortValkey, true}, {"a node, bus", nodeLabels, v1alpha1.PortBus, true},
		{"the operator, data", operator, v1alpha1.PortValkey, true}, {"the operator, bus", operator, v1alpha1.PortBus, false},
		{"a client, data", client, v1alpha1.PortValkey, true}, {"a client, bus", client, v1alpha1.PortBus, false},
		{"another cluster's node, data", strange, v1alpha1.PortValkey, false}, {"another cluster's node, bus", strange, v1alpha1.PortBus, false},
		{"anybody, data", labels.Set{}, v1alpha1.PortValkey, false},
	} {
		got := slices.ContainsFunc(cluster.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return hasPort(r.Ports, c.port) && slices.ContainsFunc(r.From, func(p networkingv1.NetworkPolicyPeer) bool { return selects(t, p.PodSelector, c.from) })
		})
		if got != c.want {
			t.Errorf("%s comes in: %v, want %v", c.who, got, c.want)
		}
	}
	own := policy(t, "networkpolicy/operator.yaml")
	if !selects(t, &own.Spec.PodSelector, operator) {
		t.Error("the operator's policy is not about the operator")
	}
	if ports := deploymentPorts(t); len(own.Spec.Ingress) != 1 || len(ports) != 1 || !hasPort(own.Spec.Ingress[0].Ports, ports[0]) {
		t.Errorf("the operator listens on %v, the policy lets in %+v", ports, own.Spec.Ingress)
	}
	if !slices.ContainsFunc(own.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
		return hasPort(r.Ports, v1alpha1.PortValkey) && slices.ContainsFunc(r.To, func(p networkingv1.NetworkPolicyPeer) bool { return selects(t, p.PodSelector, nodeLabels) })
	}) {
		t.Error("the operator does not get to its nodes")
	}
}

func policy(t *testing.T, path string) networkingv1.NetworkPolicy {
	t.Helper()
	var p networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest(t, path)[0].Object, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func selects(t *testing.T, selector *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(set)
}

func hasPort(ports []networkingv1.NetworkPolicyPort, port int) bool {
	return slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && p.Port.IntValue() == port })
}

// deploymentPorts are what the operator's Deployment listens on.
func deploymentPorts(t *testing.T) []int {
	t.Helper()
	var out []int
	for _, o := range manifest(t, "operator.yaml") {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range containers {
			ports, _, err := unstructured.NestedSlice(c.(map[string]any), "ports")
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range ports {
				out = append(out, int(p.(map[string]any)["containerPort"].(int64)))
			}
		}
	}
	return out
}
