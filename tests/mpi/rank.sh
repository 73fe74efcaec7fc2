#!/usr/bin/env bash
# rank.sh CHANGE... -- PROGRAM ARGUMENT...: the program, of which one rank has another environment or other arguments.
# CHANGE: RANK:NAME=VALUE, RANK:--OPTION=VALUE, RANK:fsize=KIB (limit of file sizes), or mixed (threads and workers that
# differ between ranks), or RANK:stopped. Writes the process's number to pid.RANK, in the present folder.
set -u
rank=${OMPI_COMM_WORLD_RANK:-0}
arguments=()
while [ "$1" != -- ]; do
  change=${1#"$rank":}
  case $1 in
    mixed) arguments+=(--threads $((1 + rank % 2)) --workers $((2 - rank % 3))) ;;
    "$rank":stopped) stopped=1 ;; # before it connects
    "$rank":fsize=*) ulimit -f "${change#fsize=}" ;;
    "$rank":--*) arguments+=("$change") ;;
    "$rank":*) export "${change?}" ;;
  esac
  shift
done
echo $$ > "pid.$rank"
[ -z "${stopped:-}" ] || kill -STOP $$
exec "${@:2}" "${arguments[@]}"
