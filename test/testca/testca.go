// Package testca makes certificate authorities and certificates for tests.
//
//	ca := testca.New("one")
//	leaf := ca.Issue(testca.Leaf{Names: []string{"c.ns.svc.cluster.local"}})
//	data := leaf.Secret(ca) // tls.crt, tls.key, ca.crt
package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"
)

// Pair is a certificate with its private key: an authority or a leaf.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
	// chain is what a server must show after the certificate.
	chain []*x509.Certificate
}

// Leaf is what a certificate is issued for. The zero times are an hour ago and a year from now.
type Leaf struct {
	Names       []string
	From, Until time.Time
	Usages      []x509.ExtKeyUsage
	IsCA        bool
	Key         crypto.Signer
}

const year = 365 * 24 * time.Hour

// New makes an authority that signs itself, valid from a year ago for ten years.
func New(name string) *Pair { return NewUntil(name, time.Now().Add(9*year)) }

// NewUntil is New with an end.
func NewUntil(name string, until time.Time) *Pair {
	return issue(nil, name, Leaf{IsCA: true, From: time.Now().Add(-year), Until: until})
}

// Intermediate makes an authority that is signed by this one.
func (p *Pair) Intermediate(name string) *Pair {
	out := issue(p, name, Leaf{IsCA: true})
	out.chain = append([]*x509.Certificate{out.Cert}, p.chain...)
	return out
}

// Issue makes a certificate that is signed by this authority.
func (p *Pair) Issue(l Leaf) *Pair {
	out := issue(p, "node", l)
	out.chain = p.chain
	return out
}

func issue(by *Pair, name string, l Leaf) *Pair {
	key := l.Key
	if key == nil {
		key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	}
	if l.From.IsZero() {
		l.From = time.Now().Add(-time.Hour)
	}
	if l.Until.IsZero() {
		l.Until = time.Now().Add(year)
	}
	serial := must(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)))
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, DNSNames: l.Names,
		NotBefore: l.From, NotAfter: l.Until, IsCA: l.IsCA, BasicConstraintsValid: true, ExtKeyUsage: l.Usages,
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if l.IsCA {
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.Cert, by.Key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))
	return &Pair{Cert: must(x509.ParseCertificate(der)), Key: key}
}

// PEM is the certificate alone.
func (p *Pair) PEM() []byte { return block("CERTIFICATE", p.Cert.Raw) }

// ChainPEM is the certificate with the intermediates under which it was issued.
func (p *Pair) ChainPEM() []byte {
	out := p.PEM()
	for _, c := range p.chain {
		out = append(out, block("CERTIFICATE", c.Raw)...)
	}
	return out
}

// KeyPEM is the private key.
func (p *Pair) KeyPEM() []byte {
	return block("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(p.Key)))
}

// Secret is the data of a kubernetes.io/tls Secret with this leaf and a bundle.
func (p *Pair) Secret(bundle ...*Pair) map[string][]byte {
	return map[string][]byte{"tls.crt": p.ChainPEM(), "tls.key": p.KeyPEM(), "ca.crt": Bundle(bundle...)}
}

// Bundle is several certificates in one PEM text.
func Bundle(all ...*Pair) []byte {
	var out []byte
	for _, p := range all {
		out = append(out, p.PEM()...)
	}
	return out
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// must: what is made here cannot fail but for a fault of the caller's test.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
