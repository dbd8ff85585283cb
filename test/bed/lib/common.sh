# shellcheck shell=bash
# What every part of the bed needs: where things are, and how it speaks.

BED_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPO_DIR=$(cd "$BED_DIR/../.." && pwd)

# Built things live outside the clone, so that a fresh clone costs nothing.
CACHE=${VALKEY_BED_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/valkey-operator-bed}

# One run directory per bed. BED_NAME keeps several beds apart.
BED_NAME=${BED_NAME:-bed}
RUN_ROOT=${VALKEY_BED_RUN:-/var/tmp/valkey-operator-bed}
RUN=$RUN_ROOT/$BED_NAME

PATH=$PATH:/usr/sbin:/sbin # where Debian keeps nft, ip and runc; not on every root's path

# say writes progress to stderr: stdout is for answers that scripts read.
say() { printf '%s\n' "$*" >&2; }

# die ends the bed with one line that names the trouble and its cure.
die() {
  say "bed: $*"
  exit 1
}

now_ms() { date +%s%3N; }

# seconds_since START_MS prints the time since then as "12.3 s".
seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# with_lock NAME CMD.. runs CMD in a subshell while no other bed holds the lock.
# CMD itself does not inherit the descriptor: a daemon would hold it for ever.
with_lock() {
  local lock=$CACHE/lock.$1
  shift
  mkdir -p "$CACHE" || die "cannot write $CACHE: set VALKEY_BED_CACHE to a directory that can be written"
  (
    exec 9>"$lock"
    if ! flock -n 9; then
      say "another bed is at work ($lock), waiting for it …"
      flock 9
    fi
    "$@" 9>&-
  )
}

# watched LABEL LOG CMD.. runs CMD with its output in LOG and shows how long it
# takes: a running line on a terminal, a line every 30 s elsewhere.
watched() {
  local label=$1 log=$2 start pid s=0 next=30 rc=0
  shift 2
  start=$(now_ms)
  set -m # a process group of its own, so that an interruption ends all of it
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  set +m
  # shellcheck disable=SC2064 # this pid, not a later one
  trap "kill -TERM -- -$pid; exit 130" INT TERM
  [ -t 2 ] || say "$label …"
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    s=$((($(now_ms) - start) / 1000))
    if [ -t 2 ]; then
      printf '\r%s … %d s' "$label" "$s" >&2
    elif [ "$s" -ge "$next" ]; then
      say "$label … $s s so far"
      next=$((s + 30))
    fi
  done
  wait "$pid" || rc=$?
  trap - INT TERM
  [ -t 2 ] && printf '\r' >&2
  if [ "$rc" = 0 ]; then
    say "$label … $(seconds_since "$start")"
  else
    say "$label … failed, the last lines of $log:"
    tail -n 15 "$log" >&2
  fi
  return "$rc"
}
