# shellcheck shell=bash
# Valkey's binaries, taken from Debian's packages without installing any.
#
# apt runs on a configuration of its own (lists, cache, status), whose mirror is
# the one this machine already uses. The system's apt is never changed.

VALKEY9_SUITES="forky sid"
VALKEY9_FLOOR=9.0.1
VALKEY8_SUITES=trixie
VALKEY8_FLOOR=8.1

# debian_mirror prints the URI of the Debian archive among the machine's sources.
debian_mirror() {
  # shellcheck disable=SC2016 # apt's own placeholders
  apt-get indextargets --format '$(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    awk '$1 == "Debian" && $2 == "main" { print $3; exit }'
}

# apt_configure SUITE MIRROR writes the private configuration and prints its path.
apt_configure() {
  local dir=$CACHE/apt/$1 keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
  : >"$dir/status"
  [ -r "$keyring" ] || die "missing: debian-archive-keyring; install with: apt-get update && apt-get install -y debian-archive-keyring"
  echo "deb [signed-by=$keyring] $2 $1 main" >"$dir/sources.list"
  {
    apt-config dump Acquire # proxies and retries of the machine
    cat <<EOF
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$dir/lists";
Dir::State::status "$dir/status";
Dir::Cache "$dir/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
APT::Default-Release "";
EOF
  } >"$dir/apt.conf"
  echo "$dir/apt.conf"
}

# valkey_number PACKAGE_VERSION prints Valkey's own: 1:9.1.2+dfsg1-1 is 9.1.2.
valkey_number() { sed 's/^[0-9]*://; s/[-+~].*//' <<<"$1"; }

# valkey_candidate FLOOR BELOW SUITE.. prints "SUITE PACKAGE_VERSION" of the newest
# valkey-server with FLOOR <= version < BELOW, or nothing.
valkey_candidate() {
  local floor=$1 below=$2 mirror suite conf version best=
  shift 2
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || die "no Debian archive among this machine's apt sources: run apt-get update, on a Debian machine"
  for suite in "$@"; do
    conf=$(apt_configure "$suite" "$mirror")
    say "reading the package list of Debian $suite …"
    APT_CONFIG=$conf apt-get -qq update >&2 || continue
    version=$(APT_CONFIG=$conf apt-cache policy valkey-server | sed -n 's/^  Candidate: //p')
    [[ -n $version && $version != "(none)" ]] || continue
    dpkg --compare-versions "$(valkey_number "$version")" ge "$floor" || continue
    dpkg --compare-versions "$(valkey_number "$version")" lt "$below" || continue
    [ -n "$best" ] && dpkg --compare-versions "$version" le "${best#* }" && continue
    best="$suite $version"
  done
  echo "$best"
}

# valkey_unpack SUITE DIR unpacks Valkey and every library that it may need.
valkey_unpack() {
  local conf=$CACHE/apt/$1/apt.conf debs=$CACHE/apt/$1/debs names deb
  names=$(APT_CONFIG=$conf apt-get -s --no-install-recommends install valkey-server valkey-tools |
    sed -n 's/^Inst \([^ ]*\).*/\1/p' | sed 's/:.*//' | grep -E '^(lib|zlib|valkey)')
  rm -rf "$debs" && mkdir -p "$debs"
  # shellcheck disable=SC2086 # the names are words
  (cd "$debs" && APT_CONFIG=$conf apt-get -qq download $names) || return 1
  for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$2" || return 1; done
  rm -rf "$debs"
}

