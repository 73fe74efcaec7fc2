#!/usr/bin/env bash
# train.sh: read by the tests of 'lockstep train' in ranks, with the command as $1: a folder of demo images, runs in it,
# comparisons, and runs that end by a signal. Each test ends with `exit $failed`.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) lockstep=$1
failed=0 # read by the tests
export failed
"$here/ranks.sh" 1 shm true || exit # 77 without mpirun
# The status after a rank was killed over TCP. Other ranks of Open MPI 5 may abort first, because the connection is closed.
killed_over_tcp=137
[ "$("$here/ranks.sh" version)" -lt 5 ] || killed_over_tcp='137|14'
export killed_over_tcp # read by the tests
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
"$lockstep" demo-data data --train 24 --val 5 >out.txt || exit 1

fail() {
  printf 'failed: %s\n' "$1"
  [ -z "${2:-}" ] || cat "$2"
  failed=1
}

# launch N TRANSPORT CHANGE... -- ARGUMENT...: 'lockstep train' in N ranks, or without a launcher: see rank.sh. Output in
# out.txt and err.txt. Ends within 60 seconds (an idle machine takes about 4).
launch() {
  local n=$1 start=("$here/ranks.sh" "$1" "$2") changes=()
  shift 2
  while [ "$1" != -- ]; do changes+=("$1"); shift; done
  [ "$n" -eq 1 ] && start=()
  timeout -k 5 60 "${start[@]}" "$here/rank.sh" "${changes[@]}" -- "$lockstep" train "${@:2}" >out.txt 2>err.txt
}

# messages: what ranks print to stderr, except that they have more threads than processors. A message may continue in indented
# lines; mpirun's own notices begin with a line of hyphens. Open MPI 5's contain zero bytes.
messages() {
  tr -d '\0' <err.txt | awk '!/^  / { ours = /^(lockstep|to continue)/ } ours && !/warning: .* threads on a machine/'
}

# expect STATUS MESSAGES ARGUMENT-OF-LAUNCH...: no other messages, and each of them once.
expect() {
  launch "${@:3}"
  local status=$?
  [ $status -eq "$1" ] || fail "${*:3}: exit status $status, expected $1" err.txt
  [ "$(messages)" = "$2" ] || fail "${*:3}: expected the messages: $2" err.txt
}

# files RUN...: without event files, whose names contain the time.
files() {
  ls -A -I 'events.out.tfevents.*' "$@"
}

# same A B: two runs, byte for byte, except what depends on time.
same() {
  local file
  [ "$(files "$1")" = "$(files "$2")" ] || fail "$1 and $2 contain other files: $(files "$1" "$2")"
  for file in "$1"/run_log.txt "$1"/{best,last}.safetensors "$1"/evaluation.json; do
    [ -e "$file" ] || continue # a run with targets has no evaluation
    cmp "$file" "$2/${file##*/}" || fail "${file##*/} differs between $1 and $2"
  done
  for file in "$1"/checkpoint-*; do
    [ -e "$file" ] || continue
    cmp <(state "$file") <(state "$2/${file##*/}") || fail "${file##*/} differs between $1 and $2"
  done
  diff <(results "$1") <(results "$2") || fail "metrics differ between $1 and $2"
}

# state FILE: a checkpoint, in mid-epoch too, without the epoch's times in its metadata and their digest.
state() {
  local header
  header=$(od -An -t u8 -N 8 "$1")
  head -c $((8 + header)) "$1" | tail -c +9 |
    sed -E 's/("progress":"([^ "]+ ){5})[^"]*"/\1"/; s/"lockstep digest":"[0-9a-f]{32}"//; s/ +$//'
  tail -c +$((9 + header)) "$1"
}

# results RUN: metrics.csv without speeds and times.
results() {
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) timed[i] = $i ~ /^(images_per_second|data_wait|seconds)$/ }
           { for (i = 1; i <= NF; i++) if (!timed[i]) printf "%s,", $i; print "" }' "$1/metrics.csv"
}

# ---- Runs that end by a signal; "whole" is the same run without it ----

options=() line_bytes=129 # of the runs, which the test sets; of a run log

# signalled RUN STEP COMMAND... -- ARGUMENT-OF-LAUNCH...: begins the run, and calls the command after this step. Returns the
# run's exit status.
signalled() {
  local run=$1 bytes=$(($2 * line_bytes)) command=() launched
  shift 2
  rm -f pid.*
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  launch "${@:2}" "${options[@]}" --out "$run" &
  launched=$!
  until [ -e "$run/run_log.txt" ] && [ "$(stat -c %s "$run/run_log.txt")" -ge $bytes ]; do
    kill -0 $launched 2>/dev/null || { fail "$run ended before it was signalled" err.txt; break; }
    sleep 0.05
  done
  "${command[@]}"
  wait $launched 2>/dev/null
}

# to SIGNAL RANK
to() {
  kill "-$1" "$(cat "pid.$2")"
}

# launcher_of RANK: the process number of mpirun, the parent of the ranks.
launcher_of() {
  ps -o ppid= -p "$(cat "pid.$1")"
}

# all_ended RUN SECONDS PID-FILE...: none of these ranks is left after this time, except as a zombie.
all_ended() {
  local begun=$SECONDS file
  for file in "${@:3}"; do
    while ps -o stat= -p "$(cat "$file")" | grep -qv Z; do
      [ $((SECONDS - begun)) -lt "$2" ] || { fail "$1: rank ${file#pid.} is left"; break; }
      sleep 0.05
    done
  done
}

# ended RUN STATUS EXPECTED: and no process is left after 5 seconds. EXPECTED may be a pattern.
ended() {
  [[ $2 =~ ^($3)$ ]] || fail "$1: exit status $2, expected $3" err.txt
  all_ended "$1" 5 pid.*
}

# resumed RUN RANKS [OPTION]
resumed() {
  launch "$2" shm -- --resume "$1" "${@:3}" || fail "$1: resumed in $2 ranks" err.txt
  same whole "$1"
}
