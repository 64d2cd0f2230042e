"""What benchmarks of programs that answer requests share: options, our programs, and that all compute the same."""
from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
from collections.abc import Callable

from harness import BUILD, build
from servers import Competitor
from table import PeakRow


def add_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("--only", metavar="TEXT", action="append",
                        help="rows whose names contain it; may be repeated; in the JSON file the others stay")
    parser.add_argument("--quick", action="store_true", help="few repetitions, and PyTorch without torch.compile")
    return parser


class Bench:
    """The benchmark of folder `name`."""

    def __init__(self, name: str, options: argparse.Namespace):
        self.name, self.options = name, options
        self.folder = BUILD / "benchmarks" / name
        self.data = self.folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.rows: list[PeakRow] = []
        self.built: dict[str, bool] = {}
        self.failed: list[str] = []

    def wanted(self, name: str) -> bool:
        return not self.options.only or any(text.lower() in name.lower() for text in self.options.only)

    @staticmethod
    def say(text: str) -> None:
        print("==", text, file=sys.stderr, flush=True)

    def program(self, name: str) -> pathlib.Path:
        """Ours, built at its first use."""
        target = f"bench_{self.name}_ours_{name}"
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

    def run_all(self, tasks: list[tuple[str, Callable[[], None]]]) -> None:
        """Where one fails the others go on."""
        for name, task in tasks:
            try:
                task()
            except (RuntimeError, OSError, subprocess.CalledProcessError) as failure:
                self.failed.append(f"{name}: {failure}")
                self.say("FAILED: " + self.failed[-1])

    def finish(self, status: int) -> int:
        """Says once more what has failed; the exit status, `status` if nothing has."""
        for failure in self.failed:
            print("FAILED:", failure)
        return 1 if self.failed else status
