package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
	"github.com/momentohq/valkey-operator/test/testca"
)

// waitShown waits until every server shows the leaf and the condition says that they use the present material.
//
// A change that comes while the nodes still take over the one before waits for a tick of 30 s, then for the
// kubelets, then for the next tick.
func waitShown(t *testing.T, c *lab.Cluster, leaf *testca.Pair) {
	t.Helper()
	lab.Eventually(t, 150*time.Second, "every server to show the present certificate", func() error {
		for _, addr := range c.Addresses() {
			shown, err := lab.Shown(addr)
			if err != nil {
				return err
			}
			if !shown.PeerCertificates[0].Equal(leaf.Cert) {
				return fmt.Errorf("%s shows serial %x, want %x", addr, shown.PeerCertificates[0].SerialNumber, leaf.Cert.SerialNumber)
			}
		}
		return nil
	})
}

// waitBundle waits until the operator has taken a bundle over and says that servers use it.
func waitBundle(t *testing.T, c *lab.Cluster, bundle []byte) {
	t.Helper()
	lab.Eventually(t, 150*time.Second, "the copy to have the bundle", func() error {
		secret, err := c.Copy()
		if err == nil && !bytes.Equal(secret.Data["ca.crt"], bundle) {
			err = fmt.Errorf("it has another one")
		}
		return err
	})
	c.WaitCondition(3*time.Minute, valkeyv1alpha1.ConditionTLSInSync, metav1.ConditionTrue)
}

// Leaf and authority are rotated by the bundle procedure (contract §5) under a client that writes all the
// time: no pod is replaced and no shard is away for longer than a reconnect.
func TestTLSIsTheOnlyWayInAndIsRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{CPU: "250m"})
	oldCA, newCA, stranger := testca.New("old"), testca.New("new"), testca.New("stranger")
	first := oldCA.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("material", first.Secret(oldCA))
	c := s.Create("cache", 3, 1, lab.WithTLS("material"))
	c.Settle(90*time.Second, 3, 1)
	c.WaitCondition(60*time.Second, valkeyv1alpha1.ConditionTLSInSync, metav1.ConditionTrue)
	waitShown(t, c, first)
	for _, addr := range c.Addresses() {
		if reply, err := lab.Plain(addr, "PING\r\n"); err == nil {
			t.Errorf("%s answers without TLS: %q", addr, reply)
		}
		roots := x509.NewCertPool()
		roots.AddCert(stranger.Cert)
		if _, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots, ServerName: s.Hosts("cache")[0]}); err == nil {
			t.Errorf("%s has a certificate of a strange authority", addr)
		}
	}

	before, w, begun := c.UIDs(), c.Write(20*time.Millisecond, 64), time.Now()
	w.Back(20*time.Second, begun)
	begun = time.Now()
	both := testca.Bundle(oldCA, newCA)
	s.PutSecret("material", first.Secret(oldCA, newCA))
	waitBundle(t, c, both)
	second := newCA.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("material", second.Secret(oldCA, newCA))
	waitShown(t, c, second)
	s.PutSecret("material", second.Secret(newCA))
	waitBundle(t, c, testca.Bundle(newCA))
	w.Back(5*time.Second, time.Now())
	if gap := w.LongestGap(begun, slot.All()); gap.Length > 2*time.Second {
		t.Errorf("no write to slot %d for %v from %s on: %v", gap.Slot, gap.Length, gap.From, gap.LastFailed)
	}
	w.FinishComplete()
	if !maps.Equal(before, c.UIDs()) {
		t.Errorf("pods were replaced: %v, then %v", before, c.UIDs())
	}

	// The nodes do not know this authority: taken over, it would cut them off from each other.
	third := stranger.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("other", third.Secret(stranger))
	c.Patch(`{"spec":{"tls":{"secretRef":"other"}}}`)
	c.WaitCondition(60*time.Second, valkeyv1alpha1.ConditionTLSInSync, metav1.ConditionFalse, "do not trust")
	fourth := newCA.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("other", fourth.Secret(newCA))
	waitShown(t, c, fourth)
	if !maps.Equal(before, c.UIDs()) {
		t.Errorf("pods were replaced: %v, then %v", before, c.UIDs())
	}
	for _, line := range s.Operator.Log() {
		if line.Level == "ERROR" {
			t.Errorf("the operator logged %v", line.Fields)
		}
	}
}

