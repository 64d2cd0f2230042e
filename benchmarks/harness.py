"""What all benchmarks share: rows with a bar, interleaved measuring, programs to build, a table and a JSON file.

A benchmark is a folder NAME with a run.py, run by `./dev bench NAME`; beside it may lie debian.txt and python.txt, the
packages its peers need. It measures a figure and its peers' in turns (`interleave`), after it has checked that all of
them computed the same, and ends with `sys.exit(report(rows, options))`.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import subprocess
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"


@dataclasses.dataclass
class Row:
    """One line of the table. `limit` bounds `ours`, or with `of="ratio"` the ratio, from the side that is worse."""

    name: str
    unit: str
    ours: float
    peers: dict[str, float] = dataclasses.field(default_factory=dict)
    limit: float | None = None
    of: str = "ours"
    higher_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Ours over the best peer's; None without a peer."""
        best = max if self.higher_is_better else min
        return self.ours / best(self.peers.values()) if self.peers else None

    @property
    def bar(self) -> str:
        if self.limit is None:
            return "none"
        side = ">=" if self.higher_is_better else "<="
        return f"{self.of} {side} {self.limit:g}" + ("" if self.of == "ratio" else f" {self.unit}")

    @property
    def holds(self) -> bool | None:
        """Whether the bar is met; None where there is no bar. A ratio that has no peer does not meet its bar."""
        if self.limit is None:
            return None
        figure = self.ours if self.of == "ours" else self.ratio
        if figure is None:
            return False
        return figure >= self.limit if self.higher_is_better else figure <= self.limit

    def as_object(self) -> dict:
        keys = ("name", "unit", "ours", "peers", "ratio", "limit", "bar", "holds")
        return {key: getattr(self, key) for key in keys}


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the rows there, one object each")
    return parser


def interleave(measures: dict[str, Callable[[], float]], rounds: int = 3,
               best: Callable[[float, float], float] = min) -> dict[str, float]:
    """Calls the measures in turns, `rounds` times each, so that noise meets all alike; the best figure of each."""
    figures: dict[str, float] = {}
    for _ in range(rounds):
        for name, measure in measures.items():
            figure = measure()
            figures[name] = best(figures[name], figure) if name in figures else figure
    return figures


def build(*targets: str) -> pathlib.Path:
    """Builds programs with the preset `release` (bench_<folder>_ours…); the folder where they lie."""
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release", "--target", *targets]):
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            print(done.stdout, file=sys.stderr)
            done.check_returncode()
    return BUILD / "benchmarks"


def run_json(*command: str | pathlib.Path, **options) -> dict:
    """Runs a program whose last line of output is a JSON object."""
    result = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **options)
    return json.loads(result.stdout.strip().splitlines()[-1])


@dataclasses.dataclass
class Cost:
    """What one process and its children used: seconds of CPU (user and system), and megabytes at their peak."""

    seconds: float
    megabytes: float


def cost_of(command: list[str]) -> Cost:
    """Runs the command; a failure raises. The peak is that of the largest single process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # a process of its own, because the usage of all children of a process is a running total
        result = subprocess.run(command, stdout=subprocess.DEVNULL)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = {"seconds": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss * 1024 / 1e6}
        os.write(writer, json.dumps(cost).encode())
        os._exit(result.returncode != 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        cost = pipe.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise RuntimeError("failed: " + " ".join(command))
    return Cost(**json.loads(cost))


def write_rows(rows: list[Row], options: argparse.Namespace) -> None:
    """To the JSON file, if one was asked for. Of a run of some rows only (`--only`) the others stay as they are there."""
    if not options.json:
        return
    measured = {(row.name, row.unit): row.as_object() for row in rows}
    if getattr(options, "only", None) and options.json.exists():
        measured = {(row["name"], row["unit"]): row for row in json.loads(options.json.read_text())} | measured
    objects = ",\n".join(json.dumps(row) for row in measured.values())
    options.json.write_text(f"[\n{objects}\n]\n")


def report(rows: list[Row], options: argparse.Namespace) -> int:
    """Prints the table, writes the JSON file if one was asked for; 1 if a bar does not hold, else 0."""
    verdicts = {True: "holds", False: "MISSED", None: ""}
    table = [("name", "unit", "ours", "peers", "ratio", "bar", "")]
    for row in rows:
        peers = ", ".join(f"{name} {figure:.4g}" for name, figure in row.peers.items())
        ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
        table.append((row.name, row.unit, f"{row.ours:.4g}", peers, ratio, row.bar, verdicts[row.holds]))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    write_rows(rows, options)
    return 1 if any(row.holds is False for row in rows) else 0
