package tls

import (
	"bytes"
	"errors"
	"fmt"
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
	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
	"github.com/momentohq/valkey-operator/pkg/controller/reach"
	"github.com/momentohq/valkey-operator/pkg/controller/reach/reachtest"
	"github.com/momentohq/valkey-operator/pkg/controller/tlscheck"
	"github.com/momentohq/valkey-operator/test/testca"
)

var (
	key   = cache.ObjectName{Namespace: reachtest.Namespace, Name: reachtest.Cluster}
	hosts = tlscheck.Names{Namespace: reachtest.Namespace, Cluster: reachtest.Cluster, Domain: "cluster.local"}.Hosts()
	day   = 24 * time.Hour
	ca    = testca.NewUntil("one", time.Now().Add(1000*day))
	newCA = testca.NewUntil("two", time.Now().Add(500*day))
)

type bench struct {
	*reachtest.Bench
	c *Controller
}

func newBench(t *testing.T, nodes int) *bench {
	t.Helper()
	b := &bench{Bench: reachtest.New(t, nodes, func(c *v1alpha1.ValkeyCluster) { c.Spec.TLS = &v1alpha1.ValkeyTLS{SecretRef: "mine"} })}
	b.PutSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-operator-auth"}, Data: map[string][]byte{"operator-password": []byte("p")}})
	b.restart()
	return b
}

func (b *bench) restart() {
	b.T.Helper()
	c, err := New(Options{
		Kube: b.Kube, Valkey: b.Valkey, Informers: b.Informers.Valkey().V1alpha1(), Pods: b.Core.Core().V1().Pods(), Events: b.Events,
		Config: controller.Config{ClusterDomain: "cluster.local"}, Leading: func() bool { return true }, Metrics: metrics.New("test"),
		Wake: func(cache.ObjectName) { b.Wake() }, Connect: b.Connect, Now: func() time.Time { return b.Now },
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.c = c
}

// give writes the user's Secret.
func (b *bench) give(name string, leaf *testca.Pair, bundle ...*testca.Pair) {
	b.T.Helper()
	b.PutSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: leaf.Secret(bundle...)})
}

// bring has a server's kubelet bring what the copy has now.
func (b *bench) bring(names ...string) {
	b.T.Helper()
	have := b.Secret("c-tls")
	for _, name := range names {
		s := b.Servers[name]
		s.BroughtLeaf = tlscheck.First(have.Data["tls.crt"])
		s.BroughtCA = fmt.Sprintf("%X", tlscheck.Soonest(have.Data["ca.crt"]))
	}
}

// pass is one of this controller, after the valkeycluster controller has made the first copy.
func (b *bench) pass() time.Duration {
	b.T.Helper()
	if c := b.Get(); b.Secret("c-tls") == nil && c.DeletionTimestamp == nil {
		if _, err := b.c.copier.Keep(b.T.Context(), c, false); err != nil {
			b.T.Fatal(err)
		}
	}
	b.Sync()
	result, err := b.c.sync(b.T.Context(), key)
	if err != nil {
		b.T.Fatal(err)
	}
	return result.RequeueAfter
}

func (b *bench) tick() time.Duration {
	b.T.Helper()
	b.Now = b.Now.Add(reach.Tick)
	return b.pass()
}

