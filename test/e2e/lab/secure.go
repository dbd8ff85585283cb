package lab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp/resp3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/test/monitor"
	"github.com/momentohq/valkey-operator/test/testca"
)

// User is a Valkey user of a test.
type User struct{ Name, Password string }

// Hash is what an AclBinding has of the password.
func (u User) Hash() string {
	sum := sha256.Sum256([]byte(u.Password))
	return hex.EncodeToString(sum[:])
}

// Bind is a binding of the user with one password.
func (u User) Bind(permissions ...valkeyv1alpha1.AclPermission) valkeyv1alpha1.AclBinding {
	return valkeyv1alpha1.AclBinding{Username: u.Name, PasswordHashes: []string{u.Hash()}, Permissions: permissions}
}

// WithTLS is a change of the spec for Create.
func WithTLS(secretRef string) func(*valkeyv1alpha1.ValkeyClusterSpec) {
	return func(spec *valkeyv1alpha1.ValkeyClusterSpec) {
		spec.TLS = &valkeyv1alpha1.ValkeyTLS{SecretRef: secretRef}
	}
}

// WithACL is a change of the spec for Create.
func WithACL(bindings ...valkeyv1alpha1.AclBinding) func(*valkeyv1alpha1.ValkeyClusterSpec) {
	return func(spec *valkeyv1alpha1.ValkeyClusterSpec) { spec.Acl = bindings }
}

// tester is the user of clusters that are not Plain.
var tester = User{Name: "tester", Password: "a password of the tests"}

// secure gives a cluster that is about to be created TLS and a user, unless the site is Plain or
// the test has said what it wants. It gives the user.
func (s *Site) secure(name string, spec *valkeyv1alpha1.ValkeyClusterSpec) User {
	s.T.Helper()
	if s.options.Plain {
		return User{}
	}
	if spec.TLS == nil {
		if s.ca == nil {
			s.ca = testca.New(s.Name)
		}
		material := name + "-material"
		s.PutSecret(material, s.ca.Issue(testca.Leaf{Names: s.Hosts(name)}).Secret(s.ca))
		spec.TLS = &valkeyv1alpha1.ValkeyTLS{SecretRef: material}
	}
	if spec.Acl != nil {
		return User{}
	}
	role := s.Name + "-everything"
	if _, err := s.Bed.Valkey.ValkeyV1alpha1().ValkeyRoles().Get(context.Background(), role, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		s.CreateRole(role, valkeyv1alpha1.ValkeyRoleSpec{Categories: []valkeyv1alpha1.RoleCategory{{Name: "all", Access: valkeyv1alpha1.RoleAccessAllow}}})
	}
	spec.Acl = []valkeyv1alpha1.AclBinding{tester.Bind(valkeyv1alpha1.AclPermission{
		RoleRef: role, Keys: []valkeyv1alpha1.KeyPattern{{Pattern: "*"}}, Channels: []string{"*"}})}
	return tester
}

// Hosts are the names that the certificate of a cluster of the site must have.
func (s *Site) Hosts(cluster string) []string {
	service := cluster + "." + s.Name + ".svc.cluster.local"
	return []string{service, "*." + service}
}

// PutSecret makes or overwrites a Secret; the type of a new one is kubernetes.io/tls if it has both keys.
func (s *Site) PutSecret(name string, data map[string][]byte) {
	s.T.Helper()
	kind := corev1.SecretTypeOpaque
	if data["tls.crt"] != nil && data["tls.key"] != nil {
		kind = corev1.SecretTypeTLS
	}
	ctx, secrets := context.Background(), s.Bed.Kube.CoreV1().Secrets(s.Name)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: data}
	_, err := secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsInvalid(err) { // the type cannot be changed
		err = secrets.Delete(ctx, name, metav1.DeleteOptions{})
	}
	if err == nil || apierrors.IsNotFound(err) {
		if _, errCreate := secrets.Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(errCreate) {
			err = errCreate
		}
	}
	if err != nil {
		s.T.Fatalf("write Secret %s: %v", name, err)
	}
}

