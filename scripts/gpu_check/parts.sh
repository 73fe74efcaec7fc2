#!/usr/bin/env bash
# parts.sh PART [ARGUMENT...]: parts of gpu_check.sh that are not programs of the build.
set -euo pipefail

# Describes the machine.
machine() {
  local python
  uname -srm
  sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release 2>/dev/null || true
  getconf GNU_LIBC_VERSION 2>/dev/null || true
  printf '%s x %s\n' "$(nproc)" "$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)"
  awk '/^MemTotal/ { printf "%.1f GiB of memory\n", $2 / 1048576 }' /proc/meminfo
  for python in "$@"; do
    "$python" -c 'import sys, torch; print("Python", sys.version.split()[0], "with PyTorch", torch.__version__)' 2>/dev/null || true
  done
}

# The driver's version; fails without a driver.
driver() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total --format=csv,noheader
  elif [ -e /proc/driver/nvidia/version ]; then
    head -n 1 /proc/driver/nvidia/version
  else
    echo "no NVIDIA driver: neither nvidia-smi nor /proc/driver/nvidia/version exists" >&2
    return 1
  fi
}

# libraries FINDER MODULE: the paths of the module's libraries. Fails if one is missing; only several ranks require NCCL.
libraries() {
  local found loaded
  found=$("$1" --module "$2" --list)
  loaded=$("$1" --module "$2" ldd "$2")
  printf '%s\n' "$found"
  loaded=$(awk '/not found/ && !/^libnccl/ { print $1 }' <<<"$found"$'\n'"$loaded" | sort -u | paste -sd ' ')
  if [ -n "$loaded" ]; then
    echo "not found: $loaded" >&2
    return 1
  fi
}

# warm FINDER MODULE: reads CUDA's library files once, so that no timed part waits for the disk.
warm() {
  local files
  mapfile -t files < <("$1" --module "$2" --list | sed -nE '/^libnccl/!s/^[^ ]+ +(\/.*) \([^()]*\)$/\1/p' |
    while IFS= read -r file; do ls "${file%.so.*}"*.so.*; done | xargs -r -d '\n' readlink -f | sort -u)
  [ "${#files[@]}" -eq 0 ] || cat "${files[@]}" | wc -c |
    awk -v n="${#files[@]}" '{ printf "{\"files\": %d, \"bytes\": %d}\n", n, $1 }'
}

# stopped_rank LOCKSTEP OPTION...: 'lockstep train' in two ranks, one of which is stopped in the tenth step. The other one must end
# the run within 30 seconds, with an error that names the stopped rank.
stopped_rank() {
  local folder launched status=0 begun
  folder=$(mktemp -d)
  # shellcheck disable=SC2016 # expanded in the ranks
  mpirun -n 2 --bind-to none --oversubscribe sh -c 'echo $$ >"$0/pid.$OMPI_COMM_WORLD_RANK"; exec "$@"' "$folder" "$1" train \
    "${@:2}" --rank-timeout 5 --out "$folder/run" >"$folder/out.txt" 2>"$folder/err.txt" &
  launched=$!
  until [ -e "$folder/run/run_log.txt" ] && [ "$(wc -l <"$folder/run/run_log.txt")" -ge 10 ]; do
    kill -0 $launched 2>/dev/null || break
    sleep 0.05
  done
  kill -STOP "$(cat "$folder/pid.1")" || true
  begun=$SECONDS
  wait $launched || status=$?
  cat "$folder/out.txt" "$folder/err.txt"
  kill -KILL "$(cat "$folder/pid.1")" 2>/dev/null || true
  if [ "$status" -ne 1 ] || [ $((SECONDS - begun)) -gt 30 ] || ! grep -q 'rank 1 has not arrived' "$folder/err.txt"; then
    echo "exit status $status after $((SECONDS - begun)) s; expected 1 within 30 s, and the error that rank 1 has not arrived" >&2
    return 1
  fi
  rm -rf "$folder"
}

# sizes PROGRAM OPTION...: runs bench_sizes and prints its JSON object on one line.
sizes() { "$@" | tr -d '\n'; }

# kernels ROOT: the names of our own kernels, from the sources or from a bundle's list.
kernels() {
  if [ -e "$1/share/kernels.txt" ]; then
    cat "$1/share/kernels.txt"
  else
    cat "$1"/src/cuda/kernels/*.cu | grep -oE '__global__ .*[a-z0-9_]+\(' | sed -E 's/.* ([a-z0-9_]+)\($/\1/' | sort -u
  fi
}

# sanitize SANITIZER TOOL KERNELS COMMAND...: NVIDIA's checkers on ten steps of a small net. Only findings in our own kernels count (KERNELS:
# a file of their names), because the tools also report harmless accesses in kernels of cuDNN and cuBLASLt.
sanitize() {
  local kernels=$3 status=0 log ours
  log=$(CK_FORK=no CK_RUN_CASE=same_bits_again "$1" --tool "$2" --error-exitcode 99 "${@:4}" 2>&1) || status=$?
  printf '%s\n' "$log"
  # "at void NAME<...>(...)+0x10 in FILE" or, in older versions, "at 0x10 in FILE:LINE:NAME(...)"; other kernels have namespaces.
  ours=$(grep -cE "^=========.* at (.*[0-9]:|.* )?($(paste -sd '|' "$kernels"))[<(]" <<<"$log" || true)
  echo "$ours findings in our own kernels"
  if [ "$status" -eq 99 ]; then return $((ours > 0)); fi
  return "$status"
}

"$@"
