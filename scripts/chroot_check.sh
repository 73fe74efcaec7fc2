#!/usr/bin/env bash
# chroot_check.sh [OPTION...]: runs README's commands on minimal systems of Debian 12 and 13, which debootstrap makes, as root and
# as a user with sudo: from an archive of git's tracked files, in a path with spaces, without environment. Requires root. Prints
# a table; the exit status is the verdict. All mounts are in a namespace of their own, which ends with the command that runs there.
#   --release NAME    bookworm or trixie [both]
#   --user NAME       root or sudo [both]
#   --script COMMAND  a script of scripts/, with arguments [demo.sh and test.sh, one after the other in the same system]
#   --debs            in place of scripts: builds the packages of debian/ (scripts/deb.sh), then installs, uses, removes and purges
#                     them in a minimal system
#   --keep FOLDER     begins with the minimal systems and downloaded packages in FOLDER, and leaves them there, also the checked
#                     systems RELEASE-USER and logs
#   --resume          with --keep: runs in the systems that an earlier check left, on the present files
#   --mirror URL      of Debian [that of this machine's apt, whose settings and proxies the systems use, too]
# Options that select something may be given several times.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/packages.sh

fail() {
  echo "chroot_check.sh: $1" >&2
  exit 2
}
releases=() users=() scripts=() folder='' resume='' debs='' mirror=''
while [ $# -gt 0 ]; do
  [ "$1" = --resume ] || [ "$1" = --debs ] || [ -n "${2:-}" ] || fail "unknown option $1, or without a value; the first lines of this file list them"
  case $1 in
    --release) releases+=("$2") ;;
    --user) users+=("$2") ;;
    --script) scripts+=("$2") ;;
    --keep) folder=$2 ;;
    --mirror) mirror=$2 ;;
    --resume) resume=1 ;;
    --debs) debs=1 ;;
    *) fail "unknown option $1; the first lines of this file list them" ;;
  esac
  [ "$1" = --resume ] || [ "$1" = --debs ] || shift
  shift
