// Command crdlist prints the CRDs of YAML files as one JSON List, the release file crds.json.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crdlist:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	items := []any{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var crd map[string]any
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		items = append(items, crd)
	}
	list["items"] = items
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(list)
}
