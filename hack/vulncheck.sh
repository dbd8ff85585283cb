#!/usr/bin/env bash
# Reports known vulnerabilities that the code reaches. It needs the vulnerability database of the Go project, which
# GOVULNDB may point elsewhere; where that cannot be reached it says so and fails.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
bin=$(go env GOCACHE)/../valkey-operator-tools
mkdir -p "$bin"
bin=$(cd "$bin" && pwd -P)
go -C "$root/hack/tools" build -o "$bin/" golang.org/x/vuln/cmd/govulncheck
cd "$root"
exec "$bin/govulncheck" ./cmd/... ./pkg/...
