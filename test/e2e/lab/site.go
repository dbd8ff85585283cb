package lab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/test/testca"
)

// Options say what a Site is made of; the zero value is right for most tests.
type Options struct {
	// NoOperator leaves the start of Site.Operator to the test.
	NoOperator bool
	// Deployed uses the operator of the Deployment; the test has scaled it.
	Deployed bool
	// OperatorArgs are further arguments of Site.Operator.
	OperatorArgs []string
	// OperatorEnv is added to the environment of Site.Operator, as NAME=value.
	OperatorEnv []string
	// Plain leaves out TLS and users: without it every cluster has TLS, a user "tester" that may do
	// everything, and no default user.
	Plain bool
	// NoMenu leaves out the ValkeyImage and the ValkeyConfig.
	NoMenu bool
	// Settings are directives of the ValkeyConfig.
	Settings map[string]string
	// CPU and Memory of each node. If empty, 64Mi, and no CPU: it is a limit too, and a throttled server looks dead.
	CPU, Memory string
}

// Site is a namespace of one test, with a menu and an operator of its own. All of it
// ends with the test; on the way out every cluster is deleted through the operator.
type Site struct {
	T        testing.TB
	Bed      *Bed
	Name     string // of the namespace, the ValkeyConfig and the ValkeyImage
	Operator *Operator
	options  Options
	clusters []*Cluster
	after    []func() error // what goes after the clusters: the menu
	ca       *testca.Pair   // of all clusters with TLS
}

var unnamable = regexp.MustCompile(`[^a-z0-9]+`)

// NewSite makes a namespace that enforces the restricted Pod Security Standard, a ValkeyImage and a ValkeyConfig of
// its name, and starts an operator for it.
func NewSite(t testing.TB, options Options) *Site {
	t.Helper()
	b := mustOpen(t)
	name := unnamable.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-")
	s := &Site{T: t, Bed: b, options: options, Name: fmt.Sprintf("%s-%04x", strings.Trim(name[:min(len(name), 40)], "-"), rand.IntN(1<<16))}
	_, err := b.Kube.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.Name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted", ownerLabel: strconv.Itoa(os.Getpid())},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create the namespace: %v", err)
	}
	s.Operator = b.newOperator(t, s.Name, options.OperatorArgs...)
	s.Operator.env = options.OperatorEnv
	t.Cleanup(s.end)
	if !options.NoMenu {
		s.CreateImage(s.Name, b.Images.Tag, b.Images.Version)
		s.CreateConfig(s.Name, s.Spec())
	}
	if !options.NoOperator && !options.Deployed {
		s.Operator.Start()
	}
	return s
}

func (s *Site) menuMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}}
}

// Second is another operator for the same namespace.
func (s *Site) Second() *Operator {
	s.T.Helper()
	return s.Bed.newOperator(s.T, s.Name, s.options.OperatorArgs...)
}

// Spec is the ValkeyConfig's spec that Options ask for.
func (s *Site) Spec() valkeyv1alpha1.ValkeyConfigSpec {
	q := func(text string) *resource.Quantity { q := resource.MustParse(text); return &q }
	resources := &valkeyv1alpha1.ValkeyResources{Memory: q("64Mi")}
	if s.options.Memory != "" {
		resources.Memory = q(s.options.Memory)
	}
	if s.options.CPU != "" {
		resources.CPU = q(s.options.CPU)
	}
	return valkeyv1alpha1.ValkeyConfigSpec{ImageRef: s.Name, Valkey: s.options.Settings, Resources: resources}
}

