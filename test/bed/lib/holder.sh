#!/usr/bin/env bash
# The first process of a node, in net, mount, cgroup, uts, ipc and pid namespaces
# of its own. It gives the node file systems that it may write to, tells that it
# is ready, and then only reaps. All of the node dies with it.
#
# environment: NODE, NODE_DIR, KEEP (directories that must stay visible), CONTROLLERS
set -euo pipefail
umask 022
hostname "$NODE"
ip link set lo up
mount -t sysfs sysfs /sys

# cgroup v1: the same hierarchies, seen from this node's own groups.
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
for controller in $CONTROLLERS; do
  mkdir -p "/sys/fs/cgroup/$controller"
  case $controller in
  systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd ;;
  *) mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" ;;
  esac
done

# kubelet, containerd and CNI write to these: let them write to the node's own.
for dir in var/lib var/log usr/libexec opt etc; do
  mkdir -p "/$dir" "$NODE_DIR/overlay/$dir/upper" "$NODE_DIR/overlay/$dir/work"
  mount -t overlay -o "lowerdir=/$dir,upperdir=$NODE_DIR/overlay/$dir/upper,workdir=$NODE_DIR/overlay/$dir/work" overlay "/$dir"
done

# A private /run and /tmp must not hide the clone, the cache and the run directory.
mkdir -p "$NODE_DIR/run" "$NODE_DIR/kept"
index=0
for dir in $KEEP; do
  index=$((index + 1))
  mkdir "$NODE_DIR/kept/$index"
  mount --bind "$dir" "$NODE_DIR/kept/$index"
done
here=$NODE_DIR/kept
exec 8<"$here" # still reaches the kept directories once /tmp or /run are covered
mount --bind "$NODE_DIR/run" /run
mount -t tmpfs -o mode=1777 tmp /tmp
index=0
for dir in $KEEP; do
  index=$((index + 1))
  case $dir in
  /tmp/* | /run/*)
    mkdir -p "$dir"
    mount --bind "/proc/self/fd/8/$index" "$dir"
    ;;
  esac
done
exec 8<&-

# kubelet sets these for the whole machine: let it write to files instead.
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  name=${pair%=*}
  echo "${pair#*=}" >"/run/sysctl.${name//\//_}"
  mount --bind "/run/sysctl.${name//\//_}" "/proc/sys/$name"
done

# No resolver: a name that is not in the cluster fails at once.
: >/run/resolv.conf
mount --bind /run/resolv.conf "$(readlink -f /etc/resolv.conf)"

echo 1 >/proc/sys/net/ipv4/ip_forward
: >"$NODE_DIR/ready"
while :; do
  sleep 3600 &
  wait $!
done
