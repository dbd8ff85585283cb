package tlscheck

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Validity is how a certificate stands with the date. It is the reason of the condition
// CertificateExpiringSoon; that it changes is news.
type Validity string

// The validities, in the order in which time brings them.
const (
	NotYetValid  Validity = "NotYetValid"
	Valid        Validity = "Valid"
	Within30Days Validity = "ExpiresWithin30Days"
	Within7Days  Validity = "ExpiresWithin7Days"
	Within1Day   Validity = "ExpiresWithin1Day"
	Expired      Validity = "Expired"
)

// Dated judges the date of a certificate, and says when the answer changes next; the zero time
// is never.
func Dated(leaf *x509.Certificate, now time.Time) (Validity, time.Time) {
	const day = 24 * time.Hour
	if now.Before(leaf.NotBefore) {
		return NotYetValid, leaf.NotBefore
	}
	end := leaf.NotAfter
	for _, step := range []struct {
		until time.Time
		is    Validity
	}{
		{end.Add(-30 * day), Valid}, {end.Add(-7 * day), Within30Days}, {end.Add(-day), Within7Days}, {end, Within1Day},
	} {
		if now.Before(step.until) {
			return step.is, step.until
		}
	}
	return Expired, time.Time{}
}

// Says is the validity in a sentence that holds as long as the validity does.
func Says(leaf *x509.Certificate, v Validity) string {
	switch v {
	case NotYetValid:
		return fmt.Sprintf("the certificate is not valid before %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	case Expired:
		return fmt.Sprintf("the certificate expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("the certificate is valid until %s", leaf.NotAfter.UTC().Format(time.RFC3339))
}

// First is the first certificate of a PEM text; nil if there is none.
func First(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return c
}

// Includes says whether a bundle has every certificate of another, both PEM.
func Includes(bundle, other []byte) bool {
	all, err := certificates(bundle)
	wanted, errOther := certificates(other)
	if err != nil || errOther != nil {
		return false
	}
	return !slices.ContainsFunc(wanted, func(w *x509.Certificate) bool {
		return !slices.ContainsFunc(all, func(c *x509.Certificate) bool { return c.Equal(w) })
	})
}

// Soonest is the serial of the bundle's certificate that expires first, the first one of equals: the
// one that `INFO tls` shows as tls_ca_cert_serial. It is nil for a bundle without certificates.
func Soonest(bundle []byte) *big.Int {
	all, err := certificates(bundle)
	if err != nil || len(all) == 0 {
		return nil
	}
	soonest := all[0]
	for _, c := range all[1:] {
		if c.NotAfter.Before(soonest.NotAfter) {
			soonest = c
		}
	}
	return soonest.SerialNumber
}

// IsSerial says whether a serial as servers write it, in hexadecimal, is this number.
func IsSerial(text string, serial *big.Int) bool {
	if serial == nil || text == "" {
		return false
	}
	n, ok := new(big.Int).SetString(text, 16)
	return ok && n.Cmp(serial) == 0
}
