package acl

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	users "github.com/momentohq/valkey-operator/pkg/valkey/acl"
)

// want is the file that the cluster asks for.
type want struct {
	file string
	// problem is the user's to mend: there is no such file.
	problem *resolve.Error
	err     error
}

// wanted renders what the valkeycluster controller does, to know whether the file that is in force is
// the one that is asked for, and why not.
func (c *Controller) wanted(cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret) want {
	file, err := c.render(cluster, auth)
	var problem *resolve.Error
	if errors.As(err, &problem) {
		return want{problem: problem}
	}
	return want{file: file, err: err}
}

func (c *Controller) render(cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret) (string, error) {
	resolved, err := resolve.Cluster(c.menu, &cluster.Spec)
	if err != nil {
		return "", err
	}
	in, err := resolve.ACL(c.menu, resolved.Acl, cluster.Spec.Acl)
	if err != nil {
		return "", err
	}
	credentials.Fill(&in, auth)
	file, err := users.Render(in)
	if err != nil {
		return "", &resolve.Error{Reason: reasonRefused, Message: err.Error()}
	}
	return file, nil
}

// outcome is how one server stands.
type outcome int

const (
	outcomeUnknown outcome = iota // not asked
	outcomeInSync
	outcomePending // has loaded another file: the kubelet brings the present one
	outcomeFailed
)

// sight is what came of one server.
type sight struct {
	member reach.Member
	is     outcome
	err    error
}

// load has servers load their file and asks which one it was. On a tick that is each of them, which wipes
// what was changed by hand; between ticks only who has another one.
func (c *Controller) load(ctx context.Context, access reach.Access, file string, members []reach.Member, isTick bool) []sight {
	revision := users.Revision(file)
	if revision == "" {
		return nil
	}
	return reach.Each(members, func(m reach.Member) sight {
		is, err := c.loadOne(ctx, access, m, revision, isTick)
		if err != nil {
			klog.FromContext(ctx).Error(err, "ACL LOAD failed, will retry next tick", "node", m.Name)
			return sight{m, outcomeFailed, err}
		}
		return sight{m, is, nil}
	})
}

func (c *Controller) loadOne(ctx context.Context, access reach.Access, m reach.Member, revision string, isTick bool) (outcome, error) {
	server, err := c.connect(access, m)
	if err != nil {
		return outcomeFailed, err
	}
	if !isTick {
		if have, err := server.ACLRevision(ctx); err != nil || have == revision {
			return outcomeInSync, err
		}
	}
	if !c.leading() {
		return outcomeFailed, errors.New("this process leads no more")
	}
	if err := server.LoadACL(ctx); err != nil {
		return outcomeFailed, err
	}
	have, err := server.ACLRevision(ctx)
	if err != nil {
		return outcomeFailed, err
	}
	if have != revision {
		return outcomePending, nil
	}
	return outcomeInSync, nil
}

// Reasons of ACLsInSync, besides those of package resolve.
const (
	reasonInSync  = "InSync"
	reasonRefused = "ACLRefused"
	reasonFailed  = "ACLLoadFailed"
	reasonPending = "FilePending"
)

// verdict is the condition ACLsInSync, without a status where there is nothing to say.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
	// again asks for a look before the next tick.
	again bool
	// isSettled: every member is up and has loaded the file that is asked for.
	isSettled bool
}

// sum makes one condition of the file and of all servers.
func sum(file string, wanted want, members []reach.Member, all []sight) verdict {
	var failed, pending []string
	inSync := 0
	for _, s := range all {
		switch s.is {
		case outcomeFailed:
			failed = append(failed, s.member.Name+": "+reach.Say(s.err))
		case outcomePending:
			pending = append(pending, s.member.Name)
		case outcomeInSync:
			inSync++
		}
	}
	switch {
	case wanted.problem != nil:
		return verdict{status: metav1.ConditionFalse, reason: wanted.problem.Reason, message: wanted.problem.Message, again: len(pending) > 0}
	case file == "" || inSync+len(failed)+len(pending) == 0:
		return verdict{} // a cluster that has just been made
	case len(failed) > 0:
		return verdict{status: metav1.ConditionFalse, reason: reasonFailed, message: strings.Join(failed, "; "), again: len(pending) > 0}
	case wanted.file != file:
		return verdict{status: metav1.ConditionFalse, reason: reasonPending, message: "users.acl is about to change", again: true}
	case len(pending) > 0:
		return verdict{status: metav1.ConditionFalse, reason: reasonPending, message: "these have not loaded the present users.acl yet: " + strings.Join(pending, ", "), again: true}
	}
	return verdict{
		status: metav1.ConditionTrue, reason: reasonInSync, message: "every running node has loaded the present users.acl",
		isSettled: inSync == len(members) && reach.AreUp(members),
	}
}
