# stages.sh: sourced by gpu_check.sh: the parts of each stage, in the order of importance, and its goals.
# shellcheck shell=bash
# shellcheck disable=SC2154 # gpu_check.sh sets out, work, size, cores, python, cuda_path, module and finds programs
# shellcheck disable=SC2034,SC2054 # arrays that are used by name; commas are values

# The full sizes, and small ones that the emulated device computes in seconds.
set_sizes() {
  resnet20=(--model resnet20 --image-size 32 --batch 128 --steps 20)
  resnet50=(--model resnet50 --image-size 224 --batch 256 --steps 150)
  resnet18=(--model resnet18 --image-size 224 --batch 256 --steps 150)
  cifar=(--model resnet18 --image-size 32 --batch 512 --steps 150)
  resnet50_cpu=(--model resnet50 --image-size 224 --batch 16)
  resnet18_cpu=(--model resnet18 --image-size 32 --batch 128)
  repro=(--model resnet50 --image-size 32 --batch-size 32 --steps 200 --workers 0,4 --restart 1)
  repro_tuned=(--model resnet18 --image-size 32 --batch-size 32 --steps 100 --workers 1,8)
  repro_ranks=(--model resnet18 --image-size 32 --batch-size 128 --shards 4 --steps 60 --workers 2 --ranks 1,2 --restart 1)
  stopped_rank=(--model resnet18 --image-size 32 --batch-size 128 --shards 4 --epochs 1000 --threads 1 --workers 1)
  small_files=(--count 8192 --width 500 --height 375 --classes 1000)
  large_files=(--count 4096 --width 800 --height 600 --classes 1000)
  demo=(--train 40 --val 1)
  precisions=(f16 bf16 tf32)
  cpu_threads=(16 1 8 4 2)
  images=8192 smoke_steps=30 cases=() op_cases=(CK_FORK=no LOCKSTEP_TEST_KERNELS=4) philox=(--device)
  [ "$size" = small ] || return 0
  resnet20=(--model resnet20 --image-size 4 --batch 2 --steps 1 --warmup 1)
  resnet50=("${resnet20[@]}") resnet18=("${resnet20[@]}") cifar=("${resnet20[@]}")
  resnet50_cpu=(--model resnet20 --image-size 4 --batch 2) resnet18_cpu=("${resnet50_cpu[@]}")
  repro=(--model resnet20 --image-size 8 --batch-size 2 --steps 2 --workers 0,1)
  repro_tuned=("${repro[@]}")
  repro_ranks=(--model lenet5 --image-size 12 --batch-size 4 --shards 2 --steps 4 --workers 1 --ranks 1,2 --no-report)
  stopped_rank=(--model lenet5 --image-size 12 --batch-size 4 --shards 2 --epochs 1000 --threads 1 --workers 1 --no-report)
  small_files=(--count 4 --width 32 --height 24 --classes 2) large_files=("${small_files[@]}")
  demo=(--train 2 --val 1)
  precisions=(f16) cpu_threads=(1)
  images=4 smoke_steps=1 cases=(CK_RUN_CASE=same_bits_again) op_cases=(LOCKSTEP_CASES_STEP=200) philox=()
}

# gpu PROGRAM ARGUMENT...: the command that runs a program of the build with CUDA's libraries; for check and measure.
gpu() { words=(env "LD_LIBRARY_PATH=$cuda_path" "$(program "$1")" "${@:2}"); }

# built NAME: false, with a line of the report, if the build lacks a program because it requires a library's headers.
built() {
  [ -x "$(program "$1")" ] || { skip "$1" "not built" && false; }
}

# step KIND NAME SECONDS OPTION...: bench_step on the GPU.
step() {
  gpu bench_step --device cuda "${@:4}"
  part "$1" "$2" "$3" "${words[@]}"
}

# tuned NAME SECONDS PRECISION OPTION...: bench_step with autotuned kernels, which later stages use again.
tuned() {
  step measure "$1" "$2" --precision "$3" --benchmark --ops --algorithm-cache "$out/kernels_$1.json" "${@:4}"
}

