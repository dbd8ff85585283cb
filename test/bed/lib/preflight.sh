# shellcheck shell=bash
# What a machine must have before the bed touches anything.

need_root() {
  [ "$(id -u)" = 0 ] || die "must run as root (namespaces, mounts, cgroups): sudo -E $0 …"
}

# need_commands COMMAND=PACKAGE.. names every missing package at once.
need_commands() {
  local pair missing=
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || missing="$missing ${pair#*=}"
  done
  [ -z "$missing" ] || die "missing:$missing; install with: apt-get update && apt-get install -y --no-install-recommends$missing"
}

VALKEY_COMMANDS="apt-get=apt dpkg-deb=dpkg patchelf=patchelf flock=util-linux"
API_COMMANDS="openssl=openssl curl=curl flock=util-linux setsid=util-linux"
NODE_COMMANDS="containerd=containerd ctr=containerd runc=runc nft=nftables ip=iproute2 nsenter=util-linux unshare=util-linux
  busybox=busybox-static"
