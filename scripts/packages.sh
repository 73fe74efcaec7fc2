# packages.sh: sourced by the scripts beside it: the Debian packages that each of them needs.
# shellcheck shell=bash

# To build and run the tests.
build_packages=(gcc g++ libc6-dev cmake ninja-build pkg-config libdnnl-dev libjpeg62-turbo-dev zlib1g-dev libstb-dev
  libxxhash-dev libjansson-dev libzip-dev check xz-utils libopenmpi-dev openmpi-bin)
# To pack a bundle for a machine with a GPU.
# shellcheck disable=SC2034
bundle_packages=("${build_packages[@]}" patchelf)
# For fuzzing.
# shellcheck disable=SC2034
fuzz_packages=("${build_packages[@]}" clang-14 libclang-rt-14-dev)
# For the stricter checks.
# shellcheck disable=SC2034
check_packages=("${build_packages[@]}" clang-14 libclang-rt-14-dev clang-format-14 shellcheck git
  locales)

# need_packages NAME...: installs those that are missing. Nothing is touched when all are there.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian system: these must be here under their own names: $*" >&2
    return 0
  fi
  local missing=() name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0

  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Missing packages, and neither root nor sudo to install them. As root:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing: ${missing[*]}"
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
      "${missing[@]}" >/dev/null; }; then
    echo "Could not install packages. As root:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    return 1
  fi
}

# build_in FOLDER [cmake argument...] [-- target...]: configures (with Ninja when the folder is new) and builds these, or
# all.
build_in() {
  local folder=$1 arguments=() generator=() targets=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    arguments+=("$1")
    shift
  done
  [ $# -lt 2 ] || targets=(--target "${@:2}")
  [ -f "$folder/CMakeCache.txt" ] || generator=(-G Ninja)
  mkdir -p "$folder"
  echo "configuring $folder"
  if ! cmake -S . -B "$folder" "${generator[@]}" "${arguments[@]}" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    return 1
  fi
  cmake --build "$folder" --parallel "${targets[@]}"
}
