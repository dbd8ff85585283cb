package valkeycluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// actor carries out one action. Each function does what its action says and nothing else; what
// it cannot do now is a *notYet, and the next look decides anew.
type actor struct {
	valkey versioned.Interface
	config controller.Config
	writes writes
}

// stage is what an action is carried out on: the look that it was decided from.
type stage struct {
	cluster  *v1alpha1.ValkeyCluster
	resolved resolve.Resolved
	scene    scene
	servers  Servers
	// tlsSecret is the copy of the TLS material, for pods to mount.
	tlsSecret string
}

// act carries out the action. Waits, Hold and Done are nothing to do; Snapshot and Complete are
// done by the status that was written before.
func (a actor) act(ctx context.Context, on stage, d plan.Decision) error {
	switch action := d.Action.(type) {
	case plan.CreateNodes:
		return a.createNodes(ctx, on, action)
	case plan.RemoveNodes:
		return a.removeNodes(ctx, on, action)
	case plan.SetLifecycle:
		return a.setLifecycle(ctx, on, action)
	case plan.SetEpoch:
		return on.setEpoch(ctx, action)
	case plan.Meet:
		return on.meet(ctx, action)
	case plan.Assign:
		return on.assign(ctx, action)
	case plan.Attach:
		return on.attach(ctx, action)
	case plan.Forget:
		return on.forget(ctx, action)
	case plan.Failover:
		return on.failover(ctx, action)
	case plan.MoveSlots:
		return on.moveSlots(ctx, action)
	case plan.CancelMoves:
		return on.cancelMoves(ctx, action)
	case plan.CopyFunctions:
		return on.copyFunctions(ctx, action)
	}
	return nil
}

// createNodes creates all nodes of the action, several at once. Their names derive from the
// serial in the status: a pass on a stale cache comes to names that exist.
func (a actor) createNodes(ctx context.Context, on stage, action plan.CreateNodes) error {
	if err := a.confirm(ctx, on.cluster); err != nil {
		return err
	}
	names := nextNames(on.cluster, len(action.Nodes), on.scene.taken)
	nodes := a.valkey.ValkeyV1alpha1().ValkeyNodes(on.cluster.Namespace)
	return eachOf(len(names), func(i int) error {
		node := newNode(on, a.config, names[i], action.Nodes[i])
		written, err := nodes.Create(ctx, node, metav1.CreateOptions{FieldManager: fieldManager})
		switch {
		case apierrors.IsAlreadyExists(err):
			return &notYet{"ValkeyNode " + names[i] + " exists and the cache does not show it yet"}
		case err != nil:
			return fmt.Errorf("create ValkeyNode %s: %w", names[i], err)
		}
		a.writes.nodes.Record(cache.MetaObjectToName(on.cluster), written)
		klog.FromContext(ctx).Info("created ValkeyNode", "node", names[i], "action", action.Nodes[i].String())
		return nil
	})
}

// confirm asks the API server, live, whether the cluster is still the one that the decision was
// made from: a cache of a process that has just started may be old, and nothing is created
// once a deletion was asked for.
func (a actor) confirm(ctx context.Context, cluster *v1alpha1.ValkeyCluster) error {
	live, err := a.valkey.ValkeyV1alpha1().ValkeyClusters(cluster.Namespace).Get(ctx, cluster.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &notYet{"the cluster is gone"}
	case err != nil:
		return fmt.Errorf("get ValkeyCluster: %w", err)
	case live.UID != cluster.UID, live.DeletionTimestamp != nil, live.ResourceVersion != cluster.ResourceVersion:
		return &notYet{"the ValkeyCluster has changed since it was read"}
	}
	return nil
}

// removeNodes deletes ValkeyNodes, each only if it is the one that was looked at, with the pod
// that was looked at.
func (a actor) removeNodes(ctx context.Context, on stage, action plan.RemoveNodes) error {
	nodes := a.valkey.ValkeyV1alpha1().ValkeyNodes(on.cluster.Namespace)
	return eachOf(len(action.Nodes), func(i int) error {
		r := action.Nodes[i]
		n := on.scene.node(r.Node)
		if n == nil || n.DeletionTimestamp != nil {
			return nil
		}
		if n.Status.PodUID != r.PodUID {
			return &notYet{fmt.Sprintf("ValkeyNode %s has got its pod meanwhile", r.Node)}
		}
		condition := metav1.Preconditions{UID: &n.UID}
		if r.PodUID == "" {
			// It must not have got a pod since, which would show in its version.
			condition.ResourceVersion = &n.ResourceVersion
		}
		err := nodes.Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: &condition})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err):
			return &notYet{"ValkeyNode " + n.Name + " is another one by now"}
		case err != nil:
			return fmt.Errorf("delete ValkeyNode %s: %w", n.Name, err)
		}
		klog.FromContext(ctx).Info("deleted ValkeyNode", "node", n.Name)
		return nil
	})
}

// lifecyclePatch changes a node's lifecycle.
type lifecyclePatch struct {
	Lifecycle plan.Lifecycle `json:"lifecycle"`
}

// setLifecycle patches the nodes that differ. Joining is over with Active, and with it the join
// type of a node of a new shard.
func (a actor) setLifecycle(ctx context.Context, on stage, action plan.SetLifecycle) error {
	nodes := a.valkey.ValkeyV1alpha1().ValkeyNodes(on.cluster.Namespace)
	return eachOf(len(action.Nodes), func(i int) error {
		n := on.scene.node(action.Nodes[i])
		if n == nil || n.DeletionTimestamp != nil || string(n.Spec.Lifecycle) == string(action.Lifecycle) {
			return nil
		}
		p := patchOf(n)
		p.Spec = lifecyclePatch{action.Lifecycle}
		hasJoined := action.Lifecycle == plan.Active && n.Spec.Lifecycle == v1alpha1.NodeLifecycleJoining
		if hasJoined && n.Labels[v1alpha1.LabelJoinType] == v1alpha1.JoinTypeShard {
			p.Metadata.Labels = map[string]any{v1alpha1.LabelJoinType: nil}
		}
		body, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("patch ValkeyNode %s: %w", n.Name, err)
		}
		written, err := nodes.Patch(ctx, n.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
		switch {
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
			return &notYet{"ValkeyNode " + n.Name + " is another one by now"}
		case err != nil:
			return fmt.Errorf("patch ValkeyNode %s: %w", n.Name, err)
		}
		a.writes.nodes.Record(cache.MetaObjectToName(on.cluster), written)
		if hasJoined {
			klog.FromContext(ctx).Info("completed join", "node", n.Name)
		}
		return nil
	})
}

// node finds one of the cluster's ValkeyNodes.
func (s scene) node(name plan.NodeName) *v1alpha1.ValkeyNode {
	for _, n := range s.nodes {
		if n.Name == string(name) {
			return n
		}
	}
	return nil
}

// find gives the facts of the node with a server ID; nil if nobody of ours has it.
func (s scene) find(match func(plan.Node) bool) *plan.Node {
	for i := range s.obs.Nodes {
		if match(s.obs.Nodes[i]) {
			return &s.obs.Nodes[i]
		}
	}
	return nil
}

var errNobody = errors.New("no node of this cluster has that ID")
