package lab

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OperatorName is the name of everything that manifests/operator.yaml makes (contract §7).
const OperatorName = "valkey-operator"

var (
	operatorImage = regexp.MustCompile(`(?m)^(\s*(?:- )?image:\s*)\S*valkey-operator\S*$`)
	replicaCount  = regexp.MustCompile(`(?m)^(\s*replicas:\s*)\d+$`)
)

// atZero is the operator's manifest with the bed's image and no replica.
func (b *Bed) atZero(manifest []byte) []byte {
	manifest = operatorImage.ReplaceAll(manifest, []byte("${1}"+b.Images.Operator))
	return replicaCount.ReplaceAll(manifest, []byte("${1}0"))
}

// ScaleDeployment sets how many operators the Deployment runs, and waits until that many are ready. At the end of
// the test it is zero again.
func (b *Bed) ScaleDeployment(t testing.TB, replicas int) {
	t.Helper()
	if replicas > 0 {
		t.Cleanup(func() { b.ScaleDeployment(t, 0) })
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	deployments := b.Kube.AppsV1().Deployments(OperatorName)
	if _, err := deployments.Patch(context.Background(), OperatorName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatalf("scale the operator's Deployment to %d: %v", replicas, err)
	}
	Eventually(t, 60*time.Second, fmt.Sprintf("%d operators of the Deployment", replicas), func() error {
		pods, err := b.Kube.CoreV1().Pods(OperatorName).List(context.Background(), metav1.ListOptions{LabelSelector: "app=" + OperatorName})
		if err != nil {
			return err
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("there are %d pods", len(pods.Items))
		}
		for _, pod := range pods.Items {
			if len(pod.Status.ContainerStatuses) == 0 || !pod.Status.ContainerStatuses[0].Ready {
				return fmt.Errorf("pod %s is not ready", pod.Name)
			}
		}
		return nil
	})
}

// Eventually asks again and again until there is no error; after the time it fails the test with the last one.
func Eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	if err := Await(within, check); err != nil {
		t.Fatalf("waited %v for %s: %v", within, what, err)
	}
}

// Await asks every tenth of a second until there is no error; after the time it gives the last one. On a machine with more to do than
// it has cores for, the time is longer by as much: what is slow is not wrong.
func Await(within time.Duration, check func() error) error {
	last, waited := time.Now(), 0.0
	for {
		err := check()
		if err == nil || waited > within.Seconds() {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		now := time.Now()
		waited += now.Sub(last).Seconds() / busy()
		last = now
	}
}

// busy is how many runnable processes there were for each core in the last minute; at least 1 and at most 8. A bed with tests makes four by
// itself.
func busy() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 1
	}
	return min(max(load/float64(4*runtime.NumCPU()), 1), 8)
}
