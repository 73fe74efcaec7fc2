#!/usr/bin/env bash
# cuda_libraries.sh [--module FILE] COMMAND [ARGUMENT...]: runs COMMAND with LD_LIBRARY_PATH set so that the CUDA module finds
# cuDNN, cuBLASLt, NVRTC and NCCL. They are searched in CUDA_HOME [/usr/local/cuda], then in the folders of the system's loader, then in
# the nvidia/*/lib folders of python3; each library is taken from the first folder that has it.
#
#   --path    prints the value of LD_LIBRARY_PATH instead
#   --list    prints a line for each library: its name, its file or "not found", the kind of folder
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module="" mode=run
while [ $# -gt 0 ]; do
  case $1 in
    --module) module=${2:?--module requires a file} && shift ;;
    --path | --list) mode=${1#--} ;;
    *) break ;;
  esac
  shift
done
if [ "$mode" = run ] && [ $# -eq 0 ]; then
  sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 1
fi
for candidate in "$here/../lib/liblockstep_cuda.so" "$here/../build/liblockstep_cuda.so"; do
  [ -n "$module" ] || [ ! -e "$candidate" ] || module=$candidate
done
[ -e "$module" ] || { echo "cuda_libraries.sh: no CUDA module at '$module'" >&2 && exit 1; }

# The versioned names, from the module. cuDNN itself loads the NVRTC of the same CUDA version.
names=$({ grep -aoE 'lib(cudnn|cublasLt|nccl)\.so\.[0-9]+' "$module" || true; } | sort -u)
toolkit=$(sed -n 's/^libcublasLt\.so\.//p' <<<"$names")
names+=${toolkit:+$'\n'libnvrtc.so.$toolkit}

# Folders of CUDA_HOME, LD_LIBRARY_PATH and Python, and the loader's cache.
home=${CUDA_HOME:-/usr/local/cuda}
of_cuda=("$home/lib64" "$home/lib") of_system=() of_python=()
IFS=: read -r -a of_system <<<"${LD_LIBRARY_PATH:-}"
cache=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null || true)
while IFS= read -r folder; do
  [ -z "$folder" ] || of_python+=("$folder")
done < <(python3 -c 'import glob, os, sys
for folder in map(os.path.abspath, filter(None, sys.path)): # without the current folder, ""
    print("\n".join(sorted(glob.glob(glob.escape(folder) + "/nvidia/*/lib"))))' 2>/dev/null || true)

# find NAME: sets `file` and `place`, or leaves both empty.
find_library() {
  local name=$1 folder
  file="" place=""
  for folder in "${of_cuda[@]}"; do
    [ ! -e "$folder/$name" ] || { file=$folder/$name place="CUDA_HOME" && return; }
  done
  for folder in "${of_system[@]}"; do
    [ ! -e "$folder/$name" ] || { file=$folder/$name place="LD_LIBRARY_PATH" && return; }
  done
  file=$(awk -v name="$name" '$1 == name { sub(/.* => /, ""); print; exit }' <<<"$cache")
  [ ! -e "$file" ] || { place="system" && return; }
  file=""
  for folder in "${of_python[@]}"; do
    [ ! -e "$folder/$name" ] || { file=$folder/$name place="Python" && return; }
  done
}

# Python's folders come last, because they may also hold libraries that were found elsewhere.
first="" system="" last=""
for name in $names; do
  find_library "$name"
  [ "$mode" != list ] || printf '%-18s %s %s\n' "$name" "${file:-not found}" "${place:+($place)}"
  case $place in
    CUDA_HOME) first+=${file%/*}: ;;
    system) system+=${file%/*}: ;;
    Python) last+=${file%/*}: ;;
  esac
done
path=$first${LD_LIBRARY_PATH:-}:${last:+$system$last}
path=$(awk -v RS=: '{ sub(/\n$/, "") } $0 != "" && !seen[$0]++ { printf "%s%s", n++ ? ":" : "", $0 }' <<<"$path")
case $mode in
  path) printf '%s\n' "$path" ;;
  run) exec env LD_LIBRARY_PATH="$path" "$@" ;;
esac
