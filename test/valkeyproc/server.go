package valkeyproc

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Every server has these ports.
const (
	Port    = 6379
	BusPort = 16379
)

// The passwords of the operator's own users, unless Options.ACL has others.
const (
	OperatorPassword = "operator"
	ReplPassword     = "replication"
)

// Options change what a server is started with. The zero Options are a node of a
// cluster without TLS as the operator makes it, with an open default user.
type Options struct {
	// Settings are a user's, as in a ValkeyConfig.
	Settings map[string]string
	// Override wins over what the operator forces: tests are impatient.
	Override map[string]string
	// ACL is users.acl; empty: no bindings.
	ACL string
	// TLS, if set, turns TLS on.
	TLS *Certificates
	// Bin is the folder of another valkey-server; empty: Bin.
	Bin string
}

// Certificates are the PEM files of a cluster with TLS. Name is what its
// certificates are valid for.
type Certificates struct {
	Cert, Key, CA []byte
	Name          string
}

// Server is one server process and its folder.
type Server struct {
	IP string
	// Dir has data/ (its working directory), etc/ (as /etc/valkey in a pod)
	// and log.
	Dir string

	options Options
	cmd     *exec.Cmd
	ended   chan struct{}
	pool    *client.Pool
}

// Start starts n servers and waits until each answers.
func Start(t testing.TB, n int, o Options) []*Server {
	t.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = &Server{IP: address(t), options: o}
		servers[i].launch(t)
	}
	for _, s := range servers {
		s.awaitReady(t)
	}
	return servers
}

// Launch is Start for one server that may not get ready: it does not wait.
func Launch(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{IP: address(t), options: o}
	s.launch(t)
	return s
}

// Successor starts a new server, with nothing of the old one but its
// address, once the old one has ended: a reused pod IP.
func (s *Server) Successor(t testing.TB, o Options) *Server {
	t.Helper()
	<-s.ended
	next := &Server{IP: s.IP, options: o}
	next.launch(t)
	next.awaitReady(t)
	return next
}

// Addr is ip:port for clients.
func (s *Server) Addr() string { return fmt.Sprintf("%s:%d", s.IP, Port) }

// Dialer talks to the server as the operator does.
func (s *Server) Dialer(t testing.TB) client.Dialer {
	t.Helper()
	d := client.Dialer{Password: OperatorPassword, Pool: s.pool}
	if c := s.options.TLS; c != nil {
		config, err := client.TLSConfig(c.CA, c.Name)
		if err != nil {
			t.Fatal(err)
		}
		d.TLS = config
	}
	return d
}

// Look is the server's own view, now.
func (s *Server) Look(t testing.TB) topology.Server {
	t.Helper()
	seen, err := s.Dialer(t).Look(t.Context(), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// Node is the server, by the ID that it has now, for commands.
func (s *Server) Node(t testing.TB) client.Node {
	t.Helper()
	return s.Dialer(t).Node(s.Addr(), s.ID(t))
}

// ID is the server's node ID.
func (s *Server) ID(t testing.TB) topology.NodeID {
	t.Helper()
	return s.Look(t).View.Self
}

// CLI runs valkey-cli as the default user and gives what it printed, without
// the last line's end. An error that the server answers fails the test.
func (s *Server) CLI(t testing.TB, args ...string) string {
	t.Helper()
	cmd := s.CLICommand(t, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("valkey-cli %q at %s: %v\n%s", args, s.IP, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// CLICommand is valkey-cli, not yet started. It ends with the test.
func (s *Server) CLICommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	all := []string{"-h", s.IP, "-p", fmt.Sprint(Port), "-e"}
	if s.options.TLS != nil {
		all = append(all, "--tls", "--insecure")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin(t), "valkey-cli"), append(all, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Stop asks the server to end (SIGTERM) and waits until it has.
func (s *Server) Stop(t testing.TB) { s.end(t, syscall.SIGTERM) }

// Kill ends the server at once (SIGKILL).
func (s *Server) Kill(t testing.TB) { s.end(t, syscall.SIGKILL) }

func (s *Server) end(t testing.TB, sig syscall.Signal) {
	t.Helper()
	s.signal(t, sig)
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not end within 30 s of %v", s.IP, sig)
	}
}

// Pause freezes the server (SIGSTOP): its connections stay open and silent.
func (s *Server) Pause(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Resume wakes a paused server.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%v to %s: %v", sig, s.IP, err)
	}
}

// Ended is closed when the process has ended, by whatever cause.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// Log is what the server has written so far.
func (s *Server) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *Server) bin(t testing.TB) string {
	t.Helper()
	if s.options.Bin != "" {
		return s.options.Bin
	}
	dir, err := Bin()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// launch writes the server's files and starts it, as its container would.
func (s *Server) launch(t testing.TB) {
	t.Helper()
	s.Dir = t.TempDir()
	s.pool = &client.Pool{}
	t.Cleanup(s.pool.Close)
	conf := s.writeFiles(t)
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(filepath.Join(s.bin(t), "valkey-server"), conf, "--cluster-announce-ip", s.IP)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		_ = log.Close()
		close(s.ended)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("last lines of %s:\n%s", s.IP, tail(s.Log(t), 40))
		}
	})
}

func (s *Server) writeFiles(t testing.TB) (conf string) {
	t.Helper()
	var nodeTLS *config.TLS
	files := map[string]string{"etc/auth/primaryauth.conf": config.PrimaryAuth(ReplPassword), "data/.keep": ""}
	if c := s.options.TLS; c != nil {
		nodeTLS = &config.TLS{Hostname: c.Name}
		files["etc/tls/tls.crt"], files["etc/tls/tls.key"], files["etc/tls/ca.crt"] = string(c.Cert), string(c.Key), string(c.CA)
	}
	settings := config.Freeze(s.options.Settings, nodeTLS)
	settings["bind"] = s.IP
	// Peers see whence a connection comes: from the pod IP, in a pod.
	settings["bind-source-addr"] = s.IP
	maps.Copy(settings, s.options.Override)
	text, err := config.Render(settings)
	if err != nil {
		t.Fatal(err)
	}
	files["etc/valkey.conf"] = strings.NewReplacer(
		filepath.Dir(config.File)+"/", filepath.Join(s.Dir, "etc")+"/",
		config.DataDir, filepath.Join(s.Dir, "data"),
	).Replace(text)
	files["etc/acl/users.acl"] = s.options.ACL
	if s.options.ACL == "" {
		users, err := acl.Render(acl.Input{OperatorPassword: OperatorPassword, ReplPassword: ReplPassword})
		if err != nil {
			t.Fatal(err)
		}
		files["etc/acl/users.acl"] = users
	}
	for name, text := range files {
		path := filepath.Join(s.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(s.Dir, "etc/valkey.conf")
}

// awaitReady waits until the server answers PING, with whatever.
func (s *Server) awaitReady(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	retry := time.NewTicker(2 * time.Millisecond)
	defer retry.Stop()
	for !s.answers(ctx) {
		select {
		case <-retry.C:
		case <-s.ended:
			t.Fatalf("%s ended before it was ready:\n%s", s.IP, tail(s.Log(t), 40))
		case <-ctx.Done():
			t.Fatalf("%s is not ready after 20 s", s.IP)
		}
	}
}

func (s *Server) answers(ctx context.Context) bool {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if s.options.TLS != nil {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, _ := c.Read(answer)
	return n > 0 && !bytes.HasPrefix(answer[:n], []byte("-LOADING"))
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
