#!/usr/bin/env bash
# abi_check.sh BUILD [REF]: whether the binary interface of the shared library in BUILD holds (docs/compatibility.md):
#   - Programs that were compiled with the present headers run with a library whose structs have one more field each.
#   - abidiff finds no incompatible change from that library, nor from the one of REF, a commit with the same minor version [the last
#     tag v*]. Without a tag: skipped, which is said.
# Builds below BUILD/abi.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages "${check_packages[@]}"

build=$(cd "$1" && pwd)
ref=${2:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
work=$build/abi
rm -rf "$work"
mkdir -p "$work"

# build_library SOURCE FOLDER: a shared library with debugging information.
build_library() {
  cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG='-O1 -g' -DLOCKSTEP_BUILD_TESTS=OFF -DLOCKSTEP_BUILD_BENCH=OFF \
    -DLOCKSTEP_BUILD_CLI=OFF -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_MPI=OFF -DLOCKSTEP_INSTALL=OFF >"$2.log" 2>&1 || { cat "$2.log"; return 1; }
  cmake --build "$2" --target lockstep_shared >>"$2.log" 2>&1 || { cat "$2.log"; return 1; }
}

# compare BEFORE AFTER: shared libraries. Additions, and fields in reserved space, are compatible.
compare() {
  local status=0
  abidiff --no-added-syms --suppressions tests/package/abi.suppr "$1" "$2" >"$work/abidiff.log" 2>&1 || status=$?
  [ "$status" -eq 0 ] || { cat "$work/abidiff.log"; return 1; }
}

echo "a library with one more field in each struct"
mkdir "$work/source"
cp -r CMakeLists.txt cmake include src models "$work/source"
sed -i -E 's/^( *)LS_RESERVED\(([0-9]+)\);/\1uint64_t field_of_a_later_version;\n\1LS_RESERVED(\2 - 1);/' "$work"/source/include/lockstep/*.h
build_library "$work/source" "$work/later"
for source in examples/*.c; do
  program=$work/$(basename "$source" .c)
  cc -std=c11 -O1 -Iinclude "$source" -o "$program" -L"$build" -llockstep -lm
  for library in "$build" "$work/later"; do
    folder=$work/runs/${library##*/}
    rm -rf "$folder"
    mkdir -p "$folder"
    (cd "$folder" && LD_LIBRARY_PATH=$library "$program" >"$program.${library##*/}") || { echo "${source##*/} fails"; exit 1; }
  done
  cmp "$program.${build##*/}" "$program.later"
done
compare "$build/liblockstep.so" "$work/later/liblockstep.so"
if compare "$work/later/liblockstep.so" "$build/liblockstep.so" >/dev/null; then
  echo "abidiff does not find that fields are gone"
  exit 1
fi

if [ -z "$ref" ]; then
  echo "skipped: there is no tag v*, whose library could be compared"
  exit 0
fi
echo "the library of $ref"
mkdir "$work/before"
git archive "$ref" | tar -x -C "$work/before"
# minor FOLDER: the version of its headers without the patch.
minor() {
  sed -nE 's/^#define LS_VERSION_(MAJOR|MINOR) +([0-9]+)/\2/p' "$1/include/lockstep/version.h" 2>/dev/null || true
}
if [ "$(minor "$work/before")" != "$(minor .)" ]; then
  echo "skipped: another minor version, whose interface may differ"
  exit 0
fi
build_library "$work/before" "$work/before-build"
compare "$work/before-build/liblockstep.so" "$build/liblockstep.so"
echo "no incompatible change"
