package valkeycluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// addDeparted adds to the look the nodes that the status remembers, that are no more, and that members
// still list. Without it an ID whose ValkeyNode has gone would be a stranger's: nobody could
// tell that its process has ended but by waiting for the last link to it to break.
//
//	status: n4 is id4      ValkeyNode n4, pod n4: not found, live      members list id4   ->   n4, gone
func (o observer) addDeparted(ctx context.Context, cluster *v1alpha1.ValkeyCluster, s *scene) error {
	listed := map[topology.NodeID]bool{}
	for _, n := range s.obs.Nodes {
		if n.Server != nil {
			for _, p := range n.Server.View.Peers {
				listed[p.ID] = true
			}
		}
	}
	for _, n := range s.obs.Nodes {
		delete(listed, n.ID())
	}
	for _, old := range cluster.Status.Nodes {
		if !listed[topology.NodeID(old.NodeID)] || s.taken(old.Name) {
			continue
		}
		gone, err := o.isGone(ctx, cluster.Namespace, old.Name)
		if err != nil {
			return err
		}
		if gone {
			s.obs.Nodes = append(s.obs.Nodes, plan.Node{
				Name: plan.NodeName(old.Name), Shard: int(old.ShardIndex), Lifecycle: plan.Leaving, Deleting: true,
				KnownID: topology.NodeID(old.NodeID), Pod: plan.Pod{Phase: plan.PodAbsent},
			})
		}
	}
	slices.SortFunc(s.obs.Nodes, func(a, b plan.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// isGone asks live for the ValkeyNode, which its finalizer keeps until its pod is gone, and for the pod.
func (o observer) isGone(ctx context.Context, namespace, name string) (bool, error) {
	_, err := o.valkey.ValkeyV1alpha1().ValkeyNodes(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return false, nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get ValkeyNode %s: %w", name, err)
	}
	_, err = o.kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return false, nil
	}
	if !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get pod %s: %w", name, err)
	}
	return true, nil
}
