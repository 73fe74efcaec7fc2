#!/usr/bin/env bash
# machines.sh up|cut|down NAME: two "machines" for Open MPI on this one: network namespaces NAMEa (10.9.0.1) and NAMEb
# (10.9.0.2) with a cable between them. Requires root. "cut" takes the cable away; "down" kills what runs there.
# machines.sh run NAME COMMAND...: on NAMEa, under its host name.
# machines.sh agent NAME [OPTION...] ADDRESS COMMAND: in place of ssh.
set -u
a=$2a b=$2b

# on MACHINE COMMAND...
on() {
  # shellcheck disable=SC2016 # of the inner shell
  exec ip netns exec "$1" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$@"
}

case $1 in
  up)
    ip netns add "$a" && ip netns add "$b" && ip link add "$a" type veth peer name "$b" || exit
    for machine in "$a" "$b"; do
      ip link set "$machine" netns "$machine" && ip -n "$machine" link set lo up || exit
      ip -n "$machine" link set "$machine" up || exit
    done
    ip -n "$a" address add 10.9.0.1/24 dev "$a" && ip -n "$b" address add 10.9.0.2/24 dev "$b"
    ;;
  cut) ip -n "$a" link set "$a" down ;;
  down)
    for machine in "$a" "$b"; do
      ip netns pids "$machine" 2>/dev/null | xargs -r kill -KILL
      ip netns delete "$machine" 2>/dev/null
    done
    ;;
  run) on "$a" "${@:3}" ;;
  agent)
    shift 2
    while [ "${1#-}" != "$1" ]; do shift; done
    case $1 in 10.9.0.1) machine=$a ;; *) machine=$b ;; esac
    on "$machine" sh -c "${*:2}"
    ;;
  *) echo "usage: machines.sh up|cut|down|run|agent NAME ..."; exit 2 ;;
esac
