package valkeycluster

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/test/testca"
)

func (b *bench) secret(name string) *corev1.Secret {
	b.t.Helper()
	var found *corev1.Secret
	b.asTest(func(ctx context.Context) {
		if s, err := b.api.kube.CoreV1().Secrets(theKey.Namespace).Get(ctx, name, metav1.GetOptions{}); err == nil {
			found = s
		}
	})
	return found
}

func (b *bench) deleteConfigMap(name string) {
	b.t.Helper()
	b.asTest(func(ctx context.Context) {
		if err := b.api.kube.CoreV1().ConfigMaps(theKey.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
	})
}

// file is users.acl.
func (b *bench) file() string {
	b.t.Helper()
	text := ""
	b.asTest(func(ctx context.Context) {
		if have, err := b.api.kube.CoreV1().ConfigMaps(theKey.Namespace).Get(ctx, theKey.Name+v1alpha1.SuffixACLConfigMap, metav1.GetOptions{}); err == nil {
			text = have.Data[v1alpha1.ConfigMapKeyACL]
		}
	})
	return text
}

func (b *bench) deleteSecret(name string) {
	b.t.Helper()
	b.asTest(func(ctx context.Context) {
		if err := b.api.kube.CoreV1().Secrets(theKey.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			b.t.Fatal(err)
		}
	})
}

// putSecret makes or overwrites a Secret as its owner.
func (b *bench) putSecret(name string, data map[string][]byte) {
	b.t.Helper()
	b.asTest(func(ctx context.Context) {
		secrets := b.api.kube.CoreV1().Secrets(theKey.Namespace)
		s, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: theKey.Namespace, Name: name}, Data: data}, metav1.CreateOptions{})
		} else {
			s.Data = data
			_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		}
		if err != nil {
			b.t.Fatal(err)
		}
	})
}

