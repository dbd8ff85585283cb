package valkey_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

// probe runs a pod's liveness probe at a server, within the probe's own time.
func probe(t *testing.T, s *valkeyproc.Server, node *v1alpha1.ValkeyNode) error {
	t.Helper()
	dir, err := valkeyproc.Bin()
	if err != nil {
		t.Fatal(err)
	}
	liveness := valkeynode.Pod(node, nil, controller.Config{}).Spec.Containers[0].LivenessProbe
	command := slices.Insert(slices.Clone(liveness.Exec.Command), 1, "-h", s.IP)
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(liveness.TimeoutSeconds)*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(dir, command[0]), command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w: %s", command, err, out)
	}
	return nil
}

// A kubelet kills what fails its probe: a server that asks for a password or loads its data is alive, one that
// is stopped or gone is not.
func TestTheLivenessProbeTellsAliveFromDead(t *testing.T) {
	t.Parallel()
	plain, withTLS := &v1alpha1.ValkeyNode{}, &v1alpha1.ValkeyNode{Spec: v1alpha1.ValkeyNodeSpec{TLSSecret: "c-tls"}}
	certs := valkeyproc.NewAuthority(t).Issue(t, tlsName, time.Now().Add(-time.Hour)) // expired: alive all the same
	for name, c := range map[string]struct {
		options valkeyproc.Options
		node    *v1alpha1.ValkeyNode
	}{
		"open":                {valkeyproc.Options{}, plain},
		"asks for a password": {valkeyproc.Options{ACL: adminACL(t)}, plain},
		"TLS, and a password": {valkeyproc.Options{ACL: adminACL(t), TLS: certs}, withTLS},
	} {
		s := valkeyproc.Start(t, 1, c.options)[0]
		if err := probe(t, s, c.node); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Pause(t)
		if err := probe(t, s, c.node); err == nil {
			t.Errorf("%s: alive while it is stopped", name)
		}
		s.Resume(t)
		s.Kill(t)
		if err := probe(t, s, c.node); err == nil {
			t.Errorf("%s: alive when it is dead", name)
		}
	}
}

// While a replica loads what its primary sent, it answers LOADING.
func TestTheLivenessProbeIsPatientWithLoading(t *testing.T) {
	t.Parallel()
	s := valkeyproc.Start(t, 1, valkeyproc.Options{Override: map[string]string{"enable-debug-command": "yes", "key-load-delay": "1000", "loading-process-events-interval-bytes": "1024", "save": "3600 1"}})[0]
	s.CLI(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	s.CLI(t, "DEBUG", "POPULATE", "3000", "key", "100")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = s.CLICommand(t, "DEBUG", "RELOAD").CombinedOutput() // cut off by the end of the test
	}()
	valkeyproc.Eventually(t, 10*time.Second, "the server to load", func() bool { return s.Look(t).Loading })
	if err := probe(t, s, &v1alpha1.ValkeyNode{}); err != nil {
		t.Errorf("while loading: %v", err)
	}
	s.Kill(t)
	<-done
}
