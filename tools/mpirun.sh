#!/usr/bin/env bash
# mpirun.sh RANKS PROGRAM [ARGUMENT…]: processes on this machine alone, in a container too: as root, with more ranks than
# processors, without ssh, and without the kernel's permission to copy from another process's memory. Each rank has its
# share of the processors to itself, as mpirun has it by itself for two ranks of one thread.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_plm=isolated OMPI_MCA_btl_vader_single_copy_mechanism=none
ranks=$1
shift
threads=$(($(nproc) / ranks))
export TENET_NUM_THREADS=${TENET_NUM_THREADS:-$((threads > 0 ? threads : 1))}
exec mpirun -n "$ranks" "$(dirname "$0")/on_own_processors.sh" "$ranks" "$@"
