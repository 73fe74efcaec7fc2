# report.sh: sourced by gpu_check.sh: runs parts and appends each result at once to $out/gpu_check.jsonl (one object per part) and
# $out/gpu_check.txt.
# shellcheck shell=bash
# shellcheck disable=SC2154 # gpu_check.sh sets out, stage, deadline, part_limit

# shellcheck disable=SC2034 # gpu_check.sh reads failed, undecided and n_cut
failed=0 undecided=0 n_cut=0
child="" line="" result=""

# ---- Text and JSON ----

say() { printf '%s\n' "$*" | tee -a "$out/gpu_check.txt"; }
# quote TEXT: prints TEXT as a JSON string.
quote() { printf '"%s"' "$(tr -d '\000-\010\013-\037' <<<"$1" | sed 's/\\/\\\\/g; s/"/\\"/g; s/\t/ /g')"; }
# record MEMBERS: appends an object of the stage.
record() { printf '{"stage": "%s", %s}\n' "$stage" "$1" >>"$out/gpu_check.jsonl"; }
# field KEY LINE: prints a number or a string of a JSON object; nothing if it is missing.
field() { sed -nE "s/.*\"$1\": (\"([^\"]*)\"|([^],\"}]*)).*/\2\3/p" <<<"$2" | grep -v '^null$' || true; }
# ratio A B: prints A / B; nothing if one of them is missing or 0.
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a + 0 && b + 0) printf "%.4g", a / b }'; }
last_line() { awk 'NF { line = $0 } END { print substr(line, 1, 300) }' "$1"; }

# ---- Parts ----

# run SECONDS LOG COMMAND...: the exit status of a command, which is killed after SECONDS. The command runs in the background, and the
# script waits in short steps, so that it can handle signals and give up on a process that no signal ends.
run() {
  local seconds=$1 log=$2 end
  shift 2
  timeout --kill-after=2 "$seconds" "$@" >"$log.log" 2>"$log.err" </dev/null &
  child=$!
  end=$((SECONDS + seconds + 10))
  while kill -0 "$child" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do sleep 0.05; done
  if kill -0 "$child" 2>/dev/null; then
    disown "$child"
    child=""
    return 124
  fi
  local status=0
  wait "$child" 2>/dev/null || status=$?
  child=""
  return "$status"
}

# part KIND NAME SECONDS COMMAND...: sets `result`, and `line` to the last JSON object that the command printed. KIND is check
# (affects the exit status) or measure (does not).
part() {
  local kind=$1 name=$2 limit=$3 start=$SECONDS status=0 why="" rest
  shift 3
  line="" rest=$((deadline - SECONDS))
  limit=$((limit < part_limit ? limit : part_limit))
  if [ "$rest" -lt 5 ]; then
    result="no time"
  else
    run $((limit < rest ? limit : rest)) "$out/$stage/$name" "$@" || status=$?
    line=$(grep '^{.*}$' "$out/$stage/$name.log" | tail -n 1 || true)
    why=$(last_line "$out/$stage/$name.err")
    [ -n "$why" ] || why=$(last_line "$out/$stage/$name.log")
    judge "$status" "$limit" "$rest" $((SECONDS - start))
  fi
  count "$kind"
  record "\"part\": \"$name\", \"kind\": \"$kind\", \"result\": \"$result\", \"seconds\": $((SECONDS - start)), \"status\": \
$status$([ "$result" = passed ] || printf ', "why": %s' "$(quote "$why")")${line:+, \"line\": $line}"
  show "$name" $((SECONDS - start)) "$why"
}

# judge STATUS LIMIT REST TOOK: sets `result`, and `why` if the reason is not the command's last line.
judge() {
  case $1 in
    0) result=passed ;;
    124 | 137)
      result="too slow" why="not done after $2 s"
      [ "$3" -ge "$2" ] || result="no time"
      [ "$1" -eq 124 ] || [ "$4" -ge "$2" ] || [ "$4" -ge "$3" ] || result=crashed why="killed"
      ;;
    127) result=failed why=${why:-"not found"} ;;
    *)
      result=failed
      [ "$1" -le 128 ] || result=crashed why="signal $(($1 - 128))${why:+; $why}"
      ;;
  esac
}

count() {
  [ "$result" != "no time" ] || n_cut=$((n_cut + 1))
  [ "$1" = check ] || return 0
  case $result in
    failed | crashed) failed=$((failed + 1)) ;;
    "no time" | "too slow") undecided=$((undecided + 1)) ;;
  esac
}

# show NAME SECONDS WHY: prints a part's line of the table.
show() {
  local word=$result text=""
  [ "$result" = passed ] || word=$(tr '[:lower:]' '[:upper:]' <<<"$result") text=$3
  if [ "$result" = passed ] && [ -n "$(field lockstep_images_per_second "$line")" ]; then
    text=$(printf '%10.1f images/s, PyTorch %.1f (%s): %.2f times' "$(field lockstep_images_per_second "$line")" \
      "$(field best_images_per_second "$line")" "$(field best "$line")" "$(field times_best "$line")")
  elif [ "$result" = passed ] && [ -n "$(field throughput "$line")" ]; then
    text=$(printf '%10.1f images/s %8.2f ms %6.0f us CPU %7.2f GB' "$(field throughput "$line")" \
      "$(field step_ms_median "$line")" "$(field cpu_us_per_step "$line")" "$(ratio "$(field peak_bytes "$line")" 1e9)")
  fi
  say "$(printf '%-28s %-8s %4d s  %s' "$1" "$word" "$2" "$text")"
}

check() { part check "$@"; }
measure() { part measure "$@"; }
# shown NAME SECONDS COMMAND...: a check whose output is printed in the table.
shown() {
  check "$@"
  [ ! -s "$out/$stage/$1.log" ] || say "$(sed 's/^/    /' "$out/$stage/$1.log")"
}
# skip NAME WHY: reports a part that this machine cannot run.
skip() {
  line="" result=skipped
  record "\"part\": \"$1\", \"kind\": \"measure\", \"result\": \"skipped\", \"why\": $(quote "$2")"
  show "$1" 0 "$2"
}

# goal TEXT RELATION WANTED VALUE: reports a goal; VALUE is empty if it was not measured.
goal() {
  local met=null word="not measured"
  if [ -n "$4" ]; then
    met=$(awk "BEGIN { print ($4 $2 $3) ? \"true\" : \"false\" }")
    word=$([ "$met" = true ] && echo met || echo missed)
  fi
  record "\"goal\": $(quote "$1"), \"wanted\": \"$2 $3\", \"measured\": ${4:-null}, \"met\": $met"
  say "$(printf '%-52s %2s %-8s %10s  %s' "$1" "$2" "$3" "${4:--}" "$word")"
}
