#!/usr/bin/env bash
# cycles.sh: files that call each other, directly or through others, by the symbols of their objects.
# usage: cycles.sh FILE BUILD: the file lists objects of one program in the build folder, one in a line.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$2"
# Relative paths have no spaces.
while IFS= read -r object; do printf '%s\n' "${object#"$2"/}"; done <"$1" >"$work/objects"
xargs nm -A --defined-only <"$work/objects" | awk '$2 ~ /^[TDBRVW]$/ { sub(/:[^:]*$/, "", $1); print $3, $1 }' |
  LC_ALL=C sort -u -k1,1 >"$work/defined"
[ -s "$work/defined" ] || { echo "no symbols in the objects of $1"; exit 2; }
xargs nm -A -u <"$work/objects" | awk '{ sub(/:.*/, "", $1); print $NF, $1 }' | LC_ALL=C sort -u >"$work/used"
LC_ALL=C join "$work/used" "$work/defined" | awk '$2 != $3 { print $2, $3 }' | sort -u >"$work/edges"
if ! tsort "$work/edges" >/dev/null 2>"$work/loops"; then
  echo "files that call each other:"
  sed -n '/input contains/d; s|^tsort: \(.*/\)\?\(CMakeFiles/[^/]*\.dir/\)\?||p' "$work/loops"
  exit 1
fi
echo "no cycles among $(wc -l <"$1") objects"
