package valkey_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

const tlsName = "c.ns.svc.cluster.local"

func TestAClusterWithTLSFormsAndIsReadOverTLSOnly(t *testing.T) {
	t.Parallel()
	certs := valkeyproc.NewAuthority(t).Issue(t, tlsName, time.Now().Add(time.Hour))
	servers := valkeyproc.Start(t, 3, valkeyproc.Options{TLS: certs, Override: map[string]string{"cluster-node-timeout": "1000"}})
	valkeyproc.Form(t, servers, 2)
	me := servers[0].Look(t).View.Me()
	if me.Hostname != tlsName || me.Port != 6379 || me.BusPort != 16379 {
		t.Errorf("its own line is %+v", me)
	}
	plain := client.Dialer{Password: valkeyproc.OperatorPassword, Timeout: time.Second}
	if s, err := plain.Look(t.Context(), servers[0].Addr()); err == nil {
		t.Errorf("without TLS it says %+v", s)
	}
}

func TestAServerOfAnotherAuthorityOrNameIsRefused(t *testing.T) {
	certs := valkeyproc.NewAuthority(t).Issue(t, tlsName, time.Now().Add(time.Hour))
	other := valkeyproc.NewAuthority(t).Issue(t, tlsName, time.Now().Add(time.Hour))
	s := valkeyproc.Start(t, 1, valkeyproc.Options{TLS: certs})[0]
	for want, expected := range map[string]struct {
		ca   []byte
		name string
	}{
		"unknown authority":    {other.CA, tlsName},
		"not x.ns.svc.cluster": {certs.CA, "x.ns.svc.cluster.local"},
	} {
		config, err := client.TLSConfig(expected.ca, expected.name)
		if err != nil {
			t.Fatal(err)
		}
		d := client.Dialer{Password: valkeyproc.OperatorPassword, TLS: config}
		if _, err := d.Look(t.Context(), s.Addr()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, error is %v", want, err)
		}
	}
}

func TestAnExpiredCertificateIsReplacedWithoutRestart(t *testing.T) {
	authority := valkeyproc.NewAuthority(t)
	expired := authority.Issue(t, tlsName, time.Now().Add(-time.Hour))
	s := valkeyproc.Start(t, 1, valkeyproc.Options{TLS: expired})[0]
	d, node := s.Dialer(t), s.Node(t)
	before, err := d.Certificate(t.Context(), s.Addr())
	if err != nil || !before.NotAfter.Before(time.Now()) {
		t.Fatalf("the certificate is %v, %v", before, err)
	}
	renewed := authority.Issue(t, tlsName, time.Now().Add(time.Hour))
	settings := map[string]string{}
	for directive, file := range map[string]struct {
		name string
		text []byte
	}{
		"tls-cert-file": {"tls.crt", renewed.Cert}, "tls-key-file": {"tls.key", renewed.Key}, "tls-ca-cert-file": {"ca.crt", renewed.CA},
	} {
		path := filepath.Join(s.Dir, "etc/tls", file.name)
		if err := os.WriteFile(path, file.text, 0o600); err != nil {
			t.Fatal(err)
		}
		settings[directive] = path
	}
	if now, err := d.Certificate(t.Context(), s.Addr()); err != nil || now.SerialNumber.Cmp(before.SerialNumber) != 0 {
		t.Errorf("files alone changed the certificate: %v", err)
	}
	if err := node.SetConfig(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	now, err := d.Certificate(t.Context(), s.Addr())
	if err != nil || now.SerialNumber.Cmp(before.SerialNumber) == 0 || now.NotAfter.Before(time.Now()) {
		t.Errorf("after the reload the certificate is %v, %v", now, err)
	}
	if shown := s.Look(t).TLSSerial; shown != client.Serial(now) {
		t.Errorf("the server shows serial %q, the handshake %q", shown, client.Serial(now))
	}
}
