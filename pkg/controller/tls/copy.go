package tls

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/tlscheck"
)

// SuffixOtherCopy ends the copy's name where the user's own Secret has the name that the contract
// gives to the copy.
const SuffixOtherCopy = v1alpha1.SuffixTLSSecret + "-operator"

// annotationTaken on the copy is when its present material was taken over, RFC 3339.
const annotationTaken = v1alpha1.ReservedAnnotationPrefix + "taken-at"

// annotationInForce on the copy is the fingerprint of the material that every node was last seen to use.
const annotationInForce = v1alpha1.ReservedAnnotationPrefix + "in-force"

// Copier maintains the copy of a cluster's TLS material that pods mount: the last validated
// one, so that a broken Secret never reaches a node. It remembers nothing.
type Copier struct {
	Kube kubernetes.Interface
	// Domain ends the DNS names of Services: "cluster.local".
	Domain string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Kept is how a cluster's TLS material stands. It is zero for a cluster without TLS.
type Kept struct {
	// CopyName is the Secret that pods mount.
	CopyName string
	// Trust are the bundles to verify servers with, PEM: the present one and the one before. Nil: there
	// is no copy yet, and no server can be spoken to.
	Trust []byte
	// Invalid is why the user's Secret cannot be used, in the words of contract §5.
	Invalid string
	// Held is why it is good and is not taken over all the same. Waits is the same where it passes by itself.
	Held, Waits string

	copy *corev1.Secret
}

// Keep validates the user's Secret and brings the copy up to date. isRunning says that there are nodes
// which stand on the present copy.
func (c Copier) Keep(ctx context.Context, cluster *v1alpha1.ValkeyCluster, isRunning bool) (Kept, error) {
	kept, material, err := c.judge(ctx, cluster)
	if err != nil || material == nil {
		return kept, err
	}
	return c.take(ctx, cluster, kept, material, isRunning)
}

// take takes material over, unless the nodes that run would not trust it.
func (c Copier) take(ctx context.Context, cluster *v1alpha1.ValkeyCluster, kept Kept, material *tlscheck.Material, isRunning bool) (Kept, error) {
	names := c.names(cluster)
	if kept.copy != nil && isSame(kept.copy, material) {
		return kept, nil
	}
	if kept.copy != nil && isRunning && isWhole(names, kept.copy) {
		if kept.Held, kept.Waits = hold(names, kept.copy, material); kept.Held+kept.Waits != "" {
			return kept, nil
		}
	}
	next := c.next(cluster, kept, material)
	var err error
	secrets := c.Kube.CoreV1().Secrets(cluster.Namespace)
	if kept.copy == nil {
		next, err = secrets.Create(ctx, next, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		next, err = secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return Kept{}, fmt.Errorf("write Secret %s: %w", kept.CopyName, err)
	}
	kept.copy, kept.Trust = next, trust(next)
	return kept, nil
}

// Renew is Keep where there is a copy already. The first one is made by who makes the nodes: two
// who do it at once are in each other's way.
func (c Copier) Renew(ctx context.Context, cluster *v1alpha1.ValkeyCluster, isRunning bool) (Kept, error) {
	kept, material, err := c.judge(ctx, cluster)
	if err != nil || material == nil || kept.copy == nil {
		return kept, err
	}
	return c.take(ctx, cluster, kept, material, isRunning)
}

// Peek is Keep without writing: for a cluster that is paused.
func (c Copier) Peek(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (Kept, error) {
	kept, _, err := c.judge(ctx, cluster)
	return kept, err
}

// judge reads both Secrets. The material is nil if it must not be used.
func (c Copier) judge(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (Kept, *tlscheck.Material, error) {
	if cluster.Spec.TLS == nil {
		return Kept{}, nil, nil
	}
	kept, err := c.find(ctx, cluster)
	if err != nil || kept.Invalid != "" {
		return kept, nil, err
	}
	given, err := c.get(ctx, cluster, cluster.Spec.TLS.SecretRef)
	if err != nil {
		return Kept{}, nil, err
	}
	material, err := tlscheck.Check(c.names(cluster), given)
	var invalid *tlscheck.Invalid
	if errors.As(err, &invalid) {
		kept.Invalid = invalid.Message
		return kept, nil, nil
	}
	return kept, material, err
}

// find looks for the copy by its owner. Its name is settled when it is first made: pods have it in
// them for ever.
func (c Copier) find(ctx context.Context, cluster *v1alpha1.ValkeyCluster) (Kept, error) {
	usual, other := cluster.Name+v1alpha1.SuffixTLSSecret, cluster.Name+SuffixOtherCopy
	have, err := c.get(ctx, cluster, usual)
	if err != nil {
		return Kept{}, err
	}
	if have != nil && metav1.IsControlledBy(have, cluster) {
		return Kept{CopyName: usual, Trust: trust(have), copy: have}, nil
	}
	if have == nil && cluster.Spec.TLS.SecretRef != usual {
		return Kept{CopyName: usual}, nil
	}
	have, err = c.get(ctx, cluster, other)
	switch {
	case err != nil:
		return Kept{}, err
	case have == nil:
		return Kept{CopyName: other}, nil
	case !metav1.IsControlledBy(have, cluster):
		return Kept{CopyName: other, Invalid: fmt.Sprintf("Secrets %q and %q exist and do not belong to this ValkeyCluster: remove or rename one", usual, other)}, nil
	}
	return Kept{CopyName: other, Trust: trust(have), copy: have}, nil
}

func (c Copier) get(ctx context.Context, cluster *v1alpha1.ValkeyCluster, name string) (*corev1.Secret, error) {
	have, err := c.Kube.CoreV1().Secrets(cluster.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	return have, nil
}

func (c Copier) names(cluster *v1alpha1.ValkeyCluster) tlscheck.Names {
	return tlscheck.Names{Secret: cluster.Spec.TLS.SecretRef, Namespace: cluster.Namespace, Cluster: cluster.Name, Domain: c.Domain}
}

// next is the copy with new material. The bundle that it replaces is kept: until every server has read
// the new one, some of them show certificates of the old.
func (c Copier) next(cluster *v1alpha1.ValkeyCluster, kept Kept, material *tlscheck.Material) *corev1.Secret {
	out := &corev1.Secret{Type: corev1.SecretTypeTLS, ObjectMeta: metav1.ObjectMeta{Name: kept.CopyName, Namespace: cluster.Namespace}}
	if kept.copy != nil {
		out = kept.copy.DeepCopy()
	}
	out.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterKind)}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	maps.Copy(out.Labels, map[string]string{v1alpha1.LabelInstance: cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue})
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	out.Annotations[annotationTaken] = now().UTC().Format(time.RFC3339)
	previous := out.Data[v1alpha1.SecretKeyTLSPreviousCA]
	if replaced := out.Data[v1alpha1.SecretKeyTLSCA]; !bytes.Equal(replaced, material.CA) {
		previous = replaced
	}
	out.Data = map[string][]byte{
		v1alpha1.SecretKeyTLSCert: material.Cert, v1alpha1.SecretKeyTLSKey: material.Key, v1alpha1.SecretKeyTLSCA: material.CA,
	}
	if tlscheck.First(previous) != nil {
		out.Data[v1alpha1.SecretKeyTLSPreviousCA] = previous
	}
	return out
}

// hold says why nodes that run on the present copy cannot take new material yet. For as long as kubelets take to
// bring it, some have the old and some the new; each must accept the other's certificate.
func hold(names tlscheck.Names, have *corev1.Secret, material *tlscheck.Material) (held, waits string) {
	bundle, before := have.Data[v1alpha1.SecretKeyTLSCA], have.Data[v1alpha1.SecretKeyTLSPreviousCA]
	switch {
	case !tlscheck.IsTrusted(material, bundle, names):
		return fmt.Sprintf("TLS Secret %q: the nodes do not trust tls.crt: first add its authority to ca.crt beside the one in force, then replace tls.crt", names.Secret), ""
	case have.Annotations[annotationInForce] == fingerprint(have):
		return "", ""
	case tlscheck.Includes(material.CA, bundle) && (len(before) == 0 || tlscheck.IsTrusted(material, before, names)):
		return "", "" // good with whatever a node may have now
	}
	return "", fmt.Sprintf("TLS Secret %q has changed again: it is taken over when every node uses what it had before", names.Secret)
}

// fingerprint tells one certificate and bundle from another.
func fingerprint(have *corev1.Secret) string {
	sum := sha256.New()
	for _, key := range []string{v1alpha1.SecretKeyTLSCert, v1alpha1.SecretKeyTLSCA} {
		_, _ = sum.Write(have.Data[key]) // a hash takes everything
		_, _ = sum.Write([]byte{0})
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// InForce remembers on the copy that every node uses its material.
func (c Copier) InForce(ctx context.Context, kept Kept) error {
	mark := fingerprint(kept.copy)
	if kept.copy.Annotations[annotationInForce] == mark {
		return nil
	}
	next := kept.copy.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[annotationInForce] = mark
	_, err := c.Kube.CoreV1().Secrets(next.Namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write Secret %s: %w", next.Name, err)
	}
	return nil
}

func isSame(have *corev1.Secret, material *tlscheck.Material) bool {
	return bytes.Equal(have.Data[v1alpha1.SecretKeyTLSCert], material.Cert) &&
		bytes.Equal(have.Data[v1alpha1.SecretKeyTLSKey], material.Key) &&
		bytes.Equal(have.Data[v1alpha1.SecretKeyTLSCA], material.CA)
}

// isWhole: a copy that somebody has damaged holds nobody back.
func isWhole(names tlscheck.Names, have *corev1.Secret) bool {
	_, err := tlscheck.Check(names, have)
	return err == nil
}

func trust(have *corev1.Secret) []byte {
	out := slices.Clone(have.Data[v1alpha1.SecretKeyTLSCA])
	if previous := have.Data[v1alpha1.SecretKeyTLSPreviousCA]; len(previous) > 0 {
		out = append(append(out, '\n'), previous...)
	}
	return out
}

// takenAt is when the copy's present material was taken over; the zero time if nothing says so.
func takenAt(have *corev1.Secret) time.Time {
	at, err := time.Parse(time.RFC3339, have.Annotations[annotationTaken])
	if err != nil {
		return time.Time{}
	}
	return at
}
