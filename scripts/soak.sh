#!/usr/bin/env bash
# soak.sh [--minutes N] [--seed S]: builds, then for N [10] minutes trains small runs that are killed at random moments by
# SIGKILL, SIGTERM, SIGHUP and SIGINT, and resumes each on other numbers of workers and threads until it ends. Precision,
# optimizer and source (folder or pack) vary. The weights, the run log and the metrics of each must equal those of an
# undisturbed run, to the byte. A fifth of the time goes into one long run, which must not grow in memory or in processor time
# per epoch. The exit status is the verdict.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
minutes=10 seed=1
while [ $# -gt 0 ]; do
  case $1 in
  --minutes) minutes=${2:?--minutes requires a number} ;;
  --seed) seed=${2:?--seed requires a number} ;;
  *)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' scripts/soak.sh >&2
    exit 2
    ;;
  esac
  shift 2
done
need_packages "${build_packages[@]}"
build_in build -- lockstep >/dev/null
RANDOM=$seed
lockstep=$PWD/build/lockstep
work=$(mktemp -d /tmp/soak-XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$lockstep" demo-data data --train 8 --val 2 >/dev/null
"$lockstep" pack data data.pack >/dev/null 2>&1

# pick VALUE...: one of them, in `picked`; a subshell would draw the same random numbers each time.
pick() { picked=${*:RANDOM % $# + 1:1}; }

findings=0 kills=0 rounds=0
finding() {
  echo "finding: $*: $(tail -n 3 said | tr '\n' ' ')"
  findings=$((findings + 1))
}

# The metrics without the columns that hold times.
untimed() {
  awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) timed[i] = $i ~ /seconds|second$|wait/ }
           { for (i = 1; i <= NF; i++) if (!timed[i]) printf "%s,", $i; print "" }' "$1/metrics.csv"
}

# One run, killed and resumed until it ends. Another seed trains each precision and optimizer to other weights.
round() {
  local precision optimizer source signal status whole starts=0
  pick f32 bf16 f16 && precision=$picked
  pick sgd adamw rmsprop && optimizer=$picked
  pick data data.pack && source=$picked
  whole=whole-$precision-$optimizer
  local options=(--image-size 16 --epochs 3 -b 8 --crop-padding 2 --checkpoint-every 3
    --precision "$precision" --opt "$optimizer" --lr 0.01)
  if [ ! -d "$whole" ]; then
    "$lockstep" train --data-dir data "${options[@]}" --out "$whole" >said 2>&1 || finding "$whole: exit status $?"
  fi
  rm -rf run
  while :; do
    starts=$((starts + 1))
    local start=(--data-dir "$source" "${options[@]}" --out run)
    [ ! -e run/config.json ] || start=(--resume run)
    pick 0 1 2 4 8 && start+=(-j "$picked")
    pick 1 2 3 5 && start+=(--threads "$picked")
    pick KILL KILL KILL TERM HUP INT && signal=$picked
    # Without job control a shell starts background processes with SIGINT ignored.
    env --default-signal=INT "$lockstep" train "${start[@]}" >said 2>&1 &
    if [ $((RANDOM % 5)) -ne 0 ] && [ "$starts" -le 12 ]; then
      sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
      ! kill -"$signal" $! 2>/dev/null || kills=$((kills + 1))
    fi
    status=0
    wait $! 2>/dev/null || status=$?
    case $status in
    0) break ;;
    129 | 130 | 137 | 143) ;; # ended by the signal
    *) finding "$precision $optimizer $source ${start[*]}: exit status $status" && return ;;
    esac
  done
  for file in last.safetensors best.safetensors run_log.txt; do
    cmp -s "$whole/$file" "run/$file" || finding "$precision $optimizer $source: $file differs after $starts starts"
  done
  [ "$(untimed "$whole")" = "$(untimed run)" ] || finding "$precision $optimizer $source: metrics differ"
  [ -z "$(find run -name '*.tmp*')" ] || finding "$precision $optimizer $source: temporary files are left"
  rounds=$((rounds + 1))
}

# One run of very many short epochs, looked at twice a second: its resident KiB, processor ticks (wall-clock time would
# depend on what else runs) and epochs so far.
grow() {
  local until=$(($(date +%s) + $1)) pid
  "$lockstep" train --data-dir data --no-val --image-size 8 --epochs 100000 -b 40 -j 2 --threads 2 --lr 1e-4 --out long >said 2>&1 &
  pid=$!
  while [ "$(date +%s)" -lt "$until" ] && kill -0 $pid 2>/dev/null; do
    sleep 0.5
    [ ! -s long/metrics.csv ] ||
      echo "$(awk '/^VmRSS/ { print $2 }' /proc/$pid/status) $(cut -d ' ' -f 14,15 /proc/$pid/stat) $(wc -l <long/metrics.csv)" >>samples
  done
  kill -TERM $pid 2>/dev/null || finding "the long run ended by itself"
  wait $pid 2>/dev/null || true
  awk '{ rss[NR] = $1; ticks[NR] = $2 + $3; epochs[NR] = $4 }
    END {
      n = int(NR / 3); if (n < 3) { print "long run: too few samples"; exit 1 }
      first = (ticks[n] - ticks[1]) / (epochs[n] - epochs[1]); last = (ticks[NR] - ticks[NR - n]) / (epochs[NR] - epochs[NR - n])
      printf "long run: %d epochs; resident KiB %d after a third, %d at the end; ticks per epoch %.2f in the first third, %.2f in the last\n",
        epochs[NR], rss[n], rss[NR], first, last
      exit !(rss[NR] <= 1.05 * rss[n] + 1024 && last <= 1.25 * first)
    }' samples || finding "the long run grew in memory or time per epoch"
}

end=$(($(date +%s) + minutes * 60))
grow $((minutes * 12))
while [ "$(date +%s)" -lt "$end" ] && [ "$findings" -lt 20 ]; do round; done
echo "$rounds runs, $kills kills, $findings findings (seed $seed)"
[ "$findings" -eq 0 ]
