# shellcheck shell=bash
# bed up, down and status.

# phase TEXT tells what has been reached, and when since the start.
phase() { say "$(printf '%8s  %s' "$(seconds_since "$UP_START")" "$1")"; }

# bed_up MODE: "api-only" or a number of nodes.
bed_up() {
  local mode=$1
  need_root
  # shellcheck disable=SC2086 # pairs are words
  if [ "$mode" = api-only ]; then
    need_commands $API_COMMANDS
  else
    need_commands $API_COMMANDS $NODE_COMMANDS $VALKEY_COMMANDS
    need_cgroups
  fi
  need_binaries
  with_lock "bed-$BED_NAME" bed_up_locked "$mode"
}

bed_up_locked() {
  local mode=$1 dead
  if [ -f "$RUN/up" ] && dead=$(dead_daemons) && [ -z "$dead" ]; then
    [ "$(bed_mode)" = "$mode" ] ||
      die "bed \"$BED_NAME\" is up already, with $(describe_mode "$(bed_mode)"): run $0 down first, or choose another BED_NAME"
    say "bed \"$BED_NAME\" is up already ($(describe_mode "$mode")); KUBECONFIG=$RUN/admin.kubeconfig"
    return
  fi
  if [ -e "$RUN" ] || [ -n "$(bed_pids)" ]; then
    say "cleaning the leftovers of an earlier run${dead:+ (not running: ${dead//$'\n'/, })} …"
    bed_clean
  fi
  mkdir -p "$RUN/pids" "$RUN/log" "$RUN/tmp"
  echo "$mode" >"$RUN/mode"
  if [ "$mode" = api-only ]; then up_api_only; else up_nodes "$mode"; fi
  : >"$RUN/up"
  say "bed \"$BED_NAME\" is up: $(describe_mode "$mode"), KUBECONFIG=$RUN/admin.kubeconfig"
}

describe_mode() { if [ "$1" = api-only ]; then echo "the API alone"; else echo "$1 nodes"; fi; }

up_api_only() {
  UP_START=$(now_ms)
  with_lock ports start_api_only # two beds must not choose the same ports
  phase "API server on $(sed -n 's/.*server: "\([^"]*\)".*/\1/p' "$RUN/admin.kubeconfig")"
  wait_default_account
  phase "default ServiceAccount"
}

start_api_only() {
  local port
  port=$(api_only_port) || exit 1
  make_certs "https://127.0.0.1:$port" 0
  cp "$RUN/pki/admin.kubeconfig" "$RUN/admin.kubeconfig"
  start_control_plane "https://127.0.0.1:$port" 127.0.0.1 127.0.0.1 none "$port" $((port + 1)) $((port + 2)) $((port + 3)) $((port + 4))
}

up_nodes() {
  local nodes=$1 i pid pids=() missing
  missing=$(build_images)
  [ -z "$missing" ] || say "NOT built: ${missing//$'\n'/, }, see above; once the clone compiles: $0 images"
  UP_START=$(now_ms)
  make_certs "https://$HUB_IP:6443" "$nodes"
  cp "$RUN/pki/admin.kubeconfig" "$RUN/admin.kubeconfig"
  make_hub
  for i in $(seq "$nodes"); do make_node "$i"; done
  hub ip route add 10.96.0.0/16 via "$(node_ip 1)"
  phase "namespaces of the hub and $nodes nodes"
  for i in $(seq "$nodes"); do
    start_node "$i" &
    pids+=($!)
  done
  start_control_plane "https://$HUB_IP:6443" 0.0.0.0 "$HUB_IP" lease 6443 2379 2380 10257 10259
  phase "API server on https://$HUB_IP:6443 (inside the hub)"
  for pid in "${pids[@]}"; do wait "$pid" || die "a node did not start: see above"; done
  phase "images loaded, kubelets started"
  start_dns
  until_ready "$nodes nodes Ready" 240 kube-controller-manager nodes_ready "$nodes"
  phase "nodes Ready"
  wait_default_account
  phase "default ServiceAccount, cluster DNS"
}

bed_down() {
  local start
  need_root
  if [ ! -e "$RUN" ] && [ -z "$(bed_pids)" ]; then
    say "bed \"$BED_NAME\" is down already"
    return
  fi
  start=$(now_ms)
  with_lock "bed-$BED_NAME" bed_clean
  say "bed \"$BED_NAME\" is down: $(seconds_since "$start")"
}

# bed_status prints what runs; exit code 3 when the bed is not whole.
bed_status() {
  local dead
  if [ ! -f "$RUN/up" ]; then
    if [ -e "$RUN" ] || [ -n "$(bed_pids)" ]; then
      echo "bed \"$BED_NAME\": leftovers of a run that did not finish; $0 down removes them, $0 up starts afresh"
    else
      echo "bed \"$BED_NAME\": down"
    fi
    return 3
  fi
  dead=$(dead_daemons)
  echo "bed \"$BED_NAME\": $(describe_mode "$(bed_mode)"), $(bed_pids | wc -l) processes, in $RUN"
  echo "KUBECONFIG=$RUN/admin.kubeconfig"
  if [ -n "$dead" ]; then
    echo "not running: ${dead//$'\n'/, }; $0 up starts afresh"
    return 3
  fi
  [ "$(bed_mode)" = api-only ] || admin_kubectl get nodes -L topology.kubernetes.io/zone
}
