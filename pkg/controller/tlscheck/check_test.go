package tlscheck

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/test/testca"
)

var (
	names = Names{Secret: "s", Namespace: "ns", Cluster: "c", Domain: "cluster.local"}
	ca    = testca.New("one")
	other = testca.New("two")
	good  = ca.Issue(testca.Leaf{Names: names.Hosts()})
)

// with is a good Secret with some keys replaced; a nil value removes one.
func with(change map[string][]byte) map[string][]byte {
	data := good.Secret(ca)
	maps.Copy(data, change)
	maps.DeleteFunc(data, func(_ string, v []byte) bool { return v == nil })
	return data
}

func message(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	_, err := Check(names, secret)
	if err == nil {
		return ""
	}
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("the error is %T, want *Invalid", err)
	}
	return invalid.Message
}

func TestEachFaultHasItsOwnMessage(t *testing.T) {
	issued := func(l testca.Leaf) map[string][]byte { return ca.Issue(l).Secret(ca) }
	text := func(s string) []byte { return []byte(s) }
	broken := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")})
	const (
		noPEM  = `TLS Secret "s": tls.crt is not valid PEM`
		noX509 = `TLS Secret "s": tls.crt is not a valid X.509 certificate`
		noKey  = `TLS Secret "s": tls.key is not one private key in PEM`
		badKey = `TLS Secret "s": tls.key is not a valid private key`
		noCA   = `TLS Secret "s": ca.crt is not a PEM bundle of X.509 certificates`
		signed = `TLS Secret "s": tls.crt is not signed by a certificate in ca.crt`
		usage  = `TLS Secret "s": tls.crt must allow both server and client authentication (extended key usage): nodes are each other's clients`
	)
	for title, c := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"no data":                   {nil, `TLS Secret "s" has no data`},
		"no certificate":            {with(map[string][]byte{"tls.crt": nil}), `TLS Secret "s" missing required key "tls.crt"`},
		"an empty key":              {with(map[string][]byte{"tls.key": {}}), `TLS Secret "s" missing required key "tls.key"`},
		"ca.key for ca.crt":         {with(map[string][]byte{"ca.crt": nil, "ca.key": text("x")}), `TLS Secret "s" missing required key "ca.crt"`},
		"no PEM":                    {with(map[string][]byte{"tls.crt": text("hello")}), noPEM},
		"a key for a certificate":   {with(map[string][]byte{"tls.crt": good.KeyPEM()}), noPEM},
		"a block cut short":         {with(map[string][]byte{"tls.crt": good.PEM()[:80]}), noPEM},
		"a broken block before":     {with(map[string][]byte{"tls.crt": append(text("-----BEGIN CERTIFICATE-----\nAAA\n"), good.PEM()...)}), noPEM},
		"PEM of something else":     {with(map[string][]byte{"tls.crt": broken}), noX509},
		"a good one, then nonsense": {with(map[string][]byte{"tls.crt": append(good.PEM(), broken...)}), noX509},
		"no name":                   {issued(testca.Leaf{}), `TLS cert in Secret "s" missing SAN "c.ns.svc.cluster.local"`},
		"no wildcard":               {issued(testca.Leaf{Names: names.Hosts()[:1]}), `TLS cert in Secret "s" missing SAN "*.c.ns.svc.cluster.local"`},
		"only the wildcard":         {issued(testca.Leaf{Names: names.Hosts()[1:]}), `TLS cert in Secret "s" missing SAN "c.ns.svc.cluster.local"`},
		"another cluster's":         {issued(testca.Leaf{Names: []string{"d.ns.svc.cluster.local", "*.d.ns.svc.cluster.local"}}), `TLS cert in Secret "s" missing SAN "c.ns.svc.cluster.local"`},
		"another key":               {with(map[string][]byte{"tls.key": ca.KeyPEM()}), `TLS Secret "s": tls.key does not match tls.crt`},
		"a key that is no PEM":      {with(map[string][]byte{"tls.key": text("secret")}), noKey},
		"two keys":                  {with(map[string][]byte{"tls.key": append(ca.KeyPEM(), good.KeyPEM()...)}), noKey},
		"a key that is none":        {with(map[string][]byte{"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})}), badKey},
		"an encrypted key": {with(map[string][]byte{"tls.key": pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")})}),
			`TLS Secret "s": tls.key is encrypted; a server has nobody to ask for the passphrase`},
		"authority first":           {with(map[string][]byte{"tls.crt": append(ca.PEM(), good.PEM()...)}), `TLS cert in Secret "s" missing SAN "c.ns.svc.cluster.local"`},
		"a CA that is no PEM":       {with(map[string][]byte{"ca.crt": text("ca")}), noCA},
		"a CA that is no X.509":     {with(map[string][]byte{"ca.crt": append(ca.PEM(), broken...)}), noCA},
		"another CA":                {with(map[string][]byte{"ca.crt": other.PEM()}), signed},
		"itself as CA":              {ca.Intermediate("sub").Issue(testca.Leaf{Names: names.Hosts()}).Secret(other), signed},
		"an intermediate missing":   {with(map[string][]byte{"tls.crt": chained.PEM(), "tls.key": chained.KeyPEM()}), signed},
		"for servers only":          {issued(testca.Leaf{Names: names.Hosts(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}), usage},
		"for clients only":          {issued(testca.Leaf{Names: names.Hosts(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}), usage},
		"expired, of another CA":    {ca.Issue(testca.Leaf{Names: names.Hosts(), From: ago(9), Until: ago(8)}).Secret(other), signed},
		"two wrongs, the first one": {with(map[string][]byte{"tls.crt": text("x"), "ca.crt": nil}), `TLS Secret "s" missing required key "ca.crt"`},
	} {
		t.Run(title, func(t *testing.T) {
			if diff := cmp.Diff(c.want, message(t, &corev1.Secret{Data: c.data})); diff != "" {
				t.Error(diff)
			}
		})
	}
	if diff := cmp.Diff(`TLS Secret "s" not found in namespace "ns"`, message(t, nil)); diff != "" {
		t.Error(diff)
	}
}

var chained = ca.Intermediate("middle").Issue(testca.Leaf{Names: names.Hosts()})

func ago(days int) time.Time { return time.Now().Add(-time.Duration(days) * 24 * time.Hour) }

func TestWhatServersUnderstandIsTaken(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaLeaf := ca.Issue(testca.Leaf{Names: names.Hosts(), Key: rsaKey})
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)})
	crlf := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	oldCA := testca.NewUntil("old", ago(10))
	for title, data := range map[string]map[string][]byte{
		"plain":                  good.Secret(ca),
		"more keys":              with(map[string][]byte{"more": []byte("x")}),
		"a bundle":               good.Secret(other, ca),
		"a chain":                chained.Secret(ca),
		"the whole chain":        with(map[string][]byte{"tls.crt": append(chained.ChainPEM(), ca.PEM()...), "tls.key": chained.KeyPEM()}),
		"an RSA key":             rsaLeaf.Secret(ca),
		"an RSA key, PKCS1":      {"tls.crt": rsaLeaf.PEM(), "tls.key": pkcs1, "ca.crt": ca.PEM()},
		"an Ed25519 key":         ca.Issue(testca.Leaf{Names: names.Hosts(), Key: edKey}).Secret(ca),
		"EC parameters first":    with(map[string][]byte{"tls.key": append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte("x")}), good.KeyPEM()...)}),
		"names in capitals":      ca.Issue(testca.Leaf{Names: []string{"C.NS.SVC.Cluster.Local", "*.c.ns.svc.cluster.local"}}).Secret(ca),
		"both usages":            ca.Issue(testca.Leaf{Names: names.Hosts(), Usages: both}).Secret(ca),
		"any usage":              ca.Issue(testca.Leaf{Names: names.Hosts(), Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}).Secret(ca),
		"expired":                ca.Issue(testca.Leaf{Names: names.Hosts(), From: ago(9), Until: ago(8)}).Secret(ca),
		"not yet valid":          ca.Issue(testca.Leaf{Names: names.Hosts(), From: ago(-8), Until: ago(-9)}).Secret(ca),
		"a CA that has run out":  oldCA.Issue(testca.Leaf{Names: names.Hosts(), From: ago(20), Until: ago(-5)}).Secret(oldCA),
		"CRLF":                   {"tls.crt": crlf(good.PEM()), "tls.key": crlf(good.KeyPEM()), "ca.crt": crlf(ca.PEM())},
		"a byte-order mark":      with(map[string][]byte{"tls.crt": append([]byte("\xef\xbb\xbf"), good.PEM()...), "ca.crt": append([]byte("\xef\xbb\xbf"), ca.PEM()...)}),
		"text around the block":  with(map[string][]byte{"tls.crt": append(append([]byte("subject=node\n"), good.PEM()...), "\n\n# end\n"...)}),
		"a key in the same file": with(map[string][]byte{"tls.crt": append(good.KeyPEM(), good.PEM()...)}),
	} {
		t.Run(title, func(t *testing.T) {
			m, err := Check(names, &corev1.Secret{Data: data})
			if err != nil {
				t.Fatal(err)
			}
			for part, text := range map[string][]byte{"tls.crt": m.Cert, "tls.key": m.Key, "ca.crt": m.CA} {
				if !bytes.HasPrefix(text, []byte("-----BEGIN ")) || !bytes.HasSuffix(text, []byte("-----\n")) || bytes.Contains(text, []byte("\r")) {
					t.Errorf("%s is not written anew:\n%s", part, text)
				}
			}
			if bytes.Contains(m.Cert, []byte("PRIVATE KEY")) {
				t.Error("a private key is among the certificates")
			}
			again, err := Check(names, &corev1.Secret{Data: map[string][]byte{"tls.crt": m.Cert, "tls.key": m.Key, "ca.crt": m.CA}})
			if err != nil || !bytes.Equal(again.Cert, m.Cert) || !bytes.Equal(again.Key, m.Key) || !bytes.Equal(again.CA, m.CA) {
				t.Errorf("what was written is read differently: %v", err)
			}
		})
	}
}

