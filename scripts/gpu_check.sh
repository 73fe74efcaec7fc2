#!/usr/bin/env bash
# gpu_check.sh [BUILD [OUT]]: checks the CUDA backend on the machine's GPU and measures it, within 8 minutes. BUILD is a
# build folder with the CUDA module; without one it is made in build/, for this GPU alone. Needs the CUDA toolkit and cuDNN,
# installs nothing; python3 with PyTorch is used where it is there.
#
# Writes OUT/gpu_check.json and OUT/gpu_check.txt (OUT: BUILD/gpu_check), and the log of each part beside them. docs/cuda.md
# says how to read them. The exit status is the verdict of the checks: 0 all passed, 1 some failed, 2 there was no time for
# some. Speeds and goals decide nothing.
#
#   GPU_CHECK_SECONDS   the time there is [480]
#   GPU_CHECK=small     small sizes, for the emulated device that LOCKSTEP_MODULES names: tests of this script
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-$PWD/build}
size=${GPU_CHECK:-full}
budget=${GPU_CHECK_SECONDS:-480}
SECONDS=0

# The GPU's architecture, "90"; nothing without nvidia-smi.
architecture() { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d '. '; }

if [ ! -x "$build/lockstep" ]; then
  echo "building in $build"
  here=$(architecture || true)
  cmake -S . -B "$build" -DLOCKSTEP_CUDA=ON ${here:+"-DLOCKSTEP_CUDA_ARCHITECTURES=$here"} >/dev/null
  timeout "$budget" cmake --build "$build" --parallel >"$build/gpu_check_build.log" 2>&1 || {
    tail -n 40 "$build/gpu_check_build.log" >&2
    exit 1
  }
fi
build=$(cd "$build" && pwd)
out=${2:-$build/gpu_check}
export LOCKSTEP_MODULES=${LOCKSTEP_MODULES:-$build} CK_DEFAULT_TIMEOUT=300
if [ -e "$out" ] && [ ! -e "$out/gpu_check.txt" ]; then
  echo "$out is there, and is not of an earlier check" >&2
  exit 1
fi
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
: >"$out/gpu_check.txt"
failed=0 unchecked=0 n_cut=0
checks="" measurements="" goals="" cut=""

# ---- Writing ----

