package e2e

import (
	"context"
	"slices"
	"strconv"
	"strings"
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
	assertOperatorIsConfined(t, s)
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

// assertOperatorIsConfined: it runs as nobody in particular with no capability, cannot write its root file system, and
// listens on its port for metrics and health alone.
func assertOperatorIsConfined(t *testing.T, s *lab.Site) {
	t.Helper()
	list, err := s.Bed.Kube.CoreV1().Pods(lab.OperatorName).List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + lab.OperatorName})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("%d pods of the operator, %v", len(list.Items), err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		if status := lab.ProcessText(t, pod, "status"); !strings.Contains(status, "Uid:\t65532\t65532\t65532\t65532") || !strings.Contains(status, "CapEff:\t0000000000000000") ||
			!strings.Contains(status, "NoNewPrivs:\t1") || !strings.Contains(status, "Seccomp:\t2") {
			t.Errorf("%s runs with more than it needs:\n%s", pod.Name, status)
		}
		for mount := range strings.Lines(lab.ProcessText(t, pod, "mounts")) {
			if words := strings.Fields(mount); words[1] == "/" && !strings.HasPrefix(words[3], "ro") {
				t.Errorf("the root of %s can be written: %s", pod.Name, mount)
			}
		}
		var ports []int64
		for line := range strings.Lines(lab.ProcessText(t, pod, "net/tcp") + lab.ProcessText(t, pod, "net/tcp6")) {
			words := strings.Fields(line)
			if len(words) < 4 || words[3] != "0A" { // listens
				continue
			}
			port, err := strconv.ParseInt(words[1][strings.LastIndex(words[1], ":")+1:], 16, 32)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			ports = append(ports, port)
		}
		if !slices.Equal(ports, []int64{8080}) {
			t.Errorf("%s listens on %v", pod.Name, ports)
		}
	}
}
