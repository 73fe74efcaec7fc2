#!/usr/bin/env bash
# arm64_check.sh [TESTS]: builds for arm64 by Debian's cross compiler into build/arm64, and runs under qemu's emulation the tests of ops,
# loader and training (or those whose names match the regular expression TESTS), then portable_check.sh. The kernels use NEON. Adds
# the architecture arm64 to this system's dpkg, which remains.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

if command -v dpkg >/dev/null && ! dpkg --print-foreign-architectures | grep -qx arm64; then
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  "${root[@]}" dpkg --add-architecture arm64
fi
need_packages "${arm64_packages[@]}"
build_in build/arm64 -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64 -DLOCKSTEP_ONEDNN=OFF -DLOCKSTEP_CUDA=OFF \
  -DLOCKSTEP_MPI=OFF -DLOCKSTEP_BUILD_BENCH=OFF -DLOCKSTEP_BUILD_TESTS=ON
tests=${1:-^(op_(values|bits)_sample|op_gradients|portable_bits|winograd|implicit_gemm|depthwise|small_channels|simd_math|cpu_device|bf16|decode.*|resize.*|loader.*|image_folder|net|gradients|trainer|checkpoint|identity|onnx)$}
run_tests build/arm64 --tests-regex "$tests"
[ $# -gt 0 ] || scripts/portable_check.sh "qemu-aarch64 build/arm64/lockstep"
