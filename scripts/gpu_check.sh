#!/usr/bin/env bash
# gpu_check.sh [option...] [STAGE...]: checks the CUDA backend on the machine's GPU and measures it, in stages of at most 9
# minutes. Runs from a bundle (scripts/gpu_bundle.sh) or from a build folder; installs nothing.
#
# Stages [all]:
#   smoke      libraries, device, a step in each precision, a small net; at most 3 minutes
#   checks     every op against the CPU, equal bits in repeated runs, NVIDIA's compute-sanitizer
#   speed      steps of resnet50 and resnet18 with autotuned kernels
#   pytorch    the same steps alternating with PyTorch's; requires a python3 with torch
#   input      training from JPEG files
#   cpu        1 to 16 threads on the CPU; also PyTorch on the same cores, if installed
#   ranks      two ranks with a GPU each, compared with one; requires two GPUs, Open MPI and NCCL
#   all        these, in this order
#
# Options:
#   --build DIR      folder with the programs [the bundle, or build/, which is built if it is missing]
#   --out DIR        folder for the results [gpu_check/ in the build folder]; later stages append to it
#   --seconds N      time for each stage [180 for smoke, 540 for others]
#
# Writes DIR/gpu_check.jsonl (one object per line, as each part ends), DIR/gpu_check.txt (a table), DIR/STAGE/PART.log and .err
# (the output of a part), and DIR.tar.xz at the end or when a signal stops it. docs/cuda.md documents these files. The exit status is
# that of the checks: 0 all passed, 1 some failed, 2 none failed but some had no time or were too slow, or the command line is wrong.
# It does not depend on speeds and goals.
#
#   GPU_CHECK=small           small sizes for the emulated device in LOCKSTEP_MODULES, used by the test of this script
#   GPU_CHECK_PART_SECONDS    time limit of each part
#   GPU_CHECK_PYTHON          the python3 for PyTorch
# shellcheck disable=SC2034 # the files that are sourced use what is set here
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${here%/*}
size=${GPU_CHECK:-full} part_limit=${GPU_CHECK_PART_SECONDS:-540}
all=(smoke checks speed pytorch input cpu ranks)
stages=() build="" out="" seconds=""

fail() {
  echo "gpu_check.sh: $*" >&2
  exit 1
}
# refuse TEXT: ends with an error of the command line.
refuse() {
  echo "gpu_check.sh: $*" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  case $1 in
    --build | --out | --seconds)
      [ $# -gt 1 ] || refuse "$1 requires a value"
      declare "${1#--}=$2"
      shift
      ;;
    -h | --help) sed -n '2,/^# shellcheck/{/^# shellcheck/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" && exit ;;
    all) stages+=("${all[@]}") ;;
    *)
      [[ " ${all[*]} " = *" $1 "* ]] || refuse "unknown stage or option '$1'; stages: ${all[*]} all"
      stages+=("$1")
      ;;
  esac
  shift
done
[ "${#stages[@]}" -gt 0 ] || stages=("${all[@]}")
[[ $seconds =~ ^(|0|[1-9][0-9]{0,5})$ ]] || refuse "--seconds requires a number, not '$seconds'"

# ---- Programs and folders ----

if [ -z "$build" ]; then
  build=$root/build
  [ ! -x "$root/bin/lockstep" ] || build=$root
fi
# build_for_this_gpu: builds for the GPU's architecture only, if nvidia-smi reports it.
build_for_this_gpu() {
  local architecture generator=()
  [ -e "$build/CMakeCache.txt" ] || ! command -v ninja >/dev/null || generator=(-G Ninja)
  architecture=$(timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. ' || true)
  echo "building in $build"
  cmake -S "$root" -B "$build" "${generator[@]}" -DLOCKSTEP_CUDA=ON ${architecture:+"-DLOCKSTEP_CUDA_ARCHITECTURES=$architecture"} >/dev/null
  cmake --build "$build" --parallel >"$build/gpu_check_build.log" 2>&1 || {
    tail -n 40 "$build/gpu_check_build.log" >&2
    fail "the build failed: $build/gpu_check_build.log"
  }
}
if [ ! -x "$build/bin/lockstep" ] && [ ! -x "$build/lockstep" ]; then
  [ "$build" = "$root/build" ] || [ -e "$build/CMakeCache.txt" ] || refuse "--build $build: neither a bundle nor a build folder"
  build_for_this_gpu
fi
build=$(cd "$build" && pwd)
out=${out:-$build/gpu_check}
[ ! -e "$out" ] || [ -e "$out/gpu_check.txt" ] || [ -z "$(ls -A "$out" 2>&1)" ] ||
  refuse "$out exists, and is not of an earlier check"
mkdir -p "$out"
: >>"$out/gpu_check.txt"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu_check.XXXXXX")
trap 'rm -rf "$work"' EXIT

# program NAME: the path of a program. In a bundle all are in bin/.
program() {
  local folder
  for folder in bin . bench tests/cuda; do
    [ ! -x "$build/$folder/$1" ] || { echo "$build/$folder/$1" && return; }
  done
  echo "$build/$1"
}
modules=$build
[ ! -e "$build/lib/liblockstep_cuda.so" ] || modules=$build/lib
export LOCKSTEP_MODULES=${LOCKSTEP_MODULES:-$modules} CK_DEFAULT_TIMEOUT=300
module=$LOCKSTEP_MODULES/liblockstep_cuda.so
cuda_path=$("$here/cuda_libraries.sh" --module "$module" --path 2>/dev/null || true)
bench_scripts=$root/bench
kernels=$work/kernels.txt
"$here/gpu_check/parts.sh" kernels "$root" >"$kernels"
sanitizer=$(PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin command -v compute-sanitizer || true)
cores=$(nproc)
python=""
for candidate in ${GPU_CHECK_PYTHON:-python3 /usr/bin/python3}; do
  if [ -z "$python" ] && timeout 60 "$candidate" -c "import torch" >/dev/null 2>&1; then python=$candidate; fi
done

# shellcheck source=scripts/gpu_check/report.sh
. "$here/gpu_check/report.sh"
# shellcheck source=scripts/gpu_check/stages.sh
. "$here/gpu_check/stages.sh"

# ---- The end, also after a signal ----

finish() {
  trap '' TERM INT HUP
  rm -rf "$work"
  tar -C "${out%/*}/" -cf - -- "${out##*/}" | xz -1 -T0 >"$out.tar.xz.new" && mv "$out.tar.xz.new" "$out.tar.xz" &&
    echo "results: $out.tar.xz"
}
stopped() {
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true
  record "\"part\": \"end\", \"result\": \"stopped\", \"failed\": $failed, \"seconds\": $SECONDS"
  say "$stage: stopped by a signal"
  exit $((failed > 0 ? 1 : 2))
}
trap finish EXIT

