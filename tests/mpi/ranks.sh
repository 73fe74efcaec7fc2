#!/usr/bin/env bash
# ranks.sh N TRANSPORT PROGRAM [ARGUMENT ...]: the program as N ranks on this machine, by Open MPI's mpirun, as root or not,
# with fewer processors than ranks, unbound. TRANSPORT: shm (shared memory), tcp, or machines=NAME (half of them on each of
# the machines that machines.sh made). Ends with 77 without mpirun.
# ranks.sh version: prints 4 or 5.
set -u
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || { echo "skipped: no mpirun"; exit 77; }
version=$("$mpirun" --version) || { echo "$mpirun --version failed"; exit 1; }
[[ $version =~ Open\ MPI|OpenRTE ]] || { echo "skipped: mpirun is not Open MPI's"; exit 77; }
# It prints "mpirun (Open MPI) 4.1.4".
if [ "$1" = version ]; then
  [[ $version =~ \ 4\. ]] && echo 4 || echo 5
  exit
fi
# Variables of Open MPI 4, and those of Open MPI 5, whose launcher is PRRTE.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_hwloc_default_binding_policy=none
# Containers without ptrace: "Read -1, expected ..., errno = 1".
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_smsc=^cma
export OMPI_MCA_pml=ob1
case $2 in
  shm) export OMPI_MCA_btl=vader,self ;;
  tcp) export OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo ;;
  machines=*)
    here=$(cd "$(dirname "$0")" && pwd) name=${2#machines=}
    PATH=$here:$PATH # an agent's path must not contain spaces
    export OMPI_MCA_btl=vader,tcp,self OMPI_MCA_btl_tcp_if_include=10.9.0.0/24 OMPI_MCA_oob_tcp_if_include=10.9.0.0/24
    export OMPI_MCA_plm_rsh_agent="machines.sh agent $name" OMPI_MCA_plm_rsh_no_tree_spawn=1
    export PRTE_MCA_plm_ssh_agent="machines.sh agent $name" PRTE_MCA_plm_ssh_no_tree_spawn=1 PRTE_MCA_prte_if_include=10.9.0.0/24
    exec "$here/machines.sh" run "$name" "$mpirun" --host "10.9.0.1:$(($1 / 2)),10.9.0.2:$(($1 / 2))" --map-by "ppr:$(($1 / 2)):node" -n "$1" "${@:3}"
    ;;
  *) echo "usage: ranks.sh N shm|tcp|machines=NAME PROGRAM [ARGUMENT ...]"; exit 2 ;;
esac
exec "$mpirun" -n "$1" "${@:3}"
