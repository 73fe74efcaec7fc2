#!/usr/bin/env bash
# planted.sh: rules.sh and cycles.sh must fail on a violation of each kind. usage: planted.sh SOURCE_DIR CC
set -euo pipefail
source=$1 cc=$2 rules=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -r "$source"/{include,src,models,cli} "$work/tree"

# plant WHAT FILE LINE TEXT: LINE at the end of FILE. rules.sh must report a line that begins with TEXT, or with FILE and has TEXT.
whats=() files=() texts=()
plant() {
  echo "$3" >>"$work/tree/$2"
  whats+=("$1") files+=("$2") texts+=("$4")
}
(cd "$work/tree" && "$rules/rules.sh" . >/dev/null) || { echo "the tree breaks a rule before"; exit 1; }
plant "folder against the order" src/base/hash.c '#include "nn/net/net.h"' "src/base may include:"
plant "comm above the backend" src/comm/plan.c '#include "backend/backend.h"' "src/comm may include"
plant "sub-folder of data against the order" src/data/decode/png.c '#include "data/transform/transform.h"' "src/data/decode may include"
plant "sub-folder of nn against the order" src/nn/plan/builder.c '#include "nn/select/selector.h"' "src/nn/plan may include"
plant "a pass that sees the net" src/nn/compile/recompute.c '#include "nn/net/net_state.h"' "src/nn/compile may include"
plant "files that include each other" src/nn/select/selector.h '#include "nn/select/timing.h"' "nn/select/timing (files"
plant "public header of a higher folder" src/base/hash.c '#include <lockstep/net.h>' "may include of lockstep/"
plant "public header of train in run" src/run/compare.c '#include <lockstep/search.h>' "src/run may include of lockstep/"
plant "header of checkpoint in log" src/log/metrics.c '#include "checkpoint/identity.h"' "src/log may include"
plant "header of run in train" src/train/trainer.c '#include "run/compare.h"' "src/train may include"
plant "header of shards in net" src/nn/net/arena.c '#include "nn/shards/shards.h"' "src/nn/net may include"
plant "header of experiment in report" src/report/report.c '#include "experiment/search.h"' "src/report may include"
plant "header of a backend in train" src/train/trainer.c '#include "cpu/cpu.h"' "src/train may include"
plant "private header in the command" cli/main.c '#include "base/text.h"' "cli: public headers and its own only"
plant "private name in the command" cli/main.c 'int ls__planted;' "cli: a private name of the library"
plant "private header in a model" models/resnet.c '#include "base/hash.h"' "public headers only"
plant "vendor header outside of its folder" src/nn/net/net_run.c '#include <cudnn.h>' "belong to src/cuda"
plant "protobuf-c outside of its folder" src/checkpoint/checkpoint_export.c '#include <onnx.pb-c.h>' "belong to src/io/onnx"
plant "MPI outside of its folder" src/backend/communicator.c '#include <mpi.h>' "belongs to src/mpi"
plant "the MPI module above the registry" src/mpi/module.c '#include "backend/registry.h"' "src/mpi may include"
plant "a configuration that cannot grow" include/lockstep/onnx.h $'typedef struct ls_x_config {\n    int x;\n} ls_x_config;' "a configuration ends with LS_RESERVED"
plant "text cut within a character" src/log/metrics.c 'int f(char *s, char *t) { return sprintf(t, "%.9s", s); }' "with LS__CUT"
plant "printing past print.c" cli/main.c 'void f(void) { puts("x"); }' "escapes control characters"

# All at once, because the rules take seconds.
if (cd "$work/tree" && "$rules/rules.sh" .) >"$work/report"; then
  echo "the planted violations are not in the exit status"
  exit 1
fi
for i in "${!whats[@]}"; do
  awk -v file="${files[i]}:" -v text="${texts[i]}" 'index($0, text) == 1 || (index($0, file) == 1 && index($0, text)) { found = 1 }
    END { exit !found }' "$work/report" || { echo "${whats[i]}: not in the report"; cat "$work/report"; exit 1; }
done
# So each of them alone would be in the exit status.
[ "$(tail -n 1 "$work/report")" = "$(($(wc -l <"$work/report") - 1)) offences" ] || { echo "an offence that is not counted"; cat "$work/report"; exit 1; }

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
