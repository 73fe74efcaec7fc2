#!/usr/bin/env bash
# emulated_ranks.sh: read by the tests of ranks on emulated devices, with the paths of the command, the emulated CUDA module, the
# module of MPI and the stand-in for NCCL as arguments. See tests/mpi/train.sh.
# shellcheck disable=SC2034 # `options` is read by the tests
LOCKSTEP_MODULES=$(mktemp -d) || exit 1
export LOCKSTEP_MODULES
trap 'rm -rf "$LOCKSTEP_MODULES"' EXIT
ln -s "$2" "$3" "$LOCKSTEP_MODULES"
nccl=$(dirname "$4")
# shellcheck source=tests/mpi/train.sh
. "$(dirname "${BASH_SOURCE[0]}")/../mpi/train.sh"
trap 'rm -rf "$work" "$LOCKSTEP_MODULES"' EXIT
export LD_LIBRARY_PATH=$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LOCKSTEP_EMULATED_DEVICES=8
# 60 images, because an emulated device takes a second for a few steps when sanitizers run.
"$lockstep" demo-data small --train 6 --val 2 >out.txt || exit 1
# For a report rank 0 alone waits for its device, which waits for the others' devices. Those run while their hosts call CUDA.
options=(--device cuda --no-report --data-dir small --model lenet5 --image-size 12 --shards 4 --batch-size 8 --epochs 2 --threads 1 --workers 1)
