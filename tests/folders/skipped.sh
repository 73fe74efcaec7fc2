#!/usr/bin/env bash
# skipped.sh SOURCE_DIR FOLDER: scripts/skipped.sh lists what ctest skips, whole tests and parts of tests that pass.
set -euo pipefail
source=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"

# run TEST...: ctest runs tests of sh, each "NAME:COMMAND"; then the list.
run() {
  local test
  for test in "$@"; do
    printf 'add_test("%s" "/bin/sh" "-c" "%s")\nset_tests_properties("%s" PROPERTIES SKIP_RETURN_CODE 77)\n' \
      "${test%%:*}" "${test#*:}" "${test%%:*}"
  done >"$folder/CTestTestfile.cmake"
  ctest --test-dir "$folder" >"$folder/output" || true
  "$source/scripts/skipped.sh" "$folder" >"$folder/list"
}
expect() {
  diff <(printf '%s\n' "$@") "$folder/list" || { echo "another list"; exit 1; }
}

run "passes:echo all is well, not skipped: x"
expect "skipped: nothing"
run "whole:echo skipped: no root; exit 77" "passes:true" "fails:echo skipped: one case: no zsh; exit 1" \
  "part:echo begin; echo skipped: a case: no AVX2; echo skipped: a case: no AVX2; echo skipped: another: no fish"
expect "skipped, 4 in all:" "  whole: no root" "  fails: one case: no zsh" "  part: a case: no AVX2" "  part: another: no fish"
grep -q 'whole (Skipped)' "$folder/output" || { cat "$folder/output"; exit 1; }
grep -q 'fails (Failed)' "$folder/output" || { cat "$folder/output"; exit 1; }
! "$source/scripts/skipped.sh" "$folder/none" 2>"$folder/output" || { echo "a folder without a run"; exit 1; }
grep -q 'run ctest first' "$folder/output"
