# packages.sh: sourced by the scripts beside it: the Debian packages that each of them needs.
# shellcheck shell=bash

# Bash has a default where the environment has none; CMake, which would not find its own files, does not.
export PATH
# Open MPI 5 requires it, too.
export HOME=~

# To build what is installed, and run it.
demo_packages=(gcc libc6-dev cmake ninja-build pkg-config libjpeg62-turbo-dev zlib1g-dev libstb-dev libxxhash-dev
  libjansson-dev libwebp-dev)
# To build all, and run the tests.
build_packages=("${demo_packages[@]}" g++ check libzip-dev xz-utils libdnnl-dev libprotobuf-c-dev protobuf-c-compiler
  libopenmpi-dev openmpi-bin)

# To build Debian packages.
# shellcheck disable=SC2034
deb_packages=("${build_packages[@]}" build-essential debhelper lintian)

# To build for arm64 and run that under emulation.
# shellcheck disable=SC2034
arm64_packages=("${build_packages[@]}" gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user
  {libc6-dev,libjpeg62-turbo-dev,zlib1g-dev,libjansson-dev,libzip-dev,libwebp-dev,check,libprotobuf-c-dev}:arm64)

# The clang of this release of Debian; elsewhere the newest that is installed.
# shellcheck disable=SC1091
case $(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") in
  'debian 12') clang_version=14 ;;
  'debian 13') clang_version=19 ;;
  *) clang_version=$(compgen -c clang- | grep -xE 'clang-[0-9]+' | sed 's/clang-//' | sort -n | tail -1) ;;
esac
clang_version=${clang_version:-19}
# The version whose formatting is the project's: others differ. Debian 13 does not have it.
clang_format_version=14
# To pack a bundle for a machine with a GPU.
# shellcheck disable=SC2034
bundle_packages=("${build_packages[@]}" patchelf)
# For fuzzing.
# shellcheck disable=SC2034
fuzz_packages=("${build_packages[@]}" "clang-$clang_version" "libclang-rt-$clang_version-dev")
# For the stricter checks.
# shellcheck disable=SC2034
check_packages=("${fuzz_packages[@]}" patchelf shellcheck git locales valgrind abigail-tools doxygen)
[ "$clang_version" -ne "$clang_format_version" ] || check_packages+=("clang-format-$clang_format_version")

# apt_get AS-ROOT... -- ARGUMENT...: while another program, such as an automatic upgrade, holds a lock of apt or dpkg, again
# every 5 seconds, for 5 minutes. Its output is printed if it fails.
apt_get() {
  local as_root=() output status n
  while [ "$1" != -- ]; do
    as_root+=("$1")
    shift
  done
  for ((n = 0; n < 60; n++)); do
    output=$("${as_root[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq "${@:2}" 2>&1) && return
    status=$?
    grep -qE 'Could not get lock|Unable to (acquire the dpkg frontend lock|lock )' <<<"$output" || break
    [ $n -gt 0 ] || echo "waiting, for at most 5 minutes: another program installs packages$(sed -n 's/.*It is held by/:/p' <<<"$output" | head -n 1)"
    sleep 5
  done
  printf '%s\n' "$output" >&2
  return "$status"
}

# is_installed NAME[:ARCHITECTURE]: for the machine's own architecture, unless another is named.
is_installed() {
  local architecture
  architecture=$(dpkg --print-architecture)
  [[ $1 != *:* ]] || architecture=${1#*:}
  dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null | grep -qxE "(all|$architecture) installed"
}

# need_packages NAME...: installs those that are missing. Nothing is touched when all are there.
need_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "Not a Debian system: these must be here under their own names: $*" >&2
    return 0
  fi
  local missing=() name
  for name in "$@"; do
    is_installed "$name" || missing+=("$name")
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
  if ! { apt_get "${as_root[@]}" -- update &&
    apt_get "${as_root[@]}" -- install -y --no-install-recommends "${missing[@]}"; }; then
    echo "Could not install packages. As root:" >&2
    echo "  apt-get install ${missing[*]}" >&2
    return 1
  fi
}

# cuda_architecture: that of this machine's GPU, or 90.
cuda_architecture() {
  local here
  here=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ' || true)
  echo "${here:-90}"
}

# build_in FOLDER [cmake argument...] [-- target...]: configures and builds these, or all. A new folder uses Ninja, and its CUDA module
# has code for one architecture.
build_in() {
  local folder=$1 arguments=() generator=() targets=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    arguments+=("$1")
    shift
  done
  [ $# -lt 2 ] || targets=(--target "${@:2}")
  [ -f "$folder/CMakeCache.txt" ] || generator=(-G Ninja "-DLOCKSTEP_CUDA_ARCHITECTURES=$(cuda_architecture)")
  if ! mkdir -p "$folder" 2>/dev/null || [ ! -w "$folder" ]; then
    echo "$PWD/$folder can't be written, but these scripts build there. To build in another folder:" >&2
    echo "  cmake -S '$PWD' -B FOLDER -G Ninja && cmake --build FOLDER" >&2
    return 1
  fi
  echo "configuring $folder"
  if ! cmake -S . -B "$folder" "${generator[@]}" "${arguments[@]}" >"$folder/configure.log" 2>&1; then
    cat "$folder/configure.log" >&2
    return 1
  fi
  cmake --build "$folder" --parallel "${targets[@]}"
}

# build_with_sanitizers TARGET...: clang's warnings as errors, address and undefined-behaviour sanitizers, assertions, and libFuzzer, in
# build/fuzz. The kernels of CUDA, which nvcc compiles, are there for the emulated device only.
build_with_sanitizers() {
  build_in build/fuzz -DCMAKE_C_COMPILER="clang-$clang_version" -DCMAKE_CXX_COMPILER="clang++-$clang_version" \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1\ -g -DLOCKSTEP_FUZZ=ON -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_WERROR=ON \
    -- "$@"
}

# run_tests FOLDER [ctest argument...]: runs the tests of a build, then lists what was skipped. More run at a time than there are
# processors, because some wait for disks or for other processes.
run_tests() {
  local status=0
  ctest --test-dir "$1" --output-on-failure --no-tests=error --parallel $(($(nproc) + 2)) "${@:2}" || status=$?
  scripts/skipped.sh "$1"
  return "$status"
}
