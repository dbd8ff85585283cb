#!/usr/bin/env bash
# Regenerates everything that nobody edits: deep copies, CRDs, clientset, listers, informers, apply configurations
# and docs/api.md. Usage: hack/generate.sh [ROOT]; ROOT is the tree to work on, by default the one of this script.
set -euo pipefail

root=$(cd "${1:-$(dirname "$0")/..}" && pwd -P)
tools=$root/hack/tools
module=github.com/momentohq/valkey-operator

# The tools go below the build cache's directory: outside of the clone, and made anew by go where they are stale.
bin=$(go env GOCACHE)/../valkey-operator-tools
mkdir -p "$bin"
bin=$(cd "$bin" && pwd -P)
export GOBIN=$bin

say() { printf 'generate: %s\n' "$*"; }

say "building the tools"
go -C "$tools" mod download
go -C "$tools" build -o "$bin/" sigs.k8s.io/controller-tools/cmd/controller-gen

codegen=$(go -C "$tools" list -m -f '{{.Dir}}' k8s.io/code-generator)
# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"

# quietly runs a generator without its warnings that several aliases of string have comments of their own: the
# comments are meant for controller-gen, which reads each where it stands.
quietly() {
  "$@" 2>&1 | awk '/Mismatched comments on type string/ { skip = 1; next } skip && /^  / { next } { skip = 0; print }'
}

cd "$root"
say "deep copies"
quietly kube::codegen::gen_helpers --boilerplate hack/boilerplate.go.txt pkg/apis

say "clientset, listers, informers, apply configurations"
quietly kube::codegen::gen_client \
  --with-watch --with-applyconfig \
  --boilerplate hack/boilerplate.go.txt \
  --output-dir pkg/generated --output-pkg "$module/pkg/generated" \
  pkg/apis

say "CRDs"
mkdir -p pkg/generated docs
rm -rf manifests/crds
"$bin/controller-gen" crd paths=./pkg/apis/... output:crd:dir=manifests/crds

say "docs/api.md"
go run ./hack/apidoc manifests/crds >docs/api.md.new
mv docs/api.md.new docs/api.md
say "done"
