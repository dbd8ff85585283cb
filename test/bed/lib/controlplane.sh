# shellcheck shell=bash
# etcd, kube-apiserver, kube-controller-manager and kube-scheduler.

# hub CMD.. runs CMD where the control plane lives: in the hub's network
# namespace, or, for --api-only, right here on loopback.
hub() {
  if [ -e "$RUN/hub.net" ]; then nsenter --net="$RUN/hub.net" -- "$@"; else "$@"; fi
}

# hub_daemon NAME CMD..
hub_daemon() {
  local name=$1
  shift
  if [ -e "$RUN/hub.net" ]; then set -- nsenter --net="$RUN/hub.net" -- "$@"; fi
  daemon "$RUN/pids/$name" "$RUN/log/$name.log" "$@"
}

admin_kubectl() { hub "$KUBE_BIN/kubectl" --kubeconfig "$RUN/pki/admin.kubeconfig" "$@"; }

# until_ready WHAT SECONDS DAEMON CMD.. waits until CMD succeeds, and ends with the
# daemon's last words when that one dies or the time is up.
until_ready() {
  local what=$1 limit=$2 name=$3 start
  shift 3
  start=$(now_ms)
  until "$@" >/dev/null 2>&1; do
    lives "$RUN/pids/$name" || {
      tail -n 8 "$RUN/log/$name.log" >&2
      die "$name ended while starting: see its last words above, all of them in $RUN/log/$name.log"
    }
    [ $(($(now_ms) - start)) -lt $((limit * 1000)) ] || {
      tail -n 8 "$RUN/log/$name.log" >&2
      die "$what: not in $limit s; logs are in $RUN/log"
    }
    sleep 0.1
  done
}

port_taken() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# api_only_port prints the first of five free ports in a row on loopback.
api_only_port() {
  local base i
  for base in ${BED_API_PORT:-$(seq 16440 10 16530)}; do
    for i in 0 1 2 3 4; do
      if port_taken $((base + i)); then
        [ -z "${BED_API_PORT:-}" ] || die "port $((base + i)) is taken: --api-only needs BED_API_PORT ($BED_API_PORT) and the four after it; choose another"
        continue 2
      fi
    done
    echo "$base"
    return
  done
  die "no five free ports in a row between 16440 and 16534: set BED_API_PORT to the first of five that are free"
}

# audit_policy: every write by anyone and everything that is not Kubernetes' own
# reading, at the level Metadata, once, when it is complete.
audit_policy() {
  cat <<'EOF'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager"]
  verbs: [get, list, watch]
- level: None
  userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: Metadata
EOF
}

start_etcd() { # CLIENT_PORT PEER_PORT; nothing here must survive a power cut, hence no fsync
  hub_daemon etcd "$KUBE_BIN/etcd" --data-dir "$RUN/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$1" --advertise-client-urls "http://127.0.0.1:$1" \
    --listen-peer-urls "http://127.0.0.1:$2" --initial-advertise-peer-urls "http://127.0.0.1:$2" \
    --initial-cluster "default=http://127.0.0.1:$2"
}

start_apiserver() { # PORT ETCD_PORT BIND ADVERTISE RECONCILER
  local pki=$RUN/pki
  audit_policy >"$RUN/audit-policy.yaml"
  : >"$RUN/audit.log"
  hub_daemon kube-apiserver "$KUBE_BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$2" \
    --secure-port="$1" --bind-address="$3" --advertise-address="$4" --endpoint-reconciler-type="$5" \
    --cert-dir="$RUN/tmp" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --client-ca-file="$pki/ca.crt" --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
    --authorization-mode=Node,RBAC --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true \
    --enable-admission-plugins=NodeRestriction,PodSecurity,ResourceQuota,OwnerReferencesPermissionEnforcement \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --audit-policy-file="$RUN/audit-policy.yaml" --audit-log-path="$RUN/audit.log" \
    --audit-log-maxsize=1000 --audit-log-maxbackup=1 --profiling=false
}

start_controllers() { # CONTROLLER_MANAGER_PORT SCHEDULER_PORT
  local pki=$RUN/pki name port
  local -a common
  for name in kube-controller-manager kube-scheduler; do
    port=$1 common=(--leader-elect=false --bind-address=127.0.0.1 --cert-dir="$RUN/tmp" --kube-api-qps=200 --kube-api-burst=400)
    for flag in kubeconfig authentication-kubeconfig authorization-kubeconfig; do
      common+=("--$flag=$pki/$name.kubeconfig")
    done
    if [ "$name" = kube-controller-manager ]; then
      # Kubelets renew their lease every 10 s: a grace far below 40 s makes nodes flap under load.
      common+=(--service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt"
        --use-service-account-credentials --node-monitor-grace-period="${BED_NODE_GRACE:-40s}" --node-monitor-period=2s)
    else
      port=$2
    fi
    hub_daemon "$name" "$KUBE_BIN/$name" --secure-port="$port" "${common[@]}"
  done
}

api_answers() {
  hub curl -sf --cacert "$RUN/pki/ca.crt" --cert "$RUN/pki/admin.crt" --key "$RUN/pki/admin.key" "$1/readyz"
}

# start_control_plane URL BIND ADVERTISE RECONCILER, PORTS: api etcd peer kcm scheduler
start_control_plane() {
  local url=$1 bind=$2 advertise=$3 reconciler=$4
  shift 4
  start_etcd "$2" "$3"
  start_apiserver "$1" "$2" "$bind" "$advertise" "$reconciler"
  until_ready "API server" 180 kube-apiserver api_answers "$url"
  start_controllers "$4" "$5"
}

wait_default_account() {
  until_ready "default ServiceAccount" 120 kube-controller-manager admin_kubectl -n default get serviceaccount default
}
