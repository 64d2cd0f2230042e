#!/usr/bin/env python3
"""Kills or stops one rank of a training, at random moments, and looks at what comes of it.

    tools/mpi_faults.py PROGRAM [--times N]      PROGRAM is the example `distributed`

Each time another rank must say within the time limit for which rank it waits, as "rank 0, bucket 1 of step 7: waits for a
message from rank 1; ...". mpirun names a process that a signal has ended, too; that does not count. The whole job must end
with an exit status that says failed, and what was saved before must be whole.
"""
import argparse
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS = 2
# Seconds: that a rank waits, what it may take longer to say so, and what a job may take to begin and to end.
LIMIT, SLACK, PATIENCE = 2, 5, 60


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


def names(text: str, rank: int) -> bool:
    """Whether another rank says that it waits for this one."""
    doing = "waits for|shares its numbers with|has sent a message, which waits for"
    waits = rf"\brank (\d+), [^\n]*: (?:{doing})\b[^\n;]*\brank (\d+)[;,]"
    return any(int(found[2]) == rank != int(found[1]) for found in re.finditer(waits, text))


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
        begin = time.monotonic()
        said, status, text = None, None, ""  # when another rank has named it
        while status is None and time.monotonic() - begin < LIMIT + PATIENCE:
            time.sleep(0.02)
            status = job.poll()
            text = (folder / "output").read_text(errors="replace")
            if said is None and names(text, rank):
                said = time.monotonic() - begin
        if status is None:
            for process in [*ranks_of(job.pid).values(), job.pid]:
                os.kill(process, signal.SIGKILL)
            return f"the job had not ended after {LIMIT + PATIENCE} s:\n{text[-2000:]}"
    if status == 0:
        return "the job ended as if nothing had happened"
    if said is None:
        return f"no other rank names it:\n{text[-4000:]}"
    if said > LIMIT + SLACK:
        return f"it was named after {said:.1f} s, where ranks wait for {LIMIT} s"
    if not is_whole(saved):
        return "what was saved is not whole"
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
