#!/usr/bin/env bash
# train_errors.sh LOCKSTEP: errors of one rank or of all end all ranks, with one message.
# shellcheck source=tests/mpi/train.sh
. "$(dirname "$0")/train.sh"
options=(--data-dir data --model lenet5 --image-size 28 --shards 8 --batch-size 24 --epochs 1 --threads 1 --workers 1)
cp -r data bad
echo text >bad/train/heart/000003.jpg
cp -r data more
cp data/train/ring/000000.png more/train/ring/new.png

# ---- Options ----

expect 2 "lockstep train: 3 ranks require --shards 3 or more; --shards is 2" 3 shm -- "${options[@]}" --shards 2 --out new
expect 2 "lockstep train: --audit-every and --sync-batch-norm exclude each other: a shard whose batch norms are synchronised can't be \
computed alone" 3 shm -- "${options[@]}" --audit-every 1 --sync-batch-norm --out new
expect 2 "lockstep train: --batch-size 23 is not a multiple of --shards 8" 3 shm -- "${options[@]}" --batch-size 23 --out new
expect 2 "lockstep train: --shards 66: expected at most 64 with several ranks" \
  2 shm -- "${options[@]}" --batch-size 66 --shards 66 --out new
expect 2 "lockstep train: --seeding worker can't be used by 2 ranks: which worker loads an image would depend on their number" \
  2 shm -- "${options[@]}" --seeding worker --out new
expect 3 "lockstep train: absent: no such folder; expected absent/train/<class>/<image>" \
  2 tcp -- "${options[@]}" --data-dir absent --out new
expect 2 "lockstep train, rank 1: --lr: expected a number from 1e-12 to 1000, got '0'" \
  2 shm 1:--lr=0 -- "${options[@]}" --out new
for command in eval repro demo-data; do
  "$here/ranks.sh" 2 shm "$lockstep" $command new >out.txt 2>err.txt
  [ $? -eq 2 ] || fail "$command: expected exit status 2" err.txt
  [ "$(messages)" = "lockstep $command: by OMPI_COMM_WORLD_SIZE the launcher started 2 processes; only 'lockstep train' \
runs in several" ] || fail "$command" err.txt
done

# Launchers of which each process is the only rank.
# other_launcher VARIABLE CHANGE...
other_launcher() {
  launch 1 - "${@:2}" -- "${options[@]}" --out new
  [ $? -eq 1 ] || fail "$1: expected exit status 1" err.txt
  messages | grep -q "by $1 the launcher started 2 processes, but .* has 1 rank: expected the mpirun of" || fail "$1" err.txt
}
other_launcher PMI_SIZE 0:PMI_SIZE=2 0:PMI_RANK=0
other_launcher WORLD_SIZE 0:WORLD_SIZE=2 0:RANK=0 0:TORCHELASTIC_RUN_ID=none

# ---- Ranks that differ ----

expect 3 "lockstep train, rank 1: absent: no such folder; expected absent/train/<class>/<image>" \
  2 shm 1:--data-dir=absent -- "${options[@]}" --out new
expect 3 "lockstep train: absent: no such folder; expected absent/train/<class>/<image>" \
  2 shm 0:--data-dir=absent -- "${options[@]}" --out new
differs="the ranks are not of one run:"
expect 1 "lockstep train: rank 2: $differs schedule.lr is 0.01875 in rank 0, 0.5 in rank 2" \
  3 shm 2:--lr=0.5 -- "${options[@]}" --out new
expect 1 "lockstep train: rank 1: $differs data.samples is 240 in rank 0, 241 in rank 1" \
  2 shm 1:--data-dir=more -- "${options[@]}" --out new
expect 1 "lockstep train: $differs native_arithmetic is 0 in rank 0; 1 in rank 1" \
  2 shm 1:--arithmetic=native -- "${options[@]}" --out new
# Options by which ranks would wait for each other at other steps, or write other files.
for option in steps=5 stop-at=5 patience=3 checkpoint-every=3; do
  expect 1 "lockstep train: $differs --${option%=*} is not given in ranks 0, 2; ${option#*=} in rank 1" \
    3 shm 1:--$option -- "${options[@]}" --out new
done
for option in no-report keep-checkpoints; do
  expect 1 "lockstep train: $differs --$option is given in rank 0; not given in rank 1" \
    2 shm 0:--$option -- "${options[@]}" --out new
done
expect 1 "lockstep train: $differs --out is not given in rank 0; given in rank 1" 2 tcp 1:--out=new -- "${options[@]}"
expect 1 "lockstep train: $differs partition_optimizer is 0 in rank 0; 1 in rank 1" \
  2 shm 1:--partition-optimizer -- "${options[@]}" --out new
