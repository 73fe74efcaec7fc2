#!/usr/bin/env bash
# demo.sh: installs what is missing, builds into build/, draws a folder of small pictures, trains a network on them and
# shows how it went. All that it makes is in build/. The exit status says whether the accuracy was reached.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

demo=$PWD/build/demo
lockstep=$PWD/build/lockstep
wanted=0.90

need_packages "${demo_packages[@]}"
build_in build

[ -d "$demo/data/val" ] || { rm -rf "$demo/data" && mkdir -p "$demo" && "$lockstep" demo-data "$demo/data" >/dev/null; }
rm -rf "$demo/run"
echo "training resnet20 on $demo/data"
"$lockstep" train --data-dir "$demo/data" --model resnet20 --image-size 32 --epochs 8 -b 64 --out "$demo/run"

# best VALUE of the column NAME of metrics.csv
best() {
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
    $at > best { best = $at } END { print best + 0 }' "$demo/run/metrics.csv"
}
accuracy=$(best val_top1)

gnuplot <<PLOT
set datafile separator comma
set terminal pngcairo size 800,480 noenhanced font "sans,11"
set output "$demo/curve.png"
set title "resnet20 on the demo pictures"
set xlabel "epoch"
set ylabel "loss"
set y2label "validation accuracy"
set ytics nomirror
set y2tics
set y2range [0:1]
set yrange [0:*]
set grid
set key center right
plot "$demo/run/metrics.csv" using "epoch":"train_loss" with linespoints pt 7 title "training loss", \
  "" using "epoch":"val_loss" with linespoints pt 7 title "validation loss", \
  "" using "epoch":"val_top1" axes x1y2 with linespoints pt 5 title "validation accuracy"
PLOT

picture=$(find "$demo/data/val" -type f | sort | head -n 1)
cat <<TEXT

validation accuracy: $accuracy (at least $wanted is wanted)
training curve:      $demo/curve.png
trained network:     $demo/run/best.safetensors

Next:
  $lockstep predict --checkpoint $demo/run/best.safetensors $picture
  $lockstep eval --checkpoint $demo/run/best.safetensors --data-dir $demo/data
  $lockstep train --data-dir YOUR_FOLDER --model resnet20 --image-size 32
TEXT
awk -v a="$accuracy" -v w="$wanted" 'BEGIN { exit !(a >= w) }'
