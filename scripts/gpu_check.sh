#!/usr/bin/env bash
# gpu_check.sh [BUILD [OUT]]: checks the CUDA backend on the machine's GPU, in a few minutes, and measures it. BUILD is a
# build folder with the CUDA module; without one it is made in build/. Needs the CUDA toolkit and cuDNN, and installs nothing.
# Writes OUT/gpu_check.json and OUT/gpu_check.txt (OUT: BUILD/gpu_check), and the log of each check beside them.
# The exit status is the verdict of the checks; speeds decide nothing.
#
# LOCKSTEP_MODULES may name the folder of another module, as that of the emulated device: then with small sizes
# (GPU_CHECK=small), to test this script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-$PWD/build}
out=${2:-$build/gpu_check}
size=${GPU_CHECK:-full}
if [ ! -x "$build/lockstep" ]; then
  cmake -S . -B "$build" -DLOCKSTEP_CUDA=ON
  cmake --build "$build" --parallel
fi
build=$(cd "$build" && pwd)
export LOCKSTEP_MODULES=${LOCKSTEP_MODULES:-$build} CK_DEFAULT_TIMEOUT=300
if [ -e "$out" ] && [ ! -e "$out/gpu_check.txt" ]; then
  echo "$out is there, and is not of an earlier check" >&2
  exit 1
fi
rm -rf "$out"
mkdir -p "$out"
: >"$out/gpu_check.txt"
failed=0
json=""

add() { json="$json${json:+,
  }$1"; }
say() { printf '%s\n' "$*" | tee -a "$out/gpu_check.txt"; }

# check NAME COMMAND...: one line of the table; its output goes to a log of its own.
check() {
  local name=$1 result=passed start=$SECONDS
  shift
  "$@" >"$out/$name.log" 2>&1 || { result=FAILED && failed=$((failed + 1)); }
  say "$(printf '%-28s %-7s %4d s' "$name" "$result" $((SECONDS - start)))"
  add "{\"check\": \"$name\", \"result\": \"$result\", \"seconds\": $((SECONDS - start))}"
}

# speed NAME OPTION...: bench_step's line goes into the JSON; a failure is told, and decides nothing.
speed() {
  local name=$1 line
  shift
  if line=$("$build/bench/bench_step" --device cuda "$@" 2>"$out/$name.log"); then
    say "$(printf '%-28s %s' "$name" "$(grep -oE '"(images_per_second|step_ms_median|peak_bytes)": [0-9.]+' <<<"$line" | tr '\n' ' ')")"
    add "$line"
  else
    say "$(printf '%-28s failed: %s' "$name" "$(tail -n 1 "$out/$name.log")")"
  fi
}

device=$("$build/lockstep" describe --device cuda --model resnet20 2>&1 | head -n 1 || true)
case $device in
  *"cuda:"*) say "$device" ;;
  *) say "no GPU: $device" && exit 1 ;;
esac
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)

check ops "$build/tests/cuda/test_cuda_ops"
check net "$build/tests/cuda/test_cuda_net"

# The same bits for any number of workers and restarts, by what timing chooses too.
"$build/lockstep" demo-data "$out/pictures" >/dev/null
steps=200 batch=32
[ "$size" = full ] || steps=3 batch=2
repro=("$build/lockstep" repro --data-dir "$out/pictures" --no-val --device cuda --image-size 32 -b "$batch" --steps "$steps"
  --threads 1 --restart 1)
check repro "${repro[@]}" --model resnet20 --workers 0,4 --out "$out/repro"
if [ "$size" = full ]; then
  check repro_resnet50 "${repro[@]}" --model resnet50 --workers 0,4 --out "$out/repro_resnet50"
  check repro_tf32_benchmark "${repro[@]}" --model resnet18 --precision tf32 --benchmark --workers 1,8 --out "$out/repro_tuned"
fi

if command -v compute-sanitizer >/dev/null && [ "$size" = full ]; then
  for tool in memcheck racecheck initcheck; do
    CK_FORK=no check "$tool" timeout 400 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/tests/cuda/test_cuda_net"
  done
fi

if [ "$size" = full ]; then
  speed resnet18_32px_f32 --model resnet18 --image-size 32 --batch 128 --steps 50
  speed resnet18_32px_tf32 --model resnet18 --image-size 32 --batch 128 --steps 50 --precision tf32
  speed resnet18_32px_tf32_tuned --model resnet18 --image-size 32 --batch 128 --steps 50 --precision tf32 --benchmark
  speed resnet50_224px_f32 --model resnet50 --image-size 224 --batch 128 --steps 20
  speed resnet50_224px_tf32 --model resnet50 --image-size 224 --batch 256 --steps 20 --precision tf32
  speed resnet50_224px_tf32_ops --model resnet50 --image-size 224 --batch 256 --steps 5 --precision tf32 --ops
else
  speed resnet20_16px_tf32 --model resnet20 --image-size 16 --batch 2 --steps 1 --warmup 1 --precision tf32
fi

printf '{"date": "%s", "driver": "%s", "device": "%s", "failed": %d, "results": [\n  %s]}\n' \
  "$(date -u +%F)" "$driver" "$device" "$failed" "$json" >"$out/gpu_check.json"
say "$failed checks failed; $out/gpu_check.json"
[ "$failed" -eq 0 ]
