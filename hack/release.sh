#!/usr/bin/env bash
# Writes the release files into dist/: crds.json, a List of the CRDs, and operator.yaml with the
# version's image. usage: hack/release.sh VERSION [IMAGE]
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
version=${1:?usage: hack/release.sh VERSION [IMAGE]}
image=${2:-valkey-operator:$version}
mkdir -p dist
go run ./hack/crdlist manifests/crds/*.yaml >dist/crds.json
sed -E "s|^( *image: ).*valkey-operator:.*|\1$image|" manifests/operator.yaml >dist/operator.yaml
grep -q "image: $image\$" dist/operator.yaml || {
  echo "manifests/operator.yaml names no image that could be replaced" >&2
  exit 1
}
ls -l dist/crds.json dist/operator.yaml
