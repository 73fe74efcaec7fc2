#!/bin/sh
# ptx.sh NVCC SRC [INCLUDE ...]: compiles our own kernels to PTX and checks what their speed rests on:
#   - activations, and what optimizers update, are loaded and stored 16 bytes at a time
#   - no integer is divided in 64 bits, except where more than 2^30 packs are numbered
#   - nothing lies in local memory
set -eu
nvcc=$1 src=$2
shift 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
includes='' n=0
for folder in "$src" "$src/../include" "$@"; do
    ln -s "$folder" "$out/$n" # nvcc does not read paths with spaces
    includes="$includes -I$out/$n" n=$((n + 1))
done
for name in norm pool depthwise elementwise optimizer memory; do
    # shellcheck disable=SC2086 # several words
    "$nvcc" -ptx -arch=sm_90 --std=c++17 --fmad=false -DLS_STATIC $includes -o "$out/$name.ptx" "$out/0/cuda/kernels/$name.cu"
done
awk '
function fail(what) {
    print file ": " entry ": " what
    failed = 1
}
function check() {
    if (entry == "") return
    n_parameters++
    packs = entry ~ /ls__pack|elementwise_kernel|sgd_kernel|adam_kernel|rmsprop_kernel|cast_packs/
    n_packs += packs
    # bytes become values: a pixel of 3 bytes makes a pack
    if (packs && !loads && entry !~ /normalize_padded/) fail("no load of 16 bytes")
    # these write sums
    if (packs && !stores && entry !~ /statistics_kernel|gradients_kernel/) fail("no store of 16 bytes")
    if (!packs && entry ~ /normalize_kernel/ && !stores) fail("no store of 16 bytes")
    if (divisions && entry !~ /ls__single.*ElEv/) fail(divisions " divisions of 64 bits")
    if (local) fail("local memory")
    entry = ""
}
FNR == 1 {
    check()
    file = FILENAME
    sub(/.*\//, "", file)
}
match($0, /\.entry [A-Za-z0-9_]+/) {
    check()
    entry = substr($0, RSTART + 7, RLENGTH - 7)
    loads = stores = divisions = local = 0
}
/ld\.global[.a-z0-9]*\.(v4\.[a-z]32|v2\.[a-z]64)/ { loads++ }
/st\.global[.a-z0-9]*\.(v4\.[a-z]32|v2\.[a-z]64)/ { stores++ }
/(div|rem)\.[su]64/ { divisions++ }
/\.local/ { local++ }
END {
    check()
    printf "%d kernels, %d of them of 16 bytes\n", n_parameters, n_packs
    exit failed || n_parameters < 100 || n_packs < 50
}' "$out"/*.ptx