func TestTheDateIsToldInSixWords(t *testing.T) {
	day := 24 * time.Hour
	end := time.Date(2030, 6, 1, 0, 0, 0, 0, time.UTC)
	leaf := ca.Issue(testca.Leaf{Names: names.Hosts(), From: end.Add(-90 * day), Until: end}).Cert
	for _, c := range []struct {
		before time.Duration
		want   Validity
		next   time.Duration
		says   string
	}{
		{91 * day, NotYetValid, 90 * day, "is not valid before 2030-03-03T00:00:00Z"},
		{90 * day, Valid, 30 * day, "is valid until 2030-06-01T00:00:00Z"},
		{30*day + 1, Valid, 30 * day, "is valid until"},
		{30 * day, Within30Days, 7 * day, "is valid until"},
		{7 * day, Within7Days, day, "is valid until"},
		{day, Within1Day, 0, "is valid until"},
		{1, Within1Day, 0, "is valid until"},
		{0, Expired, -1, "expired at 2030-06-01T00:00:00Z"},
		{-day, Expired, -1, "expired at"},
	} {
		got, next := Dated(leaf, end.Add(-c.before))
		want := end.Add(-c.next)
		if c.next < 0 {
			want = time.Time{}
		}
		if got != c.want || !next.Equal(want) {
			t.Errorf("%v before the end: %s, next change %s; want %s, %s", c.before, got, next, c.want, want)
		}
		if says := Says(leaf, got); !strings.Contains(says, c.says) {
			t.Errorf("%s says %q, want %q", got, says, c.says)
		}
	}
}

