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

# A comparison that cannot fail is worth nothing: it must see a changed file, a lost one and a stale one.
bend() {
  case $1 in
  changed) echo "# bent" >>"$2/docs/api.md" ;;
  lost) rm "$2/pkg/apis/valkey/v1alpha1/zz_generated.deepcopy.go" ;;
  stale) echo "package generated" >"$2/pkg/generated/stale.go" ;;
  esac
}
for how in changed lost stale; do
  cp -R "$copy/made" "$copy/bent"
  bend "$how" "$copy/bent"
  if ! drift "$copy/made" "$copy/bent" >/dev/null; then
    echo "verify: the comparison does not notice a $how file" >&2
    exit 1
  fi
  rm -rf "$copy/bent"
done

if drift "$root" "$copy/made"; then
  echo "verify: generated files are not what hack/generate.sh makes (- is the tree, + is right); run make generate" >&2
  exit 1
fi
echo "verify: generated files are up to date"
