// Package tlscheck judges the TLS material that a user gives a cluster (contract §5). It does
// no IO.
//
// What it lets through a server can use: it reads the files as strictly as the server's own
// library would, and gives them back written anew, so that a server never sees a byte that was not
// understood here.
package tlscheck

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Names say whose material it is.
type Names struct {
	// Secret is spec.tls.secretRef, Namespace and Cluster are the ValkeyCluster's.
	Secret, Namespace, Cluster string
	// Domain ends the DNS names of Services: "cluster.local".
	Domain string
}

// Hosts are the names that the certificate must have, in the order in which they are asked for:
// the Service's and, as a wildcard, its pods'.
func (n Names) Hosts() []string {
	service := n.Cluster + "." + n.Namespace + ".svc." + n.Domain
	return []string{service, "*." + service}
}

// Invalid is material that cannot be used. Its text is the `message` of the status, word for word.
type Invalid struct{ Message string }

func (e *Invalid) Error() string { return e.Message }

// Material is what was found good, as PEM without anything around the blocks.
type Material struct {
	// Cert is the leaf followed by its intermediates, Key the leaf's private key, CA the bundle.
	Cert, Key, CA []byte
	// Chain is Cert, parsed.
	Chain []*x509.Certificate
}

// Leaf is the certificate that servers show.
func (m *Material) Leaf() *x509.Certificate { return m.Chain[0] }

// Check judges the Secret that a cluster names; nil is one that does not exist. Its only error is
// *Invalid. The date is not judged: an expired certificate is warned of and stays in
// force.
func Check(n Names, secret *corev1.Secret) (*Material, error) {
	if secret == nil {
		return nil, &Invalid{fmt.Sprintf("TLS Secret %q not found in namespace %q", n.Secret, n.Namespace)}
	}
	m, err := check(n, secret.Data)
	if name := (missing{}); errors.As(err, &name) {
		return nil, &Invalid{fmt.Sprintf("TLS cert in Secret %q missing SAN %q", n.Secret, name.host)}
	}
	if err != nil {
		return nil, &Invalid{fmt.Sprintf("TLS Secret %q%s", n.Secret, err)}
	}
	return m, nil
}

// missing is the one fault whose message does not begin with the Secret.
type missing struct{ host string }

func (m missing) Error() string { return " missing SAN " + m.host }

// check gives errors that follow the Secret's name.
func check(n Names, data map[string][]byte) (*Material, error) {
	if len(data) == 0 {
		return nil, errors.New(" has no data")
	}
	for _, key := range []string{v1alpha1.SecretKeyTLSCert, v1alpha1.SecretKeyTLSKey, v1alpha1.SecretKeyTLSCA} {
		if len(data[key]) == 0 {
			return nil, fmt.Errorf(" missing required key %q", key)
		}
	}
	chain, err := leafFirst(data[v1alpha1.SecretKeyTLSCert])
	if err != nil {
		return nil, err
	}
	if name := missingName(chain[0], n.Hosts()); name != "" {
		return nil, missing{name}
	}
	key, err := privateKey(data[v1alpha1.SecretKeyTLSKey])
	if err != nil {
		return nil, err
	}
	m := &Material{Cert: encode(chain), Key: key, Chain: chain}
	if _, err := tls.X509KeyPair(m.Cert, m.Key); err != nil {
		return nil, errors.New(": tls.key does not match tls.crt")
	}
	bundle, err := certificates(data[v1alpha1.SecretKeyTLSCA])
	if err != nil || len(bundle) == 0 {
		return nil, errors.New(": ca.crt is not a PEM bundle of X.509 certificates")
	}
	m.CA = encode(bundle)
	if !canServe(chain[0]) {
		return nil, errors.New(": tls.crt must allow both server and client authentication (extended key usage): " +
			"nodes are each other's clients")
	}
	if !IsTrusted(m, m.CA, n) {
		return nil, errors.New(": tls.crt is not signed by a certificate in ca.crt")
	}
	return m, nil
}

// IsTrusted says whether who trusts the bundle (PEM) accepts the material's certificate, whatever the date.
func IsTrusted(m *Material, bundle []byte, n Names) bool {
	// Any pod's name: the wildcard covers one label.
	config, err := client.TLSConfig(bundle, "any."+n.Hosts()[0])
	return err == nil && config.VerifyConnection(tls.ConnectionState{PeerCertificates: m.Chain}) == nil
}

func missingName(leaf *x509.Certificate, hosts []string) string {
	for _, host := range hosts {
		if !slices.ContainsFunc(leaf.DNSNames, func(have string) bool { return strings.EqualFold(have, host) }) {
			return host
		}
	}
	return ""
}

// canServe: on the cluster bus each node is the other's client, and the bus always asks for a
// certificate. One that is for servers only makes a cluster that never meets.
func canServe(leaf *x509.Certificate) bool {
	if len(leaf.ExtKeyUsage) == 0 && len(leaf.UnknownExtKeyUsage) == 0 || slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return true
	}
	return slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
}