func (b *bench) expect(kind, want string) {
	b.T.Helper()
	got := "none"
	if c := meta.FindStatusCondition(b.Get().Status.Conditions, kind); c != nil {
		got = string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	if !strings.HasPrefix(got, want) {
		b.T.Errorf("%s is %q, want %q", kind, got, want)
	}
}

func leafUntil(by *testca.Pair, until time.Time) *testca.Pair {
	return by.Issue(testca.Leaf{Names: hosts, From: time.Now().Add(-100 * day), Until: until})
}

func leaf(by *testca.Pair) *testca.Pair { return leafUntil(by, time.Now().Add(200*day)) }

// start has a good leaf in force on two nodes.
func start(t *testing.T) (*bench, *testca.Pair) {
	t.Helper()
	b, first := newBench(t, 2), leaf(ca)
	b.give("mine", first, ca)
	b.pass()
	b.bring("c-0", "c-1")
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")
	b.Servers["c-0"].Took()
	b.Servers["c-1"].Took()
	b.News()
	b.Writes()
	return b, first
}

func TestAnIdleClusterGetsOneReissueEveryThirtySecondsAndNoWrite(t *testing.T) {
	b, _ := start(t)
	if next := b.pass(); next != reach.Tick {
		t.Errorf("the next pass is in %v", next)
	}
	b.tick()
	b.Now = b.Now.Add(10 * time.Second)
	b.pass()
	for name, s := range b.Servers {
		if diff := cmp.Diff([]string{"CONFIG SET of 3"}, s.Took()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if writes := b.Writes(); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

func TestTheCopyHasTheMaterialTheOwnerAndTheBundleBefore(t *testing.T) {
	b, first := start(t)
	have := b.Secret("c-tls")
	if !metav1.IsControlledBy(have, b.Get()) || have.Type != corev1.SecretTypeTLS || have.Labels[v1alpha1.LabelManagedBy] != v1alpha1.LabelManagedByValue {
		t.Errorf("%+v", have.ObjectMeta)
	}
	if diff := cmp.Diff(first.Secret(ca), have.Data); diff != "" {
		t.Error("the copy differs from the user's Secret")
	}
	b.give("mine", first, ca, newCA)
	b.tick()
	have = b.Secret("c-tls")
	if !bytes.Equal(have.Data["ca.crt"], testca.Bundle(ca, newCA)) || !bytes.Equal(have.Data["ca-previous.crt"], testca.Bundle(ca)) {
		t.Error("the copy lacks one of the bundles")
	}
	// A new leaf alone is no new bundle.
	b.give("mine", leaf(ca), ca, newCA)
	b.tick()
	if have = b.Secret("c-tls"); !bytes.Equal(have.Data["ca-previous.crt"], testca.Bundle(ca)) {
		t.Error("the bundle before is lost")
	}
}

func TestALeafIsInForceWhenItIsShown(t *testing.T) {
	b, _ := start(t)
	second := leaf(ca)
	b.give("mine", second, ca)
	if next := b.tick(); next != retry {
		t.Errorf("the next pass is in %v", next)
	}
	b.expect(v1alpha1.ConditionTLSInSync, "False FilesPending: these do not use the present certificate or bundle yet: c-0, c-1")
	b.bring("c-0")
	b.Now = b.Now.Add(retry)
	b.pass()
	b.expect(v1alpha1.ConditionTLSInSync, "False FilesPending: these do not use the present certificate or bundle yet: c-1")
	b.bring("c-1")
	b.Servers["c-0"].Took()
	b.Now = b.Now.Add(retry)
	b.restart()
	b.pass()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")
	if !b.Servers["c-0"].Leaf.Equal(second.Cert) {
		t.Error("the server shows the old leaf")
	}
}

func TestABundleThatNobodyShowsCountsAfterTwoMinutes(t *testing.T) {
	b, first := start(t)
	later := testca.NewUntil("later", time.Now().Add(2000*day)) // the old one still expires first
	b.give("mine", first, ca, later)
	b.tick()
	b.bring("c-0", "c-1")
	b.expect(v1alpha1.ConditionTLSInSync, "Unknown BundleNotShown")
	for range 3 {
		b.tick()
		b.expect(v1alpha1.ConditionTLSInSync, "Unknown BundleNotShown")
	}
	b.Servers["c-1"].Down = errors.New("silence")
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "False ReloadFailed: c-1: no answer")
	b.Servers["c-1"].Down = nil
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")
	// Where it is shown, nothing is left to waiting.
	b.give("mine", first, ca, newCA)
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "False FilesPending")
	b.bring("c-0", "c-1")
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")
}

func TestABrokenSecretReachesNoNodeAndASaferOneIsTakenAgain(t *testing.T) {
	b, first := start(t)
	broken := first.Secret(ca)
	broken["tls.crt"] = []byte("hello")
	b.PutSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Data: broken})
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, `False SecretInvalid: TLS Secret "mine": tls.crt is not valid PEM`)
	if !b.Woken() {
		t.Error("nobody was told to set the state")
	}
	if diff := cmp.Diff(first.Secret(ca), b.Secret("c-tls").Data); diff != "" {
		t.Error("the copy has changed")
	}
	b.give("mine", first, ca)
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")
}

