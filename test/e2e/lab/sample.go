package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Node is one ValkeyNode in a Sample: what Kubernetes and its own server say.
type Node struct {
	Object valkeyv1alpha1.ValkeyNode
	Pod    *corev1.Pod // nil if there is none
	Server topology.Server
	Err    error // why Server is empty
}

// Name is the name of the ValkeyNode and its pod.
func (n *Node) Name() string { return n.Object.Name }

// ID is the server's own node id.
func (n *Node) ID() topology.NodeID { return n.Server.View.Self }

// Slots are the slots that the server itself claims as a primary.
func (n *Node) Slots() slot.Set {
	if me := n.Server.View.Me(); me.Role == topology.Primary {
		return slot.Of(me.Slots...)
	}
	return slot.Set{}
}

// Sample is one look at every node of a cluster at about the same time.
type Sample struct {
	At    time.Time
	Nodes []*Node
}

// Look takes a Sample.
func (c *Cluster) Look() (Sample, error) {
	nodes, err := c.Nodes()
	if err != nil {
		return Sample{}, err
	}
	pods, err := c.Pods()
	if err != nil {
		return Sample{}, err
	}
	return c.look(nodes, pods)
}

func (c *Cluster) look(nodes []valkeyv1alpha1.ValkeyNode, pods []corev1.Pod) (Sample, error) {
	dialer, err := c.Dialer()
	if err != nil {
		return Sample{}, err
	}
	byName := map[string]*corev1.Pod{}
	for i := range pods {
		byName[pods[i].Name] = &pods[i]
	}
	s := Sample{At: time.Now()}
	var asked []*Node
	var addrs []string
	for _, object := range nodes {
		n := &Node{Object: object, Pod: byName[object.Name], Err: errors.New("it has no pod address")}
		s.Nodes = append(s.Nodes, n)
		if n.Pod != nil && n.Pod.Status.PodIP != "" && n.Pod.Status.Phase == corev1.PodRunning {
			asked, addrs = append(asked, n), append(addrs, net.JoinHostPort(n.Pod.Status.PodIP, "6379"))
		}
	}
	for i, sight := range dialer.LookAll(context.Background(), addrs) {
		asked[i].Server, asked[i].Err = sight.Server, sight.Err
	}
	return s, nil
}

// Node finds a node by name; nil if there is none.
func (s Sample) Node(name string) *Node {
	for _, n := range s.Nodes {
		if n.Name() == name {
			return n
		}
	}
	return nil
}

// ByID finds an answering node by its server's id; nil if there is none.
func (s Sample) ByID(id topology.NodeID) *Node {
	for _, n := range s.Nodes {
		if n.Err == nil && n.ID() == id {
			return n
		}
	}
	return nil
}

// Primaries lists the answering nodes that own slots, by their lowest slot.
func (s Sample) Primaries() []*Node {
	var out []*Node
	for _, n := range s.Nodes {
		if slots := n.Slots(); n.Err == nil && !slots.Empty() {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *Node) int { return a.Slots().Ranges()[0].First - b.Slots().Ranges()[0].First })
	return out
}

// Replicas lists the answering nodes that say they follow a primary.
func (s Sample) Replicas(primary *Node) []*Node {
	var out []*Node
	for _, n := range s.Nodes {
		if n.Err == nil && n.Server.View.Me().PrimaryID == primary.ID() && primary.ID() != "" {
			out = append(out, n)
		}
	}
	return out
}

// InSync lists the replicas of which both sides say that the replica has all data.
func (s Sample) InSync(primary *Node) []*Node {
	return slices.DeleteFunc(s.Replicas(primary), func(n *Node) bool { return lag(primary, n) != nil })
}

// lag says why a replica is not in sync, by the words of both sides.
func lag(primary, replica *Node) error {
	r := replica.Server
	if !r.LinkUp || r.Syncing || r.Loading {
		return fmt.Errorf("%s says link up %v, syncing %v, loading %v", replica.Name(), r.LinkUp, r.Syncing, r.Loading)
	}
	for _, f := range primary.Server.Followers {
		if f.IP == replica.Pod.Status.PodIP && f.Online {
			return nil
		}
	}
	return fmt.Errorf("%s does not list %s as online", primary.Name(), replica.Name())
}

// Owned is the union of what the answering primaries claim.
func (s Sample) Owned() slot.Set {
	var all slot.Set
	for _, p := range s.Primaries() {
		all = all.Union(p.Slots())
	}
	return all
}

// Owner is the answering primary that claims a slot; nil if there is none.
func (s Sample) Owner(n int) *Node {
	for _, p := range s.Primaries() {
		if slots := p.Slots(); slots.Has(n) {
			return p
		}
	}
	return nil
}

