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

foreign=$(readelf -d "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | grep -vE '^(libjpeg|libjansson|libm|libc|ld-linux.*)\.so' || true)
[ -z "$foreign" ] || fail "the library needs $foreign"
for header in run report sweep repro search; do
  [ ! -e "$stage/prefix/include/lockstep/$header.h" ] || fail "$header.h is installed, but its functions are not in the library"
done
read -ra cflags < <(pkg-config --cflags lockstep)
read -ra libs < <(pkg-config --libs lockstep)
for name in run.h sweep.h; do
  ! echo "#include <lockstep/lockstep.h>" | $cc "${cflags[@]}" -M -xc - | grep -q "lockstep/$name" || fail "lockstep.h includes $name"
done

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
    ls_context_close(&ctx);
    return status;
}
END
for kind in shared static; do
  cmake -S "$stage/project" -B "$stage/$kind" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$stage/prefix" \
    -DLOCKSTEP_LIBRARY=$kind -DKIND=$kind >/dev/null
  cmake --build "$stage/$kind" >"$stage/$kind.log" || { cat "$stage/$kind.log"; fail "a program in CMake, $kind"; }
  (cd "$stage" && "$kind/program") || fail "a file of gzip: another error was expected"
done
echo "the library of a minimal build: $(strip -o "$stage/stripped.so" "$library" && stat -c %s "$stage/stripped.so") bytes"
