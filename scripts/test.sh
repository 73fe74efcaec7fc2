#!/usr/bin/env bash
# test.sh [--all] [CMAKE_OPTION ...]: installs what is missing, builds into build/, and runs the tests that show whether the build
# can be trusted; with --all all tests, which take three times as long. Then lists what was skipped. The exit status is the verdict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

left_out=slow
if [ "${1:-}" = --all ]; then
  left_out=sample # of slow tests
  shift
fi
need_packages "${build_packages[@]}"
# scripts/demo.sh turns tests off in a new folder.
build_in build -DLOCKSTEP_BUILD_TESTS=ON "$@"
run_tests build --label-exclude "^$left_out\$"