# beside NAME SECONDS SIDES OPTION...: measures Lockstep and PyTorch alternately.
beside() {
  local rest=$((deadline - SECONDS))
  rest=$(($2 < rest ? $2 : rest))
  measure "$1" "$2" "$python" "$bench_scripts/versus_pytorch.py" --bench "$(program bench_step)" \
    --library-path "$cuda_path" --seconds $((rest * 6 / 10)) --sides "$3" "${@:4}"
}

warm_files() { measure read_libraries 60 "$here/gpu_check/parts.sh" warm "$here/cuda_libraries.sh" "$module"; }

stage_smoke() {
  local precision
  shown machine 60 "$here/gpu_check/parts.sh" machine ${python:+"$python"}
  shown driver 20 "$here/gpu_check/parts.sh" driver
  shown libraries 20 "$here/gpu_check/parts.sh" libraries "$here/cuda_libraries.sh" "$module"
  warm_files
  gpu device_json
  built device_json && measure device_json 30 "${words[@]}"
  open_device
  for precision in f32 bf16 f16; do step check "resnet20_$precision" 40 --precision "$precision" "${resnet20[@]}"; done
  gpu test_cuda cuda_net && check net 60 env "${cases[@]}" "${words[@]}"
  check net_own_kernels 60 env LOCKSTEP_CUDA_LIBRARIES=none "${cases[@]}" "${words[@]}"
  tuned resnet50_f16 100 f16 "${resnet50[@]}" --steps "$smoke_steps"
}

# The device's name and the libraries' versions.
open_device() {
  gpu bench_sizes --device cuda --only none
  check open 40 "$here/gpu_check/parts.sh" sizes "${words[@]}"
  [ -z "$line" ] || say "    $(field device "$line")"
}

stage_checks() {
  local tool same
  warm_files
  open_device
  gpu test_cuda cuda_ops && check ops 200 env "${op_cases[@]}" "${words[@]}"
  gpu test_cuda cuda_net && check net 60 env "${cases[@]}" "${words[@]}"
  gpu test_cuda cuda_fuse && check fuse 60 env "${cases[@]}" "${words[@]}"
  gpu test_cuda cuda_device && check tensors 40 env CK_RUN_CASE=tensors "${words[@]}"
  gpu philox_curand "${philox[@]}"
  built philox_curand && check philox_curand 40 "${words[@]}"
  gpu lockstep demo-data "${demo[@]}" "$work/demo" && check demo_data 30 "${words[@]}"
  reproduce repro 100 "${repro[@]}"
  same=$result
  reproduce repro_f16 100 --precision f16 "${repro[@]}"
  [ "$same" != passed ] || same=$result
  gpu test_cuda cuda_net
  for tool in memcheck racecheck initcheck; do
    if [ -z "$sanitizer" ]; then
      skip "$tool" "no compute-sanitizer"
      continue
    fi
    check "$tool" 150 env "LD_LIBRARY_PATH=$cuda_path" "$here/gpu_check/parts.sh" sanitize "$sanitizer" "$tool" "$kernels" \
      "${words[@]:2}"
  done
  reproduce repro_tuned 80 --precision tf32 --benchmark "${repro_tuned[@]}"
  say ""
  case $same in
    passed) goal "the same run twice: equal run logs" '==' 1 1 ;;
    failed) goal "the same run twice: equal run logs" '==' 1 0 ;;
    *) goal "the same run twice: equal run logs" '==' 1 "" ;;
  esac
}

# reproduce NAME SECONDS OPTION...
reproduce() {
  gpu lockstep repro --no-val --device cuda --threads 1 --data-dir "$work/demo" --out "$work/$1" "${@:3}"
  check "$1" "$2" "${words[@]}"
}

