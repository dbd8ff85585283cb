// Package apiserver tests the CRDs against a real API server: what it accepts, what it refuses and in which words.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned"
)

// namespace is where the tests keep their namespaced objects.
const namespace = "crd-tests"

// The clients of the API server that every test of this package talks to.
var (
	objects    dynamic.Interface
	typed      versioned.Interface
	served     discovery.DiscoveryInterface
	restConfig *rest.Config
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run brings up the server, or takes the one that KUBECONFIG_API names, applies the CRDs and runs the tests. Without
// a server it fails: a skipped test proves nothing.
func run(m *testing.M) int {
	kubeconfig := os.Getenv("KUBECONFIG_API")
	if kubeconfig == "" {
		path, down, err := bedUp()
		defer down()
		if err != nil {
			fmt.Fprintf(os.Stderr, "no API server to test against: %v\nset KUBECONFIG_API to the kubeconfig of one, or cure what the bed reports\n", err)
			return 1
		}
		kubeconfig = path
	}
	if err := connect(kubeconfig); err != nil {
		fmt.Fprintf(os.Stderr, "cannot use the API server of %s: %v\n", kubeconfig, err)
		return 1
	}
	return m.Run()
}

// bedUp starts a bed without nodes and returns its kubeconfig and what ends it. A bed that was up before stays up.
func bedUp() (kubeconfig string, down func(), err error) {
	down = func() {}
	if _, err := bedDo("status"); err != nil {
		down = func() {
			if _, err := bedDo("down"); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if _, err := bedDo("up", "--api-only"); err != nil {
		return "", down, err
	}
	kubeconfig, err = bedDo("kubeconfig")
	return kubeconfig, down, err
}

// bedDo runs a command of this package's own bed and returns what it prints. What it reports is part of the error.
func bedDo(args ...string) (string, error) {
	var out, report strings.Builder
	cmd := exec.Command("../../bed/bed", args...)
	cmd.Env = append(os.Environ(), "BED_NAME=api")
	cmd.Stdout, cmd.Stderr = &out, &report
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("bed %s: %w\n%s%s", strings.Join(args, " "), err, out.String(), report.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// connect makes the clients and waits until the server serves all five kinds as the CRDs of the tree describe them.
func connect(kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 500
	config.WarningHandler = rest.NoWarnings{}
	restConfig = config
	if objects, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if typed, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	if served, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return err
	}
	namespaces := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if _, err := namespaces.Create(context.Background(), object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	return applyCRDs(context.Background())
}

// applyCRDs applies every CRD and waits until each is established.
func applyCRDs(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	crds := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, kind := range kinds {
		name := kind.resource + "." + v1alpha1.SchemeGroupVersion.Group
		data, err := os.ReadFile("../../../manifests/crds/" + v1alpha1.SchemeGroupVersion.Group + "_" + kind.resource + ".yaml")
		if err != nil {
			return err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			return err
		}
		if _, err := crds.Apply(ctx, name, crd, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			return fmt.Errorf("apply %s: %w", name, err)
		}
	}
	return servesThisTree(ctx)
}

// servesThisTree waits until the server evaluates the schemas just applied: a server that other tests used before
// may serve an older one for a moment. Each kind must refuse an object without spec, and list.
func servesThisTree(ctx context.Context) error {
	var last error
	for ctx.Err() == nil {
		last = nil
		for _, kind := range kinds {
			_, err := kind.client().Create(ctx, kind.object("probe", nil), metav1.CreateOptions{DryRun: []string{"All"}})
			if !apierrors.IsInvalid(err) {
				last = errors.Join(last, fmt.Errorf("%s without spec: %v, want it refused as invalid", kind.kind, err))
			}
		}
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("the CRDs are not served: %w", last)
}

// kind is one of the five kinds, with a small valid spec that the tables bend.
type kind struct {
	kind, resource string
	namespaced     bool
	spec           string
}

var (
	image   = kind{kind: "ValkeyImage", resource: "valkeyimages", spec: `{repository: valkey/valkey, tag: 9.1.2, version: 9.1.2}`}
	config  = kind{kind: "ValkeyConfig", resource: "valkeyconfigs", spec: `{imageRef: valkey}`}
	role    = kind{kind: "ValkeyRole", resource: "valkeyroles", spec: `{categories: [{name: read, access: allow}]}`}
	cluster = kind{kind: "ValkeyCluster", resource: "valkeyclusters", namespaced: true, spec: `{configRef: small, shards: 3, replicasPerShard: 1}`}
	node    = kind{kind: "ValkeyNode", resource: "valkeynodes", namespaced: true, spec: `{clusterName: cache, image: "valkey/valkey:9.1.2", shardIndex: 0}`}

	kinds = []kind{image, config, role, cluster, node}
)

// client returns the client of the kind, in namespace if it has one.
func (k kind) client() dynamic.ResourceInterface {
	r := objects.Resource(v1alpha1.SchemeGroupVersion.WithResource(k.resource))
	if k.namespaced {
		return r.Namespace(namespace)
	}
	return r
}

// object returns an object of the kind; a nil spec is left out.
func (k kind) object(name string, spec any) *unstructured.Unstructured {
	o := map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(),
		"kind":       k.kind,
		"metadata":   map[string]any{"name": name},
	}
	if spec != nil {
		o["spec"] = spec
	}
	return &unstructured.Unstructured{Object: o}
}
