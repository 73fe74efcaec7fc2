#!/usr/bin/env bash
# launch.sh PROGRAM OWN: what launchers see of the ranks of test_mpi_context: exit statuses, and ends within seconds of
# ranks that were killed, hang or give up; programs without a launcher, or with another MPI's. OWN: test_mpi_own.
set -u
ranks=$(dirname "$0")/ranks.sh program=$1 own=$2
failed=0

# expect STATUS COMMAND...: which may be a pattern; within 30 seconds (the ends take about 2 on an idle machine).
expect() {
  local output status
  output=$(timeout -k 5 30 "${@:2}" 2>&1 | tr -d '\0'; exit "${PIPESTATUS[0]}") # Open MPI 5 prints zero bytes
  status=$?
  [ "$status" -eq 77 ] && { echo "$output"; exit 77; }
  [[ $status =~ ^($1)$ ]] && return
  printf '%s: exit status %d, expected %d\n%s\n' "${*:2}" "$status" "$1" "$output"
  failed=1
}

expect 0 "$ranks" 2 shm "$program" contexts
expect 0 "$ranks" 2 shm "$program" threads 2
expect 0 "$ranks" 3 shm "$program" threads 3
if [ "$(nproc)" -ge 2 ]; then
  expect 0 "$ranks" 2 shm --bind-to core "$program" bound 2
  expect 0 "$ranks" 1 shm --bind-to core "$program" bound-alone
else
  echo "left out: ranks that are bound to a processor each: there is one processor"
fi
expect 0 "$ranks" 2 shm "$own"
expect 0 "$ranks" 2 shm "$own" single

expect 137 "$ranks" 2 shm "$program" end kill
# Over TCP the other rank of Open MPI 5 may abort first, because the connection is closed.
killed_over_tcp=137
[ "$("$ranks" version)" -lt 5 ] || killed_over_tcp='137|14'
expect "$killed_over_tcp" "$ranks" 2 tcp "$program" end kill
expect 7 "$ranks" 2 shm "$program" end exit
expect 74 "$ranks" 2 shm "$program" end abort
expect 9 "$ranks" 2 shm "$program" end close
expect 75 "$ranks" 2 shm "$program" hang

expect 0 "$program" alone
expect 0 env SLURM_NTASKS=4 SLURM_JOB_ID=1 "$program" alone
expect 0 env PMI_SIZE=2 PMI_RANK=0 "$program" alone "by PMI_SIZE the launcher started 2 processes"
expect 0 env SLURM_STEP_NUM_TASKS=3 "$program" alone "by SLURM_STEP_NUM_TASKS the launcher started 3 processes"
expect 0 env TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 \
  "$program" alone "by WORLD_SIZE the launcher started 2 processes"
expect 0 env SLURM_STEP_NUM_TASKS=1 TORCHELASTIC_RUN_ID=none WORLD_SIZE=2 RANK=1 \
  "$program" alone "by WORLD_SIZE the launcher started 2 processes"
expect 0 env TORCHELASTIC_RUN_ID=none WORLD_SIZE=1 RANK=0 LOCAL_RANK=0 "$program" alone
expect 0 env WORLD_SIZE=2 RANK=1 "$program" alone
expect 0 "$ranks" 1 shm "$program" alone
if command -v mpiexec.mpich >/dev/null; then
  expect 0 mpiexec.mpich -n 2 "$program" alone "by PMI_SIZE the launcher started 2 processes"
else
  echo "left out: MPICH's launcher: it is not installed"
fi
exit $failed
