#!/usr/bin/env bash
# planted.sh: rules.sh and cycles.sh must fail on a violation of each kind. usage: planted.sh SOURCE_DIR CC
set -euo pipefail
source=$1 cc=$2 rules=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -r "$source"/{include,src,models,cli} "$work/tree"

# expect WHAT FILE LINE TEXT: with LINE at the end of FILE, rules.sh reports TEXT.
expect() {
  local file=$work/tree/$2
  cp "$file" "$work/saved"
  echo "$3" >>"$file"
  if (cd "$work/tree" && "$rules/rules.sh" .) >"$work/report"; then
    echo "$1: not reported"
    exit 1
  fi
  grep -qF "$4" "$work/report" || { echo "$1: reported as"; cat "$work/report"; exit 1; }
  cp "$work/saved" "$file"
}
(cd "$work/tree" && "$rules/rules.sh" . >/dev/null) || { echo "the tree breaks a rule before"; exit 1; }
expect "folder against the order" src/base/hash.c '#include "nn/net/net.h"' "src/base/hash.c"
expect "comm above the backend" src/comm/plan.c '#include "backend/backend.h"' "src/comm may include"
expect "sub-folder of data against the order" src/data/decode/png.c '#include "data/transform/transform.h"' "src/data/decode may include"
expect "sub-folder of nn against the order" src/nn/plan/builder.c '#include "nn/select/selector.h"' "src/nn/plan may include"
expect "a pass that sees the net" src/nn/compile/recompute.c '#include "nn/net/net_state.h"' "src/nn/compile may include"
expect "files that include each other" src/nn/select/selector.h '#include "nn/select/timing.h"' "nn/select/timing (files"
expect "public header of a higher folder" src/base/hash.c '#include <lockstep/net.h>' "may include of lockstep/"
expect "public header of train in run" src/run/compare.c '#include <lockstep/search.h>' "src/run may include of lockstep/"
expect "header of checkpoint in log" src/log/metrics.c '#include "checkpoint/identity.h"' "src/log may include"
expect "header of run in train" src/train/trainer.c '#include "run/compare.h"' "src/train may include"
expect "header of shards in net" src/nn/net/arena.c '#include "nn/shards/shards.h"' "src/nn/net may include"
expect "header of experiment in report" src/report/report.c '#include "experiment/search.h"' "src/report may include"
expect "header of a backend in train" src/train/trainer.c '#include "cpu/cpu.h"' "src/train may include"
expect "private header in the command" cli/main.c '#include "base/text.h"' "cli: public headers and its own only"
expect "private name in the command" cli/main.c 'int ls__planted;' "cli: a private name of the library"
expect "private header in a model" models/resnet.c '#include "base/hash.h"' "public headers only"
expect "vendor header outside of its folder" src/nn/net/net_run.c '#include <cudnn.h>' "belong to src/cuda"
expect "MPI outside of its folder" src/backend/communicator.c '#include <mpi.h>' "belongs to src/mpi"
expect "the MPI module above the registry" src/mpi/module.c '#include "backend/registry.h"' "src/mpi may include"
expect "text cut within a character" src/log/metrics.c 'int f(char *s, char *t) { return sprintf(t, "%.9s", s); }' "with LS__CUT"
expect "printing past print.c" cli/main.c 'void f(void) { puts("x"); }' "escapes control characters"

printf 'void b(void);\nvoid a(void) { b(); }\n' >"$work/a.c"
printf 'void a(void);\nvoid b(void) { a(); }\n' >"$work/b.c"
printf 'int c(void) { return 0; }\n' >"$work/c.c"
for file in a b c; do "$cc" -c "$work/$file.c" -o "$work/$file.o"; done
printf '%s\n' "$work"/{a,b,c}.o >"$work/objects"
if "$rules/cycles.sh" "$work/objects" "$work" >/dev/null; then
  echo "files that call each other: not reported"
  exit 1
fi
printf '%s\n' "$work"/{a,c}.o >"$work/objects"
"$rules/cycles.sh" "$work/objects" "$work" >/dev/null || { echo "a cycle where there is none"; exit 1; }
echo "every planted violation is reported"