func (b *bench) nodeNames() string {
	var out []string
	for _, n := range b.nodes() {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (b *bench) lastAction() string {
	if last := b.cluster().Status.LastAction; last != nil {
		return last.Rule + ": " + last.Action
	}
	return ""
}

func TestADeletedOrDamagedAuthSecretIsMadeAgainWithThePasswordsInForce(t *testing.T) {
	b := newBench(t, 1, 1)
	b.settle()
	name := theKey.Name + v1alpha1.SuffixAuthSecret
	before, nodes := b.secret(name).Data, b.nodeNames()
	same := func(what string) {
		t.Helper()
		b.step()
		now := b.secret(name)
		if now == nil || !maps.EqualFunc(before, now.Data, bytes.Equal) || !metav1.IsControlledBy(now, b.cluster()) {
			t.Errorf("%s: the Secret is not as it was", what)
		}
		if b.nodeNames() != nodes {
			t.Errorf("%s: nodes were replaced", what)
		}
	}
	b.deleteSecret(name)
	same("deleted")
	b.asTest(func(ctx context.Context) {
		s := b.secret(name)
		delete(s.Data, v1alpha1.SecretKeyReplPassword)
		if _, err := b.api.kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	same("damaged")
	b.asTest(func(ctx context.Context) {
		s := b.secret(name)
		s.Data[v1alpha1.SecretKeyPrimaryAuth] = []byte("primaryauth of somebody else")
		if _, err := b.api.kube.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	same("with another snippet")
}

// putSpare makes the spare as the acl controller does.
func (b *bench) putSpare(data map[string][]byte) {
	b.t.Helper()
	spare := credentials.Secret(b.cluster(), v1alpha1.SuffixAuthSpare)
	spare.Data = data
	b.asTest(func(ctx context.Context) {
		if _, err := b.api.kube.CoreV1().Secrets(theKey.Namespace).Create(ctx, spare, metav1.CreateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	})
}

// A new process remembers nothing. The spare has the passwords, and what a hand has damaged is not believed.
func TestANewProcessMakesTheAuthSecretAgainFromItsSpare(t *testing.T) {
	for what, damage := range map[string]func(b *bench, name string){
		"deleted": func(b *bench, name string) { b.deleteSecret(name) },
		"emptied": func(b *bench, name string) { b.putSecret(name, nil) },
		"another password in it": func(b *bench, name string) {
			b.putSecret(name, map[string][]byte{"operator-password": []byte("a"), "repl-password": []byte("b")})
		},
		"deleted, and its users.acl": func(b *bench, name string) {
			b.deleteSecret(name)
			b.deleteConfigMap(theKey.Name + v1alpha1.SuffixACLConfigMap)
		},
	} {
		b := newBench(t, 1, 1)
		b.settle()
		name, file := theKey.Name+v1alpha1.SuffixAuthSecret, b.file()
		before, nodes := b.secret(name).Data, b.nodeNames()
		b.putSpare(before)
		damage(b, name)
		b.refresh()
		b.restart()
		b.settle()
		now := b.secret(name)
		if now == nil || !maps.EqualFunc(before, now.Data, bytes.Equal) || !metav1.IsControlledBy(now, b.cluster()) {
			t.Errorf("%s: the Secret is %v", what, now)
		}
		if b.nodeNames() != nodes || b.file() != file {
			t.Errorf("%s: nodes %s, were %s; the file is the same: %t", what, b.nodeNames(), nodes, b.file() == file)
		}
	}
}

// Each death on the way from the spare to a whole cluster.
func TestDyingWhileTheAuthSecretIsMadeAgainLosesNothing(t *testing.T) {
	for at := 1; ; at++ {
		b := newBench(t, 1, 1)
		b.settle()
		name := theKey.Name + v1alpha1.SuffixAuthSecret
		before, nodes := b.secret(name).Data, b.nodeNames()
		b.putSpare(before)
		b.deleteSecret(name)
		k := &killer{at: at, after: at%2 == 0}
		b.api.fault, b.valkey.fault = k.fault, k.fault
		for range 3 {
			b.restart()
			b.step()
		}
		b.api.fault, b.valkey.fault = nil, nil
		b.restart()
		b.settle()
		if now := b.secret(name); !maps.EqualFunc(before, now.Data, bytes.Equal) || b.nodeNames() != nodes {
			t.Errorf("killed at call %d (%s): the Secret or a node is another", at, k.where)
		}
		if !k.dead {
			if at < 5 {
				t.Errorf("only %d calls: is anything done at all?", at)
			}
			return
		}
	}
}

// A file that somebody has changed by hand is no reason to doubt the Secret.
func TestAChangedFileIsWrittenAgainAndTheSecretStays(t *testing.T) {
	b := newBench(t, 1, 0)
	b.settle()
	name, file := theKey.Name+v1alpha1.SuffixAuthSecret, b.file()
	before := b.secret(name).Data
	b.asTest(func(ctx context.Context) {
		maps := b.api.kube.CoreV1().ConfigMaps(theKey.Namespace)
		have, err := maps.Get(ctx, theKey.Name+v1alpha1.SuffixACLConfigMap, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have.Data[v1alpha1.ConfigMapKeyACL] = "user somebody on nopass\n"
		if _, err := maps.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	b.refresh()
	b.settle()
	if b.file() != file || !maps.EqualFunc(before, b.secret(name).Data, bytes.Equal) {
		t.Error("the file or the Secret is another")
	}
}

// Without Secret, spare and memory nothing is left. It never makes new passwords over servers that run, and takes
// nodes away only when a person asks for it.
func TestWithoutThePasswordsNothingIsDoneUnlessARestartIsAskedFor(t *testing.T) {
	b := newBench(t, 2, 1)
	b.settle()
	name := theKey.Name + v1alpha1.SuffixAuthSecret
	before, nodes, shape := b.secret(name).Data, b.nodeNames(), b.shape()
	b.deleteSecret(name)
	b.restart()
	for range 10 {
		b.step()
	}
	if b.secret(name) != nil || b.nodeNames() != nodes || !strings.HasPrefix(b.lastAction(), string(ruleAuthLost)+": hold: Secret") {
		t.Fatalf("nodes %s, last action %s", b.nodeNames(), b.lastAction())
	}
	told := strings.Join(b.news(), "\n")
	for _, word := range []string{"Warning AuthSecretMissing", `Secret "cart-operator-auth" is gone`, `"cart-operator-auth-spare" too`, "go on serving", "Restore one", "give up all keys", v1alpha1.AnnotationRestart} {
		if !strings.Contains(told, word) {
			t.Errorf("no Event says %q:\n%s", word, told)
		}
	}
	for _, password := range []string{"a guess", string(before[v1alpha1.SecretKeyOperatorPassword]) + "\n", string(before[v1alpha1.SecretKeyOperatorPassword]) + "\r\n", ""} {
		wrong := maps.Clone(before)
		wrong[v1alpha1.SecretKeyOperatorPassword] = []byte(password)
		b.putSecret(name, wrong) // by hand, without an owner
		b.step()
		if last := b.lastAction(); !strings.HasPrefix(last, string(ruleNameTaken)) || !strings.Contains(last, "a line's end at their end too") {
			t.Errorf("wrong passwords: last action %s", last)
		}
	}
	b.putSecret(name, before)
	b.settle()
	if s := b.secret(name); !metav1.IsControlledBy(s, b.cluster()) || b.nodeNames() != nodes {
		t.Errorf("the right passwords: nodes %s, owners %v", b.nodeNames(), s.OwnerReferences)
	}
	b.deleteSecret(name)
	b.restart()
	b.news()
	b.edit(func(c *v1alpha1.ValkeyCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationRestart: "now"}
	})
	b.settle()
	after := b.secret(name)
	if after == nil || bytes.Equal(after.Data[v1alpha1.SecretKeyOperatorPassword], before[v1alpha1.SecretKeyOperatorPassword]) {
		t.Error("there are no new passwords")
	}
	for _, old := range strings.Fields(nodes) {
		if strings.Contains(b.nodeNames(), old) {
			t.Errorf("%s is still there", old)
		}
	}
	if got := b.shape(); got != shape {
		t.Errorf("%s\nwant %s", got, shape)
	}
	if told := strings.Join(b.news(), "\n"); !strings.Contains(told, "Warning AuthSecretMissing") || !strings.Contains(told, "the data is lost") {
		t.Errorf("nobody is told of the loss:\n%s", told)
	}
}

func TestBrokenTLSMaterialMakesAClusterInvalidAndGoodMaterialHealsIt(t *testing.T) {
	b := newBench(t, 1, 1)
	hosts := []string{theKey.Name + "." + theKey.Namespace + ".svc.cluster.local", "*." + theKey.Name + "." + theKey.Namespace + ".svc.cluster.local"}
	ca := testca.New("one")
	good := ca.Issue(testca.Leaf{Names: hosts}).Secret(ca)
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.TLS = &v1alpha1.ValkeyTLS{SecretRef: "mine"} })
	expect := func(state v1alpha1.ClusterState, message string) {
		t.Helper()
		if got := b.cluster().Status; got.State != state || got.Message != message {
			t.Errorf("%s %q, want %s %q", got.State, got.Message, state, message)
		}
	}
	for range 5 {
		b.step()
	}
	expect(v1alpha1.ClusterStateInvalid, `TLS Secret "mine" not found in namespace "`+theKey.Namespace+`"`)
	if len(b.nodes()) > 0 || b.secret(theKey.Name+v1alpha1.SuffixAuthSecret) == nil || len(b.api.all("services")) != 1 || len(b.api.all("configmaps")) != 1 {
		t.Errorf("nodes %s; Service, Secret or ConfigMap is missing", b.nodeNames())
	}
	b.putSecret("mine", good)
	b.settle()
	expect(v1alpha1.ClusterStateActive, "")
	for _, n := range b.nodes() {
		if n.Spec.TLSSecret != theKey.Name+v1alpha1.SuffixTLSSecret || n.Spec.ValkeySettings["tls-port"] != "6379" {
			t.Errorf("%s: TLS Secret %q, tls-port %q", n.Name, n.Spec.TLSSecret, n.Spec.ValkeySettings["tls-port"])
		}
	}
	broken := maps.Clone(good)
	broken["tls.crt"] = []byte("hello")
	b.putSecret("mine", broken)
	b.edit(func(c *v1alpha1.ValkeyCluster) { c.Spec.Shards = 2 }) // not while it is broken
	nodes := b.nodeNames()
	for range 5 {
		b.step()
	}
	expect(v1alpha1.ClusterStateInvalid, `TLS Secret "mine": tls.crt is not valid PEM`)
	if b.nodeNames() != nodes || !bytes.Equal(b.secret(theKey.Name + v1alpha1.SuffixTLSSecret).Data["tls.crt"], good["tls.crt"]) {
		t.Error("a node or the copy was touched")
	}
	if got := b.cluster().Status.LastAction.Rule; plan.RuleName(got) != ruleTLSInvalid {
		t.Errorf("the last rule is %s", got)
	}
	b.putSecret("mine", good)
	b.step()
	expect(v1alpha1.ClusterStateCreating, "")
	b.settle()
	expect(v1alpha1.ClusterStateActive, "")
	if len(b.nodes()) != 4 {
		t.Errorf("nodes %s", b.nodeNames())
	}
}