// Shape gives an error that says how the cluster differs, in any node's view, from this many shards with this many
// replicas each: every slot has one owner, slots are even to within one, every replica is in sync by both sides' words, and no
// view has an unknown, unreachable or half met node.
func (s Sample) Shape(shards, replicas int) error {
	want := shards * (1 + replicas)
	if len(s.Nodes) != want {
		return fmt.Errorf("there are %d ValkeyNodes, want %d", len(s.Nodes), want)
	}
	for _, n := range s.Nodes {
		if n.Err != nil {
			return fmt.Errorf("%s: %w", n.Name(), n.Err)
		}
		if n.Object.DeletionTimestamp != nil || n.Pod.DeletionTimestamp != nil {
			return fmt.Errorf("%s is being deleted", n.Name())
		}
		if lc := n.Object.Spec.Lifecycle; lc != valkeyv1alpha1.NodeLifecycleActive {
			return fmt.Errorf("%s is %s", n.Name(), lc)
		}
	}
	primaries := s.Primaries()
	if len(primaries) != shards {
		return fmt.Errorf("%d nodes own slots, want %d", len(primaries), shards)
	}
	if owned := s.Owned(); owned != slot.All() {
		return fmt.Errorf("only %d slots have an owner", owned.Len())
	}
	for _, p := range primaries {
		slots := p.Slots()
		if n := slots.Len(); n < slot.Count/shards || n > (slot.Count+shards-1)/shards {
			return fmt.Errorf("%s owns %d slots of %d in %d shards", p.Name(), n, slot.Count, shards)
		}
		followers := s.Replicas(p)
		if len(followers) != replicas {
			return fmt.Errorf("%s has %d replicas, want %d", p.Name(), len(followers), replicas)
		}
		for _, r := range followers {
			if err := lag(p, r); err != nil {
				return err
			}
		}
	}
	for _, n := range s.Nodes {
		if err := s.agrees(n); err != nil {
			return fmt.Errorf("in the view of %s: %w", n.Name(), err)
		}
	}
	return nil
}

// agrees compares one node's view with what each node says of itself.
func (s Sample) agrees(n *Node) error {
	v := n.Server
	if !v.StateOK || v.SlotsAssigned != slot.Count || v.SlotsOK != slot.Count {
		return fmt.Errorf("state ok %v, %d slots assigned, %d ok", v.StateOK, v.SlotsAssigned, v.SlotsOK)
	}
	if len(v.View.Peers) != len(s.Nodes) {
		return fmt.Errorf("it knows %d nodes, want %d: %s", len(v.View.Peers), len(s.Nodes), describe(v.View))
	}
	for _, p := range v.View.Peers {
		self := s.ByID(p.ID)
		switch {
		case self == nil:
			return fmt.Errorf("it knows %s, which is none of ours", p.ID)
		case p.Failing || p.Failed || p.Handshake || p.NoAddr || !p.Linked && p.ID != v.View.Self:
			return fmt.Errorf("%s is %s", self.Name(), flags(p))
		case p.IP != self.Pod.Status.PodIP:
			return fmt.Errorf("%s is at %q, its pod at %s", self.Name(), p.IP, self.Pod.Status.PodIP)
		case p.Role != self.Server.View.Me().Role || p.PrimaryID != self.Server.View.Me().PrimaryID:
			return fmt.Errorf("%s is a %s of %q, it says a %s of %q", self.Name(), p.Role, p.PrimaryID, self.Server.View.Me().Role, self.Server.View.Me().PrimaryID)
		case slot.Of(p.Slots...) != self.Slots():
			return fmt.Errorf("%s owns %s, it says %s", self.Name(), slot.Of(p.Slots...), self.Slots())
		}
	}
	return nil
}

func flags(p topology.Peer) string {
	var out []string
	for word, is := range map[string]bool{"fail?": p.Failing, "fail": p.Failed, "handshake": p.Handshake, "noaddr": p.NoAddr, "unlinked": !p.Linked} {
		if is {
			out = append(out, word)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func describe(v topology.View) string {
	var out []string
	for _, p := range v.Peers {
		out = append(out, fmt.Sprintf("%.8s %s %s of %.8s [%s] %s", p.ID, p.IP, p.Role, p.PrimaryID, flags(p), slot.Join(p.Slots, ",")))
	}
	return strings.Join(out, "; ")
}

func (s Sample) answered() bool {
	return !slices.ContainsFunc(s.Nodes, func(n *Node) bool { return n.Err != nil })
}

// AwaitShape waits for the shape in every node's view.
func (c *Cluster) AwaitShape(within time.Duration, shards, replicas int) Sample {
	c.T.Helper()
	var last Sample
	Eventually(c.T, within, fmt.Sprintf("%s to be %d shards × %d replicas in every node's view", c.Name, shards, replicas), func() error {
		s, err := c.Look()
		if err != nil {
			return err
		}
		last = s
		return s.Shape(shards, replicas)
	})
	return last
}

// AssertShape fails the test unless the cluster has the shape now, in every node's view.
func (c *Cluster) AssertShape(shards, replicas int) Sample {
	c.T.Helper()
	s, err := c.Look()
	for range 4 { // a server that is slow to answer on a busy machine has no other shape
		if err != nil || s.answered() {
			break
		}
		s, err = c.Look()
	}
	if err == nil {
		err = s.Shape(shards, replicas)
	}
	if err != nil {
		c.T.Fatalf("%s is not %d shards × %d replicas: %v", c.Name, shards, replicas, err)
	}
	return s
}

// Settle waits for Active and the shape, and asserts that no pod is replaced in a quiet window afterwards.
func (c *Cluster) Settle(within time.Duration, shards, replicas int) Sample {
	c.T.Helper()
	start := time.Now()
	c.WaitActive(within)
	s := c.AwaitShape(max(within-time.Since(start), 5*time.Second), shards, replicas)
	c.watcher.Settled()
	return s
}

// Quiet asserts that no pod is replaced, and the shape stays, for a while.
func (c *Cluster) Quiet(window time.Duration, shards, replicas int) {
	c.T.Helper()
	before := c.UIDs()
	time.Sleep(window)
	after := c.UIDs()
	for name, uid := range before {
		if after[name] != uid {
			c.T.Errorf("pod %s was replaced within %v of quiet", name, window)
		}
	}
	if len(after) != len(before) {
		c.T.Errorf("%d pods became %d within %v of quiet", len(before), len(after), window)
	}
	c.AssertShape(shards, replicas)
}
