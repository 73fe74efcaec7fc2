#!/usr/bin/env bash
# portable_check.sh [--update] [COMMAND...]: whether portable arithmetic gives the results of tests/portable_digests.txt. Each COMMAND, a
# "lockstep" or one under an emulator ("qemu-aarch64 build/lockstep"), trains five models in f32 and bf16 on generated PNG and JPEG
# images, with each instruction set of LOCKSTEP_MAX_ISA that the processor has (under an emulator: the lowest), and other numbers of
# threads and workers; one run is stopped and resumed with another instruction set. Without a COMMAND: builds by gcc and clang, at -O1
# to -O3, in build/portable-*.
#
# --update: writes the file, from the first COMMAND's runs without a limit. Weights after 3 and after 30 steps are compared; without fused
# multiply-add, where a step takes some 50 times as long, those of convolutional networks after 3 alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

update=
if [ "${1-}" = --update ]; then
  update=yes
  shift
fi
digests=$PWD/tests/portable_digests.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

commands=("$@")
if [ $# -eq 0 ]; then
  need_packages "${fuzz_packages[@]}"
  for compiler in gcc "clang-$clang_version"; do
    for level in 1 2 3; do
      folder=build/portable-${compiler%%-*}-O$level
      build_in "$folder" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS_RELEASE=-O$level -DNDEBUG" \
        -DLOCKSTEP_ONEDNN=OFF -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_MPI=OFF -- lockstep
      commands+=("$folder/lockstep")
    done
  done
fi

own_isas=(plain)
! grep -qw fma /proc/cpuinfo || own_isas+=(avx2)
! grep -qw avx512bw /proc/cpuinfo || own_isas+=(avx512)

# train ISA THREADS WORKERS OPTION...: one session of a run.
train() {
  LOCKSTEP_MAX_ISA=$1 $command train --threads "$2" --workers "$3" "${@:4}" --quiet >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
  }
}

# begin ISA THREADS WORKERS MODEL PRECISION STEPS RUN
begin() {
  local size=32
  [[ $4 != lenet5 && $4 != mlp ]] || size=28
  train "$1" "$2" "$3" --data-dir "$work/images" --model "$4" --image-size $size --batch-size 8 --precision "$5" --steps 30 --stop-at "$6" \
    --no-val --random-erase 0.25 --no-report --out "$7"
}

# results RUN MODEL PRECISION: a line with the digest of the weights after 3 steps, and after 30 if there were so many.
results() {
  awk -v run="$2 $3" 'NR == 3 || NR == 30 { print run, NR, $NF }' "$1/run_log.txt"
}

declare -A threads=([plain]=3 [avx2]=1 [avx512]=2) workers=([plain]=1 [avx2]=0 [avx512]=3)
failed=0
# expect WHAT < results
expect() {
  local line n_lines=0
  while read -r line; do
    n_lines=$((n_lines + 1))
    grep -qxF "$line" "$digests" || {
      echo "$1: $line, expected $(grep -F "${line% *} " "$digests" || echo nothing)" >&2
      failed=1
    }
  done
  [ "$n_lines" -gt 0 ] || { echo "$1: no results" >&2 && failed=1; }
}

for command in "${commands[@]}"; do
  isas=("${own_isas[@]}")
  [[ $command != *\ * ]] || isas=(plain) # those of the emulated processor
  rm -rf "$work/images"
  $command demo-data "$work/images" --train 24 --val 1 --quiet >/dev/null
  for model in mlp lenet5 resnet20 mobilenet_v2 resnet18; do
    for precision in f32 bf16; do
      if [ "$update" ]; then
        begin '' 0 1 $model $precision 30 "$work/run"
        results "$work/run" $model $precision
        rm -rf "$work/run"
        continue
      fi
      for isa in "${isas[@]}"; do
        steps=30
        [[ $isa != plain || $model == lenet5 || $model == mlp ]] || steps=3
        begin "$isa" "${threads[$isa]}" "${workers[$isa]}" $model $precision $steps "$work/run"
        expect "$command, $isa, $model $precision" < <(results "$work/run" $model $precision)
        rm -rf "$work/run"
      done
    done
  done >"$work/lines"
  if [ "$update" ]; then
    cp "$work/lines" "$digests"
    exit 0
  fi
  begin plain 1 0 lenet5 f32 11 "$work/run"
  train "${isas[-1]}" 3 2 --resume "$work/run"
  expect "$command, resumed" < <(results "$work/run" lenet5 f32)
  rm -rf "$work/run"
  echo "$command: ${isas[*]}"
done
[ $failed -eq 0 ] && echo "portable results: all as expected"
