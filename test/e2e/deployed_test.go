package e2e

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// The Deployment of manifests/operator.yaml, with two replicas: one leads, and the other goes on when it dies.
func TestTheDeploymentServesAndItsSecondReplicaTakesOver(t *testing.T) {
	s := lab.NewSite(t, lab.Options{Deployed: true})
	s.Bed.ScaleDeployment(t, 2)
	c := s.Create("cache", 2, 1)
	c.Settle(60*time.Second, 2, 1)
	lease, err := s.Bed.Kube.CoordinationV1().Leases(lab.OperatorName).Get(context.Background(), lab.OperatorName, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		t.Fatalf("the Lease: %+v, %v", lease, err)
	}
	leader := *lease.Spec.HolderIdentity
	now := int64(0)
	pods := s.Bed.Kube.CoreV1().Pods(lab.OperatorName)
	list, err := pods.List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + lab.OperatorName})
	if err != nil {
		t.Fatal(err)
	}
	killed := ""
	for _, pod := range list.Items {
		if len(leader) > len(pod.Name) && leader[:len(pod.Name)] == pod.Name {
			killed = pod.Name
			if err := pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if killed == "" {
		t.Fatalf("the leader %q is none of the %d pods", leader, len(list.Items))
	}
	sample := c.AssertShape(2, 1)
	lab.PodDeleted.Do(c, lab.Pods(sample.Replicas(sample.Primaries()[0])...)...)
	c.WaitPodsGone(40*time.Second, lab.Pods(sample.Replicas(sample.Primaries()[0])...)...)
	c.Settle(60*time.Second, 2, 1)
	c.Delete(metav1.DeleteOptions{})
	lab.Eventually(t, 45*time.Second, "the cluster to be gone", s.Empty)
}