say() { printf '%s\n' "$*" | tee -a "$out/gpu_check.txt"; }
# quote TEXT: as a JSON string.
quote() { printf '"%s"' "$(tr -d '\000-\010\013-\037' <<<"$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g')"; }
# list OLD NEW: a JSON list that grows.
list() { printf '%s%s%s' "$1" "${1:+,
  }" "$2"; }
# field KEY LINE: a number or a text of a JSON object; nothing when it is not there.
field() { sed -nE "s/.*\"$1\": \"?([^,\"}]*)\"?.*/\1/p" <<<"$2" | grep -v '^null$' || true; }
# ratio A B: nothing where one of them is missing, or is 0.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a + 0 && b + 0) printf "%.4g", a / b }'; }

left() { echo $((budget - SECONDS)); }
# leave_out NAME: no time is left for it.
leave_out() {
  n_cut=$((n_cut + 1))
  cut=$(list "$cut" "$(quote "$1")")
  say "$(printf '%-30s no time left' "$1")"
}

# ---- Parts: NAME, the most seconds it may take, and what to run ----

# check NAME LIMIT COMMAND...: one that decides over the exit status.
check() {
  local name=$1 limit=$2 result=passed start=$SECONDS rest status=0
  shift 2
  rest=$(left)
  [ "$rest" -ge 5 ] || { unchecked=$((unchecked + 1)) && leave_out "$name" && return; }
  timeout --kill-after=5 $((limit < rest ? limit : rest)) "$@" >"$out/$name.log" 2>&1 || status=$?
  if [ "$status" -eq 124 ] && [ "$rest" -lt "$limit" ]; then
    unchecked=$((unchecked + 1)) && leave_out "$name" && return
  fi
  [ "$status" -eq 0 ] || { result=FAILED && failed=$((failed + 1)); }
  [ "$status" -ne 124 ] || result="TOO SLOW"
  say "$(printf '%-30s %-8s %4d s' "$name" "$result" $((SECONDS - start)))"
  checks=$(list "$checks" "{\"check\": \"$name\", \"result\": \"$result\", \"seconds\": $((SECONDS - start))}")
}

# measure NAME LIMIT COMMAND...: sets `line` to the last line that it prints, a JSON object, or to nothing; a failure is
# told, and decides nothing.
measure() {
  local name=$1 limit=$2 rest status=0 start=$SECONDS
  shift 2
  line="" rest=$(left)
  [ "$rest" -ge 5 ] || { leave_out "$name" && return; }
  timeout --kill-after=5 $((limit < rest ? limit : rest)) "$@" >"$out/$name.log" 2>"$out/$name.err" || status=$?
  line=$(grep '^{' "$out/$name.log" | tail -n 1 || true)
  if [ -n "$line" ]; then
    measurements=$(list "$measurements" "{\"name\": \"$name\", \"seconds\": $((SECONDS - start)), \"line\": $line}")
  elif [ "$status" -eq 124 ] && [ "$rest" -lt "$limit" ]; then
    leave_out "$name"
  else
    local why
    why=$(tail -n 1 "$out/$name.err")
    [ "$status" -ne 124 ] || why="took longer than $limit s"
    say "$(printf '%-30s not measured: %s' "$name" "$why")"
    measurements=$(list "$measurements" "{\"name\": \"$name\", \"not_measured\": $(quote "$why")}")
  fi
}

# step NAME LIMIT OPTION...: bench_step on the GPU.
step() {
  local name=$1 limit=$2
  shift 2
  measure "$name" "$limit" "$build/bench/bench_step" --device cuda "$@"
  [ -z "$line" ] || say "$(printf '%-30s %10.1f images/s %8.2f ms %6.0f us CPU %7.2f GB' "$name" "$(field throughput "$line")" \
    "$(field step_ms_median "$line")" "$(field cpu_us_per_step "$line")" "$(ratio "$(field peak_bytes "$line")" 1e9)")"
}

# beside NAME LIMIT OPTION...: Lockstep and PyTorch in turn.
beside() {
  local name=$1 limit=$2 rest
  shift 2
  rest=$(left)
  measure "$name" "$limit" "$python" bench/versus_pytorch.py --device cuda --bench "$build/bench/bench_step" \
    --seconds $((limit < rest ? limit / 2 : rest / 2)) "$@"
  [ -z "$line" ] || say "$(printf '%-30s %10.1f images/s, PyTorch %.1f (%s): %.2f times' "$name" \
    "$(field lockstep_images_per_second "$line")" "$(field best_images_per_second "$line")" "$(field best "$line")" \
    "$(field times_best "$line")")"
}

# goal TEXT RELATION WANTED VALUE: VALUE is nothing where it was not measured.
goal() {
  local met=null shown=$4 word="not measured"
  if [ -n "$shown" ]; then
    met=$(awk "BEGIN { print ($4 $2 $3) ? \"true\" : \"false\" }")
    word=$([ "$met" = true ] && echo met || echo missed)
  fi
  goals=$(list "$goals" "{\"goal\": $(quote "$1"), \"wanted\": \"$2 $3\", \"measured\": ${shown:-null}, \"met\": $met}")
  say "$(printf '%-52s %2s %-8s %10s  %s' "$1" "$2" "$3" "${shown:--}" "$word")"
}

# ---- What there is ----

device=$("$build/bench/bench_sizes" --device cuda --only none 2>"$out/device.err" |
  sed -nE 's/.*"device": "(cuda:[^"]*)".*/\1/p' || true)
if [ -z "$device" ]; then
  say "no GPU: $(head -n 1 "$out/device.err")"
  exit 1
fi
say "$device"
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)
cores=$(nproc)
python=""
for candidate in python3 /usr/bin/python3; do
  if [ -z "$python" ] && "$candidate" -c "import torch, torchvision" 2>/dev/null; then python=$candidate; fi
done
[ -n "$python" ] || say "no PyTorch here: nothing is compared with it"

# ---- In the order of importance ----

resnet50=(--model resnet50 --image-size 224 --batch 256 --steps 30)
cifar=(--model resnet18 --image-size 32 --batch 128 --steps 100)
repro=("$build/lockstep" repro --no-val --device cuda --image-size 32 --threads 1 --data-dir "$out/pictures")

