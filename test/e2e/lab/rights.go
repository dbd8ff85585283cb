package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Asked lists what operators asked the API server for since a Mark, in the site's namespace and outside of
// namespaces: as "resource verb", and what of it their rights did not cover.
func (s *Site) Asked(since int64) (used map[string]bool, denied []string) {
	s.T.Helper()
	file, err := os.Open(filepath.Join(s.Bed.Run, "audit.log"))
	if err != nil {
		s.T.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(since, io.SeekStart); err != nil {
		s.T.Fatal(err)
	}
	user := "system:serviceaccount:" + OperatorName + ":" + OperatorName
	used = map[string]bool{}
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		var line struct {
			auditLine
			Annotations map[string]string
			URI         string `json:"requestURI"`
		}
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil || line.User.Username != user {
			continue // a line that is being written, or somebody else's
		}
		if ns := line.Ref.Namespace; ns != "" && ns != s.Name {
			continue
		}
		what := line.Ref.Resource
		if line.Ref.Subresource != "" {
			what += "/" + line.Ref.Subresource
		}
		what += " " + line.Verb
		used[what] = true
		if line.Annotations["authorization.k8s.io/decision"] == "forbid" {
			denied = append(denied, fmt.Sprintf("%s at %s: %s", what, line.At.Format("15:04:05.000"), line.URI))
		}
	}
	return used, denied
}

// Secret reads a Secret of the site.
func (s *Site) Secret(name string) *corev1.Secret {
	s.T.Helper()
	secret, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		s.T.Fatal(err)
	}
	return secret
}

// ProcessText reads a file of /proc of a pod's server or operator: "cmdline", "environ", "status", "net/tcp6".
func ProcessText(t testing.TB, pod *corev1.Pod, name string) string {
	t.Helper()
	pid, err := serverPID(pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}
