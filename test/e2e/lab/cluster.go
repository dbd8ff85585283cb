package lab

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Cluster is one ValkeyCluster of a Site.
type Cluster struct {
	T    testing.TB
	Site *Site
	Name string
	// User is whom clients log in as; nobody if it is zero.
	User User

	watcher *Watcher

	mu     sync.Mutex
	dialer client.Dialer
	pool   client.Pool
	read   time.Time // when dialer was read
}

// Create makes a ValkeyCluster and watches it until the test ends: see Watcher for what is asserted all the time.
func (s *Site) Create(name string, shards, replicas int32, change ...func(*valkeyv1alpha1.ValkeyClusterSpec)) *Cluster {
	s.T.Helper()
	spec := valkeyv1alpha1.ValkeyClusterSpec{ConfigRef: s.Name, Shards: shards, ReplicasPerShard: replicas}
	for _, f := range change {
		f(&spec)
	}
	user := s.secure(name, &spec)
	_, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(s.Name).Create(context.Background(),
		&valkeyv1alpha1.ValkeyCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("create ValkeyCluster %s: %v", name, err)
	}
	c := &Cluster{T: s.T, Site: s, Name: name, User: user}
	s.clusters = append(s.clusters, c)
	c.watcher = c.watch()
	s.T.Cleanup(c.pool.Close)
	return c
}

// Get reads the ValkeyCluster.
func (c *Cluster) Get() *valkeyv1alpha1.ValkeyCluster {
	c.T.Helper()
	got, err := c.get()
	if err != nil {
		c.T.Fatalf("get ValkeyCluster %s: %v", c.Name, err)
	}
	return got
}

func (c *Cluster) get() (*valkeyv1alpha1.ValkeyCluster, error) {
	return c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(c.Site.Name).Get(context.Background(), c.Name, metav1.GetOptions{})
}

// Patch changes the ValkeyCluster by a JSON merge patch.
func (c *Cluster) Patch(format string, args ...any) {
	c.T.Helper()
	patch := fmt.Sprintf(format, args...)
	_, err := c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(c.Site.Name).Patch(context.Background(), c.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		c.T.Fatalf("patch ValkeyCluster %s with %s: %v", c.Name, patch, err)
	}
}

// Scale sets both counts.
func (c *Cluster) Scale(shards, replicas int) {
	c.T.Helper()
	c.Patch(`{"spec":{"shards":%d,"replicasPerShard":%d}}`, shards, replicas)
}

// WaitActive waits until the status says Active for the present spec.
func (c *Cluster) WaitActive(within time.Duration) {
	c.T.Helper()
	Eventually(c.T, within, c.Name+" to be Active", func() error {
		got, err := c.get()
		if err != nil {
			return err
		}
		if got.Status.State != valkeyv1alpha1.ClusterStateActive || got.Status.ObservedGeneration != got.Generation {
			return fmt.Errorf("state %s, generation %d observed %d, last action %+v", got.Status.State, got.Generation, got.Status.ObservedGeneration, got.Status.LastAction)
		}
		return nil
	})
}

