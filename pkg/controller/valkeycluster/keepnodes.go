package valkeycluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// scribe writes what a look found of nodes onto their ValkeyNodes and pods.
type scribe struct {
	kube   kubernetes.Interface
	valkey versioned.Interface
	writes writes
}

// record puts a server's identity into its ValkeyNode's status when it is first seen, before
// anything but reads is sent to it, and later its changed role or address. Failing
// at the first forbids the act; the rest is only shown, and is deferred.
func (k scribe) record(ctx context.Context, cluster *v1alpha1.ValkeyCluster, s scene) (deferred, err error) {
	failed := make([]error, len(s.nodes))
	err = eachOf(len(s.nodes), func(i int) error {
		n := s.nodes[i]
		facts := s.facts(n.Name)
		next := k.nodeStatus(ctx, n, facts, s.pods[n.Name])
		if next == nil {
			return nil
		}
		changed := n.DeepCopy()
		changed.Status = *next
		written, err := k.valkey.ValkeyV1alpha1().ValkeyNodes(n.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
		switch {
		case err == nil:
			k.writes.nodes.Record(cache.MetaObjectToName(cluster), written)
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			err = &notYet{"the cache is behind ValkeyNode " + n.Name}
		default:
			err = fmt.Errorf("write status of ValkeyNode %s: %w", n.Name, err)
		}
		if facts.KnownID == "" {
			return err
		}
		failed[i] = err
		return nil
	})
	for _, f := range failed {
		if f != nil && !isNotYet(f) {
			deferred = f
		}
	}
	return deferred, err
}

// facts are what is known of one of the cluster's ValkeyNodes.
func (s scene) facts(name string) plan.Node {
	i, _ := slices.BinarySearchFunc(s.obs.Nodes, name, func(n plan.Node, name string) int {
		return cmp.Compare(string(n.Name), name)
	})
	return s.obs.Nodes[i]
}

// nodeStatus is the status to write for a node, or nil where nothing that counts has changed.
func (k scribe) nodeStatus(ctx context.Context, n *v1alpha1.ValkeyNode, facts plan.Node, pod *corev1.Pod) *v1alpha1.ValkeyNodeStatus {
	if facts.Server == nil || pod == nil || n.DeletionTimestamp != nil {
		return nil
	}
	next := n.Status.DeepCopy()
	next.PodIP = facts.Pod.IP
	next.NodeID = string(facts.Server.View.Self)
	next.Role = v1alpha1.NodeRole(facts.Server.View.Me().Role)
	if equality.Semantic.DeepEqual(next, &n.Status) {
		return nil
	}
	if n.Status.NodeID == "" {
		next.Zone = k.zone(ctx, pod.Spec.NodeName)
	}
	valkeynode.SetPodRunning(next, n.Generation, pod)
	return next
}

// zone is that of a Kubernetes node, asked for once in a Valkey node's life; empty where it
// has none or nobody may tell.
func (k scribe) zone(ctx context.Context, host string) string {
	node, err := k.kube.CoreV1().Nodes().Get(ctx, host, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return node.Labels[corev1.LabelTopologyZone]
}

// roleLabel is the role to show on a pod. A primary without slots is on its way to
// somewhere else and shows nothing new.
func roleLabel(n plan.Node) string {
	if n.Server == nil {
		return ""
	}
	me := n.Server.View.Me()
	if me.Role == topology.Primary && len(me.Slots) == 0 {
		return ""
	}
	return string(me.Role)
}

// dress merges the cluster's annotations into running pods and keeps their role label current, in
// one patch a pod and only where something differs. An annotation that was removed from the
// spec stays.
func (k scribe) dress(ctx context.Context, cluster *v1alpha1.ValkeyCluster, s scene) error {
	return eachOf(len(s.obs.Nodes), func(i int) error {
		n := s.obs.Nodes[i]
		pod := s.pods[string(n.Name)]
		if pod == nil || pod.DeletionTimestamp != nil {
			return nil
		}
		p := patchOf(pod)
		for key, value := range cluster.Spec.PodAnnotations {
			if have, ok := pod.Annotations[key]; !ok || have != value {
				if p.Metadata.Annotations == nil {
					p.Metadata.Annotations = map[string]any{}
				}
				p.Metadata.Annotations[key] = value
			}
		}
		if role := roleLabel(n); role != "" && pod.Labels[v1alpha1.LabelRole] != role {
			p.Metadata.Labels = map[string]any{v1alpha1.LabelRole: role}
		}
		if p.Metadata.Annotations == nil && p.Metadata.Labels == nil {
			return nil
		}
		return k.patchPod(ctx, cluster, pod, p)
	})
}

func (k scribe) patchPod(ctx context.Context, cluster *v1alpha1.ValkeyCluster, pod *corev1.Pod, p patch) error {
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", pod.Name, err)
	}
	written, err := k.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod has just gone or was replaced: the next look sees it
	}
	if err != nil {
		return fmt.Errorf("patch pod %s: %w", pod.Name, err)
	}
	k.writes.pods.Record(cache.MetaObjectToName(cluster), written)
	return nil
}
