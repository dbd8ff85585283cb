# shellcheck shell=bash
# Which processes are the bed's, whether they all live, and how to end them.
#
# Every daemon carries VALKEY_BED_OF=<run directory> in its environment. That
# survives a killed `bed`, a lost pid file and a reboot, and never names a
# process of somebody else.

# daemon PIDFILE LOG CMD.. starts CMD detached, marked as ours. It returns once the
# mark shows: until exec, the process still has the environment of this shell.
daemon() {
  local pidfile=$1 log=$2 pid
  shift 2
  VALKEY_BED_OF=$RUN setsid "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  echo "$pid" >"$pidfile"
  until lives "$pidfile" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
}

# bed_pids prints the process ids of this bed.
bed_pids() {
  grep -lszxF "VALKEY_BED_OF=$RUN" /proc/[0-9]*/environ | cut -d/ -f3 || true
}

# lives PIDFILE tells whether the daemon of that file runs and is ours.
lives() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && grep -qszxF "VALKEY_BED_OF=$RUN" "/proc/$pid/environ"
}

# bed_mode prints "api-only" or the number of nodes; nothing when the bed is down.
bed_mode() { cat "$RUN/mode" 2>/dev/null || true; }

# dead_daemons prints the names of the daemons that should run and do not.
dead_daemons() {
  local file
  for file in "$RUN"/pids/*; do
    [ -e "$file" ] || continue
    lives "$file" || basename "$file"
  done
}

# need_up ends with the cure when the bed does not run.
need_up() {
  local dead
  [ -f "$RUN/up" ] || die "bed \"$BED_NAME\" is not up: run $0 up"
  dead=$(dead_daemons)
  [ -z "$dead" ] || die "bed \"$BED_NAME\" is broken, not running: ${dead//$'\n'/, }; run $0 up to start it afresh"
}

# need_node nI
need_node() {
  need_up
  [ "$(bed_mode)" != api-only ] || die "bed \"$BED_NAME\" is --api-only: it has no nodes; run it without --api-only"
  [[ -d $RUN/$1 && -f $RUN/pids/$1 ]] || die "no node \"$1\": this bed has n1 to n$(bed_mode)"
}

# end_processes kills all of the bed and waits until it is gone. There is nothing
# to save, and an API server that drains would only make `down` slow.
end_processes() {
  local pid tries=0
  while [ -n "$(bed_pids)" ]; do
    for pid in $(bed_pids); do kill -KILL "$pid" 2>/dev/null || true; done
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || die "processes do not end: $(bed_pids | tr '\n' ' ')"
    sleep 0.1
  done
}

# end_cgroups removes the cgroups of the nodes; they empty a moment after the kill.
end_cgroups() {
  local group tries=0
  { cat "$RUN"/n*/cgroups 2>/dev/null || true; } | while read -r group; do
    while [ -d "$group" ]; do
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
      [ -d "$group" ] || break
      tries=$((tries + 1))
      [ "$tries" -lt 100 ] || die "cannot remove the cgroup $group: processes in it: $(tr '\n' ' ' <"$group/cgroup.procs")"
      sleep 0.1
    done
  done
}

# bed_clean ends and removes everything of this bed, whatever state it is in.
bed_clean() {
  end_processes
  end_cgroups
  while umount "$RUN/hub.net" 2>/dev/null; do :; done
  if grep -q " $RUN/" /proc/self/mounts; then
    die "still mounted under $RUN: $(awk -v r="$RUN/" 'index($2, r) == 1 { print $2 }' /proc/self/mounts | tr '\n' ' '); unmount and run $0 down again"
  fi
  rm -rf --one-file-system "$RUN"
  rmdir "$RUN_ROOT" 2>/dev/null || true
}
