#!/usr/bin/env bash
# demo.sh: installs what is missing, builds into build/, draws a folder of small images, trains a network on them and
# shows how it went. All that it makes is in build/. The exit status says whether the accuracy was reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

demo=$PWD/build/demo
lockstep=$PWD/build/lockstep
wanted=0.95
options=() targets=(lockstep_product)

# The CUDA module is configured where the toolkit is, and nvcc needs a C++ compiler.
! PATH=$PATH:${CUDA_PATH:-/usr/local/cuda}/bin command -v nvcc >/dev/null || demo_packages+=(g++)
need_packages "${demo_packages[@]}"
# What cmake --install takes, without tests, whose packages may be missing, and benchmarks; for the GPUs that are here, if any.
[ -f build/CMakeCache.txt ] || options+=(-DLOCKSTEP_BUILD_TESTS=OFF)
! nvidia-smi -L >/dev/null 2>&1 || targets+=(lockstep_product_cuda)
build_in build "${options[@]}" -- "${targets[@]}"

[ -d "$demo/data/val" ] || { rm -rf "$demo/data" && mkdir -p "$demo" && "$lockstep" demo-data "$demo/data" >/dev/null; }
rm -rf "$demo/run"
echo "training resnet20 on $demo/data"
# The shapes lie anywhere already: flips and crops only make them harder to learn in eight epochs.
"$lockstep" train --data-dir "$demo/data" --model resnet20 --image-size 32 --epochs 8 -b 32 --lr 0.1 --flip 0 --crop-padding 0 \
  --out "$demo/run"

# best VALUE of the column NAME of metrics.csv
best() {
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
    $at > best { best = $at } END { print best + 0 }' "$demo/run/metrics.csv"
}
accuracy=$(best val_top1)

"$lockstep" plot --title "resnet20 on the demo images" "$demo/run" >/dev/null

# not head, which would leave sort with a broken pipe: the status of all under pipefail
image=$(find "$demo/data/val" -type f | sort | awk 'NR == 1')
echo
echo "what the trained network sees in $image:"
"$lockstep" predict --checkpoint "$demo/run/best.safetensors" "$image"
cat <<TEXT

validation accuracy: $accuracy (at least $wanted is expected)
training curve:      $demo/run/curves.svg
trained network:     $demo/run/best.safetensors

With images of your own, in YOUR_FOLDER/train/CLASS/ and YOUR_FOLDER/val/CLASS/:
  $(printf %q "$lockstep") train --data-dir YOUR_FOLDER --model resnet20 --image-size 32
TEXT
awk -v a="$accuracy" -v w="$wanted" 'BEGIN { exit !(a >= w) }'
