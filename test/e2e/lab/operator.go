package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// firstUID is the first user id that operators run as; each has its own, so that one can be cut off by routing rules.
const firstUID = 71000

var lastUID atomic.Int64

// Operator is one operator process, of this machine, as the ServiceAccount of manifests/operator.yaml.
type Operator struct {
	t         testing.TB
	bed       *Bed
	uid       int
	namespace string
	args, env []string
	logPath   string
	cut       [][]string // ip rules to delete

	mu      sync.Mutex
	running *running
}

// running is one life of the process; it is started again when it ends by itself, as a Deployment would.
type running struct {
	mu    sync.Mutex
	cmd   *exec.Cmd
	ended bool          // by us
	done  chan struct{} // closed when the last process of this life is gone
}

// Arguments of operators that are killed.
var (
	// QuickLease lets another operator act four seconds after one died. Less makes leaders on a busy machine lose their lease.
	QuickLease = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=300ms"}
	// NoLease lets an operator act as soon as it runs: for those that are killed often, and are the only one.
	NoLease = []string{"--leader-elect=false"}
)

// newOperator prepares an operator for a namespace; Start starts it.
func (b *Bed) newOperator(t testing.TB, namespace string, args ...string) *Operator {
	t.Helper()
	uid := firstUID + os.Getpid()%500*100 + int(lastUID.Add(1))%100
	dir := filepath.Join(t.TempDir())
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	o := &Operator{t: t, bed: b, uid: uid, namespace: namespace, logPath: filepath.Join(dir, "operator.log")}
	kubeconfig, err := b.serviceAccountConfig(dir)
	if err != nil {
		t.Fatalf("credentials of the operator's ServiceAccount: %v", err)
	}
	if err := os.Chown(kubeconfig, uid, uid); err != nil {
		t.Fatal(err)
	}
	o.args = append([]string{
		"--kubeconfig=" + kubeconfig, "--namespaces=" + namespace, "--metrics-bind-address=0", "-v=2",
		"--leader-elect-namespace=" + OperatorName, "--leader-elect-name=" + namespace,
	}, args...)
	t.Cleanup(o.Kill)
	return o
}

// serviceAccountConfig writes a kubeconfig with a token of the operator's ServiceAccount.
func (b *Bed) serviceAccountConfig(dir string) (string, error) {
	hours := int64(4 * 3600)
	token, err := b.Kube.CoreV1().ServiceAccounts(OperatorName).CreateToken(context.Background(), OperatorName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(b.Run, "admin.kubeconfig"))
	if err != nil {
		return "", err
	}
	for name, cluster := range config.Clusters {
		if cluster.CertificateAuthorityData == nil && cluster.CertificateAuthority != "" {
			if cluster.CertificateAuthorityData, err = os.ReadFile(cluster.CertificateAuthority); err != nil {
				return "", err
			}
			config.Clusters[name].CertificateAuthority = ""
		}
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	}
	path := filepath.Join(dir, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// Start starts the process; it is an error if it runs.
func (o *Operator) Start() {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running != nil {
		o.t.Fatal("the operator runs already")
	}
	r := &running{done: make(chan struct{})}
	cmd, err := o.spawn()
	if err != nil {
		o.t.Fatalf("start the operator: %v", err)
	}
	r.cmd, o.running = cmd, r
	go o.supervise(r)
}

func (o *Operator) spawn() (*exec.Cmd, error) {
	log, err := os.OpenFile(o.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	errs, err := os.OpenFile(o.logPath+".stderr", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errs.Close() }()
	cmd := exec.Command(o.bed.Images.Program, o.args...)
	cmd.Stdout, cmd.Stderr = log, errs
	cmd.Env = append([]string{"PATH=/usr/bin:/bin"}, o.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.uid)},
		Pdeathsig:  syscall.SIGKILL, // no operator outlives a test process that was killed
	}
	return cmd, onSpawner(cmd.Start)
}

var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		// A parent death signal is sent when the thread that started the process ends; this one ends with us.
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func onSpawner(f func() error) error {
	result := make(chan error)
	spawner() <- func() { result <- f() }
	return <-result
}

// supervise starts the process again, half a second after it ended by itself.
func (o *Operator) supervise(r *running) {
	defer close(r.done)
	for {
		_ = r.cmd.Wait() // how it ended is in its log; most end by our signal
		if r.isEnded() {
			return
		}
		time.Sleep(500 * time.Millisecond)
		r.mu.Lock()
		if r.ended {
			r.mu.Unlock()
			return
		}
		cmd, err := o.spawn()
		if err != nil {
			o.t.Errorf("start the operator again: %v", err)
			r.mu.Unlock()
			return
		}
		r.cmd = cmd
		r.mu.Unlock()
	}
}

func (r *running) isEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Kill ends the process with SIGKILL, if it runs, and waits for it.
func (o *Operator) Kill() { o.end(syscall.SIGKILL, 10*time.Second) }

// Stop ends the process with SIGTERM, if it runs, and waits for it.
func (o *Operator) Stop() { o.end(syscall.SIGTERM, 20*time.Second) }

func (o *Operator) end(signal syscall.Signal, within time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.running
	if r == nil {
		return
	}
	o.running = nil
	r.mu.Lock()
	r.ended = true
	_ = r.cmd.Process.Signal(signal) // may have ended by itself
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-time.After(within):
		o.t.Errorf("the operator did not end within %v of %v", within, signal)
		_ = r.cmd.Process.Kill()
		<-r.done
	}
}