func TestALeafThatNodesDoNotTrustIsHeldUntilTheyDo(t *testing.T) {
	b, first := start(t)
	b.give("other", leaf(newCA), newCA)
	c := b.Get()
	c.Spec.TLS.SecretRef = "other"
	b.Put(c)
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, `False NotTrustedByNodes: TLS Secret "other": the nodes do not trust tls.crt`)
	if diff := cmp.Diff(first.Secret(ca), b.Secret("c-tls").Data); diff != "" {
		t.Error("the copy has changed")
	}
	b.give("other", first, ca, newCA)
	b.tick()
	b.bring("c-0", "c-1")
	b.Now = b.Now.Add(settle)
	b.tick()
	b.give("other", leaf(newCA), newCA)
	b.tick()
	b.bring("c-0", "c-1")
	b.tick()
	b.Now = b.Now.Add(settle)
	b.pass()
	b.expect(v1alpha1.ConditionTLSInSync, "True InSync")

	// Without nodes nobody is cut off.
	b = newBench(t, 0)
	b.give("mine", first, ca)
	b.pass()
	second := leaf(newCA)
	b.give("mine", second, newCA)
	b.tick()
	if !bytes.Equal(b.Secret("c-tls").Data["tls.crt"], second.PEM()) {
		t.Error("a cluster without nodes was held to its first authority")
	}
}

// Whoever changes the bundle and then the leaf does not wait for kubelets. The second change waits for the first: a
// node that has only the old bundle would refuse one that shows the new leaf.
func TestAChangeThatNeedsTheOneBeforeWaitsForItOnEveryNode(t *testing.T) {
	b, first := start(t)
	b.give("mine", first, ca, newCA)
	b.tick()
	second := leaf(newCA)
	b.give("mine", second, ca, newCA)
	b.bring("c-0")
	b.tick()
	b.expect(v1alpha1.ConditionTLSInSync, `False FilesPending: TLS Secret "mine" has changed again`)
	if !bytes.Equal(b.Secret("c-tls").Data["tls.crt"], first.PEM()) {
		t.Fatal("the leaf was taken over before every node had its authority")
	}
	renewed := leaf(ca) // good with the old bundle and with the new one: nothing to wait for
	b.give("mine", renewed, ca, newCA)
	b.tick()
	if !bytes.Equal(b.Secret("c-tls").Data["tls.crt"], renewed.PEM()) {
		t.Error("a renewed leaf was held")
	}
	b.give("mine", second, ca, newCA)
	b.bring("c-0", "c-1")
	for range 6 { // the bundle may not be shown: two minutes
		b.tick()
	}
	if !bytes.Equal(b.Secret("c-tls").Data["tls.crt"], second.PEM()) {
		t.Fatal("the leaf was not taken over when every node had its authority")
	}
	b.give("mine", second, newCA) // the old authority must stay for as long as a node shows the old leaf
	b.bring("c-0")
	b.tick()
	if !bytes.Equal(b.Secret("c-tls").Data["ca.crt"], testca.Bundle(ca, newCA)) {
		t.Error("the old authority was dropped while a node shows its leaf")
	}
	b.bring("c-1")
	for range 6 {
		b.tick()
	}
	if !bytes.Equal(b.Secret("c-tls").Data["ca.crt"], testca.Bundle(newCA)) {
		t.Error("the old authority is still there")
	}
}

