# shellcheck shell=bash
# Container images, made without a registry: OCI archives from plain directories,
# cached by their content, imported into every node.

PAUSE_IMAGE=valkey.test/pause:1
VALKEY_REPO=valkey.test/valkey
CLIENT_IMAGE=valkey.test/client:1
OPERATOR_IMAGE=valkey.test/valkey-operator:dev
IMAGE_NAMES="pause valkey valkey-b valkey8 client operator"

# image_archive NAME ROOT CONFIG REF.. writes ROOT as an OCI archive to the cache,
# unless the same is there, and notes its path in $RUN/images/NAME.
image_archive() {
  local name=$1 root=$2 config=$3 work key out
  shift 3
  work=$(mktemp -d -p "$CACHE" image.XXXXXX)
  mkdir -p "$work/blobs/sha256" "$CACHE/images" "$RUN_IMAGES"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$root" -cf "$work/layer" . || return 1
  key=$({ cat "$work/layer" && echo "$config $*"; } | sha256sum | cut -c1-24)
  out=$CACHE/images/$name-$key.tar
  if [ ! -f "$out" ]; then
    write_oci_layout "$work" "$config" "$@" || return 1
    tar -C "$work" -cf "$work/archive" oci-layout index.json blobs && mv "$work/archive" "$out" || return 1
    forget_old_archives "$name"
  fi
  rm -rf "$work"
  echo "$out" >"$RUN_IMAGES/$name"
}

# forget_old_archives NAME keeps the five newest; nodes have imported what they need.
forget_old_archives() {
  local file
  # shellcheck disable=SC2012 # our own names: no blanks, no newlines
  ls -t "$CACHE/images/$1"-????????????????????????.tar | tail -n +6 | while read -r file; do rm -f "$file"; done
}

# blob WORK FILE moves FILE among the blobs and prints its descriptor's digest and size.
blob() {
  local digest size
  digest=$(sha256sum "$2" | cut -d' ' -f1)
  size=$(stat -c %s "$2")
  mv "$2" "$1/blobs/sha256/$digest"
  printf '"digest":"sha256:%s","size":%s' "$digest" "$size"
}

# write_oci_layout WORK CONFIG REF.. turns WORK/layer into an OCI image layout.
write_oci_layout() {
  local work=$1 config=$2 type=application/vnd.oci.image diff layer descriptor ref list=
  shift 2
  diff=$(sha256sum "$work/layer" | cut -d' ' -f1)
  layer=$(blob "$work" "$work/layer")
  printf '{"architecture":"%s","os":"linux","config":{%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$(dpkg --print-architecture)" "$config" "$diff" >"$work/config"
  printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json",%s},"layers":[{"mediaType":"%s.layer.v1.tar",%s}]}' \
    $type $type "$(blob "$work" "$work/config")" $type "$layer" >"$work/manifest"
  descriptor=$(blob "$work" "$work/manifest")
  for ref in "$@"; do
    list="$list${list:+,}{\"mediaType\":\"$type.manifest.v1+json\",$descriptor,\"annotations\":{\"io.containerd.image.name\":\"$ref\"}}"
  done
  printf '{"imageLayoutVersion":"1.0.0"}' >"$work/oci-layout"
  printf '{"schemaVersion":2,"manifests":[%s]}' "$list" >"$work/index.json"
}

# scratch_root PASSWD_LINE GROUP_LINE prints a new directory with what every image has.
scratch_root() {
  local root
  root=$(mktemp -d -p "$CACHE" root.XXXXXX)
  mkdir -p "$root"/{etc,proc,sys,dev,run,tmp}
  chmod 755 "$root"
  chmod 1777 "$root/tmp"
  printf 'root:x:0:0:root:/:/bin/sh\n%s\n' "$1" >"$root/etc/passwd"
  printf 'root:x:0:\n%s\n' "$2" >"$root/etc/group"
  echo "$root"
}

# go_static OUT PACKAGE builds a program of this clone without cgo, with the user's own build cache.
go_static() {
  local version
  version=$(git -C "$REPO_DIR" describe --tags --always --dirty 2>/dev/null || echo dev)
  CGO_ENABLED=0 go build -C "$REPO_DIR" -buildvcs=false -trimpath -ldflags "-s -w -X main.version=$version" -o "$1" "$2" >&2
}

image_pause() {
  local root
  root=$(scratch_root pause:x:65535:65535:pause:/: pause:x:65535:)
  go_static "$root/pause" ./test/bed/pause || { rm -rf "$root"; return 1; }
  image_archive pause "$root" '"Entrypoint":["/pause"],"User":"65535:65535"' $PAUSE_IMAGE
  rm -rf "$root"
}

# image_of_valkey NAME MAJOR EXTRA_CONFIG TAG..
image_of_valkey() {
  local name=$1 major=$2 extra=$3 dir root tag refs=()
  shift 3
  dir=$(valkey_dir "$major") || return 1
  root=$(scratch_root valkey:x:999:999:valkey:/data:/ valkey:x:999:)
  cp -a "$dir/root/." "$root/"
  mkdir -p "$root/data" "$root/var/lib/valkey"
  chmod 1777 "$root/data" "$root/var/lib/valkey"
  for tag in "$@"; do refs+=("$VALKEY_REPO:$tag"); done
  image_archive "$name" "$root" "\"Env\":[\"PATH=/usr/bin\"],\"Entrypoint\":[\"/usr/bin/valkey-server\"],\"User\":\"999:999\",\"WorkingDir\":\"/data\"$extra" "${refs[@]}"
  rm -rf "$root"
}

