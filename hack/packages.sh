#!/usr/bin/env bash
# Installs the Debian packages that the bed, the tests and the linters need and this machine
# lacks; silent where nothing is missing.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

packages="make gcc libc6-dev git curl openssl procps iproute2 util-linux containerd runc containernetworking-plugins
  nftables busybox-static patchelf shellcheck debian-archive-keyring ca-certificates"

fail() {
  echo "packages: $*" >&2
  exit 1
}

# twice COMMAND.. tries it once more: mirrors are busy at times.
twice() { "$@" || { sleep 5 && "$@"; }; }

command -v apt-get >/dev/null || fail "this needs Debian 12 or newer: apt-get is not on the PATH"
missing=()
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done

# The package lists are needed even when nothing is missing: the bed finds its mirror in them.
lists=$(find /var/lib/apt/lists -name '*Packages*' -print -quit 2>/dev/null || true)
if [ ${#missing[@]} -eq 0 ] && [ -n "$lists" ]; then
  exit 0
fi
[ "$(id -u)" = 0 ] || fail "only root can install ${missing[*]:-the package lists}: run this as root"
twice apt-get -qq update || fail "apt-get update failed: see above"
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  twice apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null || fail "apt-get install failed: see above"
fi
