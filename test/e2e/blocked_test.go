package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// nowhere makes pods wait for a Kubernetes node with a label of this test's own.
func nowhere(s *lab.Site) func(*valkeyv1alpha1.ValkeyClusterSpec) {
	return func(spec *valkeyv1alpha1.ValkeyClusterSpec) {
		spec.Placement = &valkeyv1alpha1.Placement{NodeSelector: map[string]string{"e2e/" + s.Name: "yes"}}
	}
}

// open gives the label to all Kubernetes nodes, until the end of the test.
func open(s *lab.Site) {
	s.T.Helper()
	for _, sign := range []string{"=yes", "-"} {
		label := func() {
			if out, err := s.Bed.Kubectl("label", "--overwrite", "nodes", "--all", "e2e/"+s.Name+sign); err != nil {
				s.T.Errorf("label the nodes: %v %s", err, out)
			}
		}
		if sign == "-" {
			s.T.Cleanup(label)
		} else {
			label()
		}
	}
}

func TestBootstrapWaitsForAMissingConfig(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{NoMenu: true})
	s.CreateImage(s.Name, s.Bed.Images.Tag, s.Bed.Images.Version)
	c := s.Create("cache", 1, 1)
	c.WaitTold(20*time.Second, fmt.Sprintf("ValkeyConfig %q not found", s.Name))
	c.WaitCondition(5*time.Second, valkeyv1alpha1.ConditionReferencesResolved, metav1.ConditionFalse)
	assertNoNodes(c)
	s.CreateConfig(s.Name, s.Spec())
	c.Settle(60*time.Second, 1, 1)
	c.WaitCondition(5*time.Second, valkeyv1alpha1.ConditionReferencesResolved, metav1.ConditionTrue)
}

func TestBootstrapWaitsForAMissingImage(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{NoMenu: true})
	s.CreateConfig(s.Name, s.Spec())
	c := s.Create("cache", 1, 1)
	c.WaitTold(20*time.Second, fmt.Sprintf("ValkeyImage %q not found", s.Name))
	assertNoNodes(c)
	s.CreateImage(s.Name, s.Bed.Images.Tag, s.Bed.Images.Version)
	c.Settle(60*time.Second, 1, 1)
}

func TestBootstrapWaitsWhileNoConfigNamesAnImage(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	s.PatchConfig(s.Name, `{"spec":{"imageRef":null}}`)
	c := s.Create("cache", 1, 0)
	c.WaitTold(20*time.Second, fmt.Sprintf("no image_ref in config chain ending at %q", s.Name))
	assertNoNodes(c)
	s.PatchConfig(s.Name, fmt.Sprintf(`{"spec":{"imageRef":%q}}`, s.Name))
	c.Settle(60*time.Second, 1, 0)
}

func TestBootstrapWaitsWhileConfigsInheritInACircle(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	base := s.Spec()
	base.BaseRef = s.Name
	s.CreateConfig(s.Name+"-base", base)
	s.PatchConfig(s.Name, fmt.Sprintf(`{"spec":{"baseRef":%q}}`, s.Name+"-base"))
	c := s.Create("cache", 1, 0)
	c.WaitTold(20*time.Second, "config inheritance depth exceeds 10 (cycle?)")
	assertNoNodes(c)
	s.PatchConfig(s.Name+"-base", `{"spec":{"baseRef":null}}`)
	c.Settle(60*time.Second, 1, 0)
}

func TestBootstrapWaitsWhileConfigsInheritElevenDeep(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	// The eleventh has what the tenth lacks; ten are allowed.
	previous := s.Name
	for i := 2; i <= 11; i++ {
		name := fmt.Sprintf("%s-%d", s.Name, i)
		s.CreateConfig(name, s.Spec())
		s.PatchConfig(previous, fmt.Sprintf(`{"spec":{"baseRef":%q}}`, name))
		previous = name
	}
	c := s.Create("cache", 1, 0)
	c.WaitTold(20*time.Second, "config inheritance depth exceeds 10 (cycle?)")
	assertNoNodes(c)
	s.PatchConfig(s.Name+"-10", `{"spec":{"baseRef":null}}`)
	c.Settle(60*time.Second, 1, 0)
}

func assertNoNodes(c *lab.Cluster) {
	c.T.Helper()
	if nodes, err := c.Nodes(); err != nil || len(nodes) > 0 {
		c.T.Errorf("there are %d ValkeyNodes already (%v)", len(nodes), err)
	}
}

func TestBootstrapWaitsForAPlaceAndTellsTheSchedulersReason(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1, nowhere(s))
	c.WaitTold(30*time.Second, "0/3 nodes are available", "didn't match Pod's node affinity/selector")
	if s.Operator.Logged("bootstrap blocked: pod cannot be scheduled") == 0 {
		t.Error("the log does not say that the bootstrap is blocked")
	}
	before := c.UIDs()
	open(s)
	c.Settle(60*time.Second, 2, 1)
	for name, uid := range c.UIDs() {
		if before[name] != "" && before[name] != uid {
			t.Errorf("pod %s was replaced though it only had to wait", name)
		}
	}
}

func TestBootstrapWaitsForAnImageAndTellsTheKubeletsReason(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q}}`, s.Name))
	c := s.Create("cache", 1, 1)
	c.WaitTold(40*time.Second, "ImagePull")
	// The image appears under that name on all nodes, as if somebody had pushed it.
	missing := s.Bed.Images.Repository + ":" + s.Name
	for _, node := range []string{"n1", "n2", "n3"} {
		s.Bed.InNode(t, node, "ctr", "-n", "k8s.io", "images", "tag", s.Bed.Images.Repository+":"+s.Bed.Images.Tag, missing)
		t.Cleanup(func() { s.Bed.InNode(t, node, "ctr", "-n", "k8s.io", "images", "rm", missing) })
	}
	c.Settle(90*time.Second, 1, 1)
}

func TestBootstrapWaitsForQuotaAndTellsTheAPIServersReason(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	quotas := s.Bed.Kube.CoreV1().ResourceQuotas(s.Name)
	_, err := quotas.Create(context.Background(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 20*time.Second, "the quota to be in force", func() error {
		got, err := quotas.Get(context.Background(), "pods", metav1.GetOptions{})
		if err == nil && got.Status.Hard == nil {
			err = fmt.Errorf("no status yet")
		}
		return err
	})
	c := s.Create("cache", 2, 1)
	c.WaitTold(30*time.Second, "exceeded quota: pods")
	if err := quotas.Delete(context.Background(), "pods", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Settle(90*time.Second, 2, 1)
}

// The ValkeyImage says 9.0.1, the binary is 8.1: it never joins, and the next edit cures it.
func TestAnEngineBelowTheFloorNeverJoins(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{NoMenu: true})
	s.CreateImage(s.Name, s.Bed.Images.OldTag, "9.0.1")
	s.CreateConfig(s.Name, s.Spec())
	c := s.Create("cache", 2, 0)
	c.WaitTold(60*time.Second, s.Bed.Images.OldVersion)
	if state := c.Get().Status.State; state != valkeyv1alpha1.ClusterStateCreating {
		t.Errorf("state is %s, want Creating", state)
	}
	s.PatchImage(s.Name, fmt.Sprintf(`{"spec":{"tag":%q,"version":%q}}`, s.Bed.Images.Tag, s.Bed.Images.Version))
	c.Settle(90*time.Second, 2, 0)
}