# valkey_version MAJOR prints Valkey's own version, 9.1.2.
valkey_version() {
  local dir
  dir=$(valkey_dir "$1") || return 1
  valkey_number "$(basename "$dir")"
}

image_valkey() {
  local version
  version=$(valkey_version 9) || return 1
  image_of_valkey valkey 9 "" "${version%.*}" "$version"
}

# A label makes the second image another image, so that a node tells the two apart.
image_valkey-b() {
  local version
  version=$(valkey_version 9) || return 1
  image_of_valkey valkey-b 9 ',"Labels":{"variant":"b"}' "${version%.*}-b"
}

image_valkey8() {
  local version
  version=$(valkey_version 8) || return 1
  image_of_valkey valkey8 8 "" "${version%.*}" "$version"
}

# The client has a shell for the curious, and the Go test client as /usr/bin/client.
image_client() {
  local root dir applet
  dir=$(valkey_dir 9) || return 1
  root=$(scratch_root client:x:65532:65532:client:/tmp:/bin/sh client:x:65532:)
  cp -a "$dir/root/." "$root/"
  rm "$root/usr/bin/valkey-server"
  cp "$(command -v busybox)" "$root/usr/bin/busybox"
  for applet in $("$root/usr/bin/busybox" --list); do
    [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"
  done
  ln -s usr/bin "$root/bin"
  go_static "$root/usr/bin/client" ./test/client || { rm -rf "$root"; return 1; }
  image_archive client "$root" '"Env":["PATH=/usr/bin"],"Cmd":["sleep","1000000"],"User":"65532:65532","WorkingDir":"/tmp"' $CLIENT_IMAGE
  rm -rf "$root"
}

image_operator() {
  local root
  root=$(scratch_root operator:x:65532:65532:operator:/: operator:x:65532:)
  go_static "$root/valkey-operator" ./cmd/valkey-operator || { rm -rf "$root"; return 1; }
  image_archive operator "$root" '"Entrypoint":["/valkey-operator"],"User":"65532:65532"' $OPERATOR_IMAGE
  rm -rf "$root"
}

# build_image NAME builds one image and tells how long it took.
build_image() {
  local start
  start=$(now_ms)
  RUN_IMAGES=$RUN/images
  # What a killed build left behind; no build takes an hour.
  find "$CACHE" -maxdepth 1 -type d \( -name 'root.*' -o -name 'image.*' \) -mmin +60 -exec rm -rf {} +
  "image_$1" || return 1
  say "image $1: $(seconds_since "$start"), $(du -h "$(cat "$RUN/images/$1")" | cut -f1)"
}

# build_images builds all and prints the names of those that it could not: the
# programs of this clone may not compile just now, and a bed can do without them.
build_images() {
  local name
  go_needed
  need_commands busybox=busybox-static patchelf=patchelf
  for name in $IMAGE_NAMES; do
    build_image "$name" && continue
    case $name in
    client | operator)
      rm -f "$RUN/images/$name"
      echo "$name"
      ;;
    *) die "cannot build the image $name: see above" ;;
    esac
  done
  write_images_env
}

write_images_env() {
  local nine eight
  nine=$(valkey_version 9) && eight=$(valkey_version 8) || exit 1
  cat >"$RUN/images.env" <<EOF
VALKEY_IMAGE_REPO=$VALKEY_REPO
VALKEY_TAG_A=${nine%.*}
VALKEY_TAG_B=${nine%.*}-b
VALKEY_VERSION=$nine
VALKEY8_TAG=${eight%.*}
VALKEY8_VERSION=$eight
CLIENT_IMAGE=$CLIENT_IMAGE
OPERATOR_IMAGE=$OPERATOR_IMAGE
EOF
}

# import_image nI FILE imports an OCI archive unless this very file is there.
import_image() {
  local mark
  mark=$RUN/$1/imported/$(basename "$2" .tar).$(stat -c '%s.%Y' "$2")
  [ -e "$mark" ] && return
  mkdir -p "$RUN/$1/imported"
  in_node "$1" ctr -n k8s.io images import - <"$2" >"$RUN/log/$1.import.log" 2>&1 || {
    tail -n 5 "$RUN/log/$1.import.log" >&2
    die "cannot import $2 into $1: see above"
  }
  : >"$mark"
}

# load_images nI imports all that are built.
load_images() {
  local file
  for file in "$RUN"/images/*; do import_image "$1" "$(cat "$file")"; done
}

# import_everywhere FILE imports into all nodes at once.
import_everywhere() {
  local i start pid pids=()
  start=$(now_ms)
  for i in $(seq "$(bed_mode)"); do
    import_image "n$i" "$1" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || exit 1; done
  say "loaded into $(bed_mode) nodes: $(seconds_since "$start")"
}