# sanitize TOOL: NVIDIA's checkers on ten steps of a small net. Kernels of cuDNN may read what nobody wrote, where that does
# no harm: initcheck's findings count where they are ours.
sanitize() {
  local status=0
  CK_FORK=no CK_RUN_CASE=same_bits_again compute-sanitizer --tool "$1" --error-exitcode 9 \
    "$build/tests/cuda/test_cuda_net" || status=$?
  [ "$1" = initcheck ] && [ "$status" -eq 9 ] || return "$status"
  grep -hoE '__global__.* [a-z0-9_]+\(' src/cuda/kernels/*.cu | sed -E 's/.* ([a-z0-9_]+)\(/ \1(/' >"$out/kernels.txt"
  ! grep -qFf "$out/kernels.txt" "$out/initcheck.log"
}
export -f sanitize
export build out

# sizes NAME LIMIT OPTION...: bench_sizes, whose object has many lines.
sizes() {
  local name=$1 limit=$2
  shift 2
  # shellcheck disable=SC2016
  measure "$name" "$limit" bash -o pipefail -c '"$0" "$@" | tr -d "\n"' "$build/bench/bench_sizes" --device cuda --repeats 1 "$@"
}

full() {
  local precision round
  local -A own=() versus=() best=([off]=0 [strict]=0)
  # What everything rests on.
  measure device_json 30 "$build/tests/cuda/device_json"
  CK_FORK=no LOCKSTEP_TEST_KERNELS=4 check ops 150 "$build/tests/cuda/test_cuda_ops"
  check net 60 "$build/tests/cuda/test_cuda_net"
  check fuse 60 "$build/tests/cuda/test_cuda_fuse"
  CK_RUN_CASE=tensors check tensors 30 "$build/tests/cuda/test_cuda_device"
  check philox 30 "$build/tests/cuda/philox_curand" --device
  "$build/lockstep" demo-data --train 40 --val 1 "$out/pictures" >/dev/null
  check repro_resnet50 60 "${repro[@]}" --model resnet50 --batch-size 32 --steps 200 --workers 0,4 --restart 1 \
    --out "$out/repro_resnet50"
  check repro_resnet50_f16 60 "${repro[@]}" --model resnet50 --precision f16 --batch-size 32 --steps 200 --workers 0,4 \
    --restart 1 --out "$out/repro_resnet50_f16"

  # The goals.
  for precision in f16 bf16 tf32; do
    step "resnet50_$precision" 45 "${resnet50[@]}" --precision "$precision" --plan "$out/plan_$precision.json"
    own[$precision]=$line
  done
  for precision in f16 bf16 tf32; do
    [ -n "$python" ] || break
    beside "versus_pytorch_$precision" 75 "${resnet50[@]}" --precision "$precision" --sides eager --rounds 2 \
      --plan "$out/plan_$precision.json"
    versus[$precision]=$line
  done

  check memcheck 60 bash -c 'sanitize memcheck'

  precision=f16
  [ -n "${own[f16]}" ] || precision=tf32
  measure photos 60 "$build/bench/bench_photos" --out "$out/photos" --count 2048 --classes 1000 --processes "$cores"
  step "resnet50_${precision}_folder" 60 "${resnet50[@]}" --precision "$precision" --plan "$out/plan_$precision.json" \
    --data-dir "$out/photos" --workers "$cores"
  own[folder]=$line
  step warm_start 30 "${resnet50[@]}" --steps 1 --precision "$precision" --plan "$out/plan_$precision.json"
  own[warm]=$line
  for round in 1 2; do
    for policy in off strict; do
      step "resnet50_${precision}_${policy}_$round" 45 "${resnet50[@]}" --precision "$precision" --deterministic "$policy"
      best[$policy]=$(awk -v a="${best[$policy]}" -v b="$(field throughput "$line")" 'BEGIN { print((a + 0 > b + 0) ? a : b) }')
    done
  done
  sizes sizes 60 --only forward
  own[sizes]=${line%%\"second\"*}
  if [ -n "$python" ]; then
    beside versus_pytorch_cifar 60 "${cifar[@]}" --precision f32 --sides eager --rounds 2 --plan "$out/plan_cifar.json"
    versus[cifar]=$line
  else
    step resnet18_32px_f32 30 "${cifar[@]}" --precision f32
  fi

  check racecheck 60 bash -c 'sanitize racecheck'
  check initcheck 60 bash -c 'sanitize initcheck'
  check repro_tuned 60 "${repro[@]}" --model resnet18 --precision tf32 --benchmark --batch-size 32 --steps 100 --workers 1,8 \
    --out "$out/repro_tuned"

  # What takes long, and may win something.
  for precision in f16 bf16 tf32; do
    [ -n "$python" ] || break
    beside "versus_pytorch_compile_$precision" 150 "${resnet50[@]}" --precision "$precision" --sides eager,compile --rounds 1 \
      --plan "$out/plan_$precision.json"
    [ -z "$line" ] || versus[$precision]=$line
  done
  step "resnet50_tf32_tuned" 90 "${resnet50[@]}" --precision tf32 --benchmark --plan "$out/plan_tuned.json"
  rm -rf "$out/photos" "$out/pictures"

  say ""
  goal "resnet50 224 px batch 256 f16, images/s" '>=' 5500 "$(field throughput "${own[f16]}")"
  goal "resnet50 f16, times PyTorch's best" '>=' 1.3 "$(field times_best "${versus[f16]:-}")"
  goal "resnet50 bf16, times PyTorch's best" '>=' 1.15 "$(field times_best "${versus[bf16]:-}")"
  goal "resnet50 f16, peak memory / PyTorch's" '<=' 1 \
    "$(ratio "$(field peak_bytes "${versus[f16]:-}")" "$(field best_peak_bytes "${versus[f16]:-}")")"
  goal "resnet50, from JPEG files / random pictures" '>=' 0.95 \
    "$(ratio "$(field throughput "${own[folder]}")" "$(field throughput "${own[f16]:-${own[tf32]}}")")"
  goal "resnet18 32 px batch 128 f32, times PyTorch eager" '>=' 2 "$(field times_best "${versus[cifar]:-}")"
  goal "resnet50, CPU us per step" '<=' 50 "$(field cpu_us_per_step "${own[f16]:-${own[tf32]}}")"
  goal "resnet50, time of strict / off" '<=' 1.03 "$(ratio "${best[off]}" "${best[strict]}")"
  goal "30 sizes, time of benchmark on / off" '<=' 1.05 "$(field ratio "${own[sizes]}")"
  goal "seconds to the first step with a plan file" '<=' 1 "$(field first_step_seconds "${own[warm]}")"
}

# The same parts at sizes that the emulated device does in seconds.
small() {
  local tiny=(--model resnet20 --image-size 8 --batch 2 --steps 1 --warmup 1 --precision tf32 --plan "$out/plan.json") random folder
  CK_RUN_CASE=same_bits_again check net 60 "$build/tests/cuda/test_cuda_net"
  CK_RUN_CASE=tensors check tensors 30 "$build/tests/cuda/test_cuda_device"
  "$build/lockstep" demo-data --train 2 --val 1 "$out/pictures" >/dev/null
  check repro 60 "${repro[@]}" --model resnet20 --image-size 8 --batch-size 2 --steps 2 --workers 0,1 --out "$out/repro"
  step resnet20_f64 30 "${tiny[@]}" --precision f64
  step resnet20_tf32 30 "${tiny[@]}"
  random=$line
  measure photos 30 "$build/bench/bench_photos" --out "$out/photos" --count 4 --width 32 --height 24 --classes 2
  step resnet20_tf32_folder 30 "${tiny[@]}" --data-dir "$out/photos" --workers 1
  folder=$line
  sizes sizes 30 --only none
  say ""
  goal "images/s" '>=' 1e9 "$(field throughput "$random")"
  goal "from JPEG files / random pictures" '>=' 0 "$(ratio "$(field throughput "$folder")" "$(field throughput "$random")")"
  goal "times PyTorch's best" '>=' 1 "$(field times_best "")"
}

"$size"

printf '{"format": "lockstep gpu_check 1", "date": "%s", "commit": "%s", "driver": %s, "device": %s, "size": "%s",
 "seconds": %d, "failed": %d, "cut": [%s],
 "goals": [\n  %s],\n "checks": [\n  %s],\n "measurements": [\n  %s]}\n' \
  "$(date -u +%F)" "$commit" "$(quote "$driver")" "$(quote "$device")" "$size" "$SECONDS" "$failed" "${cut//$'\n'/}" \
  "$goals" "$checks" "$measurements" >"$out/gpu_check.json"
say "$failed checks failed, $n_cut parts had no time left; $SECONDS s; $out/gpu_check.json"
[ "$failed" -eq 0 ] || exit 1
[ "$unchecked" -eq 0 ] || exit 2
