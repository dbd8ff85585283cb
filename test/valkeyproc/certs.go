package valkeyproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Authority is a certificate authority for tests.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one that is valid for the next hours.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	cert := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}, nil, key, key)
	return &Authority{cert: cert, key: key}
}

// Issue gives a certificate for the name, and every name directly below it,
// that is valid until the given time.
func (a *Authority) Issue(t testing.TB, name string, until time.Time) *Certificates {
	t.Helper()
	key := newKey(t)
	cert := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "*." + name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-48 * time.Hour), NotAfter: until,
	}, a.cert, key, a.key)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &Certificates{
		Cert: block("CERTIFICATE", cert.Raw), Key: block("EC PRIVATE KEY", der), CA: block("CERTIFICATE", a.cert.Raw), Name: name,
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign has parent sign the template; without parent it signs itself.
func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = serial
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