func TestTheEndOfACertificateIsToldThreeTimesBeforeItAndOnceAfter(t *testing.T) {
	b := newBench(t, 1)
	end := b.Now.Add(31 * day)
	b.give("mine", leafUntil(ca, end), ca)
	for _, left := range []time.Duration{31 * day, 30 * day, 20 * day, 7 * day, 6 * day, day, time.Hour, 0, -day} {
		b.Now = end.Add(-left)
		b.pass()
		b.pass()
	}
	var told []string
	for _, e := range b.News() {
		if strings.Contains(e, "xpire") {
			told = append(told, strings.Join(strings.Fields(e)[:2], " "))
		}
	}
	if diff := cmp.Diff([]string{"Warning ExpiresWithin30Days", "Warning ExpiresWithin7Days", "Warning ExpiresWithin1Day", "Warning Expired"}, told); diff != "" {
		t.Error(diff)
	}
	b.expect(v1alpha1.ConditionCertificateExpiringSoon, "True Expired: the certificate expired at ")
	b.Now = time.Now()
	b.give("mine", leaf(ca), ca)
	b.tick()
	b.expect(v1alpha1.ConditionCertificateExpiringSoon, "False Valid: the certificate is valid until ")
}

func TestTheCopyGivesWayToAUsersSecretOfItsName(t *testing.T) {
	b := newBench(t, 1)
	c := b.Get()
	c.Spec.TLS.SecretRef = "c-tls"
	b.Put(c)
	first := leaf(ca)
	b.give("c-tls", first, ca)
	b.pass()
	if users := b.Secret("c-tls"); len(users.OwnerReferences) != 0 {
		t.Error("the user's Secret was taken")
	}
	kept, err := b.c.copier.Keep(t.Context(), c, true)
	if err != nil || kept.CopyName != "c-tls-operator" || b.Secret("c-tls-operator") == nil {
		t.Fatalf("%+v, %v", kept, err)
	}
	// The name is settled for good: pods have it.
	c.Spec.TLS.SecretRef = "mine"
	b.give("mine", leaf(ca), ca)
	if kept, err = b.c.copier.Keep(t.Context(), c, true); err != nil || kept.CopyName != "c-tls-operator" {
		t.Errorf("%+v, %v", kept, err)
	}
	b.PutSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-tls-operator"}})
	if kept, err = b.c.copier.Keep(t.Context(), c, true); err != nil || !strings.Contains(kept.Invalid, "do not belong to this ValkeyCluster") {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestADamagedCopyIsMendedAndHoldsNothingBack(t *testing.T) {
	b, first := start(t)
	have := b.Secret("c-tls")
	have.Data = map[string][]byte{"ca.crt": []byte("x")}
	b.PutSecret(have)
	b.tick()
	if diff := cmp.Diff(first.Secret(ca), b.Secret("c-tls").Data); diff != "" {
		t.Error("the copy is not mended")
	}
}

func TestClustersWithoutTLSPausedOrGoneAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*bench, *v1alpha1.ValkeyCluster){
		"without TLS": func(_ *bench, c *v1alpha1.ValkeyCluster) { c.Spec.TLS = nil },
		"paused": func(_ *bench, c *v1alpha1.ValkeyCluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		},
		"deleted": func(_ *bench, c *v1alpha1.ValkeyCluster) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{v1alpha1.FinalizerCluster}
		},
		"not leading": func(b *bench, _ *v1alpha1.ValkeyCluster) { b.c.leading = func() bool { return false } },
	} {
		b, _ := start(t)
		c := b.Get()
		change(b, c)
		b.Put(c)
		b.Writes()
		b.tick()
		if got := b.Servers["c-0"].Took(); len(got) > 0 || len(b.Writes()) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
