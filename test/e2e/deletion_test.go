package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

func TestDeletionRemovesEverythingOfTheClusterAndNothingElse(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	ctx, core := context.Background(), s.Bed.Kube.CoreV1()
	// What looks like the cluster's by name and labels, and is not.
	labels := map[string]string{
		"app.kubernetes.io/name": "valkey", "app.kubernetes.io/instance": "cache",
		"app.kubernetes.io/managed-by": "valkey-operator", "valkey.gomomento.com/shard-index": "0",
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Labels: labels} }
	var err error
	keep := func(_ any, e error) {
		if err == nil {
			err = e
		}
	}
	keep(core.ConfigMaps(s.Name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("cache-mine")}, metav1.CreateOptions{}))
	keep(core.Secrets(s.Name).Create(ctx, &corev1.Secret{ObjectMeta: meta("cache-mine")}, metav1.CreateOptions{}))
	keep(core.Services(s.Name).Create(ctx, &corev1.Service{ObjectMeta: meta("cache-mine"), Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: labels}}, metav1.CreateOptions{}))
	keep(core.ServiceAccounts(s.Name).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta("cache-mine")}, metav1.CreateOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	c, neighbour := s.Create("cache", 2, 1), s.Create("cache-2", 1, 1)
	c.Settle(60*time.Second, 2, 1)
	neighbour.Settle(60*time.Second, 1, 1)
	before := neighbour.UIDs()

	c.Delete(metav1.DeleteOptions{})
	lab.Eventually(t, 45*time.Second, "everything of the cluster to be gone", func() error {
		if _, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(s.Name).Get(ctx, "cache", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("ValkeyCluster: %v", err)
		}
		var left []string
		for _, o := range s.Owned() {
			if name := o[strings.Index(o, " ")+1:]; !strings.HasPrefix(name, "cache-2") {
				left = append(left, o)
			}
		}
		if nodes, err := c.Nodes(); err != nil || len(nodes)+len(left) > 0 {
			return fmt.Errorf("%d ValkeyNodes, %v (%v)", len(nodes), left, err)
		}
		return nil
	})
	neighbour.AssertShape(1, 1)
	if after := neighbour.UIDs(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the neighbour's pods changed: %v, then %v", before, after)
	}
	keep(core.ConfigMaps(s.Name).Get(ctx, "cache-mine", metav1.GetOptions{}))
	keep(core.Secrets(s.Name).Get(ctx, "cache-mine", metav1.GetOptions{}))
	keep(core.Services(s.Name).Get(ctx, "cache-mine", metav1.GetOptions{}))
	keep(core.ServiceAccounts(s.Name).Get(ctx, "cache-mine", metav1.GetOptions{}))
	if err != nil {
		t.Errorf("something that is not the cluster's was removed: %v", err)
	}
}

func TestANamespaceDeletedWhileTheOperatorIsDownGoesOnceItIsUp(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1)
	c.Settle(60*time.Second, 2, 1)
	s.Operator.Kill()
	c.StopWatching()
	namespaces := s.Bed.Kube.CoreV1().Namespaces()
	if err := namespaces.Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The Lease, the Role and the operator's way in are being deleted too: the finalizers must not need them.
	time.Sleep(3 * time.Second)
	s.Operator.Start()
	lab.Eventually(t, 90*time.Second, "the namespace to be gone", func() error {
		got, err := namespaces.Get(context.Background(), s.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v: %+v (%w)", got.Status.Phase, got.Status.Conditions, err)
	})
}

func TestForegroundDeletionCreatesNothingAnew(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 2, 1)
	c.Settle(60*time.Second, 2, 1)
	mark := s.Mark()
	foreground := metav1.DeletePropagationForeground
	c.Delete(metav1.DeleteOptions{PropagationPolicy: &foreground})
	lab.Eventually(t, 60*time.Second, "the cluster to be gone", s.Empty)
	for _, w := range s.Writes(mark, "leases", "events") {
		if w.Verb == "create" {
			t.Errorf("while the cluster was being deleted: %v", w)
		}
	}
}

func TestAClusterDeletedWhileCreatingGoes(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	c := s.Create("cache", 3, 1, nowhere(s))
	c.WaitTold(30*time.Second, "0/3 nodes are available")
	c.Delete(metav1.DeleteOptions{})
	lab.Eventually(t, 45*time.Second, "the cluster to be gone", s.Empty)
}
