#!/usr/bin/env bash
# commands.sh: runs the commands of README.md's sh blocks in their order, in a folder that has what the README speaks of:
# the build, a folder of images, a photo, and the C program of its c block. Epochs are cut to 1, and
# data sets to a few images.
# scripts/ and cmake --preset are checked to be there; .ci/run runs them. Every page's cmake commands name Ninja.
# usage: commands.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$build/tests/readme/work
rm -rf "$work"
mkdir -p "$work"
cd "$work"
ln -s "$build" build
ln -s "$source/scripts" scripts
ln -s "$source/examples" examples
# As where scripts/packages.sh has installed Ninja, and there is no make.
mkdir bin
printf '#!/bin/sh\necho "the commands of README.md require no make" >&2\nexit 1\n' >bin/make
chmod +x bin/make
ln -s make bin/gmake
export PATH=$PWD/bin:$PATH
build/lockstep demo-data photos --train 16 --val 2 >/dev/null
ln -s photos/train unsplit
build/lockstep train --data-dir photos --model resnet18 --image-size 64 -b 8 --steps 1 --out pretrained >/dev/null 2>&1
mv pretrained/last.safetensors resnet18-f37072fd.pth # the content tells the format
photo=$(find photos/val -name '*.jpg' | sort | awk 'NR == 1') # head would break the pipe
cp "$photo" my_photo.jpg

# block LANGUAGE [N]: the text inside of such fences, or of the N-th one.
block() {
  awk -v fence="\`\`\`$1" -v n="${2:-0}" '$0 == fence { inside = 1; ++i; next } /^```/ { inside = 0 } inside && (n == 0 || i == n)' "$source/README.md"
}
block c 1 | sed 's/"epochs=20"/"epochs=1", "image-size=64", "batch-size=8"/' >run.c
block c 2 >train.c
n=0
while IFS= read -r command; do
  case $command in
    scripts/*) test -x "$command" && continue ;;
    'cmake --preset '*) grep -q "\"name\": \"${command##* }\"" "$source/CMakePresets.json" && continue ;;
  esac
  echo "+ $command"
  eval "$(sed -E 's/--epochs [0-9]+/--epochs 1/; s/--recipe [a-z]+/& --epochs 1 --image-size 64/; s/(demo-data [a-z]+)$/\1 --train 16 --val 2/' <<<"$command")"
  n=$((n + 1))
done < <(block sh | sed -e ':a' -e '/\\$/N; s/\\\n *//; ta') # joins continued lines
# The README's program of a run is linked in the same way.
read -ra flags <<<"$(pkg-config --cflags --libs lockstep)"
cc -std=c11 run.c -o run_program "${flags[@]}" -Wl,-rpath,"$PWD/installed/lib"
rm -rf run
./run_program
build/lockstep report run
[ "$n" -ge 10 ] || { echo "only $n commands found in README.md"; exit 1; }

if grep -nE '^[^`]*cmake -S ' "$source"/*.md "$source"/docs/*.md "$source"/examples/CMakeLists.txt | grep -v -e '-G Ninja'; then
  echo "without -G Ninja, this requires make"
  exit 1
fi

# Links to files must not dangle.
grep -oE '\]\([^)#]+\)' "$source"/*.md "$source"/docs/*.md | sed -E 's/\]\((.*)\)/\1/' |
  while IFS=: read -r file link; do
    case $link in http*) continue ;; esac
    [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link is not there"; exit 1; }
  done
echo "$n commands of the README ran"
