#!/usr/bin/env bash
# links.sh: the links between the pages lead to files and to headings that exist. Addresses elsewhere are not tried.
# usage: links.sh SOURCE_DIR
set -euo pipefail
cd "$1"
pages=(*.md docs/*.md)

# "PAGE#anchor" of each heading: lower case, spaces as hyphens, no punctuation; a second one of the same text has "-1".
headings=$(awk '
  FNR == 1 { code = 0; split("", seen) }
  /^```/ { code = !code }
  /^#+ / && !code {
    sub(/^#+ /, "")
    $0 = tolower($0)
    gsub(/\]\([^)]*\)/, "")
    gsub(/[^a-z0-9_ -]/, "")
    gsub(/ /, "-")
    print FILENAME "#" $0 (seen[$0]++ ? "-" seen[$0] - 1 : "")
  }' "${pages[@]}")

n=0 wrong=0
while IFS=' ' read -r page link; do
  n=$((n + 1))
  case $link in http*) continue ;; esac
  file=${link%%#*}
  target=$page
  [ -z "$file" ] || target=$(realpath -m --relative-to=. "$(dirname "$page")/$file")
  if [ ! -e "$target" ]; then
    echo "$page: there is no file $link"
    wrong=1
  elif [[ $link == *#* && $target == *.md ]] && ! grep -qxF "$target#${link#*#}" <<<"$headings"; then
    echo "$page: there is no heading $link"
    wrong=1
  fi
done < <(awk 'FNR == 1 { code = 0 } /^```/ { code = !code; next } !code {
  while (match($0, /\]\([^) ]+\)/)) {
    print FILENAME, substr($0, RSTART + 2, RLENGTH - 3)
    $0 = substr($0, RSTART + RLENGTH)
  } }' "${pages[@]}")
[ "$n" -ge 100 ] || { echo "only $n links found"; exit 1; }
[ "$wrong" -eq 0 ] && echo "$n links"
