#!/usr/bin/env bash
# processes.sh RANKS PROGRAM [ARGUMENT…]: processes on this machine that find each other through shared memory, for
# Distributed<SharedMemory>. Each has its share of the processors to itself. Ends with the status of the first that fails.
set -uo pipefail
ranks=${1:?usage: tools/processes.sh RANKS PROGRAM [ARGUMENT…]}
shift
export TENET_SIZE=$ranks TENET_JOB=$$-$(date +%s%N)
threads=$(($(nproc) / ranks))
export TENET_NUM_THREADS=${TENET_NUM_THREADS:-$((threads > 0 ? threads : 1))}

processes=() status=0 guard=
# end_with STATUS: the others find out, say so and end. One that does not, as it is stopped, say, is killed.
end_with() {
  ((status == 0)) && status=$1
  [[ -z $guard ]] || return
  { sleep 5 && kill -KILL "${processes[@]}"; } >/dev/null 2>&1 &
  guard=$!
  disown
}
trap 'rm -f "/dev/shm/tenet-$TENET_JOB-"*; [[ -z $guard ]] || kill "$guard" 2>/dev/null' EXIT
# Ctrl-C does not reach them by itself: a shell's processes in the background ignore it.
trap 'kill -TERM "${processes[@]}" 2>/dev/null; end_with 130' INT
trap 'kill -TERM "${processes[@]}" 2>/dev/null; end_with 143' TERM HUP

for ((rank = 0; rank < ranks; ++rank)); do
  TENET_RANK=$rank "$(dirname "$0")/on_own_processors.sh" "$ranks" "$@" &
  processes+=($!)
done
# One is looked at after the other, as `wait -n` forgets some of those that end at the same time.
exec {nothing}<> <(:)
while ((${#processes[@]} > 0)); do
  for rank in "${!processes[@]}"; do
    kill -0 "${processes[rank]}" 2>/dev/null && continue
    wait "${processes[rank]}"
    code=$?
    unset "processes[rank]"
    ((code == 0)) || end_with "$code"
  done
  read -rt 0.02 -u "$nothing" # sleeps, without another process
done
exit "$status"
