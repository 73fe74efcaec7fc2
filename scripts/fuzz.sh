#!/usr/bin/env bash
# fuzz.sh [--seconds N] [--jobs J] [TARGET...]: fuzzes the targets of tests/fuzz (all, without names) for N seconds in
# total [600], J processes at a time [one per processor]. Needs clang; builds into build/fuzz. Each target begins with
# tests/fuzz/corpus/TARGET and keeps what it finds in build/fuzz/corpus/TARGET. Prints a line per target. The exit status
# is the verdict: an input that breaks a target stays in build/fuzz/findings, and the command that replays it is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

usage() {
  echo "usage: scripts/fuzz.sh [--seconds N] [--jobs J] [TARGET...]" >&2
  exit 2
}
seconds=600 jobs=$(nproc) targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds | --jobs)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage
      if [ "$1" = --seconds ]; then seconds=$2; else jobs=$2; fi
      shift
      ;;
    -*) usage ;;
    *)
      [ -d "tests/fuzz/corpus/$1" ] || { echo "fuzz.sh: no target '$1'; there are: $(cd tests/fuzz/corpus && echo *)" >&2; exit 2; }
      targets+=("$1")
      ;;
  esac
  shift
done
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(ls tests/fuzz/corpus)

need_packages "${fuzz_packages[@]}"
build_with_sanitizers "${targets[@]/#/fuzz_}"

# Files that targets make go away with this folder, however they end.
TMPDIR=$(mktemp -d -p "$(if [ -w /dev/shm ]; then echo /dev/shm; else echo "${TMPDIR:-/tmp}"; fi)" lockstep-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p build/fuzz/findings build/fuzz/logs
share=$((seconds * jobs / ${#targets[@]}))
[ "$share" -gt 0 ] || share=1

# A refused allocation is answered with NULL, as without the sanitizer. What targets print is dropped.
run_target() {
  mkdir -p "build/fuzz/corpus/$1"
  ASAN_OPTIONS=allocator_may_return_null=1 "build/fuzz/tests/fuzz/fuzz_$1" -max_total_time="$share" -max_len=8192 \
    -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 -close_fd_mask=3 -artifact_prefix="build/fuzz/findings/$1-" \
    "build/fuzz/corpus/$1" "tests/fuzz/corpus/$1" >"build/fuzz/logs/$1" 2>&1 || echo "$1" >>"$TMPDIR/failed"
}

# found TARGET: the file that broke it in this run, or nothing.
found() {
  sed -n 's/.*Test unit written to //p' "build/fuzz/logs/$1" | tail -1
}

for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  run_target "$target" &
done
wait

printf '%-14s %8s %12s %10s %s\n' target seconds executions coverage findings
for target in "${targets[@]}"; do
  log=build/fuzz/logs/$target
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\).*/\1/p' "$log" | tail -1)
  failed=0
  ! grep -qsx "$target" "$TMPDIR/failed" || failed=1
  printf '%-14s %8d %12s %10s %d\n' "$target" "$share" "${executions:--}" "${coverage:--}" "$failed"
done
[ -s "$TMPDIR/failed" ] || exit 0
while IFS= read -r target; do
  file=$(found "$target")
  echo
  grep -E 'SUMMARY|not true:|ERROR:' "build/fuzz/logs/$target" || tail -5 "build/fuzz/logs/$target"
  [ -z "$file" ] || echo "replay: build/fuzz/tests/fuzz/fuzz_$target $file"
done <"$TMPDIR/failed"
exit 1
