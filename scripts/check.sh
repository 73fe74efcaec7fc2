#!/usr/bin/env bash
# check.sh: the stricter checks, after scripts/test.sh: formatting, warnings as errors with gcc and clang, sanitizers,
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

title "warnings as errors: the system's compiler"
build_in build -DLOCKSTEP_BUILD_TESTS=ON -DLOCKSTEP_WERROR=ON
title "warnings as errors: clang"
build_in build/clang -C cmake/bundle.cmake -DCMAKE_C_COMPILER="clang-$clang_version" -DLOCKSTEP_WERROR=ON -DLOCKSTEP_CUDA_ARCHITECTURES=90
# The bundle is packed from that folder: a build of its own would take minutes.
title "bundle for a machine with a GPU, where our packages are not installed"
scripts/gpu_bundle_check.sh build/clang || [ $? -eq 77 ]

# -O1 with assertions.
sanitizer_build=(-DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O1\ -g)
title "address and undefined-behaviour sanitizers"
build_in build/asan "${sanitizer_build[@]}" -DLOCKSTEP_SANITIZE=address,undefined -DLOCKSTEP_CUDA=OFF
# A test program's cases run in one process (CK_FORK): the leak check at the end of each of thousands took most of the time.
# Those of tests/cuda, which load modules, keep a process each, without that check.
# A failed allocation returns NULL, as without the sanitizer, because tests allocate too much on purpose.
# Left to scripts/test.sh is what takes minutes here and runs no code of ours that other tests do not: what starts or kills
# hundreds of processes, oneDNN's kernels for lesser processors, ours at large shapes, the parity of large nets, the emulated
# GPU's op cases (whose memory has guards, and is closed to all but kernels, in every build) and the script that runs them,
# nets, fusions and failing calls a second time, on the libraries' stand-ins.
ASAN_OPTIONS=allocator_may_return_null=1 CK_FORK=no ctest --test-dir build/asan --output-on-failure --parallel "$(nproc)" \
  --exclude-regex '^(crash|crash_train|matrix|op_bits_.+|conv_errors|cuda_ops|cuda_(ops|net|fuse|capture|overlap)_libraries|gpu_check|parity_(resnet18|models))$'

# libgomp, inside oneDNN, does not support the thread sanitizer, so only tests without oneDNN kernels run here.
title "thread sanitizer, thread pool and loader"
build_in build/tsan "${sanitizer_build[@]}" -DLOCKSTEP_SANITIZE=thread -DLOCKSTEP_CUDA=OFF -- \
  test_threads test_loader test_loader_bits
ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^(threads|loader.*)$'

title "fuzzing, for a short time"
scripts/fuzz.sh --seconds 20

title "all checks passed"
