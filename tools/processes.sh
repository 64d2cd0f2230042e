#!/usr/bin/env bash
# processes.sh RANKS PROGRAM [ARGUMENT…]: processes on this machine that find each other through shared memory, for
# Distributed<SharedMemory>. They share the processors. Ends with the status of the first that fails.
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
  TENET_RANK=$rank "$@" &
  processes+=($!)
done
while true; do
  wait -n -p ended
  code=$?
  if [[ -n ${ended:-} ]]; then
    ((code == 0)) || end_with "$code"
  elif ((code == 127)); then # none is left; else a signal has come
    exit "$status"
  fi
done
