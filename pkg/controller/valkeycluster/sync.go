package valkeycluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// When to look again. Events of the API server start a pass at any time; these are for what
// no event tells.
const (
	idleRecheck  = 10 * time.Second       // all is as wanted
	holdRecheck  = 5 * time.Second        // a person or another system must move
	notYetPause  = 250 * time.Millisecond // it was refused and may be granted now
	staleRecheck = time.Second            // the event that the cache waits for wakes us earlier
	passTimeout  = 30 * time.Second       // a pass has a few API calls and one look of 3 s
)

// sync is one pass over one cluster, as in design.md: from scratch, with at most one
// cluster-changing action at its end.
func (c *Controller) sync(ctx context.Context, key cache.ObjectName) (loop.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	cached, err := c.clusters.ValkeyClusters(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.writes.forget(key)
		c.metrics.Forget(key)
		return loop.Result{}, nil
	}
	if err != nil {
		return loop.Result{}, fmt.Errorf("get ValkeyCluster from the cache: %w", err)
	}
	if c.writes.isBehind(key) {
		return loop.Result{RequeueAfter: staleRecheck}, nil
	}
	cluster := cached.DeepCopy()
	var result loop.Result
	switch {
	case cluster.DeletionTimestamp != nil:
		c.keeper.memory.Forget(cluster.UID)
		result, err = c.remover.remove(ctx, cluster)
	case !hasFinalizer(cluster):
		result, err = c.remover.addFinalizer(ctx, cluster)
	default:
		result, err = c.pass(ctx, cluster)
	}
	switch {
	case isNotYet(err):
		klog.FromContext(ctx).V(2).Info("not yet", "reason", err.Error())
		return loop.Result{RequeueAfter: notYetPause}, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The cluster's own deletion is about to come.
		klog.FromContext(ctx).V(2).Info("the namespace is being deleted")
		return loop.Result{RequeueAfter: holdRecheck}, nil
	case apierrors.IsForbidden(err):
		c.herald.refused(cluster, err)
	}
	return result, err
}

