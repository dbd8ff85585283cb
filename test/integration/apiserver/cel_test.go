package apiserver

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// oldest is the oldest Kubernetes that the operator supports (contract §8).
var oldest = version.MajorMinor(1, 27)

// crdFiles returns the paths of the generated CRDs.
func crdFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../../manifests/crds/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatalf("found %d CRDs in manifests/crds (%v), want 5", len(files), err)
	}
	return files
}

// readCRD reads one CRD as the API server does, defaults applied.
func readCRD(t *testing.T, file string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	return crd
}

// internalCRD converts a CRD to the form that the API server's validation takes.
func internalCRD(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	t.Helper()
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryRuleCompilesInKubernetes1_27WithinItsCost(t *testing.T) {
	env := environment.MustBaseEnvSet(oldest)
	rules := 0
	for _, file := range crdFiles(t) {
		crd := internalCRD(t, readCRD(t, file))
		props := crd.Spec.Validation
		if props == nil {
			props = crd.Spec.Versions[0].Schema
		}
		structural, err := schema.NewStructural(props.OpenAPIV3Schema)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rules += compileAll(t, env, crd.Spec.Names.Kind, structural, true)
	}
	if rules < 30 {
		t.Errorf("compiled %d rules, want at least 30: the walk misses some", rules)
	}
}

// compileAll compiles the rules of a schema and of all below it and returns how many there were.
func compileAll(t *testing.T, env *environment.EnvSet, path string, s *schema.Structural, root bool) int {
	t.Helper()
	results, err := cel.Compile(s, model.SchemaDeclType(s, root), celconfig.PerCallLimit, env, cel.NewExpressionsEnvLoader())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	for i, r := range results {
		if r.Error != nil {
			t.Errorf("%s rule %q: %v", path, s.XValidations[i].Rule, r.Error)
		}
		if r.MaxCost > validation.StaticEstimatedCostLimit {
			t.Errorf("%s rule %q: estimated cost %d of one evaluation is over the limit %d", path, s.XValidations[i].Rule, r.MaxCost, validation.StaticEstimatedCostLimit)
		}
		if s.XValidations[i].Message == "" {
			t.Errorf("%s rule %q has no message", path, s.XValidations[i].Rule)
		}
	}
	n := len(results)
	for name, p := range s.Properties {
		n += compileAll(t, env, path+"."+name, &p, false)
	}
	if s.Items != nil {
		n += compileAll(t, env, path+"[]", s.Items, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		n += compileAll(t, env, path+"{}", s.AdditionalProperties.Structural, false)
	}
	return n
}

func TestTheOldEnvironmentRefusesWhatCameLater(t *testing.T) {
	s := &schema.Structural{Generic: schema.Generic{Type: "string"}}
	s.XValidations = apiextensionsv1.ValidationRules{{Rule: "quantity(self).isGreaterThan(quantity('0'))"}}
	results, err := cel.Compile(s, model.SchemaDeclType(s, false), celconfig.PerCallLimit, environment.MustBaseEnvSet(oldest), cel.NewExpressionsEnvLoader())
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Error == nil {
		t.Error("quantity(), new in 1.28, compiles: the check of the other rules proves nothing")
	}
}

func TestTheAPIServersOwnValidationAcceptsEveryCRD(t *testing.T) {
	for _, file := range crdFiles(t) {
		for _, e := range validation.ValidateCustomResourceDefinition(context.Background(), internalCRD(t, readCRD(t, file))) {
			t.Errorf("%s: %v", file, e)
		}
	}
}
