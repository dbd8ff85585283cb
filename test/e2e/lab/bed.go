package lab

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
)

// Images are the names that the bed gave what it built.
type Images struct {
	Repository                string // of all Valkey images
	Tag, OtherTag             string // the same supported version under two tags
	Version                   string
	OldTag, OldVersion        string // an engine below the floor
	Client, Operator, Program string // image names; Program is the path of the operator's binary here
}

// Bed is the Kubernetes cluster that tests run on.
type Bed struct {
	Config *rest.Config
	Kube   kubernetes.Interface
	Valkey versioned.Interface
	Images Images
	// Root is the clone, Run the bed's run directory.
	Root, Run string
}

var (
	openOnce sync.Once
	opened   *Bed
	openErr  error
)

// Open connects to the bed that KUBECONFIG names, installs CRDs and manifests/operator.yaml with the
// Deployment at zero replicas, and builds the operator. All that happens once a process.
func Open() (*Bed, error) {
	openOnce.Do(func() { opened, openErr = open() })
	return opened, openErr
}

// The returned Bed is shared by all tests of the process.
func mustOpen(t testing.TB) *Bed {
	t.Helper()
	b, err := Open()
	if err != nil {
		t.Fatalf("the test bed cannot be used: %v", err)
	}
	return b
}

func open() (*Bed, error) {
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		return nil, fmt.Errorf("KUBECONFIG is not set: run through test/bed/bed exec hub")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	config.QPS, config.Burst = 200, 400
	root, err := cloneRoot()
	if err != nil {
		return nil, err
	}
	b := &Bed{Config: config, Root: root, Run: filepath.Dir(path)}
	if b.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client for %s: %w", path, err)
	}
	if b.Valkey, err = versioned.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("client for %s: %w", path, err)
	}
	if err := b.readImages(); err != nil {
		return nil, err
	}
	if err := b.buildOperator(); err != nil {
		return nil, err
	}
	return b, b.install()
}

func cloneRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the clone: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == "/" {
			return "", fmt.Errorf("find the clone: no go.mod above the working directory")
		}
	}
}

func (b *Bed) readImages() error {
	data, err := os.ReadFile(filepath.Join(b.Run, "images.env"))
	if err != nil {
		return fmt.Errorf("the bed has no images, run test/bed/bed images: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			values[name] = value
		}
	}
	b.Images = Images{
		Repository: values["VALKEY_IMAGE_REPO"], Tag: values["VALKEY_TAG_A"], OtherTag: values["VALKEY_TAG_B"],
		Version: values["VALKEY_VERSION"], OldTag: values["VALKEY8_TAG"], OldVersion: values["VALKEY8_VERSION"],
		Client: values["CLIENT_IMAGE"], Operator: values["OPERATOR_IMAGE"],
	}
	for _, value := range []string{b.Images.Repository, b.Images.Tag, b.Images.OtherTag, b.Images.OldTag, b.Images.Operator} {
		if value == "" {
			return fmt.Errorf("the bed's images.env lacks an image: %s", data)
		}
	}
	return nil
}

func (b *Bed) buildOperator() error {
	// Tests start it again and again; those of another clone on this bed must not change it under them.
	b.Images.Program = filepath.Join(b.Run, fmt.Sprintf("e2e-valkey-operator-%08x", crc32.ChecksumIEEE([]byte(b.Root))))
	next := fmt.Sprintf("%s.%d", b.Images.Program, os.Getpid())
	build := exec.Command("go", "build", "-o", next, "./cmd/valkey-operator")
	build.Dir = b.Root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return os.Rename(next, b.Images.Program)
}

// leases lets the operators of Sites have one Lease each beside that of the Deployment.
const leases = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: e2e-leases, namespace: ` + OperatorName + `}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e2e-leases, namespace: ` + OperatorName + `}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: e2e-leases}
subjects:
- {kind: ServiceAccount, name: ` + OperatorName + `, namespace: ` + OperatorName + `}
`

// install applies what a user applies, and then stops the Deployment: the tests run operators of their own.
func (b *Bed) install() error {
	if _, err := b.Kubectl("apply", "--server-side", "--force-conflicts", "-f", filepath.Join(b.Root, "manifests/crds")); err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(b.Root, "manifests/operator.yaml"))
	if err != nil {
		return fmt.Errorf("read the operator's manifest: %w", err)
	}
	if _, err := b.kubectl(bytes.NewReader(b.atZero(manifest)), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := b.kubectl(bytes.NewReader([]byte(leases)), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err = b.Kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
		return err
	}
	return b.removeLeftovers()
}

// Kubectl runs kubectl as the cluster's admin and gives what it printed.
func (b *Bed) Kubectl(args ...string) (string, error) { return b.kubectl(nil, args...) }

func (b *Bed) kubectl(stdin *bytes.Reader, args ...string) (string, error) {
	return b.tool(stdin, append([]string{"kubectl"}, args...)...)
}

// tool runs test/bed/bed.
func (b *Bed) tool(stdin *bytes.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(b.Root, "test/bed/bed"), args...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("bed %s: %w: %s%s", strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String(), nil
}

// Cut takes the link of a Kubernetes node down until Heal, or until the test ends.
func (b *Bed) Cut(t testing.TB, node string) {
	t.Helper()
	t.Cleanup(func() { b.Heal(t, node) })
	if _, err := b.tool(nil, "cut", node); err != nil {
		t.Fatal(err)
	}
}

// Heal takes the link of a Kubernetes node up.
func (b *Bed) Heal(t testing.TB, node string) {
	t.Helper()
	if _, err := b.tool(nil, "heal", node); err != nil {
		t.Error(err)
	}
}

// InNode runs a command inside a Kubernetes node.
func (b *Bed) InNode(t testing.TB, node string, command ...string) string {
	t.Helper()
	out, err := b.tool(nil, append([]string{"exec", node}, command...)...)
	if err != nil {
		t.Error(err)
	}
	return out
}
