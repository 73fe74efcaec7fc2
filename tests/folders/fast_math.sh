#!/usr/bin/env bash
# fast_math.sh: files that compute with floats refuse options that let the compiler reorder sums, and compile without them.
# usage: fast_math.sh SOURCE_DIR CC
set -u
cd "$1" || exit 2
cc=$2
failed=0
preprocess() { # FILE OPTION...: what is wrong is on stderr
  local file=$1
  shift
  "$cc" -E -o /dev/null -x c -D_GNU_SOURCE -DLS__CUDA_EMULATED -DLS__ISA_SUFFIX=_x -DLS__GEMM_LANES=8 "$@" \
    -Isrc -Iinclude -Itests/cuda/emulator "$file" 2>&1
}
files=(src/arith/functions.c src/base/{normal,random}.c src/data/transform/{resize,resize_avx2,transform}.c src/cpu/*.c src/cpu/*/*.c src/cpu/*/*/*.c
  src/optim/*.c src/nn/*/*.c src/cuda/kernels/*.cu)
for file in "${files[@]}"; do
  case $file in src/cpu/onednn/api.c | src/cpu/onednn/headroom.c | src/cpu/onednn/library.c | src/cpu/onednn/primitive.c) continue ;; esac # only call a library
  case $(preprocess "$file" -ffast-math) in
    *"build without -ffast-math"*) ;;
    *) echo "$file: -ffast-math is not refused (include base/strict_math.h)" && failed=1 ;;
  esac
done
for option in -Ofast -ffinite-math-only; do
  case $(preprocess src/arith/functions.c "$option") in
    *"build without"*) ;;
    *) echo "$option is not refused" && failed=1 ;;
  esac
done
case $(preprocess src/arith/functions.c -O3) in
  *"build without"*) echo "-O3 is refused" && failed=1 ;;
esac
exit $failed
