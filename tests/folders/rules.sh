#!/usr/bin/env bash
# rules.sh: which folder may include which (the order of the data's path), cycles of includes, files that are too long,
# paths of one machine. usage: rules.sh SOURCE_DIR. Prints each offence as file:line: text.
set -u
cd "$1" || exit 2
offences=0
report() {
  echo "$1"
  offences=$((offences + 1))
}

# allowed FOLDER "pattern of the includes in quotes that its files may have". Vendor and libc headers come in <>.
allowed() {
  local file hit
  while IFS= read -r hit; do
    report "$hit (src/$1 may include: $2)"
  done < <(find "src/$1" -name '*.[ch]*' -exec grep -HnE '^ *# *include *"' {} + | grep -vE "\"($2)[^\"]*\"")
}
allowed base 'base/'
allowed arith 'arith/|base/'
allowed comm 'comm/|base/'
allowed backend 'backend/|comm/|arith/|base/'
allowed tensor 'tensor/|backend/|comm/|arith/|base/'
allowed io 'io/|tensor/|backend/|comm/|arith/|base/'
allowed data 'data/|io/|tensor/|backend/|comm/|arith/|base/'
allowed nn 'nn/|io/|tensor/|backend/|comm/|arith/|base/'
allowed optim 'optim/|nn/|io/|tensor/|backend/|comm/|arith/|base/'
below='optim/|nn/|data/|io/|tensor/|backend/|comm/|arith/|base/'
allowed checkpoint "checkpoint/|$below"
allowed log "log/|$below"
allowed report "report/|log/|$below" # it reads the files of run folders
allowed train "train/|report/|log/|checkpoint/|$below"
allowed run "run/|train/|report/|log/|checkpoint/|$below"
allowed experiment "experiment/|run/|train/|report/|log/|checkpoint/|$below"
allowed cpu 'cpu/|backend/backend.h|arith/|base/'
allowed cuda 'cuda/|backend/(backend|module_host).h|comm/comm.h|arith/|base/|emulator.h'
allowed mpi 'mpi/|comm/comm.h|backend/module_host.h|base/'
allowed data/decode 'data/decode/|arith/|base/'
allowed data/transform 'data/(transform|decode)/|tensor/|arith/|base/'
allowed data/dataset 'data/(dataset|transform|decode)/|tensor/|arith/|base/'
# Sub-folders of nn: only net and shards see a net.
below='tensor/|backend/|comm/|arith/|base/'
allowed nn/graph "nn/graph/|$below"
allowed nn/plan "nn/(plan|graph)/|$below"
allowed nn/layers "nn/(layers|plan|graph)/|$below"
allowed nn/select "nn/(select|layers|plan|graph)/|$below"
allowed nn/compile "nn/(compile|select|layers|plan|graph)/|$below"
allowed nn/exec "nn/(exec|plan|graph)/|$below" # no pass, and no selection: it runs what they made
allowed nn/net "nn/(net|exec|compile|select|layers|plan|graph)/|$below"
allowed nn/shards "nn/(shards|net|exec|compile|select|layers|plan|graph)/|$below"

# Files that include each other's headers, directly or through others: X.c and X.h count as one.
while IFS= read -r hit; do
  report "$hit (files that include each other's headers)"
done < <(find src -name '*.[ch]*' -exec grep -HoE '^ *# *include *"[^"]+"' {} + |
  sed -E 's|^src/([^:]*)\.[a-z]+: *# *include *"([^"]*)\.[a-z]+"|\1 \2|' | awk '$1 != $2' | tsort 2>&1 >/dev/null |
  sed -n 's/^tsort: \(.*\)$/\1/p' | grep -v '^-: input')

# public FOLDER "headers": what a folder below src may see of the public API.
public() {
  local hit
  while IFS= read -r hit; do
    report "$hit (src/$1 may include of lockstep/: $2)"
  done < <(find "src/$1" -name '*.[ch]*' -exec grep -HnE '^ *# *include *<lockstep/' {} + | grep -vE "<lockstep/($2)\.h>")
}
core='export|status|context|random|text'
public base "$core|tensor"
public arith "$core"
public comm "$core"
public backend "$core|tensor"
public tensor "$core|tensor"
public io "$core|tensor"
public data "$core|tensor|data|loader|dataset_check|pack"
public nn "$core|tensor|data|loader|nn|net"
public optim "$core|tensor|data|loader|nn|net|optim"
trained="$core|tensor|data|loader|nn|net|optim"
public checkpoint "$trained|algorithm_cache|checkpoint|models|trainer|evaluation|onnx"
public log "$trained|checkpoint|run_log"
public report "$core|nn|report|text"
public train "$trained|algorithm_cache|checkpoint|run_log|report|models|evaluation|trainer|lr_find"
public run "$trained|pack|dataset_check|dataset_path|algorithm_cache|checkpoint|run_log|report|models|evaluation|trainer|run|settings|lr_find"
public experiment "$core|tensor|run|run_log|search|settings|sweep|repro|text"
public cpu "$core|tensor"
public cuda "$core|tensor"
public mpi "$core"

