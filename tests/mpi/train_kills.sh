#!/usr/bin/env bash
# train_kills.sh LOCKSTEP: runs that end by a signal, and resume in another number of ranks to the same files.
# shellcheck disable=SC2317 # functions that "signalled" calls by name
# shellcheck source=tests/mpi/train.sh
. "$(dirname "$0")/train.sh"
options=(--data-dir data --model resnet20 --image-size 32 --shards 8 --batch-size 24 --epochs 3 --checkpoint-every 3
  --threads 1 --workers 1)

launch 1 - -- "${options[@]}" --out whole || fail "whole" err.txt

signalled kill-1-of-2 5 to KILL 1 -- 2 shm --
ended kill-1-of-2 $? 137
resumed kill-1-of-2 3 --partition-optimizer
signalled kill-0-of-4 14 to KILL 0 -- 4 tcp --
ended kill-0-of-4 $? "$killed_over_tcp"
resumed kill-0-of-4 1
signalled kill-alone 7 to KILL 0 -- 1 - --
ended kill-alone $? 137
resumed kill-alone 2

signalled term-1-of-3 12 to TERM 1 -- 3 shm --
ended term-1-of-3 $? 143
messages | grep -qE '^lockstep train: signal 15: saved at epoch [23], step [0-9]+$' || fail "term-1-of-3" err.txt
[ "$(messages | wc -l)" -eq 2 ] || fail "term-1-of-3: expected 2 messages" err.txt
resumed term-1-of-3 4
# Open MPI's mpirun exits with 1, and kills the ranks after a second: a busy machine may not save in that time.
to_launcher() {
  kill "-$1" "$(launcher_of 0)"
}
signalled term-mpirun 12 to_launcher TERM -- 2 shm --
ended term-mpirun $? 1
resumed term-mpirun 1

begun=$SECONDS
signalled stop-1-of-3 5 to STOP 1 -- 3 shm -- --rank-timeout 3
ended stop-1-of-3 $? 1
[ $((SECONDS - begun)) -lt 20 ] || fail "stop-1-of-3: $((SECONDS - begun)) seconds"
# In an exchange of a step, or in the agreement before it.
where="exchange .*: epoch 1, step [1-9][0-9]*|agreement of ranks|digests of a step"
messages | grep -qE "^lockstep train: ($where): rank 0 of 3: after 3 seconds rank 1 has not arrived$" ||
  fail "stop-1-of-3" err.txt
[ "$(messages | wc -l)" -eq 1 ] || fail "stop-1-of-3: expected 1 message" err.txt
resumed stop-1-of-3 2

# A rank that is stopped before it connects.
begun=$SECONDS
launch 2 shm 1:stopped -- "${options[@]}" --out stopped-start --rank-timeout 4
status=$?
[ $status -ne 0 ] || fail "stopped-start: status 0" err.txt
[ $((SECONDS - begun)) -lt 25 ] || fail "stopped-start: $((SECONDS - begun)) seconds"
grep -q 'lockstep train: after 4 seconds (--rank-timeout) the ranks are not connected' err.txt || fail "stopped-start" err.txt
[ ! -e stopped-start ] || fail "stopped-start: a folder remains"

# mpirun hangs, too: the other ranks end by themselves.
stop_launcher() {
  to_launcher STOP
  to STOP 1
  all_ended stop-mpirun 25 pid.0 pid.2 # the time limit of 3 seconds, and 5 on an idle machine
  to KILL 1
  to_launcher KILL
}
signalled stop-mpirun 5 stop_launcher -- 3 shm -- --rank-timeout 3
resumed stop-mpirun 1

# In validation, which takes most of an epoch; also after its last batch.
options=(--data-dir data/train --val-split 0.7 --model resnet20 --image-size 32 --shards 8 --batch-size 24 --epochs 3
  --threads 1 --workers 1)
rm -r whole
launch 1 - -- "${options[@]}" --out whole || fail "whole" err.txt
after() {
  sleep "$1"
  "${@:2}"
}
for delay in 0 0.1 0.2 0.3; do
  signalled "val-$delay" 2 after $delay to TERM 2 -- 3 shm --
  status=$?
  [ $status -eq 0 ] || ended "val-$delay" $status 143 # 0: it has ended before
  resumed "val-$delay" 1
done
exit "$failed"
