#!/usr/bin/env bash
# skipped.sh BUILD: lists what the last run of ctest in BUILD skipped, and why: whole tests, and cases and parts of tests that
# passed. ctest itself names whole tests only.
set -euo pipefail
log=$1/Testing/Temporary/LastTest.log
[ -f "$log" ] || { echo "skipped.sh: there is no $log; run ctest first" >&2; exit 2; }
awk '
  /^"[^"]*" start time: / { split($0, quoted, "\""); test = quoted[2]; next }
  sub(/^skipped: /, "") { if (!known[test, $0]++) lines[n++] = test ": " $0 }
  END {
    print n ? "skipped, " n " in all:" : "skipped: nothing"
    for (i = 0; i < n; i++) print "  " lines[i]
  }' "$log"
