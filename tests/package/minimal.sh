#!/usr/bin/env bash
# minimal.sh: installs a minimal build (LOCKSTEP_MINIMAL) into a folder of its own, builds the examples against what is there, by
# pkg-config and by CMake, and runs them. The library may need libjpeg, jansson and the C library alone.
# usage: minimal.sh SOURCE_DIR BUILD_DIR CC
set -euo pipefail
source=$1 build=$2 cc=$3
stage=$build/stage
fail() {
  echo "minimal.sh: $1" >&2
  exit 1
}
rm -rf "$stage"
cmake --install "$build" --prefix "$stage/prefix" >/dev/null
library=$(find "$stage/prefix" -name liblockstep.so)
PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
export PKG_CONFIG_PATH

readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >"$stage/needed"
grep -q '^libc\.so' "$stage/needed" || fail "the library's needs were not found"
foreign=$(grep -vE '^(libjpeg|libjansson|libm|libc|ld-linux.*)\.so' "$stage/needed" || true)
[ -z "$foreign" ] || fail "the library needs $foreign"
# xargs reads the paths with blanks that pkg-config quotes.
mapfile -t cflags < <(pkg-config --cflags lockstep | xargs -n 1)
mapfile -t libs < <(pkg-config --libs lockstep | xargs -n 1)
# Every function that the installed headers declare is in the library.
for header in "$stage"/prefix/include/lockstep/*.h; do echo "#include <lockstep/${header##*/}>"; done >"$stage/all.c"
"$cc" "${cflags[@]}" -E -P "$stage/all.c" >"$stage/all.i"
tr '\n' ' ' <"$stage/all.i" | grep -oE 'visibility\("default"\)\)\)[^;({]*\(' | sed -E 's/.*[ *](ls_[a-z0-9_]+) *\($/\1/' | sort -u >"$stage/declared"
nm -D --defined-only "$library" | sed -nE 's/.* (ls_[^@]*)@@.*/\1/p' | sort >"$stage/defined"
[ "$(wc -l <"$stage/declared")" -gt 200 ] || fail "only $(wc -l <"$stage/declared") declarations found"
missing=$(comm -23 "$stage/declared" "$stage/defined")
[ -z "$missing" ] || fail "declared, but not in the library: $missing"

for example in "$source"/examples/0*.c; do
  name=$(basename "$example" .c)
  $cc -O1 -Wall -Werror "${cflags[@]}" "$example" -o "$stage/$name" "${libs[@]}" -Wl,-rpath,"$(dirname "$library")" -lm
  (cd "$stage" && "./$name" >"$name.log" 2>&1) || { cat "$stage/$name.log"; fail "$name"; }
done

mkdir "$stage/project"
cat >"$stage/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES C)
find_package(lockstep REQUIRED)
add_executable(program program.c)
target_link_libraries(program lockstep::${KIND})
END
# The formats that are missing are errors that say so.
cat >"$stage/project/program.c" <<'END'
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static const unsigned char gzip[32] = { 0x1f, 0x8b, 8 };
    FILE *file = fopen("labels.gz", "wb");
    if (!file || fwrite(gzip, 1, sizeof(gzip), file) != sizeof(gzip) || fclose(file) != 0) return 2;
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_idx_open(ctx, "labels.gz", "labels.gz", 0);
    const char *message = ls_context_message(ctx);
    puts(message);
    const int status = data || !strstr(message, "minimal build") || !strstr(message, "gunzip");
    ls_context_clear_error(ctx);
    file = fopen("images/a/1.webp", "wb");
    if (!file || fwrite("RIFF\4\0\0\0WEBP", 1, 12, file) != 12 || fclose(file) != 0) return 2;
    const char *path = "images/a/1.webp";
    ls_loader *loader = ls_loader_open(ls_image_files_open(ctx, 1, &path),
                                       &(ls_loader_config){ .batch_size = 1, .crop = 8 });
    ls_loader_start(loader, 0);
    for (ls_batch batch; ls_loader_next(loader, &batch);) continue;
    message = ls_context_message(ctx);
    puts(message);
    const int webp = !strstr(message, "WebP") || !strstr(message, "LOCKSTEP_MINIMAL");
    ls_context_close(&ctx);
    return status + webp;
}
END
mkdir -p "$stage/images/a"
for kind in shared static; do
  cmake -S "$stage/project" -B "$stage/$kind" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$stage/prefix" \
    -DLOCKSTEP_LIBRARY=$kind -DKIND=$kind >/dev/null
  cmake --build "$stage/$kind" >"$stage/$kind.log" || { cat "$stage/$kind.log"; fail "a program in CMake, $kind"; }
  (cd "$stage" && "$kind/program") || fail "files of gzip and WebP: other errors were expected"
done
echo "the library of a minimal build: $(strip -o "$stage/stripped.so" "$library" && stat -c %s "$stage/stripped.so") bytes"