// CreateRole makes a ValkeyRole; it ends with the test.
func (s *Site) CreateRole(name string, spec valkeyv1alpha1.ValkeyRoleSpec) {
	s.T.Helper()
	roles := s.Bed.Valkey.ValkeyV1alpha1().ValkeyRoles()
	_, err := roles.Create(context.Background(), &valkeyv1alpha1.ValkeyRole{ObjectMeta: s.menuMeta(name), Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.T.Fatalf("create ValkeyRole %s: %v", name, err)
	}
	s.after = append(s.after, func() error { return roles.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// Copy is the operator's copy of the cluster's TLS material.
func (c *Cluster) Copy() (*corev1.Secret, error) {
	name := c.Name + valkeyv1alpha1.SuffixTLSSecret
	if nodes, err := c.Nodes(); err == nil && len(nodes) > 0 {
		name = nodes[0].Spec.TLSSecret
	}
	return c.Site.Bed.Kube.CoreV1().Secrets(c.Site.Name).Get(context.Background(), name, metav1.GetOptions{})
}

// tlsConfig verifies servers as the operator does, for the name of the Service; nil for a cluster without TLS.
func (c *Cluster) tlsConfig() (*tls.Config, error) {
	got, err := c.get()
	if err != nil || got.Spec.TLS == nil {
		return nil, err
	}
	secret, err := c.Copy()
	if err != nil {
		return nil, err
	}
	bundle := slices.Concat(secret.Data[valkeyv1alpha1.SecretKeyTLSCA], []byte("\n"), secret.Data[valkeyv1alpha1.SecretKeyTLSPreviousCA])
	return client.TLSConfig(bundle, c.Site.Hosts(c.Name)[0])
}

// Do sends one command to one server as a user, or as nobody, and gives the server's error, or why
// there is no answer.
func (c *Cluster) Do(addr string, as User, command ...string) error {
	_, err := c.Ask(addr, as, command...)
	return err
}

// Ask is Do with the server's answer; it is empty where that is no text.
func (c *Cluster) Ask(addr string, as User, command ...string) (string, error) {
	operators, err := c.Dialer()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	dialer := radix.Dialer{AuthUser: as.Name, AuthPass: as.Password}
	if operators.TLS != nil {
		dialer.NetDialer = &tls.Dialer{Config: operators.TLS}
	}
	conn, err := dialer.Dial(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	var answer any
	err = conn.Do(ctx, radix.Cmd(&answer, command[0], command[1:]...))
	if text, ok := answer.([]byte); ok {
		return string(text), err
	}
	return "", err
}

// Monitor follows what every server is sent from now on; what it gives ends that and lists it.
func (c *Cluster) Monitor() (stop func() []monitor.Line) {
	c.T.Helper()
	operators, err := c.Dialer()
	if err != nil {
		c.T.Fatal(err)
	}
	var all []*monitor.Follower
	for _, addr := range c.Addresses() {
		conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			c.T.Fatal(err)
		}
		if operators.TLS != nil {
			conn = tls.Client(conn, operators.TLS)
		}
		f, err := monitor.Follow(conn, c.User.Name, c.User.Password)
		if err != nil {
			c.T.Fatalf("MONITOR at %s: %v", addr, err)
		}
		all = append(all, f)
	}
	return func() []monitor.Line {
		c.T.Helper()
		var out []monitor.Line
		for _, f := range all {
			lines, err := f.Stop()
			if err != nil || len(lines) == 0 {
				c.T.Errorf("%d lines, %v", len(lines), err)
			}
			out = append(out, lines...)
		}
		return out
	}
}

// Calls counts the commands that all servers together have been sent since they started, by the server's own
// name for each: "config|set".
func (c *Cluster) Calls() map[string]int {
	c.T.Helper()
	out := map[string]int{}
	for _, addr := range c.Addresses() {
		text, err := c.Ask(addr, c.User, "INFO", "commandstats")
		if err != nil {
			c.T.Fatalf("INFO commandstats of %s: %v", addr, err)
		}
		for line := range strings.Lines(text) {
			name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
			if !ok {
				continue
			}
			count, _, _ := strings.Cut(rest, ",")
			n, err := strconv.Atoi(count)
			if err != nil {
				c.T.Fatalf("INFO commandstats of %s: %q", addr, line)
			}
			out[name] += n
		}
	}
	return out
}

// Refusal is the first word of a server's error: NOPERM, NOAUTH, WRONGPASS. It is empty for another
// error or none; MOVED counts as none: the server was willing.
func Refusal(err error) string {
	var answer resp3.SimpleError
	if !errors.As(err, &answer) {
		return ""
	}
	var word string
	_, _ = fmt.Sscan(answer.S, &word)
	if word == "MOVED" {
		return ""
	}
	return word
}

// Shown is the certificate that a server shows, whoever signed it.
func Shown(addr string) (tls.ConnectionState, error) {
	conn, err := (&tls.Dialer{NetDialer: &net.Dialer{Timeout: 2 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}).Dial("tcp", addr)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState(), nil
}

// Plain sends text over a connection without TLS and gives what comes back.
func Plain(addr, text string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	reply := make([]byte, 256)
	n, err := conn.Read(reply)
	return string(reply[:n]), err
}

// PatchSpec changes the spec of the ValkeyCluster.
func (c *Cluster) PatchSpec(change func(*valkeyv1alpha1.ValkeyClusterSpec)) {
	c.T.Helper()
	Eventually(c.T, 20*time.Second, "the spec to be written", func() error {
		got, err := c.get()
		if err != nil {
			return err
		}
		change(&got.Spec)
		_, err = c.Site.Bed.Valkey.ValkeyV1alpha1().ValkeyClusters(c.Site.Name).Update(context.Background(), got, metav1.UpdateOptions{})
		return err
	})
}

// AssertNoSecrets fails the test if one of the values is in a ConfigMap, an Event, a status, a pod or the
// operator's log.
func (s *Site) AssertNoSecrets(all ...map[string][]byte) {
	s.T.Helper()
	texts := map[string]string{}
	for _, kind := range []string{"configmaps", "events", "pods", "services", "valkeyclusters", "valkeynodes"} {
		out, err := s.Bed.Kubectl("-n", s.Name, "get", kind, "-o", "json")
		if err != nil {
			s.T.Fatal(err)
		}
		texts[kind] = out
	}
	log, err := os.ReadFile(s.Operator.logPath)
	if err != nil {
		s.T.Fatal(err)
	}
	texts["the operator's log"] = string(log)
	for _, values := range all {
		for key, value := range values {
			for where, text := range texts {
				if strings.Contains(text, strings.TrimSpace(string(value))) {
					s.T.Errorf("%s of a Secret is in %s", key, where)
				}
			}
		}
	}
}
