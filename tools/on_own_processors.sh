#!/usr/bin/env bash
# on_own_processors.sh RANKS PROGRAM [ARGUMENT…]: one of so many ranks of this machine, which mpirun.sh or processes.sh
# starts, kept to its own share of the processors that all of them may use; to all, where they are fewer than the ranks.
# So a rank's communication thread takes time from the rank's own steps alone, and never from those of one that is later.
set -euo pipefail
ranks=$1 rank=${OMPI_COMM_WORLD_RANK:-${TENET_RANK:?"is set by whoever starts the ranks"}}
shift
command -v taskset >/dev/null || exec "$@"
IFS=, read -ra ranges <<<"$(taskset -cp $$ | sed 's/.*: //')" # like 0-3,8
processors=()
for range in "${ranges[@]}"; do
  for ((processor = ${range%-*}; processor <= ${range#*-}; ++processor)); do processors+=("$processor"); done
done
share=$((${#processors[@]} / ranks))
((share > 0)) || exec "$@"
exec taskset -c "$(IFS=, && echo "${processors[*]:rank*share:share}")" "$@"
