package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// barePassword is that of the user with which a Dialer logs in to bare pods.
const barePassword = "bare"

// Bare is a set of pods with the servers and settings that the operator gives its pods, and no operator: what a person with
// valkey-cli has.
type Bare struct {
	site *Site
	name string
	pods []corev1.Pod
}

// NewBare makes n bare pods and waits until all run.
func (s *Site) NewBare(name string, n int) *Bare {
	s.T.Helper()
	b := &Bare{site: s, name: name}
	b.Add(n)
	return b
}

// Add makes n more pods and waits until all run.
func (b *Bare) Add(n int) {
	b.site.T.Helper()
	pods := b.site.Bed.Kube.CoreV1().Pods(b.site.Name)
	for range n {
		if _, err := pods.Create(context.Background(), b.pod(len(b.pods)), metav1.CreateOptions{}); err != nil {
			b.site.T.Fatalf("create a bare pod: %v", err)
		}
		b.pods = append(b.pods, corev1.Pod{})
	}
	Eventually(b.site.T, 90*time.Second, "bare pods to run", func() error {
		list, err := pods.List(context.Background(), metav1.ListOptions{LabelSelector: "bare=" + b.name})
		if err != nil {
			return err
		}
		running := 0
		for _, p := range list.Items {
			if p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" {
				running++
			}
		}
		if running < len(b.pods) {
			return fmt.Errorf("%d of %d run", running, len(b.pods))
		}
		b.pods = list.Items
		return nil
	})
}

func (b *Bare) pod(i int) *corev1.Pod {
	no, yes, user := false, true, int64(999)
	spec := b.site.Spec()
	resources := corev1.ResourceList{corev1.ResourceMemory: *spec.Resources.Memory}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%02d", b.name, i), Labels: map[string]string{"bare": b.name}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"bare": b.name}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: empty}},
			Containers: []corev1.Container{{
				Name: "valkey", Image: b.site.Bed.Images.Repository + ":" + b.site.Bed.Images.Tag,
				Command: []string{
					"valkey-server", "--port", "6379", "--cluster-enabled", "yes", "--cluster-node-timeout", "5000",
					"--cluster-config-file", "/var/lib/valkey/nodes.conf", "--dir", "/var/lib/valkey", "--bind", "0.0.0.0", "--protected-mode", "no",
					"--save", "", "--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no",
					"--user", "_momento_operator", "on", ">" + barePassword, "allkeys", "allcommands",
				},
				Resources:       corev1.ResourceRequirements{Requests: resources, Limits: resources},
				VolumeMounts:    []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/valkey"}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// Dialer talks to the servers.
func (b *Bare) Dialer() client.Dialer { return client.Dialer{Password: barePassword} }

// Addresses lists host:port of all pods.
func (b *Bare) Addresses() []string {
	var out []string
	for _, p := range b.pods {
		out = append(out, p.Status.PodIP+":6379")
	}
	return out
}

// Look takes a Sample; every pod counts as an active node.
func (b *Bare) Look() Sample {
	s := Sample{At: time.Now()}
	for i, sight := range b.Dialer().LookAll(context.Background(), b.Addresses()) {
		n := &Node{Pod: &b.pods[i], Server: sight.Server, Err: sight.Err}
		n.Object.Name, n.Object.Spec.Lifecycle = b.pods[i].Name, valkeyv1alpha1.NodeLifecycleActive
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// AwaitShape waits for the shape in every node's view.
func (b *Bare) AwaitShape(within time.Duration, shards, replicas int) Sample {
	b.site.T.Helper()
	var last Sample
	Eventually(b.site.T, within, fmt.Sprintf("bare pods to be %d × %d", shards, replicas), func() error {
		last = b.Look()
		return last.Shape(shards, replicas)
	})
	return last
}

// CLI runs valkey-cli of the supported version in the hub.
func (b *Bare) CLI(args ...string) (string, error) {
	dir, err := b.site.Bed.tool(nil, "valkey", "9")
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(strings.TrimSpace(dir), "valkey-cli"), args...).CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return string(out), nil
}

// Delete removes all pods.
func (b *Bare) Delete() {
	now := int64(0)
	err := b.site.Bed.Kube.CoreV1().Pods(b.site.Name).DeleteCollection(context.Background(),
		metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "bare=" + b.name})
	if err != nil {
		b.site.T.Error(err)
	}
}
