#!/usr/bin/env python3
"""Kills or stops one rank of a training, at random moments, and looks at what comes of it.

    tools/mpi_faults.py PROGRAM [--times N]      PROGRAM is the example `distributed`

Each time the whole job must end within the time limit with an exit status that says failed and a message that names the
rank, and what was saved before must be whole.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS, LIMIT, PATIENCE = 2, 2, 60  # seconds that a rank waits, and that the job may take to end behind


def ranks_of(job: int) -> dict[int, int]:
    """Process by rank of the job that mpirun has started."""
    found = {}
    for process in subprocess.run(["pgrep", "-P", str(job)], capture_output=True, text=True).stdout.split():
        try:
            variables = pathlib.Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(variable.partition(b"=")[2])] = int(process)
    return found


def is_whole(path: pathlib.Path) -> bool:
    """A safetensors file all of whose tensors lie in it."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    return len(data) == 8 + length + end


def attempt(program: pathlib.Path, folder: pathlib.Path, how: signal.Signals, rank: int) -> str:
    """What is wrong, or nothing."""
    saved = folder / "parameters.safetensors"
    command = [ROOT / "tools" / "mpirun.sh", str(RANKS), program, "--images", "1000", "--epochs", "100000", "--save", saved]
    with open(folder / "output", "w+") as output:
        job = subprocess.Popen([str(part) for part in command], stdout=output, stderr=output,
                               env={**os.environ, "TENET_TIMEOUT": str(LIMIT)})
        begin = time.monotonic()
        while not saved.exists() and job.poll() is None and time.monotonic() - begin < PATIENCE:
            time.sleep(0.05)
        if not saved.exists():
            job.kill()
            output.seek(0)
            return f"nothing was saved within {PATIENCE} s:\n{output.read()[-2000:]}"
        time.sleep(random.uniform(0, 0.3))
        victim = ranks_of(job.pid).get(rank)
        if victim is None:
            job.kill()
            return f"rank {rank} was not found"
        os.kill(victim, how)
        try:
            status = job.wait(LIMIT + PATIENCE)
        except subprocess.TimeoutExpired:
            for process in [*ranks_of(job.pid).values(), job.pid]:
                os.kill(process, signal.SIGKILL)
            return f"rank {rank} got {how.name}: the others were still waiting after {LIMIT + PATIENCE} s"
        output.seek(0)
        text = output.read()
    if status == 0:
        return f"rank {rank} got {how.name}: the job ended as if nothing had happened"
    if f"rank {rank}" not in text:
        return f"rank {rank} got {how.name}: no message names it:\n{text[-2000:]}"
    if not is_whole(saved):
        return f"rank {rank} got {how.name}: what was saved is not whole"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--times", type=int, default=4)
    options = parser.parse_args()
    wrong = 0
    for i in range(options.times):
        how, rank = (signal.SIGKILL, signal.SIGSTOP)[i % 2], i // 2 % RANKS
        with tempfile.TemporaryDirectory() as folder:
            fault = attempt(options.program, pathlib.Path(folder), how, rank)
        print(f"{how.name} to rank {rank}: {fault or 'named, and nothing lost'}", flush=True)
        wrong += fault != ""
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
