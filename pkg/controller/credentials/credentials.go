// Package credentials has the passwords of the operator's two own users in their Secret, and the
// steps by which they are rotated (contract §4, §7). It does no IO.
//
// A rotation is in the Secret alone, so that whoever goes on with it after a crash sees where it
// stands:
//
//	Settled      P             one password each
//	Introduced   P, next N     users.acl gives both; the operator still uses P
//	Switched     N, previous P the operator and new pods use N; running servers are told N
//	Settled      N             users.acl gives N alone
//
// Each step is one write. The next one is taken when every server has loaded the file that the present
// one asks for.
//
// There are two such Secrets, the one that nodes mount and a spare, which has the next step before the first one
// has. So whichever of them is left alone can log in, and the rotation goes on from there:
//
//	first        spare        users.acl   in force of the spare
//	P            P, next N    P           P
//	P, next N    N, prev P    P, N        N
//	N, prev P    N            P, N        N
package credentials

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// Keys of the Secret that are there while a rotation runs.
const (
	keyNextOperator     = "next-operator-password"
	keyNextRepl         = "next-repl-password"
	keyPreviousOperator = "previous-operator-password"
	keyPreviousRepl     = "previous-repl-password"
)

// annotationRotating on the Secret is the value for which the rotation that runs was begun.
// The Secret's AnnotationRotateCredentials is the value for which the last one ended.
const annotationRotating = v1alpha1.ReservedAnnotationPrefix + "rotating-credentials"

// Step is how far a rotation is.
type Step string

// The steps.
const (
	Settled    Step = "Settled"
	Introduced Step = "Introduced"
	Switched   Step = "Switched"
)

// StepOf reads the step off the Secret.
func StepOf(secret *corev1.Secret) Step {
	switch {
	case len(secret.Data[keyNextOperator]) > 0 && len(secret.Data[keyNextRepl]) > 0:
		return Introduced
	case len(secret.Data[keyPreviousOperator]) > 0 || len(secret.Data[keyPreviousRepl]) > 0:
		return Switched
	}
	return Settled
}

var clusterKind = v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyCluster)

// Secret is an empty one of the cluster's two; the suffix, SuffixAuthSecret or SuffixAuthSpare, says which.
func Secret(cluster *v1alpha1.ValkeyCluster, suffix string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name + suffix, Namespace: cluster.Namespace,
			Labels:          map[string]string{v1alpha1.LabelInstance: cluster.Name, v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterKind)},
		},
		Type: corev1.SecretTypeOpaque,
	}
}

// Copy gives a Secret the passwords of another and the step that its rotation is at.
func Copy(into, from *corev1.Secret) {
	into.Data = maps.Clone(from.Data)
	for _, key := range []string{annotationRotating, v1alpha1.AnnotationRotateCredentials} {
		delete(into.Annotations, key)
		if value, ok := from.Annotations[key]; ok {
			annotate(into, key, value)
		}
	}
}

// IsCopy says whether Copy would change nothing.
func IsCopy(have, of *corev1.Secret) bool {
	return maps.EqualFunc(have.Data, of.Data, bytes.Equal) &&
		have.Annotations[annotationRotating] == of.Annotations[annotationRotating] &&
		have.Annotations[v1alpha1.AnnotationRotateCredentials] == of.Annotations[v1alpha1.AnnotationRotateCredentials]
}

// New fills the Secret of a new cluster. The cluster may carry the annotation already: its passwords
// are as new as can be.
func New(cluster *v1alpha1.ValkeyCluster, secret *corev1.Secret) {
	secret.Data = data(password(), password())
	if value := cluster.Annotations[v1alpha1.AnnotationRotateCredentials]; value != "" {
		annotate(secret, v1alpha1.AnnotationRotateCredentials, value)
	}
}

func data(operator, repl string) map[string][]byte {
	return map[string][]byte{
		v1alpha1.SecretKeyOperatorPassword: []byte(operator),
		v1alpha1.SecretKeyReplPassword:     []byte(repl),
		v1alpha1.SecretKeyPrimaryAuth:      []byte(config.PrimaryAuth(repl)),
	}
}

