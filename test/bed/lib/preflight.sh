# shellcheck shell=bash
# What a machine must have before the bed touches anything.

# need_plain_paths refuses what would be read as two words, or as another directory.
need_plain_paths() {
  local path
  [[ $BED_NAME =~ ^[a-z0-9][a-z0-9-]{0,30}$ ]] || die "BED_NAME is \"$BED_NAME\": use up to 31 of a-z, 0-9 and -"
  for path in "$REPO_DIR" "$CACHE" "$RUN"; do
    [[ $path =~ ^/[A-Za-z0-9._/+@-]*$ ]] || die "the path \"$path\" is not absolute or has blanks or signs in it: use another place (VALKEY_BED_CACHE, VALKEY_BED_RUN, or the clone's)"
  done
}

need_root() {
  [ "$(id -u)" = 0 ] || die "must run as root (namespaces, mounts, cgroups): sudo -E $0 …"
}

# need_commands COMMAND=PACKAGE.. names every missing package at once.
need_commands() {
  local pair missing=
  for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || [[ " $missing " == *" ${pair#*=} "* ]] || missing="$missing ${pair#*=}"
  done
  [ -z "$missing" ] || die "missing:$missing; install with: apt-get update && apt-get install -y --no-install-recommends$missing"
}

VALKEY_COMMANDS="apt-get=apt dpkg-deb=dpkg patchelf=patchelf flock=util-linux"
API_COMMANDS="openssl=openssl curl=curl flock=util-linux setsid=util-linux"
CNI_BIN=/usr/lib/cni
NODE_COMMANDS="containerd=containerd ctr=containerd runc=runc nft=nftables ip=iproute2 nsenter=util-linux unshare=util-linux
  busybox=busybox-static $CNI_BIN/bridge=containernetworking-plugins"
