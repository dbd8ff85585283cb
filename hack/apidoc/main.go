// Command apidoc prints the reference of the API as Markdown. Its argument is the directory of the CRDs; all it
// knows comes from them, so that the document says what `kubectl explain` says.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"
)

// order is the order of the kinds in the document: from what the platform team writes to what the operator writes.
var order = []string{"ValkeyImage", "ValkeyConfig", "ValkeyRole", "ValkeyCluster", "ValkeyNode"}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apidoc DIRECTORY")
		os.Exit(2)
	}
	crds, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidoc:", err)
		os.Exit(1)
	}
	fmt.Print(document(crds))
}

// crd is the part of a CustomResourceDefinition that the document shows.
type crd struct {
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			Plural     string   `json:"plural"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Columns []struct {
				Name     string `json:"name"`
				JSONPath string `json:"jsonPath"`
				Priority int    `json:"priority"`
			} `json:"additionalPrinterColumns"`
			Schema struct {
				Root schema `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// schema is the part of an OpenAPI schema that the document shows.
type schema struct {
	Type          string            `json:"type"`
	Format        string            `json:"format"`
	Description   string            `json:"description"`
	Default       any               `json:"default"`
	Enum          []any             `json:"enum"`
	Pattern       string            `json:"pattern"`
	Minimum       *float64          `json:"minimum"`
	Maximum       *float64          `json:"maximum"`
	MinLength     *int64            `json:"minLength"`
	MaxLength     *int64            `json:"maxLength"`
	MinItems      *int64            `json:"minItems"`
	MaxItems      *int64            `json:"maxItems"`
	MaxProperties *int64            `json:"maxProperties"`
	IntOrString   bool              `json:"x-kubernetes-int-or-string"`
	Required      []string          `json:"required"`
	Properties    map[string]schema `json:"properties"`
	Items         *schema           `json:"items"`
	Values        *schema           `json:"additionalProperties"`
	Rules         []struct {
		Message string `json:"message"`
	} `json:"x-kubernetes-validations"`
}

// read returns the CRDs of a directory in the document's order.
func read(dir string) ([]crd, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	crds := make([]crd, len(order))
	found := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var c crd
		if err := yaml.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("parse %s: %w", file, err)
		}
		i := slices.Index(order, c.Spec.Names.Kind)
		if i < 0 || len(c.Spec.Versions) != 1 {
			return nil, fmt.Errorf("%s: kind %q with %d versions is not expected", file, c.Spec.Names.Kind, len(c.Spec.Versions))
		}
		crds[i] = c
		found++
	}
	if found != len(order) {
		return nil, fmt.Errorf("found %d kinds in %s, want %d", found, dir, len(order))
	}
	return crds, nil
}