done
[ "${#releases[@]}" -gt 0 ] || releases=(bookworm trixie)
[ -z "$debs" ] || [ $((${#users[@]} + ${#scripts[@]})) -eq 0 ] || fail "--debs excludes --user and --script"
[ -z "$debs" ] || users=(root) scripts=("deb.sh --twice")
[ "${#users[@]}" -gt 0 ] || users=(root sudo)
[ "${#scripts[@]}" -gt 0 ] || scripts=(demo.sh test.sh)
for release in "${releases[@]}"; do [[ $release =~ ^(bookworm|trixie)$ ]] || fail "--release: expected bookworm or trixie"; done
for user in "${users[@]}"; do [[ $user =~ ^(root|sudo)$ ]] || fail "--user: expected root or sudo"; done
for script in "${scripts[@]}"; do [ -x "scripts/${script%% *}" ] || fail "--script: expected a script of scripts/"; done
[ -z "$resume" ] || [ -n "$folder" ] || fail "--resume requires --keep"
[ "$(id -u)" -eq 0 ] || fail "chroots require root"
need_packages debootstrap debian-archive-keyring git
# shellcheck disable=SC2016 # apt's variable
[ -n "$mirror" ] || mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
[ -n "$mirror" ] || fail "apt has no lists of Debian: run apt-get update, or give --mirror"

# ---- Systems ----

child='' temporary=''
# Kills what runs in a system; the namespaces end with it.
trap '[ -z "$child" ] || kill -KILL "$child"
  [ -z "$temporary" ] || rm -rf --one-file-system "$temporary"' EXIT
if [ -n "$folder" ]; then
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
else
  temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}" lockstep-chroots-XXXXXX)
  folder=$temporary
fi
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p "$folder/logs"

# isolated COMMAND...: with mounts and processes of its own.
isolated() {
  unshare --mount --pid --fork --kill-child --propagation private "$@" &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=''
  return "$status"
}

# inside SYSTEM USER COMMAND...
inside() {
  # shellcheck disable=SC2016 # of the inner shell
  isolated bash -euc '
    mkdir -p "$0/dev/pts" "$0/dev/shm"
    mount -t proc proc "$0/proc"
    mount --bind /sys "$0/sys"
    mount -o remount,bind,ro "$0/sys"
    mount -t devpts -o newinstance,ptmxmode=0666,gid=5,mode=620 devpts "$0/dev/pts"
    mount -t tmpfs shm "$0/dev/shm"
    mount --bind "$1" "$0/var/cache/apt/archives"
    exec chroot --userspec="$2:" "$0" "${@:3}"' "$1" "$folder/$release.packages" "${@:2}"
}

# apt_settings: how apt reaches its mirror.
apt_settings() {
  local scheme proxy
  apt-config dump | grep -E '^Acquire::(Check-|Retries|ForceIPv|(http|https|ftp)::)' || true
  for scheme in http https; do
    proxy=${scheme}_proxy
    [ -z "${!proxy:-}" ] || echo "Acquire::$scheme::Proxy \"${!proxy}\";"
  done
}

# make_system RELEASE: the minimal one.
make_system() {
  local system=$folder/$1 file
  mkdir -p "$system.packages/partial"
  [ ! -e "$system" ] || return 0
  rm -rf --one-file-system "$system.new"
  echo "making a minimal system of $1"
  isolated debootstrap --variant=minbase "$1" "$system.new" "$mirror" >"$folder/logs/$1.log" 2>&1 || {
    tail -n 20 "$folder/logs/$1.log"
    fail "debootstrap failed"
  }
  apt_settings >"$system.new/etc/apt/apt.conf.d/90mirror"
  cp /etc/hosts /etc/resolv.conf "$system.new/etc"
  # Files that the settings name, such as certificates.
  { sed -n 's/.* "\(\/.*\)";$/\1/p' "$system.new/etc/apt/apt.conf.d/90mirror"; [[ $mirror != https:* ]] || echo /etc/ssl/certs/ca-certificates.crt; } |
    while IFS= read -r file; do
      [ ! -f "$file" ] || cp --parents -L "$file" "$system.new"
    done
  mv "$system.new" "$system"
}

tree='/srv/a path with spaces/lockstep'
# make_copy SYSTEM USER: the system with the files of this folder, and with the user.
make_copy() {
  if [ -z "$resume" ] || [ ! -e "$1" ]; then
    rm -rf --one-file-system "$1"
    cp -a --reflink=auto "$folder/$release" "$1"
    if [ "$2" = sudo ]; then
      inside "$1" root bash -euc 'export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq install -y --no-install-recommends sudo
        useradd -m -s /bin/bash builder
        echo "builder ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/builder' >"$folder/logs/sudo.log" 2>&1 || {
        tail -n 20 "$folder/logs/sudo.log"
        fail "sudo could not be installed"
      }
    fi
  fi
  # After --resume, only files that have changed are compiled again.
  rm -rf "$1/srv/new"
  mkdir -p "$1/srv/new" "$1$tree"
  git archive "$commit" | tar -x -m -C "$1/srv/new"
  (cd "$1/srv/new" && find . -type f -print0 | while IFS= read -r -d '' file; do
    cmp -s "$file" "$1$tree/$file" || cp -p --parents "$file" "$1$tree"
  done)
  [ "$2" = root ] || inside "$1" root chown -R builder: /srv
}

# count SYSTEM: its packages.
count() {
  grep -c '^Status: install ok installed' "$1/var/lib/dpkg/status"
}

# ---- Checks ----

failed=0 table=()
# check USER COMMAND: in the system of this release and user.
check() {
  local system=$folder/$release-$1 as=root before begun=$SECONDS status=0 result=passed log=$folder/logs/$release-$1-${2//[^a-z0-9.-]/_}.log
  [ "$1" = root ] || as=builder
  before=$(count "$system")
  echo "$release, $1: $2"
  # shellcheck disable=SC2016,SC2086
  inside "$system" "$as" /usr/bin/env -i /bin/bash -c 'cd "$0" && "scripts/$1" "${@:2}"' "$tree" $2 >"$log" 2>&1 </dev/null ||
    status=$?
  if [ "$status" -eq 0 ] && [ "$2" = demo.sh ] && ! grep -q "$commit" "$system$tree/build/demo/run/manifest.json"; then
    echo "the manifest does not name commit $commit" >>"$log"
    status=1
  fi
  if [ "$status" -ne 0 ]; then
    result="failed ($status)"
    failed=1
    tail -n 40 "$log" | sed 's/^/  | /'
  fi
  table+=("$(printf '%-10s %-6s %-20s %-12s %8d %10d' "$release" "$1" "$2" "$result" $((SECONDS - begun)) $(($(count "$system") - before)))")
}

# check_debs: the packages that deb.sh has built, in a minimal system, which has the same files before and after.
check_debs() {
  local system=$folder/$release-debs begun=$SECONDS status=0 result=passed log=$folder/logs/$release-debs.log
  rm -rf --one-file-system "$system"
  cp -a --reflink=auto "$folder/$release" "$system"
  mkdir "$system/srv/debs"
  cp "$folder/$release-root$tree"/build/deb/*.deb "$system/srv/debs"
  cp debian/tests/programs.sh "$system/srv"
  echo "$release: install, use, remove and purge the packages"
  # shellcheck disable=SC2016 # of the inner shell
  inside "$system" root /usr/bin/env -i PATH="$PATH" DEBIAN_FRONTEND=noninteractive bash -euxc '
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends gcc libc6-dev cmake ninja-build pkg-config
    find / -xdev -path /srv -prune -o -path /var -prune -o -print | sort >/srv/before
    dpkg-query -W -f "\${Package}\n" | sort >/srv/packages
    apt-get -qq install -y --no-install-recommends /srv/debs/*.deb
    comm -13 /srv/packages <(dpkg-query -W -f "\${Package}\n" | sort) >/srv/added
    dpkg-query -W -f "\${Installed-Size} \${Package}\n" $(cat /srv/added) | sort -rn
    AUTOPKGTEST_TMP=/srv /srv/programs.sh
    apt-get -qq remove -y $(cat /srv/added)
    apt-get -qq purge -y $(cat /srv/added)
    find / -xdev -path /srv -prune -o -path /var -prune -o -print | sort >/srv/after
    diff /srv/before /srv/after' >"$log" 2>&1 </dev/null || status=$?
  if [ "$status" -ne 0 ]; then
    result="failed ($status)"
    failed=1
    tail -n 40 "$log" | sed 's/^/  | /'
  fi
  table+=("$(printf '%-10s %-6s %-20s %-12s %8d %10d' "$release" root "use of packages" "$result" $((SECONDS - begun)) "$(wc -l <"$system/srv/added")")")
}

commit=$(git stash create)
commit=${commit:-$(git rev-parse HEAD)}
for release in "${releases[@]}"; do
  make_system "$release"
  for user in "${users[@]}"; do
    make_copy "$folder/$release-$user" "$user"
    for script in "${scripts[@]}"; do check "$user" "$script"; done
  done
  [ -z "$debs" ] || [ "$failed" -ne 0 ] || check_debs
done
printf '\n%-10s %-6s %-20s %-12s %8s %10s\n' release user script result seconds "installed"
printf '%s\n' "${table[@]}"
exit "$failed"
