package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// installed is the OpenAPI document that an API server with the project's CRDs shows.
func installed(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob("../../manifests/crds/*.yaml")
	if err != nil || len(files) != len(kinds) {
		t.Fatalf("%d CRDs, %v", len(files), err)
	}
	schemas := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		schema["x-kubernetes-group-version-kind"] = []any{map[string]any{"kind": crd.Spec.Names.Kind}}
		schemas["com.momento."+crd.Spec.Names.Kind] = schema
	}
	return map[string]any{"components": map[string]any{"schemas": schemas}}
}

// apiServer answers with the document, or with an error's code.
func apiServer(t *testing.T, code int, document any) rest.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openapi/v3/apis/valkey.gomomento.com/v1alpha1" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(document); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client.RESTClient()
}

// without removes a field that is named by its path from a document.
func without(t *testing.T, document map[string]any, kind string, path ...string) map[string]any {
	t.Helper()
	at := document["components"].(map[string]any)["schemas"].(map[string]any)["com.momento."+kind].(map[string]any)
	for i, name := range path {
		if name == "[]" {
			at = at["items"].(map[string]any)
			continue
		}
		properties := at["properties"].(map[string]any)
		if properties[name] == nil {
			t.Fatalf("there is no %s", name)
		}
		if i == len(path)-1 {
			delete(properties, name)
			return document
		}
		at = properties[name].(map[string]any)
	}
	return document
}

func TestTheProjectsOwnCRDsFit(t *testing.T) {
	if err := checkCRDs(t.Context(), apiServer(t, http.StatusOK, installed(t))); err != nil {
		t.Error(err)
	}
}

func TestCRDsThatDropWhatTheOperatorWritesAreNamed(t *testing.T) {
	removed := installed(t)
	delete(removed["components"].(map[string]any)["schemas"].(map[string]any), "com.momento.ValkeyRole")
	for _, test := range []struct {
		code     int
		document any
		want     string
	}{
		{http.StatusNotFound, map[string]any{}, "the CRDs of valkey.gomomento.com/v1alpha1 are not installed: apply crds.json"},
		{http.StatusForbidden, map[string]any{}, "ask the API server for the schema"},
		{http.StatusOK, "nonsense", "read the schema"},
		{http.StatusOK, removed, "they lack ValkeyRole"},
		{http.StatusOK, without(t, installed(t), "ValkeyNode", "status", "podUID"), "they lack ValkeyNode.status.podUID"},
		{http.StatusOK, without(t, installed(t), "ValkeyNode", "status"), "they lack ValkeyNode.status"},
		{http.StatusOK, without(t, installed(t), "ValkeyCluster", "spec", "acl", "[]", "permissions", "[]", "keys", "[]", "access"),
			"they lack ValkeyCluster.spec.acl[].permissions[].keys[].access"},
		{http.StatusOK, without(t, installed(t), "ValkeyCluster", "status", "nodes", "[]", "zone"), "they lack ValkeyCluster.status.nodes[].zone"},
		{http.StatusOK, without(t, installed(t), "ValkeyConfig", "spec", "resources", "memory"), "they lack ValkeyConfig.spec.resources.memory"},
	} {
		err := checkCRDs(t.Context(), apiServer(t, test.code, test.document))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// answers gives one answer after the other, without a network.
type answers struct {
	t    *testing.T
	next []any
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	if a.next[0] == nil {
		recorder.Code = http.StatusNotFound
	} else if err := json.NewEncoder(recorder).Encode(a.next[0]); err != nil {
		a.t.Error(err)
	}
	a.next = a.next[1:]
	answer := recorder.Result()
	answer.Request = r
	return answer, nil
}

func TestTheCRDsAreWaitedFor(t *testing.T) {
	documents := []any{nil, without(t, installed(t), "ValkeyNode", "status"), installed(t)}
	synctest.Test(t, func(t *testing.T) {
		transport := &answers{t: t, next: documents}
		client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: "http://api", Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		if err := waitForCRDs(t.Context(), client.RESTClient()); err != nil || len(transport.next) != 0 {
			t.Errorf("%v, %d answers left", err, len(transport.next))
		}
		transport.next = make([]any, 1000)
		ctx, cancel := context.WithTimeout(t.Context(), crdReminder)
		defer cancel()
		if err := waitForCRDs(ctx, client.RESTClient()); err == nil {
			t.Error("nothing is installed and the wait is over")
		}
	})
}
