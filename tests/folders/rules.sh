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
allowed comm 'comm/|base/'
allowed backend 'backend/|comm/|base/'
allowed tensor 'tensor/|backend/|comm/|base/'
allowed io 'io/|tensor/|backend/|comm/|base/'
allowed data 'data/|io/|tensor/|backend/|comm/|base/'
allowed nn 'nn/|io/|tensor/|backend/|comm/|base/'
allowed optim 'optim/|nn/|io/|tensor/|backend/|comm/|base/'
allowed run 'run/|optim/|nn/|data/|io/|tensor/|backend/|cpu/cpu.h|comm/|base/'
allowed train 'train/|run/|optim/|nn/|data/|io/|tensor/|backend/|comm/|base/'
allowed cpu 'cpu/|backend/backend.h|base/|reference/'
allowed cuda 'cuda/|backend/(backend|module_host).h|comm/comm.h|base/|emulator.h'
allowed mpi 'mpi/|comm/comm.h|backend/(module_host|launcher).h|base/'
allowed data/decode 'data/decode/|base/'
allowed data/transform 'data/(transform|decode)/|tensor/|base/'
allowed data/dataset 'data/(dataset|transform|decode)/|tensor/|base/'
# Sub-folders of nn: none of them sees a net, which the files of src/nn itself are made of.
below='tensor/|backend/|comm/|base/'
allowed nn/graph "nn/graph/|$below"
allowed nn/plan "nn/(plan|graph)/|$below"
allowed nn/layers "nn/(layers|plan|graph)/|$below"
allowed nn/select "nn/(select|layers|plan|graph)/|$below"
allowed nn/compile "nn/(compile|select|layers|plan|graph)/|$below"
allowed nn/exec "nn/(exec|plan|graph)/|$below" # no pass, and no selection: it runs what they made

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
core='export|status|context|random'
public base "$core|tensor"
public comm "$core"
public backend "$core|tensor"
public tensor "$core|tensor"
public io "$core|tensor"
public data "$core|tensor|data|dataset_check|pack"
public nn "$core|tensor|data|nn|net"
public optim "$core|tensor|data|nn|net|optim"
below_train="$core|tensor|data|nn|net|optim|algorithm_cache|checkpoint|run_log|report"
public run "$below_train"
public train "$below_train|models|evaluation|trainer|lr_find|search"
public cpu "$core|tensor"
public cuda "$core|tensor"
public mpi "$core"

# Models and examples use what every program has; the examples share the images of examples/stripes.h.
for folder in models examples; do
  [ -d "$folder" ] || continue
  while IFS= read -r hit; do
    report "$hit ($folder: public headers only)"
  done < <(find "$folder" -name '*.[ch]' -exec grep -HnE '^ *# *include *"' {} + | grep -v '"stripes.h"')
done
while IFS= read -r hit; do
  report "$hit (cli: public headers and src/run only)"
done < <(find cli -name '*.[ch]' -exec grep -HnE '^ *# *include *"' {} + | grep -E '"(base|comm|backend|tensor|io|data|nn|optim|train|cpu|cuda|mpi)/')

# What the command prints is escaped: print_text and print_field of cli/print.h. Files that it writes are named `file`.
while IFS= read -r hit; do
  report "$hit (cli: print by print_text, which escapes control characters)"
done < <(grep -nE '(^|[^a-z_])(printf|puts|putchar|perror|fprintf|vfprintf) *\(' cli/*.c |
  grep -vE '^cli/(print|progress)\.c:|fprintf\(file, ')

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
