#!/usr/bin/env bash
# gpu_bundle_check.sh BUILD: packs the bundle of a build folder and runs it without our packages'
# libraries: in a chroot with glibc, libstdc++, libgcc_s and a shell's programs. If chroot is not allowed, it runs with an empty environment
# and checks which libraries the loader finds. Exit status 77: skipped, with the reason printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: gpu_bundle_check.sh BUILD}
ours='lib(dnnl|jansson|jpeg|zip|webp|sharpyuv|subunit|gomp|OpenCL)\.so'
if [ ! -e "$build/liblockstep_cuda.so" ]; then
  echo "skipped: $build has no CUDA module; CUDA's toolkit or cuDNN is missing"
  exit 77
fi

fail() {
  echo "gpu_bundle_check.sh: $*" >&2
  exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arch=$(sed -n 's/^LOCKSTEP_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")
XZ_OPT=-1 scripts/gpu_bundle.sh "$work/bundle.tar.xz" --arch "$arch" --build "$build"

# A user's commands; ends at the first failure. Without a driver the smoke stage must report that and fail.
cat >"$work/session.sh" <<'END'
set -euo pipefail
tar xJf bundle.tar.xz
cd bundle
echo "-- the command"
bin/lockstep --version
bin/lockstep demo-data --train 8 --val 2 images
bin/lockstep train --data-dir images --batch-size 16 --steps 5 --model resnet20 --out run
test "$(wc -l <run/metrics.jsonl)" -ge 1
echo "-- CUDA tests on the emulated device"
for test in cuda_device cuda_memory cuda_input cuda_ops cuda_net cuda_fuse cuda_capture cuda_plan; do
  CK_DEFAULT_TIMEOUT=300 LOCKSTEP_CASES_STEP=40 LOCKSTEP_MODULES=$PWD/lib/emulated bin/test_cuda $test
done
echo "-- gpu_check.sh smoke"
status=0
scripts/gpu_check.sh smoke || status=$?
if [ ! -e /proc/driver/nvidia/version ]; then
  test "$status" -eq 1
  grep -q '"part": "driver".*"result": "failed".*no NVIDIA driver' gpu_check/gpu_check.jsonl
fi
grep -q '"part": "end", "result": "done"' gpu_check/gpu_check.jsonl
tar tJf gpu_check.tar.xz | grep gpu_check.txt
echo "-- done"
END

# make_root FOLDER: makes a root folder of the shell's programs with their libraries only.
make_root() {
  local name file
  mkdir -p "$1"/{bin,dev,proc,tmp,home,usr}
  for name in bash env awk basename cat chmod cp cut date dirname getconf grep head ldd ls mkdir mktemp mv nproc readlink rm sed sleep \
    paste sort tail tar tee timeout tr uname wc xargs xz; do
    file=$(command -v "$name") || fail "$name is not installed"
    cp -L "$file" "$1/bin/$name"
  done
  ln -s bash "$1/bin/sh"
  ln -s ../bin "$1/usr/bin"
  while read -r file; do
    mkdir -p "$1${file%/*}"
    cp -L "$file" "$1$file"
  done < <({
    ldd "$1"/bin/* 2>/dev/null || true # some are scripts
    ldd "$build/bench/bench_step" | grep -E '^\s*lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so'
  } | grep -oE '/[^ ]+\.so[^ ]*' | sort -u)
}

# As root, chroot in a separate mount namespace, which ends with its mounts; other users also need a user namespace.
apart=(unshare --mount --fork)
[ "$(id -u)" -eq 0 ] || apart+=(--map-root-user)
if "${apart[@]}" true 2>/dev/null; then
  make_root "$work/root"
  if find "$work/root" | grep -E "$ours"; then fail "the root holds what it must not hold"; fi
  cp "$work/bundle.tar.xz" "$work/session.sh" "$work/root/home"
  # shellcheck disable=SC2016
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${apart[@]}" bash -euc '
    mount --rbind /dev "$1/dev"
    mount --rbind /proc "$1/proc"
    chroot "$1" /bin/env -i PATH=/bin HOME=/home /bin/bash -c "cd /home && . ./session.sh"' - "$work/root"
else
  echo "no mount namespace is allowed here: the system's libraries stay visible"
  (cd "$work" && env -i PATH=/usr/bin:/bin HOME="$work" bash session.sh)
  while read -r library file; do
    [[ ! $library =~ $ours ]] || [[ $file = "$work"/bundle/* ]] || fail "$library is taken from $file, not from the bundle"
  done < <(env -i /usr/bin/ldd "$work"/bundle/bin/* |
    awk -F ' => | [(]0x' '/ => / { sub(/^[ \t]+/, "", $1); print $1, $2 }')
fi
