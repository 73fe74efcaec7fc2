#!/usr/bin/env bash
# installed.sh: installs the build into a folder of its own, builds the examples against what is there, and runs them:
# with the shared library and with the static one, found by CMake; and the first one, and the C++ program of
# docs/cplusplus.md, found by pkg-config.
# usage: installed.sh SOURCE_DIR BUILD_DIR CC [CXX]
set -euo pipefail
source=$1 build=$2 cc=$3 cxx=${4:-}
stage=$build/tests/package/stage
rm -rf "$stage"
cmake --install "$build" --prefix "$stage/prefix" >/dev/null

docs=$stage/prefix/share/doc/lockstep
for file in README.md CHANGELOG.md LICENSE SECURITY.md examples/CMakeLists.txt examples/02_train.c docs/cplusplus.md docs/architecture.svg docs/report.png; do
  [ -s "$docs/$file" ] || { echo "$file is not installed in $docs"; exit 1; }
done

# Links of the pages do not dangle, and those to headers remain.
grep -rnoE '\]\([^)#]+' --include='*.md' "$docs" | sed -E 's/:[0-9]+:\]\(/:/' |
  while IFS=: read -r file link; do
    case $link in http*) continue ;; esac
    [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link is not installed"; exit 1; }
  done
grep -qF '[trainer.h](../../../include/lockstep/trainer.h)' "$docs/README.md" || { echo "README.md: trainer.h has no link"; exit 1; }

for file in man/man1/lockstep.1 man/man1/lockstep-train.1 bash-completion/completions/lockstep zsh/site-functions/_lockstep \
  fish/vendor_completions.d/lockstep.fish; do
  [ ! -e "$build/pages" ] || [ -s "$stage/prefix/share/$file" ] || { echo "share/$file is not installed"; exit 1; }
done

for kind in shared static; do
  missing=() # the shared library needs no development package of what it uses itself
  [ "$kind" = static ] || missing=(-DCMAKE_DISABLE_FIND_PACKAGE_JPEG=ON -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON)
  cmake -S "$docs/examples" -B "$stage/$kind" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$stage/prefix" -DLOCKSTEP_LIBRARY="$kind" "${missing[@]}" >/dev/null
  cmake --build "$stage/$kind" >/dev/null
  ctest --test-dir "$stage/$kind" --output-on-failure
done

# The library must show nothing but its API, and carry its version.
library=$stage/prefix/lib/liblockstep.so
[ -e "$library" ] || library=$(find "$stage/prefix" -name liblockstep.so)
foreign=$(nm -D --defined-only "$library" | awk '$2 ~ /[A-Z]/ { print $3 }' | grep -vE '^ls_[^_].*@@LOCKSTEP_[0-9.]+$|^LOCKSTEP_[0-9.]+$' || true)
[ -z "$foreign" ] || { echo "symbols that should be hidden, or without a version: $foreign"; exit 1; }
# The files of a release name one version.
version=$(sed -nE 's/^#define LS_VERSION +"(.*)"/\1/p' "$source/include/lockstep/version.h")
numbers=$(sed -nE 's/^#define LS_VERSION_(MAJOR|MINOR|PATCH) +([0-9]+)/\2/p' "$source/include/lockstep/version.h" | paste -sd .)
[ "$version" = "$numbers" ] || { echo "version.h: LS_VERSION is $version, the numbers $numbers"; exit 1; }
for line in "CHANGELOG.md:## [$version]" "debian/changelog:lockstep ($version-" "lockstep.spdx.json:\"versionInfo\": \"$version\""; do
  grep -qF "${line#*:}" "$source/${line%%:*}" || { echo "${line%%:*} has no '${line#*:}'"; exit 1; }
done
# Debian's list of symbols says in which version each of them came.
minor=${version%.*}
listed=$source/debian/liblockstep$minor.symbols
sed -nE "s/^ (ls_.*)@LOCKSTEP_${minor/./\\.} .*/\1/p" "$listed" | sort >"$stage/listed"
nm -D --defined-only "$library" | sed -nE "s/.* (ls_.*)@@LOCKSTEP_${minor/./\\.}\$/\1/p" | sort >"$stage/exported"
[ -s "$stage/exported" ] || { echo "$library has no symbols of version LOCKSTEP_$minor"; exit 1; }
diff "$stage/listed" "$stage/exported" ||
  { echo "$listed (<) and the library (>) differ; a new symbol needs a line ' NAME@LOCKSTEP_$minor VERSION'"; exit 1; }
readelf -d "$library" | grep 'SONAME.*liblockstep\.so\.[0-9]' >/dev/null || { echo "$library has no versioned SONAME"; exit 1; }

PKG_CONFIG_PATH=$(dirname "$library")/pkgconfig
export PKG_CONFIG_PATH
flags=()
eval "flags=($(pkg-config --cflags --libs lockstep))" # pkg-config quotes spaces

# Programs find the module of MPI, where it was built.
if [ -e "$build/liblockstep_mpi.so" ]; then
  cat >"$stage/ranks.c" <<'EOF'
#include <lockstep/lockstep.h>
#include <stdio.h>
int main(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .communicator = "mpi" });
    const int failed = ls_context_status(ctx) != LS_OK || ls_context_rank_count(ctx) != 1;
    if (failed) fprintf(stderr, "%s\n", ls_context_message(ctx));
    ls_context_close(&ctx);
    return failed;
}
EOF
  "$cc" -std=c11 "$stage/ranks.c" -o "$stage/ranks" "${flags[@]}"
  env -u LOCKSTEP_MODULES LD_LIBRARY_PATH="$(dirname "$library")" "$stage/ranks"
fi
"$cc" -std=c11 "$docs/examples/01_tensor.c" -o "$stage/by_pkg_config" "${flags[@]}" -lm
(cd "$stage" && LD_LIBRARY_PATH=$(dirname "$library") ./by_pkg_config >/dev/null)
if [ -n "$cxx" ]; then
  awk '$0 == "```cpp" { inside = 1; next } /^```/ { inside = 0 } inside' "$docs/docs/cplusplus.md" >"$stage/train.cpp"
  [ -s "$stage/train.cpp" ] || { echo "docs/cplusplus.md has no program"; exit 1; }
  "$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror "$stage/train.cpp" -o "$stage/cplusplus" "${flags[@]}"
  LD_LIBRARY_PATH=$(dirname "$library") "$stage/cplusplus"
fi
echo "examples run against the installed library"