func TestTheSoonestAuthorityIsTheOneThatServersShow(t *testing.T) {
	short, long := testca.NewUntil("short", ago(-3)), testca.NewUntil("long", ago(-10))
	for _, bundle := range [][]*testca.Pair{{short, long}, {long, short}} {
		got := Soonest(testca.Bundle(bundle...))
		if !IsSerial("00"+strings.ToUpper(short.Cert.SerialNumber.Text(16)), got) {
			t.Errorf("serial is %x, want %x", got, short.Cert.SerialNumber)
		}
		if IsSerial(long.Cert.SerialNumber.Text(16), got) || IsSerial("", got) || IsSerial("none", got) || IsSerial("00", Soonest(nil)) {
			t.Error("another serial is taken for it")
		}
	}
	if !Includes(testca.Bundle(long, short), testca.Bundle(short)) || Includes(testca.Bundle(long), testca.Bundle(long, short)) || !Includes(nil, nil) || Includes([]byte("-----BEGIN "), nil) {
		t.Error("Includes does not compare certificates")
	}
	if First(nil) != nil || First([]byte("x")) != nil || !First(good.PEM()).Equal(good.Cert) {
		t.Error("First is not the first certificate")
	}
}

func FuzzNothingPanics(f *testing.F) {
	f.Add(good.PEM(), good.KeyPEM(), ca.PEM())
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("x"), []byte{})
	f.Fuzz(func(t *testing.T, cert, key, bundle []byte) {
		m, err := Check(names, &corev1.Secret{Data: map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": bundle}})
		if (m == nil) == (err == nil) {
			t.Error("neither good nor bad")
		}
	})
}
