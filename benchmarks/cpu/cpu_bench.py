"""What the kinds of rows share: peers' programs, servers, the machine's peaks."""
from __future__ import annotations

import argparse
import pathlib
import subprocess

from bench import Bench
from harness import ROOT
from servers import HERE, Competitor, Others, Server, measure
from table import PeakRow


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


class CpuBench(Bench):
    def __init__(self, options: argparse.Namespace):
        super().__init__("cpu", options)
        self.machine = Server(self.compiled("machine.cpp"))

    def compiled(self, source: str, *libraries: str) -> pathlib.Path:
        """A program of a peer, or the machine's; compiled unless it is newer than its sources."""
        program = self.folder / pathlib.Path(source).stem
        newest = max(path.stat().st_mtime for path in (HERE / source, *HERE.glob("*.hpp"), *HERE.parent.glob("*.hpp")))
        if not program.exists() or program.stat().st_mtime < newest:
            flags = ["-std=c++20", "-O3", "-march=native", "-DNDEBUG", "-pthread", "-isystem", "/usr/include/eigen3"]
            subprocess.run(["g++", *flags, f"-I{ROOT / 'include'}", str(HERE / source), "-o", str(program), *libraries],
                           check=True)
        return program

    def measure(self, competitors: list[Competitor], threads: int, peak: str = "fma") -> tuple[dict[str, float], float]:
        """Seconds of each, with the machine's peak in FLOP/s (or with "copy" in bytes/s) as "peak" among them; and how
        many cores others used. The peak is measured in turns with the others, because the clock changes with time."""
        case = f"{peak} {threads}"
        others = Others([self.machine, *(each.server for each in competitors)])
        turns, budget = (3, 0.05) if self.options.quick else (6, 0.25)
        seconds = measure([*competitors, Competitor(self.machine, case, "peak")], turns, budget)
        seconds["peak"] = self.machine.ask(f"check {case}")[0] / seconds["peak"]
        return seconds, others.cores()

    def peaks(self) -> None:
        """Rows of what the machine can do at most."""
        for name, case, unit in (("FMA", "fma", "GFLOP/s"), ("copy", "copy", "GB/s")):
            for threads in (1, 2):
                label = f"machine's {name} peak, {threads_text(threads)}"
                if self.wanted(label):
                    seconds, busy = self.measure([], threads, case)
                    self.rows.append(PeakRow(label, unit, seconds["peak"] * 1e-9, higher_is_better=True, busy=busy))