# The share of a replayed step in which no kernel runs: 1 - the sum of kernel times (--ops) / the time of a step.
launch_overhead() {
  local ms
  ms=$(awk '{ for (i = 2; i <= NF; i++) if ($i ~ /^[0-9.]+%$/) sum += $(i - 1) } END { if (sum) print sum }' "$2.err")
  awk -v ms="$ms" -v batch="$(field batch "$1")" -v rate="$(field throughput "$1")" \
    'BEGIN { if (ms + 0 && rate + 0) { x = 1 - ms * rate / batch / 1000; printf "%.4f", (x > 0 ? x : 0) } }'
}

stage_speed() {
  local precision policy round best="" overhead=""
  local -A rate=() fastest=()
  warm_files
  for precision in "${precisions[@]}"; do
    tuned "resnet50_$precision" 100 "$precision" "${resnet50[@]}"
    rate[$precision]=$(field throughput "$line")
    [ -z "$line" ] || [ -n "$overhead" ] || overhead=$(launch_overhead "$line" "$out/$stage/resnet50_$precision")
  done
  best=$(printf '%s\n' "${rate[f16]:-}" "${rate[bf16]:-}" | sort -g | tail -n 1)
  for round in 1 2; do
    for policy in off strict; do
      step measure "f16_${policy}_$round" 60 --precision f16 --benchmark --algorithm-cache "$work/kernels_$policy.json" \
        --deterministic "$policy" "${resnet50[@]}"
      fastest[$policy]=$(printf '%s\n' "${fastest[$policy]:-}" "$(field throughput "$line")" | sort -g | tail -n 1)
    done
  done
  for precision in "${precisions[@]}"; do
    tuned "resnet18_32px_$precision" 60 "$precision" "${cifar[@]}"
    tuned "resnet18_224px_$precision" 60 "$precision" "${resnet18[@]}"
  done
  step measure resnet50_f16_untuned 60 --precision f16 "${resnet50[@]}"
  step measure first_step 40 --precision f16 --algorithm-cache "$out/kernels_resnet50_f16.json" "${resnet50[@]}" --steps 1
  local first_step
  first_step=$(field first_step_seconds "$line")
  gpu bench_sizes --device cuda --repeats 1 --only "$([ "$size" = small ] && echo none || echo forward)"
  measure sizes 60 "$here/gpu_check/parts.sh" sizes "${words[@]}"
  say ""
  goal "resnet50 224 px batch 256, f16 or bf16, images/s" '>=' 7500 "$best"
  goal "time of strict determinism / off" '<=' 1.03 "$(ratio "${fastest[off]}" "${fastest[strict]}")"
  goal "launch overhead of a replayed step" '<=' 0.02 "$overhead"
  goal "seconds to the first step with an algorithm cache" '<=' 1 "$first_step"
  goal "30 sizes, time of benchmark on / off" '<=' 1.05 "$(field ratio "${line%%\"second\"*}")"
}

# versus NAME SECONDS PRECISION OPTION...: sets times[NAME_PRECISION].
versus() {
  beside "$1_$3" "$2" channels_last+fused,compile+fused --device cuda --precision "$3" --benchmark \
    --algorithm-cache "$out/kernels_$1_$3.json" --rounds 2 "${@:4}"
  times[$1_$3]=$(field times_best "$line")
}

stage_pytorch() {
  local -A times=()
  if [ -z "$python" ]; then
    skip pytorch "no python3 imports torch"
    return
  fi
  warm_files
  versus resnet50 170 f16 "${resnet50[@]}"
  versus resnet18_32px 100 f16 "${cifar[@]}"
  versus resnet18_224px 100 f16 "${resnet18[@]}"
  versus resnet50 170 bf16 "${resnet50[@]}"
  versus resnet50 120 tf32 "${resnet50[@]}"
  say ""
  goal "resnet50 224 px f16, times PyTorch's best" '>=' 1.3 "${times[resnet50_f16]}"
  goal "resnet50 224 px bf16, times PyTorch's best" '>=' 1.3 "${times[resnet50_bf16]}"
  goal "resnet18 224 px f16, times PyTorch's best" '>=' 1.3 "${times[resnet18_224px_f16]}"
  goal "resnet18 32 px f16, times PyTorch's best" '>=' 1.5 "${times[resnet18_32px_f16]}"
}

