"""What the kinds of rows share: options, programs, servers, the machine's peaks."""
from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

from harness import BUILD, ROOT, build
from servers import HERE, Competitor, Others, Server, measure
from table import CpuRow


def threads_text(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


class Bench:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.folder = BUILD / "benchmarks" / "cpu"
        self.data = self.folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.rows: list[CpuRow] = []
        self.built: dict[str, bool] = {}
        self.machine = Server(self.compiled("machine.cpp"))

    def wanted(self, name: str) -> bool:
        return not self.options.only or any(text.lower() in name.lower() for text in self.options.only)

    @staticmethod
    def say(text: str) -> None:
        print("==", text, file=sys.stderr, flush=True)

    def program(self, name: str) -> pathlib.Path:
        """Ours, built at its first use."""
        target = f"bench_cpu_ours_{name}"
        if target not in self.built:
            self.say("building " + target)
            try:
                build(target)
                self.built[target] = True
            except subprocess.CalledProcessError:
                self.built[target] = False
        if not self.built[target]:
            raise RuntimeError(f"cmake --build --preset release --target {target} fails")
        return BUILD / "benchmarks" / target

    def compiled(self, source: str, *libraries: str) -> pathlib.Path:
        """A program of a peer, or the machine's; compiled unless it is newer than its sources."""
        program = self.folder / pathlib.Path(source).stem
        newest = max(path.stat().st_mtime for path in (HERE / source, *HERE.glob("*.hpp")))
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

    def compare(self, competitors: list[Competitor], tolerance: float) -> list[float]:
        """Raises if they do not compute the same; `tolerance` is relative to the largest number."""
        expected: list[float] = []
        for each in competitors:
            found = each.server.ask("check " + each.case)
            expected = expected or found
            scale = max(abs(number) for number in expected)
            error = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / scale
            if not error <= tolerance:
                raise RuntimeError(f"{each.name} computes {found[:3]}…, {competitors[0].name} {expected[:3]}… "
                                   f"(relative error {error:.1e}, tolerated {tolerance:.0e})")
        return expected

    def peaks(self) -> None:
        """Rows of what the machine can do at most."""
        for name, case, unit in (("FMA", "fma", "GFLOP/s"), ("copy", "copy", "GB/s")):
            for threads in (1, 2):
                label = f"machine's {name} peak, {threads_text(threads)}"
                if self.wanted(label):
                    seconds, busy = self.measure([], threads, case)
                    self.rows.append(CpuRow(label, unit, seconds["peak"] * 1e-9, higher_is_better=True, busy=busy))
