package valkeycluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// lookTimeout caps one look at all servers: those that are silent cost a pass no more.
const lookTimeout = 3 * time.Second

// observer gathers what a pass needs to know. It writes nothing.
type observer struct {
	kube   kubernetes.Interface
	valkey versioned.Interface
	nodes  listers.ValkeyNodeLister
	pods   corelisters.PodLister
}

// scene is one look at a cluster. Its objects are borrowed from caches: read-only.
type scene struct {
	// nodes are the cluster's ValkeyNodes by name.
	nodes []*v1alpha1.ValkeyNode
	// pods are the recorded pods that exist, by name.
	pods map[string]*corev1.Pod
	// taken says whether any ValkeyNode of the namespace has the name.
	taken func(name string) bool
	obs   plan.Observation
}

// find gathers the cluster's nodes and their pods; hear then asks the servers.
func (o observer) find(ctx context.Context, cluster *v1alpha1.ValkeyCluster, now time.Time) (scene, error) {
	s := scene{pods: map[string]*corev1.Pod{}}
	all, err := o.nodes.ValkeyNodes(cluster.Namespace).List(labels.Everything())
	if err != nil {
		return scene{}, fmt.Errorf("list ValkeyNodes: %w", err)
	}
	names := map[string]bool{}
	for _, n := range all {
		names[n.Name] = true
		// By owner reference, never by label: a label can be put onto anything.
		if metav1.IsControlledBy(n, cluster) {
			s.nodes = append(s.nodes, n)
		}
	}
	s.taken = func(name string) bool { return names[name] }
	slices.SortFunc(s.nodes, func(a, b *v1alpha1.ValkeyNode) int { return cmp.Compare(a.Name, b.Name) })
	if err := o.findPods(ctx, s); err != nil {
		return scene{}, err
	}
	s.obs = plan.Observation{
		Creating: cluster.Status.TargetSpec != nil,
		Formed:   wasFormed(cluster.Status),
		Attempts: attemptsAgo(cluster.Status.Attempts, now),
	}
	for _, n := range s.nodes {
		s.obs.Nodes = append(s.obs.Nodes, nodeFacts(n, s.pods[n.Name], now))
	}
	return s, nil
}

// hasRunningPods says whether any pod may still hold a server.
func (s scene) hasRunningPods() bool {
	return slices.ContainsFunc(s.obs.Nodes, func(n plan.Node) bool {
		return n.Pod.UID != "" && !n.Pod.Gone()
	})
}

// findPods looks up each node's recorded pod. What the cache does not show is asked for
// live: only the API server's word makes a pod gone.
func (o observer) findPods(ctx context.Context, s scene) error {
	found := make([]*corev1.Pod, len(s.nodes))
	err := eachOf(len(s.nodes), func(i int) error {
		n := s.nodes[i]
		if n.Status.PodUID == "" {
			return nil
		}
		uid := types.UID(n.Status.PodUID)
		pod, err := o.pods.Pods(n.Namespace).Get(n.Name)
		if err != nil || pod.UID != uid {
			pod, err = o.kube.CoreV1().Pods(n.Namespace).Get(ctx, n.Name, metav1.GetOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("get pod %s: %w", n.Name, err)
		case pod.UID == uid:
			found[i] = pod
		}
		return nil
	})
	for i, pod := range found {
		if pod != nil {
			s.pods[s.nodes[i].Name] = pod
		}
	}
	return err
}

// nodeFacts is a node without its server's words.
func nodeFacts(n *v1alpha1.ValkeyNode, pod *corev1.Pod, now time.Time) plan.Node {
	facts := plan.Node{
		Name:      plan.NodeName(n.Name),
		Shard:     int(n.Spec.ShardIndex),
		Lifecycle: plan.Lifecycle(cmp.Or(n.Spec.Lifecycle, v1alpha1.NodeLifecycleActive)),
		Join:      plan.JoinType(n.Labels[v1alpha1.LabelJoinType]),
		Revision:  n.Spec.Revision,
		Restart:   n.Annotations[v1alpha1.AnnotationRestart],
		Deleting:  n.DeletionTimestamp != nil,
		KnownID:   topology.NodeID(n.Status.NodeID),
	}
	switch {
	case n.Status.PodUID == "":
		facts.Pod.Phase = plan.PodNone
		if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionPodCreated); c != nil && c.Status == metav1.ConditionFalse {
			facts.Pod.Reason = c.Message
		}
	case pod == nil:
		facts.Pod = plan.Pod{UID: n.Status.PodUID, Phase: plan.PodAbsent, Zone: n.Status.Zone}
	default:
		facts.Pod = podFacts(pod, n.Status.Zone, now)
		// The kubelet goes to and fro between two words for one failed pull; the ValkeyNode keeps one.
		c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionPodRunning)
		if c != nil && c.Reason == valkeynode.ReasonPullFailed && facts.Pod.Phase == plan.PodPending && facts.Pod.Reason != "" {
			facts.Pod.Reason = words(c.Reason, c.Message)
		}
	}
	return facts
}

// hear asks the servers of all running pods at once and gives each node what its own server
// said, or why nothing was heard.
func hear(ctx context.Context, servers Servers, nodes []plan.Node) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Pod.Gone() || n.Pod.Phase != plan.PodRunning:
			continue
		case n.Pod.IP == "":
			n.Silence = "its pod has no address yet"
			continue
		}
		all.Go(func() { hearOne(ctx, servers, n) })
	}
	all.Wait()
	dropDoubles(nodes)
}

func hearOne(ctx context.Context, servers Servers, n *plan.Node) {
	server, err := servers.Look(ctx, place(*n))
	switch {
	case err != nil:
		n.Silence = err.Error()
	case n.KnownID != "" && server.View.Self != n.KnownID:
		// Addresses are reused: a server that is not the recorded one is not this node.
		n.Silence = fmt.Sprintf("server %s answers at its address", server.View.Self)
	default:
		n.Server = &server
	}
}

// dropDoubles: one server that answers for two nodes is at an address that was reused and that
// the cache does not show yet. It counts for the node that is recorded with its ID, or for none.
func dropDoubles(nodes []plan.Node) {
	count := map[topology.NodeID]int{}
	for _, n := range nodes {
		if n.Server != nil {
			count[n.Server.View.Self]++
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Server != nil && n.KnownID == "" && count[n.Server.View.Self] > 1 {
			n.Server, n.Silence = nil, "its address answers for another node too"
		}
	}
}

// place is where a node's server is thought to be.
func place(n plan.Node) Place {
	return Place{Pod: string(n.Name), Addr: net.JoinHostPort(n.Pod.IP, strconv.Itoa(v1alpha1.PortValkey))}
}

func attemptsAgo(all []v1alpha1.Attempt, now time.Time) []plan.Attempt {
	var out []plan.Attempt
	for _, a := range all {
		out = append(out, plan.Attempt{
			Kind: a.Kind, Subject: a.Subject, Count: int(a.Count), Ago: now.Sub(a.LastTime.Time), Message: a.Message,
		})
	}
	return out
}

// maxParallel bounds how many API calls one pass has in flight.
const maxParallel = 16

// eachOf calls work for 0 to n-1, some at once, waits for all, and gives the error of the
// lowest index.
func eachOf(n int, work func(i int) error) error {
	errs := make(map[int]error)
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, maxParallel)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := work(i); err != nil {
				mu.Lock()
				errs[i] = err
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(errs) == 0 {
		return nil
	}
	return errs[slices.Min(slices.Collect(maps.Keys(errs)))]
}
