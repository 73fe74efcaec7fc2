#!/usr/bin/env bash
# commands.sh: runs the commands of README.md's sh blocks in their order, in a folder that has what the README speaks of:
# the build, a folder of images, a photo, and the C program of its c block. Epochs are cut to 1, and
# data sets to a few images.
# scripts/ and cmake --preset are checked to be there; .ci/run runs them.
# usage: commands.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$build/tests/readme/work
rm -rf "$work"
mkdir -p "$work"
cd "$work"
ln -s "$build" build
ln -s "$source/scripts" scripts
build/lockstep demo-data photos --train 16 --val 2 >/dev/null
ln -s photos/train unsplit
build/lockstep train --data-dir photos --model resnet18 --image-size 64 -b 8 --steps 1 --out pretrained >/dev/null 2>&1
mv pretrained/last.safetensors resnet18-f37072fd.pth # the content tells the format
photo=$(find photos/val -name '*.jpg' | sort | awk 'NR == 1') # head would break the pipe
cp "$photo" my_photo.jpg

# block LANGUAGE: the text inside of such fences.
block() {
  awk -v fence="\`\`\`$1" '$0 == fence { inside = 1; next } /^```/ { inside = 0 } inside' "$source/README.md"
}
block c >train.c
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
[ "$n" -ge 10 ] || { echo "only $n commands found in README.md"; exit 1; }

# Links to files must not dangle.
grep -oE '\]\([^)#]+\)' "$source"/*.md "$source"/docs/*.md | sed -E 's/\]\((.*)\)/\1/' |
  while IFS=: read -r file link; do
    case $link in http*) continue ;; esac
    [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link is not there"; exit 1; }
  done
echo "$n commands of the README ran"
