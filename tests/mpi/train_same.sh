#!/usr/bin/env bash
# train_same.sh LOCKSTEP: runs in 1, 2, 3, 4 and 8 ranks are the same files.
# shellcheck source=tests/mpi/train.sh
. "$(dirname "$0")/train.sh"

# compare NAME RANKS:TRANSPORT[:OPTION]... -- OPTION...: with one process.
compare() {
  local name=$1 places=() place ranks transport option
  shift
  while [ "$1" != -- ]; do places+=("$1"); shift; done
  launch 1 - -- "${@:2}" --threads 2 --workers 2 --out "$name" || fail "$name" err.txt
  for place in "${places[@]}"; do
    IFS=: read -r ranks transport option <<<"$place"
    # shellcheck disable=SC2086
    launch "$ranks" "$transport" mixed -- "${@:2}" --out "$name-$place" $option || fail "$name: $place" err.txt
    same "$name" "$name-$place"
  done
}

# Images that are unreadable for different ranks, in training and validation; shards of 3 samples of 2883 bytes; 52
# validation images, which are two batches and a short one.
cp -r data bad
for image in arrow/000001.jpg heart/000001.jpg star/000001.jpg square/000001.jpg ring/000000.png; do
  echo text >bad/train/$image
done
for image in arrow/000001.jpg heart/000001.jpg star/000001.jpg; do echo text >bad/val/$image; done
compare images 2:tcp:--audit-every=2 3:shm 4:shm:--partition-optimizer 8:shm -- --data-dir bad --on-bad-image skip --model resnet20 --image-size 31 --shards 8 \
  --batch-size 24 --epochs 2 --accumulate 2 --mixup-alpha 0.4 --cutmix-alpha 1 --model-ema 0.9 --clip-grad-norm 1 \
  --checkpoint-every 3 --keep-checkpoints
[ "$(cut -d, -f12 images/metrics.csv | tail -1)" = 8 ] || fail "expected 8 unreadable images" images/metrics.csv
[ "$(ls images/checkpoint-*)" ] || fail "no checkpoints were kept"

# Targets of 3 values, images of 243 bytes; ends before the last epoch.
(echo path,labels; printf '%s\n' data/train/*/* | awk '{ print $0 "," (NR % 3 ? "red" : "green") (NR % 2 ? "; blue" : "") }') >labels.csv
compare labels 2:shm 3:tcp 8:shm -- --data-dir labels.csv --loss bce --val-split 0.3 --model mlp --image-size 9 --shards 8 \
  --batch-size 24 --epochs 40 --lr 0.3 --lr-scheduler plateau --plateau-metric loss --patience 2 --crop-padding 1
[ "$(wc -l <labels/metrics.csv)" -lt 41 ] || fail "the run did not end early" labels/metrics.csv

# A loss scale that changes, dropout, shards that are no whole nodes of the tree for any number of ranks.
compare f16 2:shm:--audit-every=3 3:shm:--partition-optimizer -- --data-dir data --model mobilenet_v2 --precision f16 --image-size 32 --shards 7 --batch-size 21 \
  --epochs 2 --opt adamw --random-erase 0.5 --auto-augment trivial

# Synchronised batch norms, with blocks that are added.
compare synced 2:shm 3:tcp 8:shm -- --data-dir data --model resnet20 --image-size 32 --shards 8 --sync-batch-norm \
  --batch-size 24 --epochs 1
exit "$failed"
