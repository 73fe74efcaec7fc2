#!/usr/bin/env bash
# blocks.sh: every code block of the pages compiles: programs and functions in C as they are, lines of C in a function that has the
# objects that they speak of, C++, the syntax of sh and Python. usage: blocks.sh SOURCE_DIR WORK_DIR CC [CXX]
set -euo pipefail
source=$1 work=$2 cc=$3 cxx=${4:-}
rm -rf "$work"
mkdir -p "$work"

# The objects of blocks that are lines of a function, or call functions of a program.
head='#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
ls_node *backbone(ls_graph *g, ls_node *x, int64_t n);
const float *target_of(int64_t sample);
'
begin='ls_status lines(ls_context *ctx, ls_loader *loader, ls_net *net, ls_optimizer *opt, double lr, float *values, ls_net_config config);
ls_status lines(ls_context *ctx, ls_loader *loader, ls_net *net, ls_optimizer *opt, double lr, float *values, ls_net_config config)
{
    (void)ctx, (void)loader, (void)net, (void)opt, (void)lr, (void)values, (void)config;
    {
'
end='
    }
    return LS_OK;
}'

n=0
for page in "$source"/*.md "$source"/docs/*.md; do
  name=$(basename "$page" .md)
  # One file for each block: NAME-I.LANGUAGE
  awk -v out="$work/$name-" '/^```[a-z]+$/ && !file { file = out (++i) "." substr($0, 4); next }
    /^```/ && file { close(file); file = ""; next } file { print > file }' "$page"
done
for block in "$work"/*; do
  case $block in
    *.c)
      if ! grep -q '^#include' "$block"; then
        text=$(cat "$block")
        if grep -qE '^static .*\($|^static .*\)$' "$block"; then
          printf '%s%s\n' "$head" "$text" >"$block"
        else
          printf '%s%s%s%s\n' "$head" "$begin" "$text" "$end" >"$block"
        fi
      fi
      "$cc" -std=c11 -Wall -Wextra -Werror -Wno-unused -Wno-missing-field-initializers -I"$source/include" -fsyntax-only "$block"
      ;;
    *.cpp) [ -z "$cxx" ] || "$cxx" -std=c++17 -Wall -Wextra -Werror -I"$source/include" -fsyntax-only "$block" ;;
    *.sh) bash -n "$block" ;;
    *.python) ! command -v python3 >/dev/null || python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])' "$block" ;;
    *.cmake) ;; # README's, which tests/package builds
    *)
      echo "$block: no language whose blocks are checked"
      exit 1
      ;;
  esac
  n=$((n + 1))
done
[ "$n" -ge 40 ] || { echo "only $n blocks found"; exit 1; }
echo "$n code blocks compile"
