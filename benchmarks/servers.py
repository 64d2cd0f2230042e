"""Competitors as programs that answer requests (see serve.hpp), so that they can be measured in turns."""
from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import time

from harness import ROOT

HERE = pathlib.Path(sys.argv[0]).resolve().parent  # of the run.py that is running: its peers' programs lie beside it
TICKS = os.sysconf("SC_CLK_TCK")


def environment(threads: int) -> dict[str, str]:
    """Variables that give all competitors so many threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TENET_NUM_THREADS", "BENCH_THREADS")
    cache = str(ROOT / "build" / "inductor")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "TORCHINDUCTOR_CACHE_DIR": cache}


class Server:
    """One program; it runs until `close`, and sleeps while it is not asked."""

    def __init__(self, *command: str | pathlib.Path, threads: int = 1):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment(threads))
        self.command = " ".join(str(part) for part in command)
        while self.line() != "ready":
            pass

    def line(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("ended: " + self.command)
        return line.rstrip("\n")

    def ask_text(self, request: str) -> str:
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.line()

    def ask(self, request: str) -> list[float]:
        return [float(word) for word in self.ask_text(request).split()]

    def megabytes(self, what: str) -> float:
        """VmRSS, what it holds now, or VmHWM, the most it has held."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(what + ":"):
                return int(line.split()[1]) * 1024 / 1e6
        raise RuntimeError("no " + what)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def python(script: str, *arguments: str | pathlib.Path, threads: int = 1) -> Server:
    return Server(sys.executable, HERE / script, *arguments, threads=threads)


@dataclasses.dataclass
class Competitor:
    """A case of a server, by the name under which the table shows it."""

    server: Server
    case: str
    name: str


def processor_seconds(processes: list[int]) -> float:
    """What these processes and this one have used."""
    used = 0.0
    for process in [os.getpid(), *processes]:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / TICKS
    return used


def all_seconds() -> float:
    """What all programs have used, and what other guests of the host took (steal)."""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, interrupts, soft_interrupts, steal = fields[:8]
    return (user + nice + system + interrupts + soft_interrupts + steal) / TICKS


class Others:
    """How many cores are busy with work that is not ours, since it was made."""

    def __init__(self, servers: list[Server] = ()):
        self.processes = [server.process.pid for server in servers]
        self.begin, self.all, self.ours = time.perf_counter(), all_seconds(), processor_seconds(self.processes)

    def cores(self) -> float:
        elapsed = time.perf_counter() - self.begin
        ours = processor_seconds(self.processes) - self.ours
        return max(0.0, (all_seconds() - self.all - ours) / elapsed)


def measure(competitors: list[Competitor], turns: int, budget: float) -> dict[str, float]:
    """Seconds of one call of each, at least: in turns, about `budget` seconds a turn each."""
    plans = {}
    for each in competitors:
        once = each.server.ask(f"time 5 1 {each.case}")[0]
        calls = max(1, round(0.002 / once))  # short rounds: some of them meet nobody else
        plans[each.name] = (max(1, round(budget / (calls * once))), calls)
    figures: dict[str, float] = {}
    for _ in range(turns):
        for each in competitors:
            rounds, calls = plans[each.name]
            time.sleep(0.02)  # threads of the one before may still spin
            figure = each.server.ask(f"time {rounds} {calls} {each.case}")[0]
            figures[each.name] = min(figure, figures.get(each.name, figure))
    return figures
