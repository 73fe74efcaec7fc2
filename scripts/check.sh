#!/usr/bin/env bash
# check.sh: the stricter checks, after scripts/test.sh: formatting, warnings as errors with gcc and clang, sanitizers, valgrind,
# headers on their own, folder rules, shell scripts. Builds go into build/ and below it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages "${check_packages[@]}"

title() { printf '\n== %s\n' "$1"; }

title "formatting"
if command -v "clang-format-$clang_format_version" >/dev/null; then
  find bench cli examples include models src tests '(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' ')' -print0 |
    xargs -0 "clang-format-$clang_format_version" --dry-run -Werror
else
  echo "skipped: formatting is that of clang-format $clang_format_version, which this release of Debian does not have"
fi

title "shell scripts"
shellcheck -x scripts/*.sh scripts/*/*.sh .ci/run tests/*/*.sh

title "folder rules"
tests/folders/rules.sh .

title "each public header on its own, as C11 and C++"
for header in include/lockstep/*.h; do
  name=lockstep/${header##*/}
  printf '#include <%s>\nextern int not_empty;\n' "$name" | gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c -
  echo "#include <$name>" | g++ -std=c++11 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ -
done

title "reference of the headers"
scripts/reference.sh

title "warnings as errors: the system's compiler"
build_in build -DLOCKSTEP_BUILD_TESTS=ON -DLOCKSTEP_WERROR=ON
# What the instruction set can change: kernels, their selection, and what is computed with them.
title "a lower instruction set"
lower=plain
! grep -qw avx512bw /proc/cpuinfo || lower=avx2
LOCKSTEP_MAX_ISA=$lower run_tests build --tests-regex \
  '^(op_(values|bits)_sample|op_gradients|cpu_device|onednn|simd_math|loss_accuracy|winograd|implicit_gemm|depthwise|small_channels|parity_.*|gradients|net|fuse|fuse_norm|precision|trace|compare_command)$'
title "the same results with every instruction set"
scripts/portable_check.sh build/lockstep
title "uninitialized bytes, by valgrind"
scripts/memcheck.sh build
title "the binary interface"
scripts/abi_check.sh build
title "a minimal build"
build_in build/minimal -DLOCKSTEP_MINIMAL=ON -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0
tests/package/minimal.sh "$PWD" "$PWD/build/minimal" cc
title "bundle for a machine with a GPU, where our packages are not installed"
scripts/gpu_bundle_check.sh build || [ $? -eq 77 ]

title "warnings as errors: clang"
build_with_sanitizers all
# The tests in one process; scripts/fuzz.sh runs the functions of the command that read files.
title "address and undefined-behaviour sanitizers"
# A test program's cases run in one process (CK_FORK): the leak check at the end of each of thousands took most of the time.
# Those of tests/cuda, which load modules, keep a process each, without that check.
# A failed allocation returns NULL, as without the sanitizer, because tests allocate too much on purpose.
ASAN_OPTIONS=allocator_may_return_null=1 CK_FORK=no run_tests build/fuzz --label-regex '^(unit|emulated|sample)$' --label-exclude '^slow$'
title "fuzzing, for a short time"
scripts/fuzz.sh --seconds 20

# libgomp, inside oneDNN, does not support the thread sanitizer; this is also the build without oneDNN and protobuf-c, and of the
# command with static libraries.
title "thread sanitizer, thread pool, kernels and loader"
rm -rf build/tsan
build_in build/tsan -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1\ -g -DLOCKSTEP_SANITIZE=thread \
  -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_STATIC=ON -DLOCKSTEP_ONNX=OFF -- test_base test_data test_cpu test_checkpoint lockstep
build/tsan/lockstep --version
needed=$(readelf -d build/tsan/lockstep | sed -n 's/.*NEEDED.*\[\(.*\)\.so.*/\1/p' | grep -v '^ld-linux' | sort | paste -sd ' ')
[ "$needed" = "libc libm libtsan" ] || { echo "the command with static libraries needs $needed" >&2; exit 1; }
ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^(threads|loader.*|cpu_device|own_kernels|portable_bits|max_isa|identity|checkpoint_algorithms|onnx)$'

title "all checks passed"
