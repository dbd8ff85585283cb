#!/usr/bin/env bash
# Fails if the code reaches a known vulnerability of a module that it uses. The reports come as a Go module too, so
# that the module proxy is all it needs; VULNDB=latest takes the newest instead of the pinned ones.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
reports=golang.org/x/vulndb@${VULNDB:-v0.0.0-20261105234957-e22db6528018}
bin=$(go env GOCACHE)/../valkey-operator-tools
mkdir -p "$bin"
bin=$(cd "$bin" && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$root"
go -C hack/tools build -o "$bin/" golang.org/x/vuln/cmd/govulncheck
go build -o "$work/vuln" ./hack/vuln
downloaded=$(go -C hack/tools mod download -json "$reports")
from=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' <<<"$downloaded")
"$work/vuln" index "$from/data/osv" "$work/db"
"$bin/govulncheck" -format json -db "file://$work/db" ./cmd/... ./pkg/... >"$work/found"
"$work/vuln" judge <"$work/found"
echo "vulncheck: no known vulnerability of a module is reached ($reports)"
