package lab

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Kill is one way to end a node.
type Kill struct {
	Name string
	Do   func(c *Cluster, pods ...*corev1.Pod)
}

// The ways in which a node ends.
var (
	PodDeleted      = Kill{"pod deleted", func(c *Cluster, pods ...*corev1.Pod) { c.DeletePods(nil, pods...) }}
	PodForceDeleted = Kill{"pod deleted by force", func(c *Cluster, pods ...*corev1.Pod) { now := int64(0); c.DeletePods(&now, pods...) }}
	ProcessKilled   = Kill{"process killed", func(c *Cluster, pods ...*corev1.Pod) { c.Signal(syscall.SIGKILL, pods...) }}
)

// DeletePods deletes pods all at once; nil is the pods' own grace period.
func (c *Cluster) DeletePods(grace *int64, pods ...*corev1.Pod) {
	c.T.Helper()
	c.watcher.Fault()
	errs := make(chan error, len(pods))
	for _, p := range pods {
		go func() {
			errs <- c.Site.Bed.Kube.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name,
				metav1.DeleteOptions{GracePeriodSeconds: grace, Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
		}()
	}
	for range pods {
		if err := <-errs; err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			c.T.Errorf("delete a pod: %v", err)
		}
	}
}

// Signal sends a signal to the server processes of pods, all at once.
func (c *Cluster) Signal(signal syscall.Signal, pods ...*corev1.Pod) {
	c.T.Helper()
	c.watcher.Fault()
	var pids []int
	for _, p := range pods {
		pid, err := serverPID(p.UID)
		if err != nil {
			c.T.Errorf("pod %s: %v", p.Name, err)
			continue
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil {
			c.T.Errorf("signal %v to %d: %v", signal, pid, err)
		}
	}
}

// serverPID finds the valkey-server or valkey-operator of a pod among all processes of this machine, by its cgroup.
func serverPID(uid types.UID) (int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if program := strings.TrimSpace(string(comm)); err != nil || program != "valkey-server" && program != "valkey-operator" {
			continue
		}
		groups, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cgroup"))
		if err == nil && strings.Contains(string(groups), "/pod"+string(uid)+"/") {
			return strconv.Atoi(filepath.Base(filepath.Dir(name)))
		}
	}
	return 0, fmt.Errorf("neither valkey-server nor valkey-operator runs in the cgroup of pod %s", uid)
}

// Drain runs kubectl drain as the contract promises it works: without --force. The node is usable again at the end of the test.
func (c *Cluster) Drain(node string) {
	c.T.Helper()
	b := c.Site.Bed
	c.T.Cleanup(func() {
		if _, err := b.Kubectl("uncordon", node); err != nil {
			c.T.Error(err)
		}
	})
	c.watcher.Fault()
	if out, err := b.Kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s", "--pod-selector=app.kubernetes.io/instance="+c.Name); err != nil {
		c.T.Errorf("kubectl drain %s: %v\n%s", node, err, out)
	}
}

// Pods of nodes, for the faults.
func Pods(nodes ...*Node) []*corev1.Pod {
	var out []*corev1.Pod
	for _, n := range nodes {
		out = append(out, n.Pod)
	}
	return out
}

// WaitPodsGone waits until none of the pods exists.
func (c *Cluster) WaitPodsGone(within time.Duration, pods ...*corev1.Pod) {
	c.T.Helper()
	Eventually(c.T, within, "pods to be gone", func() error {
		uids := map[types.UID]bool{}
		for _, uid := range c.UIDs() {
			uids[uid] = true
		}
		for _, p := range pods {
			if uids[p.UID] {
				return fmt.Errorf("pod %s is still there", p.Name)
			}
		}
		return nil
	})
}

// Stall stops a node's process with SIGSTOP for a while.
func (c *Cluster) Stall(n *Node, d time.Duration) {
	c.T.Helper()
	c.Signal(syscall.SIGSTOP, n.Pod)
	time.Sleep(d)
	c.Signal(syscall.SIGCONT, n.Pod)
}

// NextPodIP makes an address the next that a Kubernetes node gives to a pod, by what its CNI plugin remembers.
func (s *Site) NextPodIP(node, address string) {
	s.T.Helper()
	ip := net.ParseIP(address).To4()
	if ip == nil {
		s.T.Fatalf("%q is no IPv4 address", address)
	}
	ip[3]--
	files, err := filepath.Glob(filepath.Join(s.Bed.Run, node, "data/cni/*/last_reserved_ip.0"))
	if err != nil || len(files) != 1 {
		s.T.Fatalf("the memory of the CNI plugin of %s: %v (%v)", node, files, err)
	}
	if err := os.WriteFile(files[0], []byte(ip.String()), 0o644); err != nil {
		s.T.Fatal(err)
	}
}
