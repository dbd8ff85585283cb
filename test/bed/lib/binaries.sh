# shellcheck shell=bash
# Kubernetes, etcd and CoreDNS, built from the Go modules in test/bed/tools.
#
# CoreDNS has a module of its own because it bends the versions that Kubernetes
# wants. Each set is kept under a key of its go.sum, go.mod and Go's version.

KUBE_TOOLS="etcd=go.etcd.io/etcd/server/v3"
for t in kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy; do
  KUBE_TOOLS="$KUBE_TOOLS $t=k8s.io/kubernetes/cmd/$t"
done
COREDNS_TOOLS="coredns=github.com/coredns/coredns"

# kube_version MODULE prints the version of Kubernetes, or nothing for another module.
kube_version() { sed -n 's/^.*k8s\.io\/kubernetes \(v[0-9.]*\).*$/\1/p' "$1/go.mod" | head -n 1; }

go_needed() {
  command -v go >/dev/null || die "go is not on the PATH: install Go $(sed -n 's/^go //p' "$REPO_DIR/go.mod") or newer, see https://go.dev/dl/"
}

# tools_dir kube|coredns prints where that set of binaries is, or will be.
tools_dir() {
  local module=$BED_DIR/tools/$1 key
  key=$({ cat "$module/go.mod" "$module/go.sum" && go env -C "$module" GOVERSION && declare -f build_tool; } | sha256sum | cut -c1-16)
  echo "$CACHE/$1-$key"
}

# build_tool MODULE PACKAGE OUT
build_tool() {
  local ldflags="-s -w" version package
  version=$(kube_version "$1")
  for package in ${version:+k8s.io/component-base/version k8s.io/client-go/pkg/version}; do
    ldflags="$ldflags -X $package.gitVersion=$version -X $package.gitMajor=1"
    ldflags="$ldflags -X $package.gitMinor=$(cut -d. -f2 <<<"$version") -X $package.gitTreeState=clean"
  done
  GOWORK=off GOFLAGS=-buildvcs=false CGO_ENABLED=0 go build -C "$1" -trimpath \
    -ldflags "$ldflags" -o "$3.new" "$2" && mv "$3.new" "$3"
}

# build_set kube|coredns FIRST TOTAL NAME=PACKAGE.. builds what is missing of one set.
# The build cache (4 GB) is this set's own and is dropped once the set is whole;
# after an interruption it stays, so that the next run goes on from there.
build_set() {
  local set=$1 n=$2 total=$3 dir tool
  shift 3
  dir=$(tools_dir "$set")
  mkdir -p "$dir"
  for tool in "$@"; do
    if [ ! -x "$dir/${tool%%=*}" ]; then
      GOCACHE=$CACHE/gobuild watched "[$n/$total] building ${tool%%=*}" "$dir/build.log" \
        build_tool "$BED_DIR/tools/$set" "${tool#*=}" "$dir/${tool%%=*}" ||
        die "cannot build ${tool%%=*}: see above; with GOPROXY out of reach, check the network and try again"
    fi
    n=$((n + 1))
  done
  rm -f "$dir/build.log"
}

build_missing() {
  local total
  # shellcheck disable=SC2086 # the lists are words
  set -- $KUBE_TOOLS
  total=$(($# + 1))
  build_set kube 1 "$total" "$@"
  build_set coredns "$total" "$total" "$COREDNS_TOOLS"
  # Go makes module files read-only, but not those of its build cache.
  rm -rf "$CACHE/gobuild"
}

# need_binaries sets KUBE_BIN and COREDNS_BIN, building both sets if needed.
need_binaries() {
  local tool missing=
  go_needed
  KUBE_BIN=$(tools_dir kube) COREDNS_BIN=$(tools_dir coredns)
  for tool in $KUBE_TOOLS; do [ -x "$KUBE_BIN/${tool%%=*}" ] || missing=1; done
  [ -x "$COREDNS_BIN/coredns" ] || missing=1
  [ -z "$missing" ] || with_lock binaries build_missing
}
