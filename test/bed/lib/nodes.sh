# shellcheck shell=bash
# Nodes: namespaces that look like a machine to containerd, kubelet and kube-proxy.
#
#   hub   172.30.0.1   bridge br0, control plane, CoreDNS
#   nI    172.30.0.(10+I), pods 10.88.I.0/24, zone-I

HUB_IP=172.30.0.1
DNS_IP=10.96.0.10
CGROUP_CONTROLLERS="cpu cpuacct cpuset memory devices freezer blkio pids systemd"
MAX_NODES=9

node_ip() { echo "172.30.0.$((10 + $1))"; }

# need_cgroups stops on a layout on which nodes were never tested.
need_cgroups() {
  local controller
  if [ "$(stat -fc %T /sys/fs/cgroup 2>/dev/null)" = cgroup2fs ]; then
    die "this machine has pure cgroup v2; nodes were only tested on v1 and hybrid: boot with systemd.unified_cgroup_hierarchy=0, or use up --api-only"
  fi
  for controller in $CGROUP_CONTROLLERS; do
    [ -e "/sys/fs/cgroup/$controller/cgroup.procs" ] ||
      die "no cgroup v1 controller \"$controller\" at /sys/fs/cgroup/$controller: nodes cannot run here, use up --api-only"
  done
  [ -w /sys/fs/cgroup/memory ] || die "/sys/fs/cgroup is read-only (a container without privileges?): nodes cannot run here, use up --api-only"
}

# make_cgroups nI makes the node's own group in every hierarchy, below the group of
# this shell where that is visible, and lists them in the node's file "cgroups".
make_cgroups() {
  local controller base group name
  name=valkey-bed-$(cksum <<<"$RUN" | cut -d' ' -f1)-$1 # two run directories may hold a bed of one name
  for controller in $CGROUP_CONTROLLERS; do
    base=/sys/fs/cgroup/$controller
    group=$(awk -F: -v c="$controller" '{ k = split($2, a, ","); for (i = 1; i <= k; i++) if (a[i] == c || a[i] == "name=" c) print $3 }' /proc/self/cgroup)
    [ -d "$base$group" ] && base=$base${group%/}
    group=$base/$name
    echo "$group" >>"$RUN/$1/cgroups"
    mkdir -p "$group"
    if [ "$controller" = cpuset ]; then # empty in a new group, and then nothing may join
      cat "$base/cpuset.cpus" >"$group/cpuset.cpus"
      cat "$base/cpuset.mems" >"$group/cpuset.mems"
    fi
  done
}

join_cgroups() {
  local group
  while read -r group; do echo "$BASHPID" >"$group/cgroup.procs"; done <"$RUN/$1/cgroups"
}

# in_node nI CMD.. runs CMD in all namespaces of the node.
in_node() {
  local init
  init=$(cat "$RUN/$1/init")
  shift
  nsenter -t "$init" --net --mount --cgroup --uts --ipc --pid -- "$@"
}

# node_daemon nI NAME CMD.. starts CMD as part of the node, in its cgroups.
node_daemon() {
  local node=$1 name=$2 init
  shift 2
  init=$(cat "$RUN/$node/init")
  (
    join_cgroups "$node"
    daemon "$RUN/pids/$node.$name" "$RUN/log/$node.$name.log" \
      nsenter -t "$init" --net --mount --cgroup --uts --ipc --pid -- "$@"
  )
}

make_hub() {
  : >"$RUN/hub.net"
  unshare --net="$RUN/hub.net" true || die "cannot make a network namespace: is this a container without privileges?"
  hub sh -ec "
    ip link set lo up
    ip link add br0 type bridge
    ip addr add $HUB_IP/24 dev br0
    ip link set br0 up
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 0 >/proc/sys/net/ipv4/conf/all/send_redirects
    echo 0 >/proc/sys/net/ipv4/conf/br0/send_redirects"
  printf 'nameserver %s\nsearch default.svc.cluster.local svc.cluster.local cluster.local\n' "$HUB_IP" >"$RUN/hub.resolv.conf"
}

