#!/usr/bin/env bash
# Checks the style that a machine can check: gofmt, go vet, staticcheck, shellcheck, and the bans of docs/conventions.md.
# Prints every finding, then fails if there was one.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
bin=$(go env GOCACHE)/../valkey-operator-tools
mkdir -p "$bin"
bin=$(cd "$bin" && pwd -P)
failed=0

# report WHAT FINDINGS fails the run if there are findings.
report() {
  if [[ -n $2 ]]; then
    printf 'lint: %s\n%s\n' "$1" "$2" >&2
    failed=1
  fi
}

# sources [PATHSPEC..] lists the Go files that people write, tracked or new.
sources() {
  git ls-files -co --exclude-standard -- "${@:-*.go}" | while read -r f; do
    [[ -f $f && $f == *.go && $f != pkg/generated/* && $(basename "$f") != zz_* ]] && echo "$f"
  done || true
}

# ban WHAT PATTERN FILES.. reports the lines that match.
ban() {
  local what=$1 pattern=$2
  shift 2
  if (($# > 0)); then
    report "$what" "$(grep -nE -- "$pattern" /dev/null "$@" || true)"
  fi
}

mapfile -t all < <(sources)
mapfile -t tests < <(sources '*_test.go')
mapfile -t valkey < <(sources 'pkg/valkey/*')
# plantest is the planner's test harness: it may draw seeded random worlds and read files.
mapfile -t pure < <(sources 'pkg/valkey/plan/*' 'pkg/valkey/slot/*' 'pkg/valkey/topology/*' |
  grep -v -e '_test\.go$' -e '^pkg/valkey/plan/plantest/' || true)

report "gofmt would change these" "$(gofmt -l "${all[@]}")"
ban "controller-runtime is not used here" '"sigs\.k8s\.io/controller-runtime' "${all[@]}"
ban "pkg/valkey imports nothing of Kubernetes" '^\s*(import )?([a-z0-9A-Z_.]+ )?"(sigs\.)?k8s\.io/' "${valkey[@]}"
ban "the planner has no clock: time is in the observation" '\btime\.(Now|Since|Until|After|AfterFunc|Sleep|Tick|NewTimer|NewTicker)\b' "${pure[@]}"
ban "the planner is pure: no randomness, context, log, file or network" \
  '^\s*(import )?([a-z0-9A-Z_.]+ )?"(math/rand|math/rand/v2|crypto/rand|context|log|log/slog|os|net|io/ioutil)"' "${pure[@]}"
ban "no test is skipped" '\b[tb]\.(Skip|Skipf|SkipNow)\(|\btesting\.Short\(' "${tests[@]}"
ban "a TODO names its issue, as TODO(#7)" '\b(TODO|FIXME)\b([^(]|\([^#]|$)' "${all[@]}"
report "longer than 400 lines a file or 60 a function" "$(go run ./hack/sizes "${all[@]}")"

mapfile -t scripts < <(git ls-files -co --exclude-standard | while read -r f; do
  [[ -f $f ]] && head -c 64 "$f" | head -1 | grep -qaE '^#!.*\b(ba)?sh\b' && echo "$f"
done || true)
if command -v shellcheck >/dev/null; then
  report "shellcheck" "$(shellcheck -x "${scripts[@]}" 2>&1 || true)"
else
  report "shellcheck is missing" "install it: apt-get install shellcheck"
fi

vet=$(go vet ./... 2>&1) || report "go vet" "$vet"
go -C hack/tools build -o "$bin/" honnef.co/go/tools/cmd/staticcheck
mapfile -t packages < <(go list ./... | grep -v '/pkg/generated/')
static=$("$bin/staticcheck" "${packages[@]}" 2>&1) || report "staticcheck" "$static"

if ((failed)); then
  exit 1
fi
echo "lint: nothing found"
