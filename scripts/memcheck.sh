#!/usr/bin/env bash
# memcheck.sh BUILD: runs tests of BUILD under valgrind, which finds uses of uninitialized bytes. The address sanitizer does not.
#
# These are the tests whose code ends in messages, files and reports of errors: misuse, damaged and hostile files, failing
# allocations, differing identities; and the fuzz targets over their corpora. Left out: tests that start processes, and those
# that compute for minutes under valgrind. The whole takes about 80 seconds of processor time.
set -euo pipefail
build=$1
tests=(
  base/{error,text,alloc,file} io/{event_file,safetensors,torch_file} backend/context
  data/{csv,idx,pack_damage,targets,image_folder,image_list,decode,decode_png,dataset_check}
  nn/{misuse,net_errors} optim/schedule experiment/search
  log/{run_folder,record} report/report checkpoint/{identity,algorithm_cache_file,checkpoint,load_weights,checkpoint_export}
  cli/{options,print,folders}
)
logs=$build/memcheck
rm -rf "$logs"
mkdir -p "$logs"

# check LOG PROGRAM ARGUMENT...
check() {
  local log=$1
  shift
  valgrind -q --error-exitcode=99 "$@" >"$log" 2>&1 </dev/null && return
  echo "failed under valgrind: $*"
  cat "$log"
  return 1
}
export -f check

# libjpeg-turbo's vectors read beyond the ends of rows, which changes no pixel, but valgrind cannot know that: its plain C runs.
export JSIMD_FORCENONE=1 CK_FORK=no
{
  for test in "${tests[@]}"; do
    printf '%s\0' "$logs/${test##*/}.txt $build/tests/${test%/*}/test_${test%/*} ${test##*/}"
  done
  for corpus in tests/fuzz/corpus/*; do
    printf '%s\0' "$logs/fuzz_${corpus##*/}.txt $build/tests/fuzz/fuzz_${corpus##*/} $corpus"
  done
} | xargs -0 -P "$(nproc)" -I LINE bash -c 'check LINE'
echo "no uninitialized bytes are used in ${#tests[@]} tests and the fuzz targets"