// IsWhole says whether the Secret has all that servers and operator need.
func IsWhole(secret *corev1.Secret) bool {
	return len(secret.Data[v1alpha1.SecretKeyOperatorPassword]) > 0 && len(secret.Data[v1alpha1.SecretKeyReplPassword]) > 0
}

// Fill adds the passwords that the Secret has in force to what users.acl is rendered from.
func Fill(in *acl.Input, secret *corev1.Secret) {
	first := func(keys ...string) string {
		for _, key := range keys {
			if value := secret.Data[key]; len(value) > 0 {
				return string(value)
			}
		}
		return ""
	}
	in.OperatorPassword = first(v1alpha1.SecretKeyOperatorPassword)
	in.ReplPassword = first(v1alpha1.SecretKeyReplPassword)
	in.OtherOperatorPassword = first(keyNextOperator, keyPreviousOperator)
	in.OtherReplPassword = first(keyNextRepl, keyPreviousRepl)
}

// IsDue says whether the cluster asks for a rotation that has not been done.
func IsDue(cluster *v1alpha1.ValkeyCluster, secret *corev1.Secret) bool {
	want := cluster.Annotations[v1alpha1.AnnotationRotateCredentials]
	return want != "" && want != secret.Annotations[v1alpha1.AnnotationRotateCredentials]
}

// Next is the Secret after the next step, and whether there is one to take. The caller has
// made sure of what the present step waits for. The given Secret is not changed.
func Next(cluster *v1alpha1.ValkeyCluster, secret *corev1.Secret) (*corev1.Secret, bool) {
	switch StepOf(secret) {
	case Introduced:
		return switched(secret), true
	case Switched:
		return settled(secret), true
	}
	if !IsDue(cluster, secret) {
		return nil, false
	}
	return introduced(secret, cluster.Annotations[v1alpha1.AnnotationRotateCredentials]), true
}

func introduced(secret *corev1.Secret, value string) *corev1.Secret {
	out := secret.DeepCopy()
	out.Data[keyNextOperator], out.Data[keyNextRepl] = []byte(password()), []byte(password())
	annotate(out, annotationRotating, value)
	return out
}

func switched(secret *corev1.Secret) *corev1.Secret {
	out := secret.DeepCopy()
	maps.Copy(out.Data, data(string(out.Data[keyNextOperator]), string(out.Data[keyNextRepl])))
	out.Data[keyPreviousOperator] = secret.Data[v1alpha1.SecretKeyOperatorPassword]
	out.Data[keyPreviousRepl] = secret.Data[v1alpha1.SecretKeyReplPassword]
	delete(out.Data, keyNextOperator)
	delete(out.Data, keyNextRepl)
	return out
}

func settled(secret *corev1.Secret) *corev1.Secret {
	out := secret.DeepCopy()
	delete(out.Data, keyPreviousOperator)
	delete(out.Data, keyPreviousRepl)
	annotate(out, v1alpha1.AnnotationRotateCredentials, out.Annotations[annotationRotating])
	delete(out.Annotations, annotationRotating)
	return out
}

func annotate(secret *corev1.Secret, key, value string) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[key] = value
}

// InForce says whether the two passwords of the Secret log in where the users.acl was loaded.
func InForce(secret *corev1.Secret, file string) bool {
	return hasHash(file, acl.OperatorUser, secret.Data[v1alpha1.SecretKeyOperatorPassword]) &&
		hasHash(file, acl.ReplUser, secret.Data[v1alpha1.SecretKeyReplPassword])
}

func hasHash(file, user string, password []byte) bool {
	sum := sha256.Sum256(password)
	for line := range strings.Lines(file) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] == "user" && words[1] == user {
			return len(password) > 0 && strings.Contains(line, " #"+hex.EncodeToString(sum[:])+" ")
		}
	}
	return false
}

// password is 512 random bits in 128 hex digits.
func password() string {
	var b [64]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}
