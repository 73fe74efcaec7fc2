#!/usr/bin/env bash
# commit.sh SOURCE_DIR WORK_DIR: cmake/commit.cmake finds the commit of a clone and of an archive, takes one by option, and
# otherwise says "unknown".
set -euo pipefail
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
archived=0123456789abcdef0123456789abcdef01234567

# expect COMMIT FOLDER [cmake argument...]
expect() {
  local found
  cmake -S "$2" -B "$2/build" -G Ninja "${@:3}" >/dev/null
  found=$(cat "$2/build/COMMIT")
  [ "$found" = "$1" ] || { echo "${2##*/}${3:+ $3}: found commit '$found', expected '$1'"; exit 1; }
}

# project FOLDER: with commit.cmake as it is in a clone.
project() {
  mkdir -p "$1/cmake"
  # shellcheck disable=SC2016 # of git archive
  sed -E 's/"[0-9a-f]{40}"/"$Format:%H$"/' "$source/cmake/commit.cmake" >"$1/cmake/commit.cmake"
  cp "$source/.gitattributes" "$1"
  cat >"$1/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(commit LANGUAGES NONE)
include(cmake/commit.cmake)
END
}

project "$work/files"
expect unknown "$work/files"
expect 1.0-2 "$work/files" -DLOCKSTEP_COMMIT=1.0-2
rm -r "$work/files/build"

cp -r "$work/files" "$work/archive"
sed -i "s/\\\$Format:%H\\\$/$archived/" "$work/archive/cmake/commit.cmake"
expect $archived "$work/archive"
expect 1.0-2 "$work/archive" -DLOCKSTEP_COMMIT=1.0-2

# A folder that git does not take for a clone, and a clone without git.
mkdir "$work/files/.git"
expect unknown "$work/files"
expect unknown "$work/files" -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON
rm -r "$work/files/build"

if ! command -v git >/dev/null; then
  echo "left out: clones, because git is not installed"
  exit 0
fi
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
# commit FOLDER
commit() {
  git -C "$1" add . && git -C "$1" commit -q --allow-empty -m "a commit"
}
git init -q "$work" # around all folders
commit "$work"
expect unknown "$work/files"
expect $archived "$work/archive" -DLOCKSTEP_COMMIT=
rm -r "$work/files/.git" "$work/files/build"

git init -q "$work/files"
commit "$work/files"
expect "$(git -C "$work/files" rev-parse HEAD)" "$work/files"
expect "$(git -C "$work/files" rev-parse HEAD)" "$work/files" -DLOCKSTEP_COMMIT=
mkdir "$work/tar"
git -C "$work/files" archive HEAD | tar -x -C "$work/tar"
expect "$(git -C "$work/files" rev-parse HEAD)" "$work/tar"

# CMake runs again after a commit.
commit "$work/files"
cmake --build "$work/files/build" >/dev/null
found=$(cat "$work/files/build/COMMIT")
[ "$found" = "$(git -C "$work/files" rev-parse HEAD)" ] || { echo "after a commit: '$found'"; exit 1; }
echo "commits of clones, archives and options are found"
