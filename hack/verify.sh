#!/usr/bin/env bash
# Fails if anything generated differs from what hack/generate.sh makes now. It regenerates in a copy and changes
# nothing in the tree.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# All that the generators read, and all that they write.
inputs=(go.mod go.sum hack pkg/apis pkg/generated manifests/crds docs/api.md)
outputs=(pkg/apis pkg/generated manifests/crds docs/api.md)

# drift A B prints how the outputs of two trees differ and succeeds if they do.
drift() {
  local differs=1 path
  for path in "${outputs[@]}"; do
    diff -ruN "$1/$path" "$2/$path" || differs=0
  done
  return "$differs"
}

for path in "${inputs[@]}"; do
  mkdir -p "$copy/made/$(dirname "$path")"
  if [[ -e $root/$path ]]; then
    cp -R "$root/$path" "$copy/made/$path"
  fi
done

"$copy/made/hack/generate.sh" "$copy/made"

# A comparison that cannot fail is worth nothing: it must see a changed line, a lost file and a stale one.
cp -R "$copy/made" "$copy/bent"
for bend in 'echo "# bent" >>"$(ls manifests/crds/*.yaml | head -1)"' \
  'rm pkg/apis/valkey/v1alpha1/zz_generated.deepcopy.go' 'echo stale >pkg/generated/stale.go'; do
  (cd "$copy/bent" && eval "$bend")
  if ! drift "$copy/made" "$copy/bent" >/dev/null; then
    echo "verify: the comparison does not notice: $bend" >&2
    exit 1
  fi
  rm -rf "$copy/bent" && cp -R "$copy/made" "$copy/bent"
done

if drift "$root" "$copy/made"; then
  echo "verify: generated files are not what hack/generate.sh makes (- is the tree, + is right); run make generate" >&2
  exit 1
fi
echo "verify: generated files are up to date"
