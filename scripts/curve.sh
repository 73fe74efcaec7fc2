#!/usr/bin/env bash
# curve.sh: draws a run's losses and validation accuracy with gnuplot.
# usage: curve.sh METRICS.csv PICTURE.png TITLE
set -euo pipefail
gnuplot <<PLOT
set datafile separator comma
set terminal pngcairo size 800,420 noenhanced font "sans,11"
set output "$2"
set title "$3"
set xlabel "epoch"
set ylabel "loss"
set y2label "validation accuracy"
set ytics nomirror
set y2tics
set y2range [0:1]
set yrange [0:*]
set xtics 1
set grid
set key at graph 0.98,0.24 right
plot "$1" using "epoch":"train_loss" with linespoints pt 7 title "training loss", \
  "" using "epoch":"val_loss" with linespoints pt 7 title "validation loss", \
  "" using "epoch":"val_top1" axes x1y2 with linespoints pt 5 title "validation accuracy"
PLOT