# Structs that programs fill can grow.
while IFS= read -r hit; do
  report "$hit (a configuration ends with LS_RESERVED of export.h)"
done < <(awk '/^} ls_[a-z0-9_]+_config;/ && last !~ /^ *LS_RESERVED/ { print FILENAME ":" FNR ": " $0 } { last = $0 }' include/lockstep/*.h)

# Models and examples use what every program has; the examples share the images of examples/stripes.h.
for folder in models examples; do
  [ -d "$folder" ] || continue
  while IFS= read -r hit; do
    report "$hit ($folder: public headers only)"
  done < <(find "$folder" -name '*.[ch]' -exec grep -HnE '^ *# *include *"' {} + | grep -v '"stripes.h"')
done
# The command sees of the library what every program sees.
while IFS= read -r hit; do
  report "$hit (cli: public headers and its own only)"
done < <(find cli -name '*.[ch]' -exec grep -HnE '^ *# *include *"' {} + |
  grep -vE '"(cli|(commands|options|runs|terminal)/[a-z_]+)\.h"')
while IFS= read -r hit; do
  report "$hit (cli: a private name of the library)"
done < <(grep -rnE '\b(ls|LS)__' --include='*.[ch]' cli)

# What the command prints is escaped: print_text and print_field of cli/terminal/print.h. Files that it writes are named `file`.
while IFS= read -r hit; do
  report "$hit (cli: print by print_text, which escapes control characters)"
done < <(grep -nE '(^|[^a-z_])(printf|puts|putchar|perror|fprintf|vfprintf) *\(' cli/*.c cli/*/*.c |
  grep -vE '^cli/terminal/(print|progress)\.c:|fprintf\(file, ')

# Texts are truncated at a whole character of UTF-8, because JSON and messages hold them.
while IFS= read -r hit; do
  report "$hit (%.*s with LS__CUT of base/text.h truncates at a whole character)"
done < <(grep -rnE '%\.[0-9]+s' --include='*.[ch]*' src models cli)

# Vendor headers stay in their backend's folder.
while IFS= read -r hit; do
  report "$hit (oneDNN and libgomp belong to src/cpu)"
done < <(grep -rnE '^ *# *include *[<"](oneapi/|dnnl|omp\.h)' --include='*.[ch]' include src models cli | grep -v '^src/cpu/')
while IFS= read -r hit; do
  report "$hit (CUDA and its libraries belong to src/cuda)"
done < <(grep -rnE '^ *# *include *[<"](cudnn|cuda|cublas|curand|nvtx)' --include='*.[ch]*' include src models cli | grep -v '^src/cuda/')

while IFS= read -r hit; do
  report "$hit (protobuf-c and what it generates belong to src/io/onnx)"
done < <(grep -rnE '^ *# *include *[<"](protobuf-c|[a-z_]+\.pb-c\.h)' --include='*.[ch]*' include src models cli | grep -v '^src/io/onnx/')
while IFS= read -r hit; do
  report "$hit (MPI belongs to src/mpi)"
done < <(grep -rnE '^ *# *include *[<"]mpi\.h' --include='*.[ch]*' include src models cli | grep -v '^src/mpi/')

while IFS= read -r file; do
  lines=$(wc -l <"$file")
  case $file in
    tests/*) most=700 ;; # tables of cases run longer
    *) most=600 ;;
  esac
  [ "$lines" -le "$most" ] || report "$file: $lines lines; $most at most"
done < <(find include src models cli examples tests bench scripts cmake -type f \
  \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' -o -name CMakeLists.txt \) 2>/dev/null)

while IFS= read -r hit; do
  report "$hit (a path of one machine)"
done < <(grep -rnE '(^|[^A-Za-z0-9_.$}])/(work|root|home|tmp/(wt|build))/' include src models cli examples bench scripts cmake docs README.md \
  .ci CMakeLists.txt CMakePresets.json tests 2>/dev/null | grep -vE '^tests/folders/rules.sh:|\.safetensors')

[ "$offences" -eq 0 ] || { echo "$offences offences"; exit 1; }
echo "folder rules kept"
