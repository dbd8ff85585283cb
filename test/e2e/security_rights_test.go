package e2e

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
	"github.com/momentohq/valkey-operator/test/testca"
)

// unseen are rights that the audit log cannot show being used, with the reason.
var unseen = map[string]string{
	"valkeyimages list":                "informers list only where the API server cannot stream lists, before 1.32",
	"valkeyconfigs list":               "as above",
	"valkeyroles list":                 "as above",
	"valkeyclusters list":              "as above",
	"pods list":                        "as above",
	"services list":                    "as above",
	"configmaps list":                  "as above",
	"services create":                  "asked when an apply creates the object, which is a patch in the log",
	"valkeyclusters/finalizers update": "asked by an admission plugin for owner references, not by a request",
	"valkeynodes/finalizers update":    "as above",
}

// rights reads what a ClusterRole of manifests/operator.yaml grants, as "resource verb".
func rights(t *testing.T, s *lab.Site) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Bed.Root, "manifests/operator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	granted := map[string]bool{}
	for {
		var role rbacv1.ClusterRole
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[resource+" "+verb] = true
				}
			}
		}
	}
	if len(granted) < 20 {
		t.Fatalf("the ClusterRole grants only %v", granted)
	}
	return granted
}

// A cluster's whole life, with everything that makes the operator ask the API server for something: nothing
// it asks for is denied, and nothing is granted that it does not ask for.
func TestTheOperatorHasExactlyTheRightsThatItUses(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{NoOperator: true})
	mark := s.Mark()
	s.Operator.Start()
	c := s.Create("cache", 2, 1)
	c.Settle(aMinuteAndABit, 2, 1)
	c.Patch(`{"spec":{"podAnnotations":{"a":"b"}},"metadata":{"annotations":{"valkey.gomomento.com/rotate-credentials":"1"}}}`)
	c.WaitEvent(2*time.Minute, "CredentialsRotated") // updates the Secret
	c.Watch().Fault()
	c.DeletePods(nil, lab.Pods(c.AssertShape(2, 1).Primaries()[0])...)
	c.Settle(aMinuteAndABit, 2, 1)
	c.Scale(1, 0)
	c.Settle(2*time.Minute, 1, 0)
	c.Patch(`{"spec":{"configRef":"nowhere"}}`) // an Event that repeats is patched
	c.WaitTold(30*time.Second, `ValkeyConfig "nowhere" not found`)
	c.Patch(`{"spec":{"configRef":%q}}`, s.Name)
	c.WaitActive(30 * time.Second)
	c.Patch(`{"spec":{"configRef":"nowhere"}}`)
	time.Sleep(5 * time.Second)
	c.Delete(metav1.DeleteOptions{})
	if err := lab.Await(60*time.Second, s.Empty); err != nil {
		t.Fatal(err)
	}
	granted := rights(t, s)
	used, denied := s.Asked(mark)
	for _, what := range denied {
		t.Errorf("denied: %s", what)
	}
	for _, what := range slices.Sorted(maps.Keys(granted)) {
		if _, ok := unseen[what]; !ok && !used[what] {
			t.Errorf("granted and never used: %s", what)
		}
	}
	for what := range unseen {
		if !granted[what] {
			t.Errorf("%s is explained and not granted", what)
		}
	}
}

// Pods of a namespace that enforces the restricted standard run (every test's does); this looks at what they and the
// operator's Deployment are made of.
func TestNoPasswordIsAnywhereButInTheSecret(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{})
	ca := testca.New("one")
	leaf := ca.Issue(testca.Leaf{Names: s.Hosts("cache")})
	s.PutSecret("material", leaf.Secret(ca))
	c := s.Create("cache", 1, 1, lab.WithTLS("material"))
	c.Settle(aMinuteAndABit, 1, 1)
	time.Sleep(31 * time.Second) // one tick of everything
	auth := s.Secret("cache-operator-auth")
	s.AssertNoSecrets(auth.Data, map[string][]byte{"tls.key": leaf.KeyPEM()[len("-----BEGIN PRIVATE KEY-----\n"):90], "tester": []byte(c.User.Password)})
	for _, p := range lab.Pods(c.AssertShape(1, 1).Nodes...) {
		if status := lab.ProcessText(t, p, "status"); !strings.Contains(status, "Uid:\t999\t999\t999\t999") || !strings.Contains(status, "CapEff:\t0000000000000000") ||
			!strings.Contains(status, "NoNewPrivs:\t1") || !strings.Contains(status, "Seccomp:\t2") {
			t.Errorf("the server of %s runs with more than it needs:\n%s", p.Name, status)
		}
		for _, line := range []string{lab.ProcessText(t, p, "cmdline"), lab.ProcessText(t, p, "environ")} {
			for key, value := range auth.Data {
				if bytes.Contains([]byte(line), bytes.TrimSpace(value)) {
					t.Errorf("%s is in the process of %s", key, p.Name)
				}
			}
		}
	}
}
