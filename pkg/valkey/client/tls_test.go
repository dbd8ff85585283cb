package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

var now = time.Now()

// authority is a CA, or a certificate that one has issued.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func issue(t *testing.T, by *authority, name string, from, until time.Time) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: from, NotAfter: until, IsCA: by == nil, BasicConstraintsValid: true,
	}
	parent := &authority{cert: template, key: key}
	if by != nil {
		parent = by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &key.PublicKey, parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func TestOnlyTheDateOfACertificateIsForgiven(t *testing.T) {
	day := 24 * time.Hour
	at := func(days int) time.Time { return now.Add(time.Duration(days) * day) }
	ca := issue(t, nil, "ca", at(-100), at(100))
	oldCA := issue(t, nil, "ca", at(-100), at(-10))
	stranger := issue(t, nil, "ca", at(-100), at(100))
	const name = "c.ns.svc.cluster.local"
	for title, c := range map[string]struct {
		leaf  *authority
		root  *authority
		wrong string
	}{
		"valid":                      {issue(t, ca, name, at(-1), at(1)), ca, ""},
		"expired":                    {issue(t, ca, name, at(-9), at(-8)), ca, ""},
		"not yet valid":              {issue(t, ca, name, at(8), at(9)), ca, ""},
		"issued by a CA that is out": {issue(t, oldCA, name, at(-50), at(50)), oldCA, ""},
		"expired, its CA before it":  {issue(t, oldCA, name, at(-50), at(-5)), oldCA, ""},
		"older than its CA":          {issue(t, ca, name, at(-200), at(1)), ca, ""},
		"another CA":                 {issue(t, stranger, name, at(-1), at(1)), ca, "unknown authority"},
		"another CA, expired":        {issue(t, stranger, name, at(-9), at(-8)), ca, "unknown authority"},
		"another name":               {issue(t, ca, "x.ns.svc.cluster.local", at(-1), at(1)), ca, "not c.ns.svc"},
		"another name, expired":      {issue(t, ca, "x.ns.svc.cluster.local", at(-9), at(-8)), ca, "not c.ns.svc"},
	} {
		t.Run(title, func(t *testing.T) {
			config, err := TLSConfig(c.root.pem(), name)
			if err != nil {
				t.Fatal(err)
			}
			err = config.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.leaf.cert}})
			if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("error is %v, want %q", err, c.wrong)
			}
		})
	}
}

func TestABundleWithoutAuthorityOrAServerWithoutCertificateIsRefused(t *testing.T) {
	for _, bundle := range []string{"", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := TLSConfig([]byte(bundle), "name"); err == nil {
			t.Errorf("bundle %q was taken", bundle)
		}
	}
	config, err := TLSConfig(issue(t, nil, "ca", now, now.Add(time.Hour)).pem(), "name")
	if err != nil {
		t.Fatal(err)
	}
	if config.VerifyConnection(tls.ConnectionState{}) == nil {
		t.Error("no certificate was good enough")
	}
}

func TestAHandshakeThatNeverEndsIsATimeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d := dialer(t)
	d.TLS = &tls.Config{ServerName: "x"}
	begun := time.Now()
	if _, err := d.Look(t.Context(), l.Addr().String()); err == nil {
		t.Error("a look without handshake")
	}
	if _, err := d.Certificate(t.Context(), l.Addr().String()); err == nil {
		t.Error("a certificate without handshake")
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	d.TLS = nil
	if _, err := d.Certificate(t.Context(), l.Addr().String()); err == nil {
		t.Error("a certificate without TLS")
	}
}

func TestSerialsAreWrittenAsServersDo(t *testing.T) {
	for number, want := range map[int64]string{0: "0", 5: "05", 255: "FF", 256: "0100", 0xABC: "0ABC"} {
		if got := Serial(&x509.Certificate{SerialNumber: big.NewInt(number)}); got != want {
			t.Errorf("%d is %q, want %q", number, got, want)
		}
	}
}
