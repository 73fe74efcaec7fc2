#!/usr/bin/env bash
# fault_sweep.sh [MOST]: builds, then runs 'lockstep train', 'pack' and 'eval' again and again, each time with one system
# call, or all from one call on, made to fail: open, read, write (failed and short), fsync, rename, link, truncate, mkdir,
# lock, mmap, thread creation and allocation. At most MOST [1000] calls of each kind and calling library are tried. Each run
# must end with an exit code of its own and a message, and what follows must give the files of an undisturbed run. Takes
# hours with many calls; tests/faults tries a few of each in ctest. The exit status is the verdict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages "${build_packages[@]}"
build_in build -- lockstep test_faults >/dev/null
LOCKSTEP_FAULTS=${1:-1000} CK_FORK=no build/tests/faults/test_faults