# JPEG files of about 42 and of 110 KB: decoding by the loader alone, and training on them.
stage_input() {
  local files decoded synthetic limit
  local -A share=()
  warm_files
  tuned resnet50_f16 100 f16 "${resnet50[@]}"
  synthetic=$(field throughput "$line")
  for files in small large; do
    local -n made=${files}_files
    gpu bench_photos --out "$work/$files" --processes "$cores" "${made[@]}"
    measure "draw_$files" 60 "${words[@]}"
    gpu bench_load --data-dir "$work/$files" --workers "$cores" --repeat 2 --images "$images"
    measure "decode_$files" 60 "${words[@]}"
    decoded=$(field images_per_second "$line")
    step measure "resnet50_f16_$files" 60 --precision f16 --algorithm-cache "$out/kernels_resnet50_f16.json" --data-dir "$work/$files" \
      --workers "$cores" "${resnet50[@]}"
    limit=$(printf '%s\n' "$synthetic" "$decoded" | awk 'NF' | sort -g | head -n 1)
    share[$files]=$(ratio "$(field throughput "$line")" "$limit")
  done
  say ""
  goal "from small JPEG files / least of synthetic, decoding" '>=' 0.97 "${share[small]}"
  goal "from large JPEG files / least of synthetic, decoding" '>=' 0.97 "${share[large]}"
}

# first_processors N: the first N processors that this process may use, such as 0,1,4.
first_processors() {
  taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
    awk -F- -v n="$1" '{ for (i = $1; i <= $NF && n > 0; i++) { n--; printf "%s%d", s, i; s = "," } }'
}

# The number of steps grows with the threads, so that all parts take about the same time.
stage_cpu() {
  local n model pinned
  for model in resnet18 resnet50; do
    local -n options=${model}_cpu
    for n in "${cpu_threads[@]}"; do
      [ "$n" -le "$cores" ] || continue
      pinned=()
      ! command -v taskset >/dev/null || pinned=(taskset -c "$(first_processors "$n")")
      if [ -n "$python" ]; then
        measure "${model}_${n}_threads" 70 "${pinned[@]}" "$python" "$bench_scripts/versus_pytorch.py" --bench \
          "$(program bench_step)" --seconds 40 --rounds 1 --threads "$n" --steps "$n" "${options[@]}"
      else
        measure "${model}_${n}_threads" 70 "${pinned[@]}" "$(program bench_step)" --threads "$n" --steps "$n" "${options[@]}"
      fi
    done
  done
}

# Two ranks with a GPU each, and one process: equal bits, and the end of a run whose other rank is stopped.
stage_ranks() {
  local missing="" precision
  command -v mpirun >/dev/null || missing="no mpirun"
  [ -e "$LOCKSTEP_MODULES/liblockstep_mpi.so" ] || missing="no liblockstep_mpi.so"
  [ "$(timeout 20 nvidia-smi -L 2>/dev/null | grep -c '^GPU ')" -ge 2 ] || missing="fewer than two GPUs"
  if [ -n "$missing" ]; then
    skip ranks "$missing"
    return
  fi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  warm_files
  gpu lockstep demo-data "${demo[@]}" "$work/demo_ranks" && check demo_data 30 "${words[@]}"
  for precision in f32 f16; do
    gpu lockstep repro --no-val --device cuda --threads 1 --precision "$precision" --data-dir "$work/demo_ranks" \
      --out "$work/ranks_$precision" "${repro_ranks[@]}"
    check "ranks_$precision" 200 "${words[@]}"
  done
  gpu lockstep --device cuda --no-val --data-dir "$work/demo_ranks" "${stopped_rank[@]}"
  check stopped_rank 120 env "LD_LIBRARY_PATH=$cuda_path" "$here/gpu_check/parts.sh" stopped_rank "${words[@]:2}"
}