// pass resolves, maintains the order-free objects, looks, plans, tells and acts.
func (c *Controller) pass(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (loop.Result, error) {
	s := seen{cluster: cluster, serial: cluster.Status.NodeSerial, now: c.now()}
	on, deferred, err := c.prepare(ctx, cluster, &s)
	var stop *blocked
	switch {
	case errors.As(err, &stop):
		s.looked = false
		s.decision = plan.Decision{Rule: stop.rule, Why: "somebody has to look", Action: plan.Hold{Because: stop.because}}
		switch stop.rule {
		case ruleUnresolved:
			s.unresolved = stop.because
			s.decision.Why = "create what is missing, or correct the reference"
		case ruleAuthLost:
			s.decision = withoutPasswords(cluster, on.scene.nodes, stop.because)
		}
	case err != nil:
		return loop.Result{}, err
	default:
		c.decide(ctx, &s, on)
	}
	if deferred != nil {
		s.unmaintained = deferred.Error()
	}
	if err := c.tell(ctx, cluster, s); err != nil {
		return loop.Result{}, err
	}
	if !c.leading() {
		return loop.Result{}, nil
	}
	if err := c.actor.act(ctx, on, s.decision); err != nil {
		if isNotYet(err) {
			klog.FromContext(ctx).Info("not done, will look again", "rule", s.decision.Rule, "action", s.decision.Action.String(), "reason", err.Error())
			return loop.Result{RequeueAfter: notYetPause}, nil
		}
		return loop.Result{}, err
	}
	switch s.decision.Action.(type) {
	case plan.Done, plan.Hold:
		// Now there is time for it: an error is tried again ever more slowly.
		if deferred != nil {
			return loop.Result{}, deferred
		}
	}
	return again(s.decision.Action), nil
}

// prepare does all that comes before the decision. A *blocked is what a person must mend first.
func (c *Controller) prepare(ctx context.Context, cluster *v1alpha1.ValkeyCluster, s *seen) (on stage, deferred, err error) {
	on.cluster = cluster
	if on.scene, err = c.observer.find(ctx, cluster, s.now); err != nil {
		return on, nil, err
	}
	// First of all: the TLS material is judged whatever else is wrong.
	material, err := c.keeper.keepTLS(ctx, cluster, on.scene.hasRunningPods())
	if err != nil {
		return on, nil, err
	}
	s.invalid, on.tlsSecret = material.Invalid, material.CopyName
	if on.resolved, err = c.resolve(cluster, s); err != nil {
		return on, nil, err
	}
	var maintained kept
	if isPaused(cluster) {
		maintained, err = c.keeper.peek(ctx, cluster)
	} else {
		maintained, err = c.keeper.keep(ctx, cluster, on.resolved, on.scene.hasRunningPods())
	}
	s.unresolved = maintained.aclProblem
	if err != nil {
		return on, nil, err
	}
	if s.invalid != "" && material.Trust == nil {
		// Nothing was ever good enough: there can be no server to look at.
		return on, maintained.deferred, &blocked{ruleTLSInvalid, s.invalid}
	}
	on.servers, err = c.connect(Access{Password: maintained.password, CA: material.Trust, Suffix: domainSuffix(cluster, c.actor.config.ClusterDomain)})
	if err != nil {
		return on, nil, &blocked{ruleTLSInvalid, err.Error()}
	}
	start := time.Now()
	hear(ctx, on.servers, on.scene.obs.Nodes)
	c.metrics.Looked(time.Since(start))
	if err := c.observer.addDeparted(ctx, cluster, &on.scene); err != nil {
		return on, nil, err
	}
	shown, err := c.scribe.record(ctx, cluster, on.scene)
	if err == nil && !isPaused(cluster) {
		shown = errors.Join(shown, c.scribe.dress(ctx, cluster, on.scene))
	}
	return on, errors.Join(maintained.deferred, shown), err
}

// resolve turns the cluster's references into what nodes are made of, and notes what a person
// should know about them.
func (c *Controller) resolve(cluster *v1alpha1.ValkeyCluster, s *seen) (resolve.Resolved, error) {
	resolved, err := resolve.Cluster(c.menu, &cluster.Spec)
	var userError *resolve.Error
	if errors.As(err, &userError) {
		return resolve.Resolved{}, &blocked{ruleUnresolved, userError.Message}
	}
	if err != nil {
		return resolve.Resolved{}, err
	}
	if forced := config.Overridden(resolved.Settings, cluster.Spec.TLS != nil); len(forced) > 0 {
		s.notice = fmt.Sprintf("forced by the operator, whatever the ValkeyConfigs say: %v", forced)
	}
	return resolved, nil
}

// decide asks the planner, and then the guard, which shares no code with it. What the guard
// refuses is a defect of a rule: nothing is done, loudly.
func (c *Controller) decide(ctx context.Context, s *seen, on stage) {
	s.looked = true
	s.obs = on.scene.obs
	s.serial = nextSerial(s.cluster, on.scene.taken)
	if s.invalid != "" {
		// No topology action while the TLS material is broken; nodes go on with the last good one.
		s.attempts = s.obs.Attempts
		s.decision = plan.Decision{Rule: ruleTLSInvalid, Why: "correct the Secret", Action: plan.Hold{Because: s.invalid}}
		return
	}
	target := targetOf(s.cluster, on.resolved, c.actor.config, on.scene.nodes)
	s.decision = plan.Plan(s.obs, target)
	s.attempts = plan.Remember(s.obs, target, s.decision)
	if err := plan.Allowed(s.obs, s.decision.Action); err != nil {
		klog.FromContext(ctx).Error(err, "the guard refused an action", "rule", s.decision.Rule, "action", s.decision.Action.String())
		s.attempts = s.obs.Attempts
		s.decision = plan.Decision{Rule: ruleRefused, Why: "rule " + string(s.decision.Rule) + " is at fault",
			Action: plan.Hold{Because: "the guard refused to " + s.decision.Action.String() + ": " + err.Error()}}
	}
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
		logger.Info("observed", "rule", s.decision.Rule, "action", s.decision.Action.String(),
			"reason", plan.World{Observation: s.obs, Target: target}.String())
	}
	c.metrics.Decided(string(s.decision.Rule), kindOf(s.decision.Action))
}

// tell writes the status if it differs, and then the news. It comes before the act: it says what was
// seen and what is about to happen, and if it cannot be written nothing happens.
func (c *Controller) tell(ctx context.Context, cluster *v1alpha1.ValkeyCluster, s seen) error {
	old := cluster.Status.DeepCopy()
	next := deriveStatus(*old, s)
	c.metrics.Cluster(cache.MetaObjectToName(cluster), &next)
	if !equality.Semantic.DeepEqual(old, &next) {
		changed := cluster.DeepCopy()
		changed.Status = next
		written, err := c.valkey.ValkeyV1alpha1().ValkeyClusters(cluster.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return &notYet{"the ValkeyCluster has changed since it was read"}
		}
		if err != nil {
			return fmt.Errorf("write status: %w", err)
		}
		c.writes.clusters.Record(cache.MetaObjectToName(cluster), written)
		// The act's live check compares versions.
		cluster.ResourceVersion = written.ResourceVersion
		cluster.Status = written.Status
	}
	c.herald.announce(ctx, cluster, *old, s)
	return nil
}

// again is when to look again after an action was carried out.
func again(a plan.Action) loop.Result {
	switch a := a.(type) {
	case plan.Wait:
		return loop.Result{RequeueAfter: max(a.Again, loop.Now)}
	case plan.Hold:
		return loop.Result{RequeueAfter: holdRecheck}
	case plan.Done:
		return loop.Result{RequeueAfter: idleRecheck}
	case plan.RemoveNodes:
		// The cache shows a deletion a moment later; asking for it twice is a call for nothing.
		return loop.Result{RequeueAfter: notYetPause}
	}
	return loop.Result{RequeueAfter: loop.Now}
}
