package tls

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	"github.com/momentohq/valkey-operator/pkg/controller/tlscheck"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// files is the one command that has a server read all three anew. One by one, it would for a
// moment have a key that does not match.
var files = map[string]string{
	"tls-cert-file":    config.TLSDir + "/" + v1alpha1.SecretKeyTLSCert,
	"tls-key-file":     config.TLSDir + "/" + v1alpha1.SecretKeyTLSKey,
	"tls-ca-cert-file": config.TLSDir + "/" + v1alpha1.SecretKeyTLSCA,
}

// settle is how long re-issues must have gone well until the bundle counts as in force on servers that do not
// show it: kubelets bring files within a minute and a half.
const settle = 2 * time.Minute

// outcome is how one server stands.
type outcome int

const (
	outcomeUnknown outcome = iota // not asked: its pod does not run yet
	outcomeInSync
	outcomeBundleNotShown // the leaf is in force, and the bundle may be
	outcomePending        // reads other files than those of the copy: the kubelet brings them
	outcomeFailed
)

// sight is what one server showed.
type sight struct {
	member reach.Member
	is     outcome
	err    error
}

// reissue has servers read their files and looks what they show. Between ticks only those are told
// that show something old.
func (c *Controller) reissue(ctx context.Context, cluster *v1alpha1.ValkeyCluster, kept Kept, members []reach.Member, isTick bool) ([]sight, error) {
	if kept.copy == nil || len(members) == 0 {
		return nil, nil
	}
	leaf := tlscheck.First(kept.copy.Data[v1alpha1.SecretKeyTLSCert])
	if leaf == nil {
		return nil, nil // damaged by hand; Keep mends it where the user's Secret is good
	}
	auth, err := c.kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, cluster.Name+v1alpha1.SuffixAuthSecret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the operator's password: %w", err)
	}
	access := reach.AccessTo(cluster, auth, kept.Trust, c.domain)
	return reach.Each(members, func(m reach.Member) sight {
		s := sight{member: m}
		server, err := c.connect(access, m)
		if err == nil {
			s.is, err = c.reissueOne(ctx, server, leaf, kept.copy, isTick)
		}
		if s.err = err; err != nil {
			s.is = outcomeFailed
			klog.FromContext(ctx).V(2).Info("TLS reload failed, will retry next tick", "node", m.Name, "reason", err.Error())
		}
		return s
	}), nil
}

func (c *Controller) reissueOne(ctx context.Context, server reach.Server, leaf *x509.Certificate, taken *corev1.Secret, isTick bool) (outcome, error) {
	if !isTick {
		if is, err := look(ctx, server, leaf, taken); err != nil || is == outcomeInSync {
			return is, err
		}
	}
	if !c.leading() {
		return outcomeUnknown, errors.New("this process leads no more")
	}
	if err := server.SetConfig(ctx, files); err != nil {
		return outcomeUnknown, err
	}
	return look(ctx, server, leaf, taken)
}

// look asks for the leaf in a fresh handshake, and for the bundle where the server shows it. It shows
// one serial, that of the certificate in the bundle that expires first: where the bundle before had the
// same, that proves nothing.
func look(ctx context.Context, server reach.Server, leaf *x509.Certificate, taken *corev1.Secret) (outcome, error) {
	shown, err := server.Certificate(ctx)
	if err != nil {
		return outcomeUnknown, err
	}
	if !shown.Equal(leaf) {
		return outcomePending, nil
	}
	seen, err := server.Look(ctx)
	if err != nil {
		return outcomeUnknown, err
	}
	want := tlscheck.Soonest(taken.Data[v1alpha1.SecretKeyTLSCA])
	before := tlscheck.Soonest(taken.Data[v1alpha1.SecretKeyTLSPreviousCA])
	switch {
	case seen.TLSCASerial == "":
		return outcomeBundleNotShown, nil
	case !tlscheck.IsSerial(seen.TLSCASerial, want):
		return outcomePending, nil
	case before != nil && want != nil && before.Cmp(want) == 0:
		return outcomeBundleNotShown, nil
	}
	return outcomeInSync, nil
}

// Reasons of TLSInSync.
const (
	reasonInSync    = "InSync"
	reasonInvalid   = "SecretInvalid"
	reasonUntrusted = "NotTrustedByNodes"
	reasonFailed    = "ReloadFailed"
	reasonPending   = "FilesPending"
	reasonUnseen    = "BundleNotShown"
)

// verdict is the condition TLSInSync, without a status where there is nothing to say, and whether to look
// again before the next tick.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
	again           bool
}

// sum makes one condition of the user's Secret and of what all servers showed.
func sum(kept Kept, nodes verdict) verdict {
	switch {
	case kept.Invalid != "":
		return verdict{status: metav1.ConditionFalse, reason: reasonInvalid, message: kept.Invalid}
	case kept.Held != "":
		return verdict{status: metav1.ConditionFalse, reason: reasonUntrusted, message: kept.Held}
	case kept.Waits != "":
		return verdict{metav1.ConditionFalse, reasonPending, kept.Waits, true}
	}
	return nodes
}

// ofNodes is how all servers stand to the copy.
func ofNodes(kept Kept, all []sight, now time.Time) verdict {
	var failed, pending, unseen []string
	inSync := 0
	for _, s := range all {
		switch s.is {
		case outcomeFailed:
			failed = append(failed, s.member.Name+": "+reach.Say(s.err))
		case outcomePending:
			pending = append(pending, s.member.Name)
		case outcomeBundleNotShown:
			unseen = append(unseen, s.member.Name)
		case outcomeInSync:
			inSync++
		}
	}
	hasWaited := kept.copy != nil && now.Sub(takenAt(kept.copy)) >= settle
	switch {
	case len(failed) > 0:
		return verdict{metav1.ConditionFalse, reasonFailed, strings.Join(failed, "; "), len(pending) > 0}
	case len(pending) > 0:
		return verdict{metav1.ConditionFalse, reasonPending, "these do not use the present certificate or bundle yet: " + strings.Join(pending, ", "), true}
	case len(unseen) > 0 && !hasWaited:
		return verdict{status: metav1.ConditionUnknown, reason: reasonUnseen, message: "every node uses the present certificate; that they use the present bundle cannot be seen and counts after two minutes"}
	case len(unseen)+inSync > 0:
		return verdict{status: metav1.ConditionTrue, reason: reasonInSync, message: "every running node uses the present certificate and bundle"}
	}
	return verdict{}
}

// expiry is the condition CertificateExpiringSoon. Its reason changes at 30, 7 and 1 days before the
// end, and each time that is an Event.
func expiry(leaf *x509.Certificate, now time.Time) metav1.Condition {
	is, _ := tlscheck.Dated(leaf, now)
	status := metav1.ConditionTrue
	if is == tlscheck.Valid {
		status = metav1.ConditionFalse
	}
	return metav1.Condition{Type: v1alpha1.ConditionCertificateExpiringSoon, Status: status, Reason: string(is), Message: tlscheck.Says(leaf, is)}
}
