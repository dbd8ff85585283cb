package credentials

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
)

func asking(value string) *v1alpha1.ValkeyCluster {
	c := &v1alpha1.ValkeyCluster{}
	c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: value}
	return c
}

func render(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	var in acl.Input
	Fill(&in, secret)
	file, err := acl.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func made(cluster *v1alpha1.ValkeyCluster) *corev1.Secret {
	s := &corev1.Secret{}
	New(cluster, s)
	return s
}

func TestANewSecretHasTwoLongPasswordsAndNothingToRotate(t *testing.T) {
	s := made(asking("today"))
	if !IsWhole(s) || StepOf(s) != Settled || IsDue(asking("today"), s) || IsDue(&v1alpha1.ValkeyCluster{}, s) {
		t.Errorf("%v", s.Annotations)
	}
	op, repl := string(s.Data[v1alpha1.SecretKeyOperatorPassword]), string(s.Data[v1alpha1.SecretKeyReplPassword])
	for _, p := range []string{op, repl} {
		if b, err := hex.DecodeString(p); err != nil || len(b) != 64 {
			t.Errorf("a password has %d characters", len(p))
		}
	}
	if op == repl {
		t.Error("both users have the same password")
	}
	if got := string(s.Data[v1alpha1.SecretKeyPrimaryAuth]); got != "primaryauth \""+repl+"\"\n" && got != "primaryauth "+repl+"\n" {
		t.Error("primaryauth.conf is not the replication password")
	}
	if _, more := Next(asking("today"), s); more {
		t.Error("a new cluster is rotated")
	}
}

// Whoever holds the password of one step can log in where the file of that step or of a
// neighbouring one is loaded: files reach servers later than Secrets reach the operator.
func TestNoStepOfARotationLocksAnybodyOut(t *testing.T) {
	s := made(&v1alpha1.ValkeyCluster{})
	old := s.DeepCopy()
	var steps []Step
	for {
		next, more := Next(asking("today"), s)
		if !more {
			break
		}
		steps = append(steps, StepOf(next))
		if !InForce(s, render(t, s)) || !InForce(next, render(t, next)) {
			t.Error("the passwords of a step are not in the step's own file")
		}
		if !InForce(next, render(t, s)) {
			t.Errorf("after the step to %s the operator cannot log in where the file before it is loaded", StepOf(next))
		}
		if StepOf(next) != Settled && !InForce(s, render(t, next)) {
			t.Errorf("the step to %s locks out who has the password before it", StepOf(next))
		}
		s = next
	}
	if diff := cmp.Diff([]Step{Introduced, Switched, Settled}, steps); diff != "" {
		t.Error(diff)
	}
	if InForce(old, render(t, s)) {
		t.Error("the old passwords are still in force")
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.AnnotationRotateCredentials: "today"}, s.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(s.Data) != 3 || !IsWhole(s) {
		t.Errorf("%d keys are left", len(s.Data))
	}
	for _, key := range []string{v1alpha1.SecretKeyOperatorPassword, v1alpha1.SecretKeyReplPassword, v1alpha1.SecretKeyPrimaryAuth} {
		if string(s.Data[key]) == string(old.Data[key]) {
			t.Errorf("%s is the old one", key)
		}
	}
	if _, more := Next(asking("tomorrow"), s); !more {
		t.Error("another value does not start another rotation")
	}
}

func TestARotationAskedForDuringARotationFollowsIt(t *testing.T) {
	s, _ := Next(asking("first"), made(&v1alpha1.ValkeyCluster{}))
	s, _ = Next(asking("second"), s)
	s, _ = Next(asking("second"), s)
	if StepOf(s) != Settled || !IsDue(asking("second"), s) || IsDue(asking("first"), s) {
		t.Errorf("step %s, annotations %v", StepOf(s), s.Annotations)
	}
}

func TestOnlyPasswordsInForceAreRecalled(t *testing.T) {
	var m Memory
	s := made(asking("today"))
	file := render(t, s)
	if m.Recall("uid", file, &corev1.Secret{}) {
		t.Error("recalled what was never known")
	}
	m.Remember("uid", s)
	var again corev1.Secret
	if !m.Recall("uid", file, &again) {
		t.Fatal("forgot what is in force")
	}
	if diff := cmp.Diff(s.Data, again.Data); diff != "" {
		t.Error("other data is recalled")
	}
	if diff := cmp.Diff(s.Annotations, again.Annotations); diff != "" {
		t.Error(diff)
	}
	for name, other := range map[string]string{"another cluster's": render(t, made(asking(""))), "no": "", "a strange": "user\nuser x"} {
		if m.Recall("uid", other, &corev1.Secret{}) {
			t.Errorf("recalled passwords that are not in %s file", name)
		}
	}
	m.Forget("uid")
	if m.Recall("uid", file, &corev1.Secret{}) {
		t.Error("recalled what was forgotten")
	}
}
