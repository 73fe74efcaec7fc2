#!/usr/bin/env bash
# train_cut.sh LOCKSTEP: the cable between two machines is cut: all ranks end by themselves. Skipped without root, or where
# network namespaces can't be made.
# shellcheck disable=SC2317 # functions that "signalled" calls by name
set -u
[ "$(id -u)" -eq 0 ] || { echo "skipped: network namespaces require root"; exit 77; }
for tool in ip unshare; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
# shellcheck source=tests/mpi/train.sh
. "$(dirname "$0")/train.sh"
machines=lockstep$$
trap '"$here/machines.sh" down "$machines"; rm -rf "$work"' EXIT
"$here/machines.sh" up "$machines" || { echo "skipped: no network namespaces"; exit 77; }
options=(--data-dir data --model resnet20 --image-size 32 --shards 8 --batch-size 24 --epochs 3 --checkpoint-every 3
  --threads 1 --workers 1 --rank-timeout 3)

# cut_cable RUN: what a supervisor does, after the ranks have ended: mpirun and its daemon wait for each other.
cut_cable() {
  local begun=$SECONDS launcher
  launcher=$(launcher_of 0)
  "$here/machines.sh" cut "$machines"
  all_ended "$1" 25 pid.* # the time limit of 3 seconds, and 5 on an idle machine
  echo "the ranks ended $((SECONDS - begun)) seconds after the cut"
  kill -KILL "$launcher" 2>/dev/null
}

launch 1 - -- "${options[@]}" --out whole || fail "whole" err.txt
signalled cut 14 cut_cable cut -- 4 "machines=$machines" --
messages | grep -qE '^lockstep train: .*: rank 0 of 4: after 3 seconds (rank [23] has|ranks 2, 3 have) not arrived$' ||
  fail "cut: expected a message of rank 0 that names rank 2 or 3" err.txt
resumed cut 3
exit "$failed"
