#!/usr/bin/env bash
# test.sh [CMAKE_OPTION ...]: installs what is missing, builds into build/, and runs all tests. The exit status is the
# verdict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

need_packages "${build_packages[@]}"
build_in build -DLOCKSTEP_BUILD_TESTS=ON "$@" # scripts/demo.sh turns them off in a new folder
ctest --test-dir build --output-on-failure --parallel "$(nproc)"