// CreateImage makes a ValkeyImage; it ends with the test.
func (s *Site) CreateImage(name, tag, version string) {
	s.T.Helper()
	images := s.Bed.Valkey.ValkeyV1alpha1().ValkeyImages()
	_, err := images.Create(context.Background(), &valkeyv1alpha1.ValkeyImage{
		ObjectMeta: s.menuMeta(name),
		Spec:       valkeyv1alpha1.ValkeyImageSpec{Repository: s.Bed.Images.Repository, Tag: tag, Version: version},
	}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("create ValkeyImage %s: %v", name, err)
	}
	s.after = append(s.after, func() error { return images.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// CreateConfig makes a ValkeyConfig; it ends with the test.
func (s *Site) CreateConfig(name string, spec valkeyv1alpha1.ValkeyConfigSpec) {
	s.T.Helper()
	configs := s.Bed.Valkey.ValkeyV1alpha1().ValkeyConfigs()
	_, err := configs.Create(context.Background(), &valkeyv1alpha1.ValkeyConfig{ObjectMeta: s.menuMeta(name), Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("create ValkeyConfig %s: %v", name, err)
	}
	s.after = append(s.after, func() error { return configs.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// PatchImage and PatchConfig change menu objects by a JSON merge patch.
func (s *Site) PatchImage(name, patch string) {
	s.T.Helper()
	if _, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyImages().Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.T.Fatalf("patch ValkeyImage %s with %s: %v", name, patch, err)
	}
}

// PatchConfig changes a ValkeyConfig by a JSON merge patch.
func (s *Site) PatchConfig(name, patch string) {
	s.T.Helper()
	if _, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyConfigs().Patch(context.Background(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.T.Fatalf("patch ValkeyConfig %s with %s: %v", name, patch, err)
	}
}

func (s *Site) mayBeGone(err error) {
	if err != nil && !apierrors.IsNotFound(err) {
		s.T.Error(err)
	}
}

// end shows everything if the test failed, then deletes every cluster and checks that nothing of them is left.
func (s *Site) end() {
	if s.T.Failed() {
		s.dump()
	}
	ctx := context.Background()
	if !s.options.Deployed && !s.Operator.Alive() {
		s.Operator.Start()
	}
	for _, c := range s.clusters {
		c.StopWatching()
		s.mayBeGone(s.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(s.Name).Delete(ctx, c.Name, metav1.DeleteOptions{}))
	}
	if err := Await(45*time.Second, s.Empty); err != nil {
		s.T.Errorf("45 s after the clusters were deleted: %v\n%s", err, s.Operator.tail(20))
		s.Bed.dropFinalizers(s.Name)
	}
	for _, f := range s.after {
		s.mayBeGone(f())
	}
	s.Operator.Stop()
	s.Operator.checkOutput()
	s.mayBeGone(s.Bed.Kube.CoordinationV1().Leases(OperatorName).Delete(ctx, s.Name, metav1.DeleteOptions{}))
	s.mayBeGone(s.Bed.Kube.CoreV1().Namespaces().Delete(ctx, s.Name, metav1.DeleteOptions{}))
}

// Empty gives an error that names what is left of any cluster in the namespace.
func (s *Site) Empty() error {
	ctx, all := context.Background(), metav1.ListOptions{}
	var left []string
	note := func(kind, name string) { left = append(left, kind+" "+name) }
	clusters, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(s.Name).List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range clusters.Items {
		note("ValkeyCluster", o.Name)
	}
	nodes, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyNodes(s.Name).List(ctx, all)
	if err != nil {
		return err
	}
	for _, o := range nodes.Items {
		note("ValkeyNode", o.Name)
	}
	left = append(left, s.Owned()...)
	if len(left) > 0 {
		return fmt.Errorf("still there: %s", strings.Join(left, ", "))
	}
	return nil
}

// Owned lists, as "Kind name", the core objects of the namespace that a ValkeyCluster or a ValkeyNode owns.
func (s *Site) Owned() []string {
	ctx, all := context.Background(), metav1.ListOptions{}
	var out []string
	note := func(kind string, o metav1.Object) {
		for _, ref := range o.GetOwnerReferences() {
			if strings.HasPrefix(ref.Kind, "Valkey") {
				out = append(out, kind+" "+o.GetName())
			}
		}
	}
	core := s.Bed.Kube.CoreV1()
	if list, err := core.Pods(s.Name).List(ctx, all); err == nil {
		for i := range list.Items {
			note("Pod", &list.Items[i])
		}
	}
	if list, err := core.ConfigMaps(s.Name).List(ctx, all); err == nil {
		for i := range list.Items {
			note("ConfigMap", &list.Items[i])
		}
	}
	if list, err := core.Secrets(s.Name).List(ctx, all); err == nil {
		for i := range list.Items {
			note("Secret", &list.Items[i])
		}
	}
	if list, err := core.Services(s.Name).List(ctx, all); err == nil {
		for i := range list.Items {
			note("Service", &list.Items[i])
		}
	}
	return out
}
