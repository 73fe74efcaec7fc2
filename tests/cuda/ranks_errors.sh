#!/usr/bin/env bash
# ranks_errors.sh LOCKSTEP CUDA MPI NCCL: how ranks on emulated devices fail: libraries, devices, lost messages.
# shellcheck source=tests/cuda/emulated_ranks.sh
. "$(dirname "$0")/emulated_ranks.sh"
mkdir empty
: >empty/libnccl.so.2 # in place of the system's, if there is one
missing="$work/empty/libnccl.so.2: file too short; NCCL 2.18 or later is required"

# ---- Opening ----

LD_LIBRARY_PATH=$work/empty expect 1 "lockstep train: device 'cuda': 2 ranks require NCCL: $missing" 2 shm -- "${options[@]}" --out new
expect 1 "lockstep train: rank 1: device 'cuda': 3 ranks require NCCL: $missing" \
  3 shm 1:LD_LIBRARY_PATH="$work/empty" -- "${options[@]}" --out new
LOCKSTEP_EMULATED_NCCL_VERSION=21705 expect 1 \
  "lockstep train: device 'cuda': 2 ranks require NCCL: libnccl.so.2 is NCCL 2.17.5, 2.18 or later is required" \
  2 shm -- "${options[@]}" --out new
expect 1 "lockstep train: NCCL: rank 1 has version 22000, rank 0 has 22703: expected the same" \
  2 shm 1:LOCKSTEP_EMULATED_NCCL_VERSION=22000 -- "${options[@]}" --out new
LOCKSTEP_EMULATED_DEVICES=2 expect 1 "lockstep train: device 'cuda': ranks 0 and 2 of 3 have the same GPU, expected at least as \
many visible GPUs as ranks on a machine" 3 shm -- "${options[@]}" --out new
expect 1 "lockstep train: device 'cuda:1' can't be used by 2 ranks, expected 'cuda' or 'auto': each rank of a machine has its \
own GPU" 2 shm -- "${options[@]}" --device cuda:1 --out new
expect 0 "lockstep train: warning: device 'auto' is the cpu: rank 1: device 'cuda': 2 ranks require NCCL: $missing" \
  2 shm 1:LD_LIBRARY_PATH="$work/empty" -- "${options[@]}" --device auto --stop-at 1 --out auto

# ---- In a step ----

# lost PATTERN CHANGE: the run ends with status 1 and this message.
lost() {
  launch 2 shm "$2" -- "${options[@]}" --rank-timeout 2 --out lost
  local status=$?
  [ $status -eq 1 ] || fail "$2: exit status $status, expected 1" err.txt
  messages | grep -qE "$1" || fail "$2: expected the message: $1" err.txt
  rm -rf lost
}
for group in 3 12; do # queued, and captured
  lost "NCCL: rank [01] of 2: epoch [0-9]+, step [0-9]+: remote error: " 1:LOCKSTEP_EMULATED_NCCL=error:$group
  lost "after 2 seconds messages between devices have not arrived, although all ranks answer" \
    1:LOCKSTEP_EMULATED_NCCL=stall:$group
done

# A step with an injected fault is not captured, and so not in the other ranks either.
expect 0 "" 3 shm 1:--inject-fault=5:10:0 -- "${options[@]}" --stop-at 8 --out fault
exit "$failed"