expect 1 "lockstep train: $differs audit_every is 0 in ranks 0, 1; 2 in rank 2" 3 shm 2:--audit-every=2 -- "${options[@]}" --out new
[ ! -e run ] || fail "a start that failed left a folder"
for run in run run-2; do
  launch 2 shm -- "${options[@]}" --steps 2 || fail "$run, without --out" err.txt
  [ "$(wc -l <$run/run_log.txt)" -eq "$(wc -l <run/run_log.txt)" ] || fail "$run, without --out"
done
other=plain
[ "${LOCKSTEP_MAX_ISA-}" != plain ] || other=avx2
launch 3 shm 2:LOCKSTEP_MAX_ISA=$other -- "${options[@]}" --steps 2 --out mixed || fail "another instruction set" err.txt
cmp -s run/run_log.txt mixed/run_log.txt || fail "another instruction set: other results"
expect 1 "lockstep train, rank 1: the environment variable LOCKSTEP_MAX_ISA is 'sse', expected plain, avx2 or \
avx512" 2 shm 1:LOCKSTEP_MAX_ISA=sse -- "${options[@]}" --out new

[ ! -e new ] || fail "a start that failed left a folder"

# An op after the exchange of gradients: the update of weights.
launch 3 shm 1:--inject-fault=2:1000:0 -- "${options[@]}" --out no-op
last=$(($(sed -n 's/.*the step has \([0-9]*\) ops.*/\1/p' err.txt) - 1))
expect 1 "lockstep train: the weights of rank 1 differ from those of rank 0 and others: a processor, its memory or a \
library computes a different result" 3 shm 1:--inject-fault=2:$last:0 -- "${options[@]}" --out fault

# An op of the forward pass of the shard that is audited in the second step.
expect 1 "lockstep train: epoch 1, step 2: audit: rank 2 and rank 1 computed different results of shard 5: a processor, its \
memory or a library of one of them is faulty" 3 shm 2:--inject-fault=1:copy@input:0 -- "${options[@]}" --audit-every 1 --out audited

# ---- Images ----

quoted=$lockstep # as the command prints itself
[[ $lockstep != *' '* ]] || quoted="'$lockstep'"

options_bad=("${options[@]}" --data-dir bad --seed 3) # the image is in the last of three ranks
launch 1 - -- "${options_bad[@]}" --on-bad-image skip --out skipped || fail "skipped" err.txt
expect 3 "lockstep train: rank 2: epoch 1, step 6: image 'bad/train/heart/000003.jpg': not a JPEG, PNG, WebP, BMP or PNM file
lockstep train: saved at epoch 1, step 5
to continue without unreadable images: mpirun -n 3 $quoted train --resume resumed --on-bad-image skip" \
  3 shm -- "${options_bad[@]}" --out resumed
expect 0 "lockstep train: warning: unreadable image replaced: $PWD/bad/train/heart/000003.jpg: not a JPEG, PNG, WebP, BMP or PNM \
file" 2 shm -- --resume resumed --on-bad-image skip
same skipped resumed
expect 2 "lockstep train: 9 ranks: the run has --shards 8, and resumes in at most as many ranks" 9 shm -- --resume resumed
expect 1 "lockstep train, rank 1: absent: no such folder; all ranks read the run's folder" \
  2 shm 1:--resume=absent -- --resume resumed

# ---- Files ----

expect 2 "lockstep train: resumed already contains a run: resume it with --resume resumed, or choose another --out" \
  2 shm -- "${options[@]}" --out resumed
expect 1 "lockstep train: run folder 'out.txt/new': Not a directory" 2 shm -- "${options[@]}" --out out.txt/new
# MPI's shared memory would be limited, too.
expect 1 "lockstep train: writing 'full/last.safetensors': File too large (file size limit: ulimit -f)" \
  2 tcp 0:fsize=300 -- "${options[@]}" --out full
[ ! -e full ] || fail "full: a start that failed left a folder"
mkdir new # remains, because it was there before
expect 1 "lockstep train: writing 'new/last.safetensors': File too large (file size limit: ulimit -f)" \
  2 tcp 0:fsize=300 -- "${options[@]}" --out new
launch 2 shm -- "${options[@]}" --out new || fail "after errors" err.txt
grep -qx 'ranks   2 on 1 machine' out.txt || fail "expected the number of ranks" out.txt

# ---- Numbers ----

(echo path,target; printf '%s\n' data/train/*/* | awk '{ print $0 "," NR * 1000 }') >numbers.csv
launch 3 shm -- "${options[@]}" --data-dir numbers.csv --val-split 0.2 --loss mse --lr 1000 --momentum 0 --weight-decay 0 \
  --lr-warmup-epochs 0 --out infinite
[ $? -eq 4 ] || fail "infinite: expected exit status 4" err.txt
[ "$(messages | grep -c ': the loss is inf at epoch 1, step [0-9]*; the batch.s images:$')" -eq 1 ] || fail infinite err.txt
[ "$(messages | wc -l)" -eq 9 ] || fail "infinite: expected one message" err.txt # 6 images, how many more, and an advice
exit "$failed"
