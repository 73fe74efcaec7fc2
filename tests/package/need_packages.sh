#!/usr/bin/env bash
# need_packages.sh SOURCE_DIR WORK_DIR: need_packages of scripts/packages.sh against stand-ins of Debian's programs. Those of
# apt-get fail as often as the file "failures" says, with the message in the file "message".
set -euo pipefail
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work/bin"
cd "$work"

# program NAME: its text is on standard input.
program() {
  { echo '#!/bin/sh'; cat; } >"bin/$1"
  chmod +x "bin/$1"
}
program dpkg-query <<'END'
for name; do :; done
grep -qx "$name" installed || exit 1
[ "$name" = libc6-dev ] && echo 'arm64 installed'
case $name in *:*) echo "${name#*:} installed" ;; *) echo 'amd64 installed' ;; esac
END
program dpkg <<'END'
echo amd64
END
program apt-get <<'END'
echo "apt-get $*" >>calls
n=$(cat failures)
[ "$n" -eq 0 ] && exit
echo $((n - 1)) >failures
cat message >&2
exit 100
END
program sudo <<'END'
echo "sudo" >>calls
exec "$@"
END
program sleep <<'END'
echo "sleep $*" >>calls
END
program id <<'END'
cat user
END
export PATH=$PWD/bin:$PATH
printf '%s\n' gcc libc6-dev check:arm64 >installed

# expect STATUS OUTPUT CALLS FAILURES MESSAGE PACKAGE...
expect() {
  local status=0 output
  rm -f calls
  touch calls
  echo "$4" >failures
  echo "$5" >message
  output=$(. "$source/scripts/packages.sh" && need_packages "${@:6}" 2>&1) || status=$?
  [ "$status" -eq "$1" ] && [ "$output" = "$2" ] && [ "$(sort calls | uniq -c | awk '{ $1 = $1; print }')" = "$3" ] && return
  printf '%s\n' "${*:4}: status $status, output:" "$output" "calls:" "$(cat calls)"
  exit 1
}
installs='apt-get -qq install -y --no-install-recommends check xz-utils'
advice='Could not install packages. As root:
  apt-get install check xz-utils'
dpkg='E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1789 (unattended-upgr)
E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?'
waiting='waiting, for at most 5 minutes: another program installs packages'

echo 0 >user
expect 0 '' '' 0 '' gcc libc6-dev check:arm64
expect 0 'installing: gcc:arm64' '1 apt-get -qq install -y --no-install-recommends gcc:arm64
1 apt-get -qq update' 0 '' gcc:arm64
expect 0 'installing: check xz-utils' "1 $installs
1 apt-get -qq update" 0 '' check gcc xz-utils
expect 0 "installing: check xz-utils
$waiting: process 1789 (unattended-upgr)" "1 $installs
4 apt-get -qq update
3 sleep 5" 3 "$dpkg" check xz-utils
expect 0 "installing: check xz-utils
$waiting" "1 $installs
2 apt-get -qq update
1 sleep 5" 1 'E: Unable to lock directory /var/lib/apt/lists/' check xz-utils
expect 1 "installing: check xz-utils
$waiting: process 1789 (unattended-upgr)
$dpkg
$advice" "60 apt-get -qq update
60 sleep 5" 100 "$dpkg" check xz-utils
expect 1 "installing: check xz-utils
E: no network
$advice" "1 apt-get -qq update" 1 'E: no network' check xz-utils

echo 1000 >user
expect 0 'installing: check xz-utils' "1 $installs
1 apt-get -qq update
2 sudo" 0 '' check xz-utils
rm bin/sudo
if ! command -v sudo >/dev/null; then
  expect 1 'Missing packages, and neither root nor sudo to install them. As root:
  apt-get install check xz-utils' '' 0 '' check xz-utils
fi

# A folder that can't be written.
mkdir tree
cp "$source/scripts/packages.sh" tree
echo >tree/build
# shellcheck source=scripts/packages.sh
output=$(cd tree && . ./packages.sh && build_in build 2>&1) && { echo "built in a file"; exit 1; }
[[ $output == *"$work/tree/build can't be written"*"cmake -S '$work/tree' -B FOLDER -G Ninja"* ]] || { echo "a file: $output"; exit 1; }
echo "packages are installed"
