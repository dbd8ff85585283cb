package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// TLSConfig verifies servers against the bundle in ca (PEM) and for
// the name, but not the date: a certificate that has expired, or is not valid yet,
// stays in force (contract §5: it is warned of), and an operator that could no longer
// talk to its nodes could not even replace it. Everything else that
// makes a certificate wrong is refused.
func TLSConfig(ca []byte, serverName string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("no certificate authority in the bundle")
	}
	return &tls.Config{
		ServerName: serverName,
		MinVersion: tls.VersionTLS12,
		// The library's own check has no clock per certificate; VerifyConnection,
		// which runs on resumed sessions too, does the whole of it instead.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(state.PeerCertificates, roots, serverName, time.Now())
		},
	}, nil
}

// verify checks the chain and the name at now, moved into the leaf's own
// validity if it is outside. The authority may have run out before the leaf:
// then the leaf's ends decide, of which the first is when it was issued.
func verify(chain []*x509.Certificate, roots *x509.CertPool, name string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	leaf, between := chain[0], x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	clamped := now
	if now.Before(leaf.NotBefore) {
		clamped = leaf.NotBefore
	} else if now.After(leaf.NotAfter) {
		clamped = leaf.NotAfter
	}
	var first error
	for _, at := range []time.Time{clamped, leaf.NotBefore, leaf.NotAfter} {
		_, err := leaf.Verify(x509.VerifyOptions{
			DNSName: name, Roots: roots, Intermediates: between, CurrentTime: at,
		})
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		var invalid x509.CertificateInvalidError
		if !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
			break
		}
	}
	return fmt.Errorf("certificate of %s: %w", name, first)
}

// Serial is the serial number of a certificate as servers show it
// (topology.Server.TLSSerial): whole bytes in upper-case hexadecimal.
func Serial(c *x509.Certificate) string {
	if c.SerialNumber.Sign() == 0 {
		return "0"
	}
	return fmt.Sprintf("%X", c.SerialNumber.Bytes())
}
