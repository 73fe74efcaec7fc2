#!/usr/bin/env bash
# ranks_same.sh LOCKSTEP CUDA MPI NCCL: runs in 1, 2, 3 and 4 ranks on emulated devices are the same files.
# shellcheck source=tests/cuda/emulated_ranks.sh
. "$(dirname "$0")/emulated_ranks.sh"

# compare NAME RANKS:STREAMS... -- OPTION...: with one process. STREAMS: see emulator/driver.h.
compare() {
  local name=$1 places=() place
  shift
  while [ "$1" != -- ]; do places+=("$1"); shift; done
  launch 1 - -- "${options[@]}" "${@:2}" --out "$name" || fail "$name" err.txt
  for place in "${places[@]}"; do
    LOCKSTEP_EMULATED_STREAMS=${place#*:} launch "${place%:*}" shm -- "${options[@]}" "${@:2}" --out "$name-$place" ||
      fail "$name: $place" err.txt
    [ -z "$(messages)" ] || fail "$name: $place: expected no messages" err.txt
    same "$name" "$name-$place"
  done
}

compare cuda 2:late 3:8 -- --epochs 2 --clip-grad-norm 1
# Ranks with different numbers of shards, and steps without an update.
compare accumulated 4:now -- --batch-size 10 --shards 5 --epochs 1 --accumulate 2 --audit-every 2
compare f16 3:9 -- --precision f16 --shards 5 --batch-size 10 --epochs 1

# A run that ends in 3 ranks and resumes in 2. The device is that of the checkpoint.
launch 3 shm -- "${options[@]}" --clip-grad-norm 1 --stop-at 11 --out resumed || fail "stop" err.txt
launch 2 shm -- --resume resumed || fail "resume" err.txt
same cuda resumed

# Ranks that see one GPU each, by --device auto; the resumed run has the same device.
for resumed in --out --resume; do
  new=("${options[@]}" --clip-grad-norm 1 --device auto --stop-at 3)
  [ $resumed = --out ] || new=()
  LOCKSTEP_EMULATED_DEVICES=1 launch 2 shm 1:LOCKSTEP_EMULATED_FIRST=1 -- "${new[@]}" $resumed one-each || fail "one each" err.txt
done
cmp cuda/run_log.txt one-each/run_log.txt || fail "one each differs"
exit "$failed"
