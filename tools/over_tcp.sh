#!/usr/bin/env bash
# over_tcp.sh RATE RANKS PROGRAM [ARGUMENT…]: ranks that take themselves for machines of their own, as mpirun.sh starts
# them, and whose messages go by TCP over an interface of that rate (2gbit, say), in a network namespace that ends with
# them. The rate is that of all ways together: two ranks that send as much as they receive have half of it each way.
# Ends with 77 where this user may not make one. With RANKS_OF_MACHINE=k so many ranks in turn are on one machine, in
# whose memory they meet.
# shellcheck disable=SC2016 # the shells within expand what stands between single quotes
set -euo pipefail
rate=$1 ranks=$2
shift 2
tools=$(cd "$(dirname "$0")" && pwd)
export PATH=$PATH:/usr/sbin:/sbin
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
namespace=(unshare --net)
((EUID == 0)) || namespace=(unshare --map-root-user --net)
link='ip link set lo mtu 1500 up && tc qdisc add dev lo root tbf rate "$1" burst 64kb latency 50ms'
machine='TENET_MACHINE="machine $((OMPI_COMM_WORLD_RANK / ${RANKS_OF_MACHINE:-1}))" exec "$@"'
"${namespace[@]}" bash -c "$link" link "$rate" || exit 77
exec "${namespace[@]}" bash -c "$link"' && exec "${@:2}"' link "$rate" "$tools/mpirun.sh" "$ranks" \
  bash -c "$machine" machine "$@"
