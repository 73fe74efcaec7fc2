#!/usr/bin/env bash
# programs.sh: with the installed packages the command trains, and README's two C programs are compiled, found by pkg-config and by
# CMake, and train.
set -euo pipefail
readme=/usr/share/doc/liblockstep-dev/README.md
work=${AUTOPKGTEST_TMP:-$(mktemp -d)}
cd "$work"

lockstep demo-data photos --train 20 --val 4 >/dev/null
lockstep train --data-dir photos --recipe small --epochs 1 --out command --quiet
lockstep predict --checkpoint command/best.safetensors photos/val >/dev/null

# program N: the N-th C program of README.
program() {
  awk -v wanted="$1" '/^```c$/ { n++; inside = 1; next } /^```/ { inside = 0 } inside && n == wanted' "$readme"
}
for n in 1 2; do
  program $n >"program$n.c"
  sed -i 's/epochs=20/epochs=1/; s/EPOCHS = 10/EPOCHS = 2/' "program$n.c"
  grep -qE 'epochs=1\>|EPOCHS = 2\>' "program$n.c" || { echo "README has no program $n, or another number of epochs"; exit 1; }
done
# shellcheck disable=SC2046 # options
gcc -std=c11 program1.c -o by_pkg_config $(pkg-config --cflags --libs lockstep)
./by_pkg_config
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(program LANGUAGES C)
find_package(lockstep REQUIRED)
add_executable(by_cmake program2.c)
target_link_libraries(by_cmake PRIVATE lockstep::lockstep)
END
cmake -S . -B build -G Ninja >/dev/null
cmake --build build >/dev/null
build/by_cmake photos/train photos/val
echo "the command and README's programs train"