# copy_needed FROM TO FILE.. copies the shared libraries that the ELF FILEs need,
# and those that these need, from the unpacked packages to the directory TO.
copy_needed() {
  local from=$1 to=$2 queue file name found
  shift 2
  queue=("$@")
  while [ ${#queue[@]} -gt 0 ]; do
    file=${queue[0]} queue=("${queue[@]:1}")
    for name in $(patchelf --print-needed "$file"); do
      [ -e "$to/$name" ] && continue
      found=$(find "$from" -name "$name" -path '*/lib*' | head -n 1)
      [ -n "$found" ] || { say "no package has $name, which $(basename "$file") needs"; return 1; }
      cp -L "$found" "$to/$name" || return 1
      queue+=("$to/$name")
    done
  done
}

# valkey_assemble UNPACKED DIR makes DIR/root, a small root file system for images,
# and DIR/bin, the same programs made to run from here on this machine.
valkey_assemble() {
  local from=$1 dir=$2 program ld lib
  lib=$dir/root/usr/lib/valkey-libs
  mkdir -p "$dir/root/usr/bin" "$lib" "$dir/bin"
  for program in valkey-server valkey-cli valkey-benchmark; do
    cp -L "$from/usr/bin/$program" "$dir/root/usr/bin/$program" || return 1
  done
  copy_needed "$from" "$lib" "$dir"/root/usr/bin/* || return 1
  ld=$(patchelf --print-interpreter "$dir/root/usr/bin/valkey-server")
  [ -e "$lib/${ld##*/}" ] || cp -L "$(find "$from" -name "${ld##*/}" -path '*/lib*' | head -n 1)" "$lib/" || return 1
  for program in "$dir"/root/usr/bin/*; do
    cp "$program" "$dir/bin/"
    patchelf --set-interpreter "$lib/${ld##*/}" --force-rpath --set-rpath "$lib" "$dir/bin/${program##*/}"
    patchelf --set-interpreter "/usr/lib/valkey-libs/${ld##*/}" --force-rpath --set-rpath /usr/lib/valkey-libs "$program"
  done
}

# valkey_fetch MAJOR finds, fetches and assembles; then points $CACHE/valkey/MAJOR at it.
valkey_fetch() {
  local major=$1 suites floor found suite version dir work
  suites=VALKEY${major}_SUITES floor=VALKEY${major}_FLOOR
  # shellcheck disable=SC2086 # suites are words
  found=$(valkey_candidate "${!floor}" $((major + 1)) ${!suites}) || exit 1
  [ -n "$found" ] || die "no Valkey ≥ ${!floor} in Debian's suites (${!suites}): try another mirror in the machine's apt sources"
  suite=${found% *} version=${found#* }
  dir=$CACHE/valkey/$version work=$CACHE/valkey/$version.new
  if ! valkey_runs "$dir"; then
    say "fetching Valkey $(valkey_number "$version") from Debian $suite …"
    rm -rf "$work" "$dir"
    mkdir -p "$work/unpacked"
    valkey_unpack "$suite" "$work/unpacked" || die "cannot fetch Valkey $version from Debian $suite: see above, then try again"
    # patchelf writes absolute paths, so the files must be at their place already.
    mv "$work" "$dir"
    valkey_assemble "$dir/unpacked" "$dir" || die "cannot assemble Valkey $version: see above"
    rm -rf "$dir/unpacked"
    valkey_runs "$dir" || die "Valkey $version does not run on this machine: $("$dir/bin/valkey-server" --version 2>&1)"
  fi
  echo "$version" >"$CACHE/valkey/$major"
  rm -rf "$CACHE/apt" # lists of 60 MB, of no use until the next question
}

valkey_runs() { "$1/bin/valkey-server" --version >/dev/null 2>&1; }

# valkey_dir MAJOR prints the directory of that Valkey, fetching it if needed.
# VALKEY_BED_REFRESH=1 asks the suites again whether there is a newer one.
valkey_dir() {
  local major=$1 pointer=$CACHE/valkey/$1
  case $major in 8 | 9) ;; *) die "valkey: say 8 or 9, not \"$major\"" ;; esac
  if [ -n "${VALKEY_BED_REFRESH:-}" ] || [ ! -f "$pointer" ] || ! valkey_runs "$CACHE/valkey/$(cat "$pointer")"; then
    # shellcheck disable=SC2086 # pairs are words
    need_commands $VALKEY_COMMANDS
    with_lock valkey valkey_fetch "$major" || exit 1
  fi
  echo "$CACHE/valkey/$(cat "$pointer")"
}