# run_stage STAGE SECONDS
run_stage() {
  local budget=$2 start=$SECONDS failed_before=$failed cut_before=$n_cut
  stage=$1
  deadline=$((SECONDS + budget))
  mkdir -p "$out/$stage"
  record "\"part\": \"start\", \"format\": \"lockstep gpu_check 2\", \"date\": \"$(date -u +%FT%TZ)\", \"commit\": \
$(quote "$commit"), \"size\": \"$size\", \"budget\": $budget, \"cores\": $cores, \"driver\": $(quote "$driver")"
  say "== $stage, at most $budget s"
  "stage_$stage"
  record "\"part\": \"end\", \"result\": \"done\", \"failed\": $((failed - failed_before)), \"seconds\": $((SECONDS - start))"
  say "$stage: $((failed - failed_before)) checks failed, $((n_cut - cut_before)) parts had no time; $((SECONDS - start)) s"
}

commit=$(cat "$build/COMMIT" 2>/dev/null || echo unknown) # a bundle is its own build folder
driver=$(timeout 20 nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
set_sizes
set +e # from here on nothing that fails ends the script
stage=${stages[0]}
trap stopped TERM INT HUP
for stage in "${stages[@]}"; do
  run_stage "$stage" "${seconds:-$([ "$stage" = smoke ] && echo 180 || echo 540)}"
done
[ "$failed" -eq 0 ] || exit 1
[ "$undecided" -eq 0 ] || exit 2