# make_node I makes the namespaces of node I and plugs it into the hub.
make_node() {
  local node=n$1 dir=$RUN/n$1 holder
  mkdir -p "$dir"
  make_cgroups "$node"
  (
    join_cgroups "$node"
    NODE=$node NODE_DIR=$dir CONTROLLERS=$CGROUP_CONTROLLERS KEEP="$REPO_DIR $CACHE $RUN" \
      daemon "$RUN/pids/$node" "$RUN/log/$node.log" \
      unshare --net --mount --cgroup --uts --ipc --pid --fork --kill-child --propagation private --mount-proc \
      bash "$BED_DIR/lib/holder.sh"
  )
  until_ready "node $node" 60 "$node" test -f "$dir/ready"
  holder=$(cat "$RUN/pids/$node")
  tr -d ' ' <"/proc/$holder/task/$holder/children" >"$dir/init"
  hub ip link add "v$node" type veth peer name eth0 netns "$(cat "$dir/init")"
  hub sh -ec "ip link set v$node master br0 up; ip route add 10.88.$1.0/24 via $(node_ip "$1")"
  in_node "$node" sh -ec "ip addr add $(node_ip "$1")/24 dev eth0; ip link set eth0 up; ip route add default via $HUB_IP"
}

write_containerd_config() { # I
  local dir=$RUN/n$1
  mkdir -p "$dir/cni"
  cat >"$dir/cni/10-bed.conflist" <<EOF
{"cniVersion": "1.0.0", "name": "bed", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$dir/data/cni",
    "ranges": [[{"subnet": "10.88.$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOF
  cat >"$dir/containerd.toml" <<EOF
version = 2
root = "$dir/data/containerd"
state = "/run/containerd"
[plugins."io.containerd.internal.v1.opt"]
path = "$dir/data/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "$PAUSE_IMAGE"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$CNI_BIN"
conf_dir = "$dir/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
EOF
}

write_kubelet_config() { # I
  local dir=$RUN/n$1 pki=$RUN/pki
  cat >"$dir/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, x509: {clientCAFile: $pki/ca.crt}, webhook: {enabled: true}}
authorization: {mode: Webhook}
tlsCertFile: $pki/n$1.crt
tlsPrivateKeyFile: $pki/n$1.key
clusterDomain: cluster.local
clusterDNS: [$DNS_IP]
resolvConf: /run/resolv.conf
syncFrequency: 5s
serializeImagePulls: false
failSwapOn: false
makeIPTablesUtilChains: false
oomScoreAdj: 0
readOnlyPort: 0
podLogsDir: $dir/data/podlogs
volumePluginDir: $dir/data/volumeplugins
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
EOF
  cat >"$dir/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: n$1
clientConnection: {kubeconfig: $pki/admin.kubeconfig}
clusterCIDR: 10.88.0.0/16
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
EOF
}

# start_node I starts containerd, loads the images, starts kubelet and kube-proxy.
start_node() {
  local node=n$1 dir=$RUN/n$1
  write_containerd_config "$1"
  write_kubelet_config "$1"
  node_daemon "$node" containerd "$(command -v containerd)" -c "$dir/containerd.toml"
  until_ready "containerd of $node" 120 "$node.containerd" in_node "$node" ctr version
  load_images "$node" || exit 1
  node_daemon "$node" kubelet "$KUBE_BIN/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$RUN/pki/$node.kubeconfig" \
    --root-dir="$dir/data/kubelet" --cert-dir="$dir/data/pki" --hostname-override="$node" --node-ip="$(node_ip "$1")" \
    --node-labels="topology.kubernetes.io/zone=zone-$1" --v=1
  node_daemon "$node" kube-proxy "$KUBE_BIN/kube-proxy" --config="$dir/kube-proxy.yaml"
}

# start_dns runs CoreDNS in the hub, behind a Service without a selector.
start_dns() {
  cat >"$RUN/Corefile" <<EOF
.:53 {
  bind $HUB_IP
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $RUN/pki/admin.kubeconfig
    ttl 5
  }
}
EOF
  hub_daemon coredns "$COREDNS_BIN/coredns" -conf "$RUN/Corefile"
  admin_kubectl apply -f - >/dev/null <<EOF
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: $DNS_IP
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 53}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 53}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-hub, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports:
- {name: dns, port: 53, protocol: UDP}
- {name: dns-tcp, port: 53, protocol: TCP}
endpoints: [{addresses: [$HUB_IP], conditions: {ready: true}}]
EOF
}

nodes_ready() { [ "$(admin_kubectl get nodes --no-headers 2>/dev/null | grep -cw Ready)" = "$1" ]; }
