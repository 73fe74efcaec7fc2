#!/usr/bin/env bash
# limit_sweep.sh [STEPS]: builds, then trains under lowered resource limits, STEPS [12] values of each: open files (ulimit -n),
# file size (-f), threads and processes (-u), and file systems that are full (tmpfs, where mounting is allowed). Each run
# must end with 0 or with an exit code and a message of its own, never by a signal; resumed without the limit, it must have the
# weights and the run log of an undisturbed run. The exit status is the verdict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages "${build_packages[@]}"
build_in build -- lockstep >/dev/null
steps=${1:-12}
lockstep=$PWD/build/lockstep
work=$(mktemp -d /tmp/lockstep-limits-XXXXXX)
chmod 755 "$work"
mounted=
# shellcheck disable=SC2329 # called by the trap
clean_up() {
  [ -z "$mounted" ] || umount "$mounted"
  rm -rf "$work"
}
trap clean_up EXIT
cd "$work"
"$lockstep" demo-data data --train 4 --val 1 >/dev/null
options=(--data-dir "$work/data" --image-size 8 --epochs 2 -b 8 -j 2 --threads 2 --checkpoint-every 2)
"$lockstep" train "${options[@]}" --out whole >/dev/null

findings=0 runs=0 reported=0
finding() {
  echo "finding: $*: $(tr '\n' ' ' <run.err | tail -c 300)"
  findings=$((findings + 1))
}

# judge WHAT STATUS: after a run under a limit, in run/.
judge() {
  runs=$((runs + 1))
  if [ "$2" -ne 0 ]; then
    reported=$((reported + 1))
    case $2 in 1 | 3) ;; *) finding "$1: exit status $2" ;; esac
    [ -s run.err ] || finding "$1: no message"
    local again=(--resume run)
    [ -e run/config.json ] || again=("${options[@]}" --out run)
    "$lockstep" train "${again[@]}" >/dev/null 2>run.err || finding "$1: not resumed"
  fi
  cmp -s whole/last.safetensors run/last.safetensors || finding "$1: weights differ"
  cmp -s whole/run_log.txt run/run_log.txt || finding "$1: run log differs"
}

# limited WHAT COMMAND...: one run with a limit set by COMMAND, in a shell of its own. Messages pass through a pipe, because
# the limit of a file's size applies to run.err too.
limited() {
  local what=$1 status=0
  shift
  rm -rf run
  ("$@" && exec "$lockstep" train "${options[@]}" --out run) 2>&1 >/dev/null | cat >run.err || status=$?
  judge "$what" "$status"
}

# Below 3 files the loader of shared libraries itself fails, with 127.
for ((i = 0; i < steps; i++)); do limited "ulimit -n $((4 + i))" ulimit -n $((4 + i)); done
# Blocks of 1 KiB; the checkpoint is the largest file.
largest=$(($(stat -c %s whole/last.safetensors) / 1024 + 8))
for ((i = 0; i < steps; i++)); do
  limited "ulimit -f $((largest * i / steps))" ulimit -f $((largest * i / steps))
done

# Root has no limit of processes; it becomes nobody, who owns the folder then.
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null && su nobody -s /bin/sh -c "test -x $lockstep" 2>/dev/null; then
  chmod 777 "$work"
  for ((i = 0; i < steps && i < 8; i++)); do
    rm -rf run
    status=0
    setpriv --reuid nobody --regid nogroup --clear-groups bash -c \
      "ulimit -u $((1 + i)) && exec \"\$@\"" limited "$lockstep" train "${options[@]}" --out run >/dev/null 2>run.err || status=$?
    judge "ulimit -u $((1 + i))" "$status"
  done
elif [ "$(id -u)" -ne 0 ]; then
  for ((i = 0; i < steps && i < 8; i++)); do limited "ulimit -u $((1 + i))" ulimit -u $((1 + i)); done
else
  echo "ulimit -u: skipped, nobody can't run $lockstep"
fi

mkdir small
if mount -t tmpfs -o size=64k none small 2>/dev/null; then
  mounted=$work/small
  for ((i = 1; i <= steps; i++)); do
    size=$((4 * largest * i / steps))
    mount -o "remount,size=${size}k" small
    rm -rf run small/run
    status=0
    "$lockstep" train "${options[@]}" --out small/run >/dev/null 2>run.err || status=$?
    cp -r small/run run 2>/dev/null || true
    judge "file system of $size KiB" "$status"
  done
else
  echo "tmpfs: skipped, mounting is not allowed"
fi

echo "$runs runs under limits, $reported reported, $((runs - reported)) without harm, $findings findings"
[ "$findings" -eq 0 ]
