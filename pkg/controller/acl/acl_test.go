package acl

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/credentials"
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/reach/reachtest"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	users "github.com/momentohq/valkey-operator/pkg/valkey/acl"
)

var key = cache.ObjectName{Namespace: reachtest.Namespace, Name: reachtest.Cluster}

// bench plays the valkeycluster controller too: it renders the file as that does.
type bench struct {
	*reachtest.Bench
	c *Controller
}

func newBench(t *testing.T, nodes int, change ...func(*v1alpha1.ValkeyCluster)) *bench {
	t.Helper()
	b := &bench{Bench: reachtest.New(t, nodes, change...)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-operator-auth", OwnerReferences: reachtest.Owned()}}
	credentials.New(b.Get(), secret)
	b.PutSecret(secret)
	b.restart()
	b.render()
	for _, s := range b.Servers {
		s.Loaded = s.Brought
	}
	b.Writes()
	return b
}

func (b *bench) restart() {
	b.T.Helper()
	c, err := New(Options{
		Kube: b.Kube, Valkey: b.Valkey, Informers: b.Informers.Valkey().V1alpha1(),
		Pods: b.Core.Core().V1().Pods(), ConfigMaps: b.Core.Core().V1().ConfigMaps(), Events: b.Events,
		Config: controller.Config{ClusterDomain: "cluster.local"}, Leading: func() bool { return true }, Metrics: metrics.New("test"),
		Wake: func(cache.ObjectName) { b.Wake() }, Connect: b.Connect, Now: func() time.Time { return b.Now },
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.c = c
}

// render writes users.acl, or leaves the last one where there is a problem, and has the kubelets bring it.
func (b *bench) render() {
	b.T.Helper()
	b.renderSlowly()
	for _, s := range b.Servers {
		s.Brought = users.Revision(b.file())
	}
}

func (b *bench) renderSlowly() {
	b.T.Helper()
	b.Sync()
	file, err := b.c.render(b.Get(), b.Secret("c-operator-auth"))
	var problem *resolve.Error
	if errors.As(err, &problem) {
		return
	}
	if err != nil {
		b.T.Fatal(err)
	}
	have := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: reachtest.Namespace, Name: "c-acl", OwnerReferences: reachtest.Owned()},
		Data:       map[string]string{"users.acl": file},
	}
	maps := b.Kube.CoreV1().ConfigMaps(reachtest.Namespace)
	if _, err := maps.Update(b.T.Context(), have, metav1.UpdateOptions{}); err != nil {
		if _, err := maps.Create(b.T.Context(), have, metav1.CreateOptions{}); err != nil {
			b.T.Fatal(err)
		}
	}
	b.Sync()
}

func (b *bench) file() string {
	b.T.Helper()
	have, err := b.Kube.CoreV1().ConfigMaps(reachtest.Namespace).Get(b.T.Context(), "c-acl", metav1.GetOptions{})
	if err != nil {
		b.T.Fatal(err)
	}
	return have.Data["users.acl"]
}

// pass is one pass; it gives when the next is asked for.
func (b *bench) pass() time.Duration {
	b.T.Helper()
	b.Sync()
	result, err := b.c.sync(b.T.Context(), key)
	if err != nil {
		b.T.Fatal(err)
	}
	return result.RequeueAfter
}

func (b *bench) condition() string {
	b.T.Helper()
	c := meta.FindStatusCondition(b.Get().Status.Conditions, v1alpha1.ConditionACLsInSync)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func (b *bench) expect(want string) {
	b.T.Helper()
	if got := b.condition(); !strings.HasPrefix(got, want) {
		b.T.Errorf("the condition is %q, want %q", got, want)
	}
}

func (b *bench) took(want string, names ...string) {
	b.T.Helper()
	for _, name := range names {
		if got := strings.Join(b.Servers[name].Took(), ", "); got != want {
			b.T.Errorf("%s took %q, want %q", name, got, want)
		}
	}
}

func TestAnIdleClusterGetsOneLoadEveryThirtySecondsAndNoWrite(t *testing.T) {
	b := newBench(t, 2)
	if next := b.pass(); next != 30*time.Second {
		t.Errorf("the next pass is in %v", next)
	}
	b.took("ACL LOAD", "c-0", "c-1")
	b.expect("True InSync")
	b.Writes()
	for range 3 {
		b.Now = b.Now.Add(10 * time.Second) // events of all kinds start passes
		b.pass()
	}
	b.took("ACL LOAD", "c-0", "c-1")
	if writes := b.Writes(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

func TestAManualChangeIsWipedOnTheNextTick(t *testing.T) {
	b := newBench(t, 1)
	b.pass()
	b.Servers["c-0"].Took()
	b.Servers["c-0"].Loaded = "something else"
	b.Now = b.Now.Add(30 * time.Second)
	b.pass()
	b.took("ACL LOAD", "c-0")
	b.expect("True InSync")
}

func TestAFileThatTheKubeletHasNotBroughtIsNoticedAndLoadedAgain(t *testing.T) {
	b := newBench(t, 2)
	b.pass()
	c := b.Get()
	c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "x"} // any change of the file
	b.Put(c)
	next, _ := credentials.Next(c, b.Secret("c-operator-auth"))
	b.PutSecret(next)
	b.renderSlowly()
	b.Servers["c-0"].Brought = users.Revision(b.file())
	b.Servers["c-0"].Took()
	b.Servers["c-1"].Took()
	if again := b.pass(); again != retry {
		t.Errorf("the next pass is in %v", again)
	}
	b.expect("False FilePending: these have not loaded the present users.acl yet: c-1")
	b.took("ACL LOAD", "c-0", "c-1")
	b.Servers["c-1"].Brought = users.Revision(b.file())
	b.pass()
	b.took("", "c-0")
	b.took("ACL LOAD", "c-1")
	b.expect("True InSync")
}

func TestADeadNodeDoesNotHoldUpTheOthersAndIsNamed(t *testing.T) {
	b := newBench(t, 3)
	b.Servers["c-0"].Down = errors.New("dial tcp 10.0.0.1:6379: no route from 10.0.0.9:4711")
	if next := b.pass(); next != 30*time.Second {
		t.Errorf("the next pass is in %v", next)
	}
	b.took("ACL LOAD", "c-1", "c-2")
	b.expect("False ACLLoadFailed: c-0: no answer")
	if strings.Contains(b.condition(), "4711") || strings.Contains(b.condition(), "c-1") {
		t.Errorf("%s", b.condition())
	}
	b.SetPhase("c-0", corev1.PodFailed)
	b.Now = b.Now.Add(30 * time.Second)
	b.pass()
	b.expect("True InSync")
}

func bound(role string) func(*v1alpha1.ValkeyCluster) {
	return func(c *v1alpha1.ValkeyCluster) {
		c.Spec.Acl = []v1alpha1.AclBinding{{
			Username: "eve", PasswordHashes: []string{strings.Repeat("a1", 32)},
			Permissions: []v1alpha1.AclPermission{{RoleRef: role, Keys: []v1alpha1.KeyPattern{{Pattern: "*"}}}},
		}}
	}
}

func TestAMissingRoleHoldsBackTheFileAndNothingElse(t *testing.T) {
	b := newBench(t, 1)
	b.pass()
	before := b.file()
	b.News()
	c := b.Get()
	bound("ghost")(c)
	b.Put(c)
	b.render()
	b.Servers["c-0"].Took()
	b.Now = b.Now.Add(30 * time.Second)
	b.pass()
	b.took("ACL LOAD", "c-0")
	b.expect(`False RoleNotFound: ValkeyRole "ghost" not found (referenced by user "eve")`)
	if b.file() != before {
		t.Error("the last good file is gone")
	}
	if diff := cmp.Diff([]string{`Warning RoleNotFound ValkeyRole "ghost" not found (referenced by user "eve")`}, b.News()); diff != "" {
		t.Error(diff)
	}
	_, err := b.Valkey.ValkeyV1alpha1().ValkeyRoles().Create(t.Context(), &v1alpha1.ValkeyRole{ObjectMeta: metav1.ObjectMeta{Name: "ghost"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.pass()
	b.expect("False FilePending: users.acl is about to change")
	b.render()
	b.pass()
	b.expect("True InSync")
}

// A crash comes after every pass, and the file comes late: it is rendered late, and brought later.
func TestARotationGoesStepByStepAndLocksNobodyOut(t *testing.T) {
	b := newBench(t, 2)
	b.pass()
	first := string(b.Secret("c-operator-auth").Data[v1alpha1.SecretKeyOperatorPassword])
	c := b.Get()
	c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "today"}
	b.Put(c)
	steps := []credentials.Step{credentials.Settled}
	for range 5 {
		for _, late := range []func(){func() {}, b.renderSlowly, b.render} {
			late()
			b.restart()
			before := b.Secret("c-operator-auth")
			wanted, err := b.c.render(b.Get(), before)
			if err != nil {
				t.Fatal(err)
			}
			isBrought := b.file() == wanted && b.Servers["c-0"].Brought == users.Revision(wanted) && b.Servers["c-1"].Brought == users.Revision(wanted)
			b.pass()
			after := credentials.StepOf(b.Secret("c-operator-auth"))
			if after == steps[len(steps)-1] {
				continue
			}
			steps = append(steps, after)
			if !isBrought {
				t.Errorf("step %s was taken before servers had the file of the step before it", after)
			}
			if !b.Woken() {
				t.Errorf("nobody was told to render the file for step %s", after)
			}
		}
	}
	if diff := cmp.Diff([]credentials.Step{credentials.Settled, credentials.Introduced, credentials.Switched, credentials.Settled}, steps); diff != "" {
		t.Error(diff)
	}
	auth := b.Secret("c-operator-auth")
	for name, s := range b.Servers {
		if s.Settings["primaryauth"] != string(auth.Data[v1alpha1.SecretKeyReplPassword]) {
			t.Errorf("%s was not told the new replication password", name)
		}
	}
	if string(auth.Data[v1alpha1.SecretKeyOperatorPassword]) == first {
		t.Error("the password is the old one")
	}
	b.pass()
	b.expect("True InSync")
	for _, e := range append(b.News(), b.condition()) {
		if strings.Contains(e, first) || strings.Contains(e, string(auth.Data[v1alpha1.SecretKeyReplPassword])) {
			t.Errorf("a password is told: %s", e)
		}
	}
}

// lose deletes a Secret.
func (b *bench) lose(name string) {
	b.T.Helper()
	if err := b.Kube.CoreV1().Secrets(reachtest.Namespace).Delete(b.T.Context(), name, metav1.DeleteOptions{}); err != nil {
		b.T.Fatal(err)
	}
}

const (
	authName  = "c-operator-auth"
	spareName = authName + "-spare"
)

func TestTheSpareIsMadeAgainAndHasOnlyPasswordsInForce(t *testing.T) {
	b := newBench(t, 1)
	auth := b.Secret(authName)
	isRight := func(what string) {
		t.Helper()
		b.pass()
		spare := b.Secret(spareName)
		if spare == nil || !credentials.IsCopy(spare, auth) || !metav1.IsControlledBy(spare, b.Get()) || spare.Labels[v1alpha1.LabelManagedBy] != v1alpha1.LabelManagedByValue {
			t.Errorf("%s: the spare is %v", what, spare)
		}
	}
	isRight("new")
	b.Writes()
	isRight("as it should be")
	if writes := b.Writes(); len(writes) > 0 {
		t.Errorf("it is written again: %v", writes)
	}
	b.lose(spareName)
	isRight("deleted")
	damaged := b.Secret(spareName)
	delete(damaged.Data, v1alpha1.SecretKeyReplPassword)
	b.PutSecret(damaged)
	isRight("damaged")
	restored := b.Secret(spareName)
	b.lose(spareName)
	restored.OwnerReferences, restored.ResourceVersion = nil, ""
	b.PutSecret(restored)
	isRight("restored without an owner")
	wrong := auth.DeepCopy()
	wrong.Data[v1alpha1.SecretKeyOperatorPassword] = []byte("a guess")
	b.PutSecret(wrong)
	isRight("the other one damaged")
	b.PutSecret(auth)
	b.lose(spareName)
	b.PutSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: spareName}, Data: map[string][]byte{"mine": []byte("x")}})
	b.News()
	b.pass()
	if s := b.Secret(spareName); string(s.Data["mine"]) != "x" || len(s.OwnerReferences) > 0 {
		t.Errorf("somebody's Secret was taken: %v", s)
	}
	if news := strings.Join(b.News(), "\n"); !strings.Contains(news, `Warning NameTaken Secret "c-operator-auth-spare" exists`) {
		t.Errorf("nobody is told: %s", news)
	}
}

// At each step of a rotation, and between the two writes of a step, either Secret is lost and is made again from the
// other. What is left lets in where any server may be: it is in the file in force.
func TestARotationSurvivesTheLossOfEitherSecretAtEachStep(t *testing.T) {
	for _, lost := range []string{authName, spareName} {
		for _, between := range []bool{false, true} {
			b := newBench(t, 2)
			b.pass()
			first := b.Secret(authName)
			c := b.Get()
			c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "today"}
			b.Put(c)
			seen := map[credentials.Step]bool{}
			for range 12 {
				b.render()
				b.restart()
				before := b.Secret(authName)
				b.pass()
				if between && b.Secret(authName) != nil {
					b.PutSecret(before) // the process died before its second write
				}
				seen[credentials.StepOf(b.Secret(spareName))] = true
				b.lose(lost)
				left := b.Secret(map[string]string{authName: spareName, spareName: authName}[lost])
				if !credentials.IsWhole(left) || !credentials.InForce(left, b.file()) {
					t.Fatalf("%s lost at step %s: what is left does not log in", lost, credentials.StepOf(left))
				}
				if lost == authName { // as the valkeycluster controller does
					again := credentials.Secret(b.Get(), v1alpha1.SuffixAuthSecret)
					credentials.Copy(again, left)
					b.PutSecret(again)
				}
			}
			if between && lost == spareName {
				continue // each life begins the same step anew
			}
			b.render()
			b.pass()
			now := b.Secret(authName)
			if len(seen) != 3 || credentials.StepOf(now) != credentials.Settled || credentials.IsDue(b.Get(), now) || credentials.InForce(first, b.file()) {
				t.Errorf("%s lost, between %t: steps %v, then %s", lost, between, seen, credentials.StepOf(now))
			}
			for name, s := range b.Servers {
				if s.Settings["primaryauth"] != string(now.Data[v1alpha1.SecretKeyReplPassword]) {
					t.Errorf("%s was not told the replication password", name)
				}
			}
			b.expect("True InSync")
		}
	}
}

func TestARotationWaitsForANodeThatDoesNotAnswer(t *testing.T) {
	b := newBench(t, 2, func(c *v1alpha1.ValkeyCluster) {})
	b.Servers["c-1"].Down = errors.New("silence")
	c := b.Get()
	c.Annotations = map[string]string{v1alpha1.AnnotationRotateCredentials: "today"}
	b.Put(c)
	b.pass()
	if step := credentials.StepOf(b.Secret("c-operator-auth")); step != credentials.Settled {
		t.Errorf("step %s", step)
	}
	b.Servers["c-1"].Down = nil
	b.SetPhase("c-1", corev1.PodPending)
	b.pass()
	if step := credentials.StepOf(b.Secret("c-operator-auth")); step != credentials.Settled {
		t.Errorf("step %s while a pod is about to start", step)
	}
	b.SetPhase("c-1", corev1.PodRunning)
	b.pass()
	if step := credentials.StepOf(b.Secret("c-operator-auth")); step != credentials.Introduced {
		t.Errorf("step %s", step)
	}
}

func TestAPausedOrLeavingClusterAndALostLeaseAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*bench, *v1alpha1.ValkeyCluster){
		"paused": func(_ *bench, c *v1alpha1.ValkeyCluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		},
		"deleted": func(_ *bench, c *v1alpha1.ValkeyCluster) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{v1alpha1.FinalizerCluster}
		},
		"not leading": func(b *bench, _ *v1alpha1.ValkeyCluster) { b.c.leading = func() bool { return false } },
	} {
		b := newBench(t, 1)
		c := b.Get()
		change(b, c)
		b.Put(c)
		b.Writes()
		b.pass()
		if got := b.Servers["c-0"].Took(); len(got) > 0 || len(b.Writes()) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	b := newBench(t, 1)
	if err := b.Valkey.ValkeyV1alpha1().ValkeyClusters(reachtest.Namespace).Delete(t.Context(), reachtest.Cluster, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if next := b.pass(); next != 0 {
		t.Errorf("a cluster that is gone is looked at again in %v", next)
	}
}
