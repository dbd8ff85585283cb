package apiserver

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// walk calls visit for every schema below and including s, with the path that a person would write.
func walk(path string, s *apiextensionsv1.JSONSchemaProps, visit func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		walk(path+"."+name, &p, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(path+"{}", s.AdditionalProperties.Schema, visit)
	}
}

// each walks the schemas of all kinds.
func each(t *testing.T, visit func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	t.Helper()
	for _, file := range crdFiles(t) {
		crd := readCRD(t, file)
		walk(crd.Spec.Names.Kind, crd.Spec.Versions[0].Schema.OpenAPIV3Schema, visit)
	}
}

func TestEveryStringListAndMapHasABound(t *testing.T) {
	each(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		root := strings.Count(path, ".") <= 1
		switch {
		case s.Type == "string" && !root && s.MaxLength == nil && len(s.Enum) == 0 && s.Format != "date-time":
			t.Errorf("%s is a string without bound", path)
		case s.Type == "array" && s.MaxItems == nil:
			t.Errorf("%s is a list without bound", path)
		case s.AdditionalProperties != nil && s.MaxProperties == nil:
			t.Errorf("%s is a map without bound", path)
		case s.XIntOrString && len(s.XValidations) == 0:
			t.Errorf("%s is a quantity without bound", path)
		}
	})
}

func TestEveryListIsAtomicButForConditions(t *testing.T) {
	each(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s.Type != "array" {
			return
		}
		want := "atomic"
		if strings.HasSuffix(path, ".status.conditions") {
			want = "map"
		}
		if s.XListType == nil || *s.XListType != want {
			t.Errorf("%s has list type %v, want %s", path, s.XListType, want)
		}
	})
}

func TestKubectlExplainsEveryField(t *testing.T) {
	doc := servedSchemas(t)
	fields := 0
	each(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if strings.HasSuffix(path, "]") || strings.HasSuffix(path, "}") || strings.Count(path, ".") == 0 || strings.Count(path, ".") == 1 && !strings.Contains(path, ".s") {
			return
		}
		fields++
		words := strings.Fields(s.Description)
		if len(words) < 3 {
			t.Errorf("%s is described as %q", path, s.Description)
			return
		}
		text, err := json.Marshal(s.Description)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(doc, strings.Trim(string(text), `"`)) {
			t.Errorf("the description of %s is not what the server serves", path)
		}
	})
	if fields < 100 {
		t.Errorf("saw %d fields, want at least 100: the walk misses some", fields)
	}
}

// servedSchemas returns the OpenAPI document from which kubectl explain reads.
func servedSchemas(t *testing.T) string {
	t.Helper()
	data, err := served.RESTClient().Get().AbsPath("/openapi/v3/apis/" + v1alpha1.SchemeGroupVersion.String()).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The server and Go escape different characters: compare in one form.
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryStatusFieldSaysWhoWritesIt(t *testing.T) {
	each(t, func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if strings.Count(path, ".") == 2 && strings.Contains(path, ".status.") && !strings.HasSuffix(path, "]") && !strings.Contains(s.Description, "by the operator") {
			t.Errorf("%s does not say who writes it: %s", path, s.Description)
		}
	})
}

func TestTheServerKnowsTheNamesOfEveryKind(t *testing.T) {
	list, err := served.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	short := map[string]string{"valkeyclusters": "vkc", "valkeynodes": "vkn", "valkeyimages": "vki", "valkeyconfigs": "vkcfg", "valkeyroles": "vkr"}
	for _, k := range kinds {
		i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource })
		if i < 0 {
			t.Errorf("%s is not served", k.resource)
			continue
		}
		r := list.APIResources[i]
		if !slices.Equal(r.ShortNames, []string{short[k.resource]}) || !slices.Equal(r.Categories, []string{"valkey"}) || r.Namespaced != k.namespaced || r.Kind != k.kind {
			t.Errorf("%s is served as %+v", k.resource, r)
		}
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource+"/status" }) {
			t.Errorf("%s has no status subresource", k.resource)
		}
	}
}

func TestKubectlGetShowsTheColumnsOfTheContract(t *testing.T) {
	for _, tt := range []struct {
		kind   kind
		bend   string
		header []string
		cells  []any
	}{
		{image, ``, []string{"Name", "Repository", "Tag", "Version", "Age"}, []any{"cache", "valkey/valkey", "9.1.2", "9.1.2"}},
		{config, `spec: {baseRef: base}`, []string{"Name", "ImageRef", "BaseRef", "Age"}, []any{"cache", "valkey", "base"}},
		{role, ``, []string{"Name", "Age"}, []any{"cache"}},
		{cluster, ``, []string{"Name", "Config", "Shards", "Replicas", "State", "Age"}, []any{"cache", "small", float64(3), float64(1), "Creating"}},
		{node, ``, []string{"Name", "Cluster", "Image", "Lifecycle", "Age"}, []any{"cache-0a1b2", "cache", "valkey/valkey:9.1.2", "Active"}},
	} {
		t.Run(tt.kind.kind, func(t *testing.T) {
			name := stored(t, tt.kind, tt.bend).GetName()
			header, cells := table(t, tt.kind, name)
			if diff := cmp.Diff(tt.header, header); diff != "" {
				t.Errorf("columns (- wanted, + shown):\n%s", diff)
			}
			if diff := cmp.Diff(tt.cells, cells[:len(cells)-1]); diff != "" {
				t.Errorf("cells (- wanted, + shown):\n%s", diff)
			}
		})
	}
}

// table asks the server for an object as kubectl get does and returns the columns of the narrow form.
func table(t *testing.T, k kind, name string) (header []string, cells []any) {
	t.Helper()
	c := rest.CopyConfig(restConfig)
	gv := v1alpha1.SchemeGroupVersion
	c.GroupVersion, c.APIPath = &gv, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme.Scheme).WithoutConversion()
	client, err := rest.RESTClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	request := client.Get().Resource(k.resource).Name(name).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if k.namespaced {
		request = request.Namespace(namespace)
	}
	data, err := request.DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out metav1.Table
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	for i, column := range out.ColumnDefinitions {
		if column.Priority == 0 {
			header = append(header, column.Name)
			cells = append(cells, out.Rows[0].Cells[i])
		}
	}
	return header, cells
}

func TestEverySampleIsAccepted(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		found, err := filepath.Glob("../../../manifests/samples/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 6 {
		t.Fatalf("found %d samples, want at least 6", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			object := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(data, &object.Object); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(kinds, func(k kind) bool { return k.kind == object.GetKind() })
			if i < 0 {
				t.Fatalf("kind %q is not one of ours", object.GetKind())
			}
			options := metav1.CreateOptions{DryRun: []string{"All"}, FieldValidation: "Strict"}
			if _, err := kinds[i].client().Create(t.Context(), object, options); err != nil {
				t.Error(err)
			}
		})
	}
}
