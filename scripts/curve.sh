#!/usr/bin/env bash
# curve.sh: draws a run's losses and its validation accuracy, one above the other, with gnuplot.
# usage: curve.sh METRICS.csv IMAGE.png TITLE
set -euo pipefail
gnuplot <<PLOT
set datafile separator comma
stats "$1" using "epoch" nooutput
last = STATS_max
# at most 12 epochs get a label: every 1st, 2nd, 5th, 10th, 20th, ...
power = 10 ** floor(log10(last / 12.0 > 1 ? last / 12.0 : 1))
step = last <= 12 * power ? power : last <= 24 * power ? 2 * power : last <= 60 * power ? 5 * power : 10 * power
set terminal pngcairo size 800,640 noenhanced font "sans,11"
set output "$2"
set multiplot layout 2,1 title "$3"
set lmargin 9
set rmargin 3
set xrange [0.5:last + 0.5]
set xtics step, step
set grid
set linetype 1 pt 7
set linetype 2 pt 7
set style data lines
if (last <= 40) set style data linespoints
set ylabel "loss"
set yrange [0:*]
set key top right
plot "$1" using "epoch":"train_loss" title "training", "" using "epoch":"val_loss" title "validation"
set xlabel "epoch"
set ylabel "top-1 accuracy"
set yrange [0:1]
set key bottom right
plot "$1" using "epoch":"train_top1" title "training", "" using "epoch":"val_top1" title "validation"
unset multiplot
PLOT