// Each message of contract §5, from a real Secret; no broken one reaches a node, and the cluster
// comes back by itself.
func TestABrokenTLSSecretIsToldInItsWordsAndReachesNoNode(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	ca, other := testca.New("one"), testca.New("two")
	names := s.Hosts("cache")
	good := ca.Issue(testca.Leaf{Names: names})
	c := s.Create("cache", 1, 1, lab.WithTLS("material"))
	lab.Eventually(t, 20*time.Second, "the missing Secret to be told", told(c, fmt.Sprintf("TLS Secret %q not found in namespace %q", "material", s.Name)))
	if uids := c.UIDs(); len(uids) > 0 {
		t.Errorf("pods were made: %v", uids)
	}
	s.PutSecret("material", good.Secret(ca))
	c.Settle(90*time.Second, 1, 1)
	before := c.UIDs()
	with := func(key string, value []byte) map[string][]byte {
		data := good.Secret(ca)
		data[key] = value
		if value == nil {
			delete(data, key)
		}
		return data
	}
	for _, step := range []struct {
		want string
		data map[string][]byte
	}{
		{`TLS Secret "material" has no data`, nil},
		{`TLS Secret "material" missing required key "ca.crt"`, with("ca.crt", nil)},
		{`TLS Secret "material" missing required key "tls.key"`, with("tls.key", nil)},
		{`TLS Secret "material" missing required key "tls.crt"`, with("tls.crt", nil)},
		{`TLS Secret "material": tls.crt is not valid PEM`, with("tls.crt", []byte("hello"))},
		{`TLS Secret "material": tls.crt is not a valid X.509 certificate`, with("tls.crt", []byte("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"))},
		{`TLS cert in Secret "material" missing SAN "` + names[0] + `"`, ca.Issue(testca.Leaf{Names: names[1:]}).Secret(ca)},
		{`TLS cert in Secret "material" missing SAN "` + names[1] + `"`, ca.Issue(testca.Leaf{Names: names[:1]}).Secret(ca)},
		{`TLS Secret "material": tls.key does not match tls.crt`, with("tls.key", other.KeyPEM())},
		{`TLS Secret "material": ca.crt is not a PEM bundle of X.509 certificates`, with("ca.crt", []byte("hello\n"))},
		{`TLS Secret "material": tls.crt is not signed by a certificate in ca.crt`, with("ca.crt", other.PEM())},
	} {
		s.PutSecret("material", step.data)
		lab.Eventually(t, 30*time.Second, "the message "+step.want, told(c, step.want))
	}
	time.Sleep(10 * time.Second) // two periods of the kubelets
	waitShown(t, c, good)
	// What editors do to a file is no fault: servers get it written anew.
	edited := ca.Issue(testca.Leaf{Names: names})
	s.PutSecret("material", asEdited(edited, ca))
	c.WaitActive(30 * time.Second)
	waitShown(t, c, edited)
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionTLSInSync, metav1.ConditionTrue)
	if message := c.Get().Status.Message; message != "" {
		t.Errorf("Active, and the message is still %q", message)
	}
	if !maps.Equal(before, c.UIDs()) {
		t.Errorf("pods were replaced: %v, then %v", before, c.UIDs())
	}
	if s.Operator.Logged("TLS Secret validation failed, setting cluster Invalid") == 0 {
		t.Error("the log lacks the words that runbooks search for")
	}
}

// asEdited is a Secret with byte-order marks, text around the blocks, the line ends of Windows, and empty lines at the end.
func asEdited(leaf, ca *testca.Pair) map[string][]byte {
	windows := func(pem []byte) string { return strings.ReplaceAll(string(pem), "\n", "\r\n") }
	return map[string][]byte{
		"tls.crt": []byte("\xef\xbb\xbfsubject=node\r\n" + windows(leaf.PEM()) + "\r\n\r\n"),
		"tls.key": []byte(windows(leaf.KeyPEM()) + "\n\n"),
		"ca.crt":  []byte("\xef\xbb\xbf# the authority\n" + string(ca.PEM()) + "\n \n"),
	}
}

func told(c *lab.Cluster, message string) func() error {
	return func() error {
		got := c.Get().Status
		if got.State != valkeyv1alpha1.ClusterStateInvalid || got.Message != message {
			return fmt.Errorf("state %s, message %q", got.State, got.Message)
		}
		return nil
	}
}

// An operator that could no longer talk to its nodes could not even give them a new certificate.
func TestAnExpiredCertificateIsWarnedOfAndCured(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	ca := testca.New("one")
	end := time.Now().Add(75 * time.Second)
	s.PutSecret("material", ca.Issue(testca.Leaf{Names: s.Hosts("cache"), Until: end}).Secret(ca))
	c := s.Create("cache", 1, 1, lab.WithTLS("material"))
	c.Settle(60*time.Second, 1, 1)
	c.WaitCondition(40*time.Second, valkeyv1alpha1.ConditionCertificateExpiringSoon, metav1.ConditionTrue, "is valid until")
	c.WaitEvent(10*time.Second, "ExpiresWithin1Day")
	time.Sleep(time.Until(end) + time.Second)
	c.WaitCondition(40*time.Second, valkeyv1alpha1.ConditionCertificateExpiringSoon, metav1.ConditionTrue, "expired at")
	c.WaitEvent(10*time.Second, "Expired: ")
	if state := c.Get().Status.State; state != valkeyv1alpha1.ClusterStateActive {
		t.Errorf("state is %s, want Active: servers go on", state)
	}
	// The operator still commands the nodes: it adds one over the expired certificate.
	fresh := ca.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("material", fresh.Secret(ca))
	waitShown(t, c, fresh)
	c.WaitCondition(40*time.Second, valkeyv1alpha1.ConditionCertificateExpiringSoon, metav1.ConditionFalse)
	c.WaitCondition(60*time.Second, valkeyv1alpha1.ConditionTLSInSync, metav1.ConditionTrue)
}

// "{cluster}-tls" is the contract's name for the operator's own copy, and what people call their Secret.
func TestAUsersSecretMayHaveTheNameOfTheCopy(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	ca := testca.New("one")
	leaf := ca.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("cache-tls", leaf.Secret(ca))
	c := s.Create("cache", 1, 0, lab.WithTLS("cache-tls"))
	c.Settle(60*time.Second, 1, 0)
	waitShown(t, c, leaf)
	secret, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), "cache-tls", metav1.GetOptions{})
	if err != nil || metav1.GetControllerOf(secret) != nil || len(secret.Data) != 3 {
		t.Errorf("the user's Secret was touched: %v, %v", secret, err)
	}
}