// Alive says whether the process is meant to run.
func (o *Operator) Alive() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.running != nil
}

// CutOff keeps the process from the pods of a Kubernetes node; it still reaches the API server.
func (o *Operator) CutOff(node string) {
	o.t.Helper()
	rule := []string{"uidrange", fmt.Sprintf("%d-%d", o.uid, o.uid), "to", "10.88." + strings.TrimPrefix(node, "n") + ".0/24", "blackhole"}
	if out, err := exec.Command("ip", append([]string{"rule", "add"}, rule...)...).CombinedOutput(); err != nil {
		o.t.Fatalf("ip rule add %v: %v: %s", rule, err, out)
	}
	o.cut = append(o.cut, rule)
	if len(o.cut) == 1 {
		o.t.Cleanup(o.Reconnect)
	}
}

// Reconnect ends every CutOff.
func (o *Operator) Reconnect() {
	for _, rule := range o.cut {
		if out, err := exec.Command("ip", append([]string{"rule", "del"}, rule...)...).CombinedOutput(); err != nil {
			o.t.Errorf("ip rule del %v: %v: %s", rule, err, out)
		}
	}
	o.cut = nil
}

// Line is a line of the operator's log (contract §7).
type Line struct {
	Timestamp string
	Level     string
	Target    string
	Fields    map[string]any
}

// Message is the line's message.
func (l Line) Message() string { m, _ := l.Fields["message"].(string); return m }

// checkOutput fails the test if the log has another form than the contract's, or if the operator crashed.
func (o *Operator) checkOutput() {
	o.t.Helper()
	o.Log()
	errs, err := os.ReadFile(o.logPath + ".stderr")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		o.t.Error(err)
	}
	if strings.Contains(string(errs), "goroutine ") {
		o.t.Errorf("the operator crashed:\n%.4000s", errs)
	}
}

// Log gives all lines so far. Lines that are not JSON fail the test: the log's form is a contract.
func (o *Operator) Log() []Line {
	o.t.Helper()
	file, err := os.Open(o.logPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var lines []Line
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		var line Line
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			o.t.Errorf("a line of the operator's log is not JSON: %q", scan.Text())
			continue
		}
		lines = append(lines, line)
	}
	return lines
}

// Logged counts the lines with a message.
func (o *Operator) Logged(message string) int {
	n := 0
	for _, line := range o.Log() {
		if strings.Contains(line.Message(), message) {
			n++
		}
	}
	return n
}

// tail gives the last lines of the log as they are.
func (o *Operator) tail(n int) string {
	data, err := os.ReadFile(o.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
