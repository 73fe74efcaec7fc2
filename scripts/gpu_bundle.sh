#!/usr/bin/env bash
# gpu_bundle.sh OUT.tar.xz [--arch 90] [--build DIR]: packs a bundle to run, check and measure Lockstep on a Linux machine with a GPU,
# without a compiler and without our packages. It contains the command, the shared library, the CUDA module for one architecture
# (and its PTX), benchmarks, CUDA tests, the emulated CUDA module, scripts/gpu_check.sh, and every shared library except those of
# glibc, of the C++ compiler and of CUDA, which that machine must have (scripts/cuda_libraries.sh).
#
# Builds in build/bundle. --build packs an existing build folder, made for that architecture. XZ_OPT sets the compression [-T0 -6].
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

most_mib=60
glibc=2.36 # Debian 12's
# Libraries that the bundle leaves out: those of every Linux machine and CUDA's.
foreign='^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s|cuda|cudart|cudnn.*|cublas.*|nvrtc.*|nvidia-.*))\.so'

fail() {
  echo "gpu_bundle.sh: $*" >&2
  exit 1
}

out="" arch=90 build=""
while [ $# -gt 0 ]; do
  case $1 in
    --arch | --build)
      [ $# -gt 1 ] || fail "$1 requires a value"
      declare "${1#--}=$2"
      shift
      ;;
    -*) fail "unknown option '$1'" ;;
    *) out=$1 ;;
  esac
  shift
done
[[ $out = *.tar.xz ]] || fail "expected the name of an archive, OUT.tar.xz, not '$out'"
[[ $arch =~ ^[0-9]+$ ]] || fail "--arch requires a number such as 90, not '$arch'"

need_packages "${bundle_packages[@]}"
if [ -z "$build" ]; then
  build=build/bundle
  build_in "$build" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=ON -DLOCKSTEP_CUDA_ARCHITECTURES="$arch" \
    -- lockstep_product lockstep_product_cuda bench/all tests/cuda/all
fi

# ---- Checks of the build folder ----

[ -e "$build/liblockstep_cuda.so" ] || fail "$build has no CUDA module: was the CUDA toolkit found?"
[ -e "$build/tests/cuda/modules/liblockstep_cuda.so" ] || fail "$build has no emulated CUDA module: was a C++ compiler found?"
built_for=$(sed -n 's/^LOCKSTEP_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")
[ "$built_for" = "$arch" ] || fail "$build is for the architectures '$built_for', expected '$arch'"

# ---- Packing ----

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=$(basename "$out" .tar.xz)
root=$work/$name
mkdir -p "$root"/{bin,lib/emulated,bench,scripts,share}
# Only the tests that run on a GPU or on the emulated device.
mapfile -t programs < <(find "$build/lockstep" "$build/bench" -maxdepth 1 -type f -perm -u+x ! -name '*.so*' | sort)
for name_of_test in device_json philox_curand test_cuda; do
  [ ! -x "$build/tests/cuda/$name_of_test" ] || programs+=("$build/tests/cuda/$name_of_test")
done
cp "${programs[@]}" "$root/bin"
cp -P "$build"/liblockstep.so* "$build/liblockstep_cuda.so" "$root/lib"
cp "$build/tests/cuda/modules/liblockstep_cuda.so" "$root/lib/emulated"
while read -r library file; do
  [[ $library =~ $foreign ]] && continue
  [ -e "$file" ] || fail "$library, which the programs need, is not found"
  cp -L "$file" "$root/lib/$library"
done < <(find "$root/bin" "$root/lib" -type f -exec ldd {} + 2>/dev/null |
  awk -F ' => | [(]0x' '/ => / { sub(/^[ \t]+/, "", $1); print $1, $2 }' | sort -u | grep -v '^liblockstep')
# Open MPI consists of many files, and must be installed.
[ ! -e "$build/liblockstep_mpi.so" ] || cp "$build/liblockstep_mpi.so" "$root/lib"
find "$root/bin" "$root/lib" -type f -exec strip --strip-unneeded {} +
# A program in bin/ finds its shared libraries, and those that they need, in lib/. DT_RPATH is required: DT_RUNPATH does not serve the
# libraries of libraries.
# shellcheck disable=SC2016 # the loader expands $ORIGIN
find "$root/bin" "$root/lib" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN/../lib' {} +

cp -r scripts/gpu_check.sh scripts/gpu_check scripts/cuda_libraries.sh "$root/scripts"
cp bench/versus_pytorch.py bench/torch_side.py "$root/bench"
cp tests/cuda/h200.json "$root/share"
scripts/gpu_check/parts.sh kernels . >"$root/share/kernels.txt"
commit=$(cat "$build/COMMIT")
cp "$build/COMMIT" "$root"
cat >"$root/README" <<END
Lockstep $("$build/lockstep" --version | sed 's/^lockstep //'), commit $commit, CUDA module for sm_$arch.
For Linux on x86-64 with glibc $glibc or later; the GPU needs NVIDIA's driver, cuDNN 9 and cuBLASLt.

    scripts/gpu_check.sh smoke              what works here, in 3 minutes; --help lists the other stages
    scripts/cuda_libraries.sh --list        which cuDNN, cuBLASLt and NVRTC are used
    scripts/cuda_libraries.sh bin/lockstep train --device cuda --data-dir DIR
    LOCKSTEP_MODULES=\$PWD/lib/emulated bin/test_cuda cuda_net     tests on the emulated device, without a GPU
END

# ---- Checks of the bundle ----

newest=$(find "$root/bin" "$root/lib" -type f -exec objdump -T {} + | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "GLIBC_$glibc" "$newest" | sort -V | tail -n 1)" = "GLIBC_$glibc" ] ||
  fail "the bundle needs $newest; at most GLIBC_$glibc is allowed"
XZ_OPT=${XZ_OPT:--T0 -6} tar -C "$work" --owner=0 --group=0 --sort=name -cJf "$out" "$name"
size=$(stat -c %s "$out")
if [ "$size" -gt $((most_mib << 20)) ]; then
  du -a "$root" | sort -rn | head -n 12 >&2
  rm -f "$out"
  fail "$out has $size bytes; at most $most_mib MiB are allowed"
fi
echo "$out: $(awk -v n="$size" 'BEGIN { printf "%.1f", n / 1048576 }') MiB, commit $commit, sm_$arch"
