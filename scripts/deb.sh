#!/usr/bin/env bash
# deb.sh [--twice]: builds the packages of debian/ from this folder's files into build/deb, and requires that lintian finds neither
# errors nor warnings. With --twice it builds them in another folder again, and requires the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh
need_packages "${deb_packages[@]}"

name=lockstep-$(sed -nE 's/^#define LS_VERSION +"(.*)"/\1/p' include/lockstep/version.h)
rm -rf build/deb build/deb-again

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
# build_debs FOLDER: in a temporary folder, because dpkg keeps the path out of the packages only if it has no spaces.
build_debs() {
  work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" lockstep-deb-XXXXXX)
  mkdir -p "$1" "$work/$name"
  { if [ -e .git ]; then git ls-files -coz --exclude-standard; else find . '(' -type f -o -type l ')' ! -path './build/*' -print0; fi; } | tar -c --null --files-from=- | tar -x -C "$work/$name"
  (cd "$work/$name" && DEB_BUILD_OPTIONS="nocheck noautodbgsym terse parallel=$(nproc)" dpkg-buildpackage --build=binary --no-sign --check-builddeps) >"$1.log" 2>&1 ||
    { tail -n 40 "$1.log"; return 1; }
  find "$work" -maxdepth 1 -type f -exec mv -t "$1" {} +
  rm -rf "$work"
}
echo "building the packages"
build_debs build/deb
# A first upload to Debian's archive closes a bug; these packages are not for it.
lintian --fail-on error,warning --tag-display-limit 0 --suppress-tags initial-upload-closes-no-bugs build/deb/*.changes
if [ "${1:-}" = --twice ]; then
  echo "building them again"
  build_debs build/deb-again
  for deb in build/deb/*.deb; do
    cmp "$deb" "build/deb-again/${deb##*/}"
  done
fi
ls -l build/deb/*.deb
