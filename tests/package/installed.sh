#!/usr/bin/env bash
# installed.sh: installs the build into a folder of its own, builds the examples against what is there, and runs them:
# with the shared library and with the static one, found by CMake; and the first one found by pkg-config.
# usage: installed.sh SOURCE_DIR BUILD_DIR CC
set -euo pipefail
source=$1 build=$2 cc=$3
stage=$build/tests/package/stage
rm -rf "$stage"
cmake --install "$build" --prefix "$stage/prefix" >/dev/null

for kind in shared static; do
  cmake -S "$source/examples" -B "$stage/$kind" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$stage/prefix" -DLOCKSTEP_LIBRARY="$kind" >/dev/null
  cmake --build "$stage/$kind" >/dev/null
  ctest --test-dir "$stage/$kind" --output-on-failure
done

# The library must show nothing but its API, and carry its version.
library=$stage/prefix/lib/liblockstep.so
[ -e "$library" ] || library=$(find "$stage/prefix" -name liblockstep.so)
foreign=$(nm -D --defined-only "$library" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -v '^ls_[^_]' || true)
[ -z "$foreign" ] || { echo "symbols that should be hidden: $foreign"; exit 1; }
readelf -d "$library" | grep 'SONAME.*liblockstep\.so\.[0-9]' >/dev/null || { echo "$library has no versioned SONAME"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046
"$cc" -std=c11 "$source/examples/01_tensor.c" -o "$stage/by_pkg_config" $(pkg-config --cflags --libs lockstep) -lm
(cd "$stage" && LD_LIBRARY_PATH=$(dirname "$library") ./by_pkg_config >/dev/null)
echo "examples run against the installed library"