// Condition gives a condition of the ValkeyCluster, or an empty one.
func (c *Cluster) Condition(kind string) metav1.Condition {
	c.T.Helper()
	if found := meta.FindStatusCondition(c.Get().Status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}

// WaitCondition waits until a condition has the status and its message holds all the words.
func (c *Cluster) WaitCondition(within time.Duration, kind string, status metav1.ConditionStatus, words ...string) {
	c.T.Helper()
	Eventually(c.T, within, fmt.Sprintf("condition %s to be %s with %q", kind, status, words), func() error {
		got, err := c.get()
		if err != nil {
			return err
		}
		found := meta.FindStatusCondition(got.Status.Conditions, kind)
		if found == nil {
			return fmt.Errorf("there is no such condition among %+v", got.Status.Conditions)
		}
		if found.Status != status {
			return fmt.Errorf("it is %s, reason %s: %s", found.Status, found.Reason, found.Message)
		}
		for _, word := range words {
			if !strings.Contains(found.Message, word) {
				return fmt.Errorf("reason %s, message %q", found.Reason, found.Message)
			}
		}
		return nil
	})
}

// WaitTold waits until a condition that is not as it should be, and an Event, both hold all the words.
func (c *Cluster) WaitTold(within time.Duration, words ...string) {
	c.T.Helper()
	Eventually(c.T, within, fmt.Sprintf("a condition with %q", words), func() error {
		got, err := c.get()
		if err != nil {
			return err
		}
		for _, condition := range got.Status.Conditions {
			if holds(condition.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", got.Status.Conditions)
	})
	c.WaitEvent(5*time.Second, words...)
}

func holds(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// Events lists the Events about the ValkeyCluster as "reason: note".
func (c *Cluster) Events() []string {
	list, err := c.Site.Bed.Kube.EventsV1().Events(c.Site.Name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	for _, e := range list.Items {
		if e.Regarding.Kind == valkeyv1alpha1.KindValkeyCluster && e.Regarding.Name == c.Name {
			out = append(out, e.Reason+": "+e.Note)
		}
	}
	return out
}

// WaitEvent waits for an Event about the ValkeyCluster that holds all the words.
func (c *Cluster) WaitEvent(within time.Duration, words ...string) {
	c.T.Helper()
	Eventually(c.T, within, fmt.Sprintf("an Event with %q", words), func() error {
		events := c.Events()
		for _, e := range events {
			if holds(e, words) {
				return nil
			}
		}
		return fmt.Errorf("Events are %q", events)
	})
}

// Nodes lists the cluster's ValkeyNodes by name.
func (c *Cluster) Nodes() ([]valkeyv1alpha1.ValkeyNode, error) {
	list, err := c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyNodes(c.Site.Name).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(n valkeyv1alpha1.ValkeyNode) bool { return n.Spec.ClusterName != c.Name }), nil
}

// Pods lists the pods that ValkeyNodes of the cluster own, by name.
func (c *Cluster) Pods() ([]corev1.Pod, error) {
	list, err := c.Site.Bed.Kube.CoreV1().Pods(c.Site.Name).List(context.Background(),
		metav1.ListOptions{LabelSelector: valkeyv1alpha1.LabelInstance + "=" + c.Name})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner == nil || owner.Kind != valkeyv1alpha1.KindValkeyNode
	}), nil
}

// UIDs maps pod names to pod UIDs.
func (c *Cluster) UIDs() map[string]types.UID {
	c.T.Helper()
	pods, err := c.Pods()
	if err != nil {
		c.T.Fatalf("list the pods of %s: %v", c.Name, err)
	}
	out := map[string]types.UID{}
	for _, p := range pods {
		out[p.Name] = p.UID
	}
	return out
}

// Delete deletes the ValkeyCluster.
func (c *Cluster) Delete(options metav1.DeleteOptions) {
	c.T.Helper()
	c.StopWatching()
	err := c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(c.Site.Name).Delete(context.Background(), c.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		c.T.Fatalf("delete ValkeyCluster %s: %v", c.Name, err)
	}
}

// Dialer talks to the cluster's servers as the operator does.
func (c *Cluster) Dialer() (client.Dialer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.read) < 5*time.Second { // a rotated password is picked up
		return c.dialer, nil
	}
	secret, err := c.Site.Bed.Kube.CoreV1().Secrets(c.Site.Name).Get(context.Background(), c.Name+valkeyv1alpha1.SuffixAuthSecret, metav1.GetOptions{})
	if err != nil {
		return client.Dialer{}, err
	}
	config, err := c.tlsConfig()
	if err != nil {
		return client.Dialer{}, err
	}
	c.dialer = client.Dialer{Password: string(secret.Data[valkeyv1alpha1.SecretKeyOperatorPassword]), TLS: config, Timeout: 1500 * time.Millisecond, Pool: &c.pool}
	c.read = time.Now()
	return c.dialer, nil
}

// Watch is the watcher that runs since Create.
func (c *Cluster) Watch() *Watcher { return c.watcher }

// StopWatching ends the Watcher: the test is about to take the cluster away.
func (c *Cluster) StopWatching() {
	if c.watcher != nil {
		c.watcher.stop()
	}
}
