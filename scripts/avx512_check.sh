#!/usr/bin/env bash
# avx512_check.sh BUILD [WORK]: runs what Lockstep has for AVX-512 on a machine without it: the tests of CPU kernels and a few
# steps of training, under Bochs, which emulates a whole PC. It boots a kernel of Debian's with the programs of BUILD, a build
# folder with tests, in memory. Nothing is installed; what is downloaded and made goes to WORK [BUILD/avx512_check].
#
# Slow, so that CI leaves it out: with a fast Bochs (see BOCHS) and one core to itself, booting takes 20 s, so do three steps of
# training, and every 19th op case takes minutes; all cases take hours. The exit status is the verdict: 0 when all passed and the
# weights are those that this machine trains.
#
#   BOCHS    the emulator [bochs]. Debian's has a debugger in it, which makes it slow. One of the same source, three times as
#            fast: ./configure --enable-x86-64 --enable-avx --enable-evex --enable-all-optimizations --with-nogui
#   MODEL    the processor [corei7_skylake_x], of those that bochs --help cpu lists
#   FEATURES what to add to it, as Bochs 3.0's add_features: "avx512vnni, avx512bf16" [nothing]
#   TESTS    what to run of simd_math, onednn, bf16, winograd, implicit_gemm, op_values, op_bits, and train [all of them but op_bits]
#   STEP     every how manyth of 2000 op cases to run [19]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bochs=${BOCHS:-bochs} model=${MODEL:-corei7_skylake_x}
tests=${TESTS:-train simd_math winograd implicit_gemm bf16 op_values onednn} step=${STEP:-19}
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "scripts/avx512_check.sh" >&2; exit 2; }
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -d "$1" ]; then usage; fi
build=$(cd "$1" && pwd)
mkdir -p "${2:-$build/avx512_check}"
work=$(cd "${2:-$build/avx512_check}" && pwd)
fail() { echo "avx512_check.sh: $*" >&2; exit 1; }

# ---- What is needed ----

command -v "$bochs" >/dev/null || fail "no Bochs: apt-get install bochs bochs-term, or name one with BOCHS"
for tool in xorriso apt-get dpkg ldd; do
  command -v "$tool" >/dev/null || fail "no $tool here: apt-get install $tool, on Debian"
done
for file in /usr/share/bochs/BIOS-bochs-latest /usr/share/bochs/VGABIOS-lgpl-latest; do
  [ -e "$file" ] || fail "no $file: apt-get install bochsbios vgabios"
done
help=$("$bochs" --help cpu 2>&1; "$bochs" --help 2>&1) || true
grep -qx "$model" <<<"$help" || fail "$bochs does not support the processor $model"
[ "$tests" = train ] || [ -x "$build/tests/cpu/test_cpu" ] || fail "no $build/tests/cpu/test_cpu: build it first"
[ -x "$build/lockstep" ] || fail "no $build/lockstep: build it first"

# A kernel, a shell and a boot loader, unpacked and not installed.
if [ ! -e "$work/packages/done" ]; then
  mkdir -p "$work/packages"
  kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  [ -n "$kernel" ] || fail "apt has no package linux-image-cloud-amd64; run apt-get update on Debian for amd64"
  (cd "$work/packages" && apt-get download -qq "$kernel" busybox-static isolinux syslinux-common) ||
    fail "could not download packages: apt-get update?"
  for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/packages"; done
  touch "$work/packages/done"
fi

# ---- The machine's files ----

root=$work/root
rm -rf "$root" "$work/iso"
mkdir -p "$root"/{bin,dev,proc,sys,tmp} "$work/iso"
cp "$work/packages/bin/busybox" "$root/bin/"
# add PROGRAM: with its libraries, without its symbols.
add() {
  local library
  strip -o "$root/bin/$(basename "$1")" "$1"
  for library in $(ldd "$1" | grep -o '/[^ ]*'); do install -D "$library" "$root$library"; done
}
[ "$tests" = train ] || add "$build/tests/cpu/test_cpu"
add "$build/lockstep"
"$build/lockstep" demo-data --train 8 --val 2 "$root/data" >/dev/null

# Three steps, whose weights must be the same as here.
train() {
  lockstep train --data-dir "$1" --no-val --model resnet20 --batch-size 8 --steps 3 \
    --threads 1 --workers 0 --out "$2" >"$2.log" 2>&1 || { cat "$2.log"; return 1; }
  sed 's/^/record /' "$2/run_log.txt"
}
cat >"$root/init" <<END
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin CK_FORK=no OMP_NUM_THREADS=1 LOCKSTEP_CASES_STEP=$step
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
exec >/dev/ttyS0 2>&1
grep -m1 'model name' /proc/cpuinfo
grep -q avx512bw /proc/cpuinfo && echo avx512bw
$(declare -f train)
for test in $tests; do
  if [ \$test = train ]; then train /data /tmp/run; else /bin/test_cpu \$test; fi && echo "passed \$test" || echo "failed \$test"
  cut -d ' ' -f 1 /proc/uptime
done
echo finished
sleep 5 # the serial line is slow
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | bin/busybox cpio -o -H newc 2>/dev/null) >"$work/iso/initrd"
cp "$work"/packages/boot/vmlinuz-* "$work/iso/vmlinuz"
cp "$work/packages/usr/lib/ISOLINUX/isolinux.bin" "$work/packages/usr/lib/syslinux/modules/bios/ldlinux.c32" "$work/iso/"
cat >"$work/iso/isolinux.cfg" <<END
default linux
label linux
kernel vmlinuz
append initrd=initrd console=ttyS0 quiet nokaslr mitigations=off norandmaps tsc=reliable random.trust_cpu=on
END
xorriso -as mkisofs -quiet -o "$work/disc.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
  -boot-info-table "$work/iso" 2>/dev/null

# ---- The run ----

# A Bochs with a debugger requires the command to continue, and Debian's supports only terminals as screens.
screen=nogui run=("$bochs" -q -f "$work/bochsrc")
if [ -e /usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so ] && grep -q -e '-rc ' <<<"$help"; then
  screen=term
  echo continue >"$work/commands"
  run+=(-rc "$work/commands")
fi
cat >"$work/bochsrc" <<END
display_library: $screen
cpu: model=$model, ips=100000000${FEATURES:+, add_features="$FEATURES"}
clock: sync=none, time0=1700000000
megs: 1024
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$work/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/results
log: $work/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
END
rm -f "$work/results"
echo "running $tests on Bochs's $model; $work/results grows"
if [ "$screen" = term ]; then
  TERM=${TERM:-linux} script -qec "$(printf '%q ' "${run[@]}")" /dev/null </dev/null >"$work/bochs.out" 2>&1 || true
else
  "${run[@]}" </dev/null >"$work/bochs.out" 2>&1 || true # powering off is an error to it
fi
tr -d '\r' <"$work/results" | sed -n '/^model name/,$p' | tee "$work/results.txt"

grep -qx finished "$work/results.txt" || fail "the machine did not finish: $work/results, $work/bochs.log"
grep -qx avx512bw "$work/results.txt" || fail "$model has no AVX-512"
! grep -q '^failed' "$work/results.txt" || fail "tests failed"
case " $tests " in
*" train "*)
  rm -rf "$work/run"
  PATH=$build:$PATH train "$root/data" "$work/run" >"$work/wanted"
  grep '^record' "$work/results.txt" | diff - "$work/wanted" || fail "training gives other weights than here"
  ;;
esac
echo "all passed"
