#!/usr/bin/env bash
# memory_sweep.sh: trains under many limits of the address space (ulimit -v), from the smallest under which the command
# starts. Each run must end with status 0, or with status 1 and a message; a signal or another status is a failure. The
# exit status is the verdict: 0 when no run failed.
# usage: memory_sweep.sh [--command FILE] [--nets "NAME ..."] [--steps N] [--step-kib N] [--workers N] [--log DIR]
#   --command FILE     the command to run                         [built into build/lockstep]
#   --nets "NAME ..."  models to train, at 32 px, batch 8                   [resnet20 resnet18 resnet50]
#   --steps N          limits to try per net                                [20]
#   --step-kib N       distance between two limits, in KiB                  [20000]
#   --workers N        loader threads                                       [2]
#   --log DIR          keeps one line per run in DIR/NET.log                [none]
set -euo pipefail

usage() { sed -n '5,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

command='' nets="resnet20 resnet18 resnet50" steps=20 step_kib=20000 workers=2 log=''
while [ $# -gt 0 ]; do
  [ $# -gt 1 ] || usage
  case $1 in
    --command) command=$2 ;;
    --nets) nets=$2 ;;
    --steps) steps=$2 ;;
    --step-kib) step_kib=$2 ;;
    --workers) workers=$2 ;;
    --log) log=$2 ;;
    *) usage ;;
  esac
  shift 2
done

if [ -z "$command" ]; then
  cd "$(dirname "${BASH_SOURCE[0]}")/.."
  . scripts/packages.sh
  need_packages "${build_packages[@]}"
  build_in build -- lockstep >/dev/null
  command=$PWD/build/lockstep
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=${log:-$work}
mkdir -p "$log"
"$command" demo-data "$work/data" >/dev/null

first=10000
until (ulimit -v $first && exec "$command" --version) >/dev/null 2>&1; do first=$((first + 2000)); done

# train NET LIMIT: one run: the status is that of the command, whose messages are in $work/all.
train() {
  rm -rf "$work/run"
  (
    ulimit -c 0
    ulimit -v "$2"
    exec "$command" train --data-dir "$work/data" --model "$1" --image-size 32 --batch-size 8 --steps 2 --threads 2 \
      --workers "$workers" --no-val --out "$work/run"
  ) >/dev/null 2>"$work/all"
}

n_failed=0
for net in $nets; do
  n_ok=0 n_refused=0 n_wrong=0
  : >"$log/$net.log"
  for ((i = 0; i < steps; i++)); do
    limit=$((first + i * step_kib)) status=0
    { train "$net" $limit || status=$?; } 2>/dev/null # the shell's own note on a signal
    message=$(tail -n 1 "$work/all")
    if [ $status -eq 0 ]; then
      n_ok=$((n_ok + 1))
    elif [ $status -eq 1 ] && [ -n "$message" ]; then
      n_refused=$((n_refused + 1))
    else
      n_wrong=$((n_wrong + 1))
      echo "$net: limit $limit KiB: status $status: $message"
    fi
    echo "$limit $status $message" >>"$log/$net.log"
  done
  echo "$net: $steps limits from $first KiB by $step_kib KiB: $n_ok trained, $n_refused refused, $n_wrong failed"
  n_failed=$((n_failed + n_wrong))
done
[ $n_failed -eq 0 ]
