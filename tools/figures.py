#!/usr/bin/env python3
"""The published figures: tables of the documentation, generated from docs/figures/*.json.

    tools/figures.py --measure          measures anew (./dev train, ./dev bench; an hour and a half) and writes the tables
    tools/figures.py --measure cpu …    measures some anew, by the names of tables; `cuda` wants a GPU
    tools/figures.py                    writes the tables from the files that are there
    tools/figures.py --check            fails if a table differs from its file, or curves are not drawn as they should

A table stands between <!-- figures: NAME --> and <!-- end figures -->, where NAME is that of docs/figures/NAME.json, or
`training` for what the trainings found.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))
from check_curves import faults_of  # noqa: E402
from servers import Others  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
PAGES = [ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "cuda.md"]
CURVES = [ROOT / "docs" / "images" / "scaling_resnet18.svg"]  # tools/make_figures.sh scaling
BENCHMARKS = {"hybrid": [], "compile": [], "products": [], "cpu": [], "parallel": []}
OF_GPU = {"cuda": []}  # measured where there is a GPU, by name only
TRAININGS = {"lenet": [], "resnet18": ["--images", "6000", "--epochs", "2"]}
PLACE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end figures -->)", re.DOTALL)


def measure(names: list[str]) -> None:
    """Runs the benchmarks and writes down when and on what kind of machine."""
    FIGURES.mkdir(exist_ok=True)
    others = Others()  # before the measurements; a load average still counts programs that have ended
    time.sleep(3)
    busy = others.cores()
    for name in names:
        if name == "training":
            for example, arguments in TRAININGS.items():
                subprocess.run(["./dev", "train", example, *arguments, "--json", FIGURES / f"{example}.json"], cwd=ROOT,
                               check=True)
        else:  # a missed bar is a figure, too; a benchmark that ends without figures is none
            found = FIGURES / f"{name}.json"
            before = found.stat().st_mtime_ns if found.exists() else None
            subprocess.run(["./dev", "bench", name, *{**BENCHMARKS, **OF_GPU}[name], "--json", found], cwd=ROOT)
            if not found.exists() or found.stat().st_mtime_ns == before:
                sys.exit(f"figures: ./dev bench {name} has written no figures")
        about = read("about")
        where = machine() if name not in OF_GPU else f"{gpu()}, {machine()}"
        about[name] = {"date": datetime.date.today().isoformat(), "machine": where, "others": round(busy, 1)}
        (FIGURES / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def machine() -> str:
    """Which processor, too: two machines of one name may differ by twice in what they compute."""
    processor = pathlib.Path("/proc/cpuinfo").read_text()
    widest = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in processor), "SSE")
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    vendor, family, model = (re.search(rf"^{name}\s*: (.*)$", processor, re.MULTILINE)
                             for name in ("vendor_id", "cpu family", "model"))
    kind = f"{vendor[1]} family {family[1]} model {model[1]}, " if vendor and family and model else ""
    return f"{os.cpu_count()} cores, {kind}{widest}, g++ {compiler}"


def gpu() -> str:
    """The GPU and its driver."""
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    return f"{name}, driver {driver}"


def number(value: float | None) -> str:
    return "none yet" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def read(name: str):
    return json.loads((FIGURES / f"{name}.json").read_text())


def trainings() -> list[str]:
    lines = ["| command | data | epochs | seconds an epoch | first and last loss | test accuracy |", "|---|---|---|---|---|---|"]
    for name, arguments in TRAININGS.items():
        found = read(name)
        epochs = found["epochs"]
        command = " ".join(["./dev train", name, *arguments])
        lines.append(f"| `{command}` | {found['data']} | {len(epochs)} | {found['seconds'] / len(epochs):.1f} "
                     f"| {epochs[0]['loss']:.3f}, {epochs[-1]['loss']:.3f} | {found['test_accuracy']:.4f} |")
    return lines


def benchmark(name: str) -> list[str]:
    rows = read(name)
    peaks = any(row.get("percent_of_peak") is not None for row in rows)
    lines = ["| what | unit | ours | others | bar |", "|---|---|---|---|---|"]
    if peaks:
        lines = ["| what | unit | ours | % of peak | others | ratio | bar |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        peers = ", ".join(f"{peer} {number(figure)}" for peer, figure in row["peers"].items())
        bar = "" if row["holds"] is None else f"{row['bar']}: {'holds' if row['holds'] else 'missed'}"
        if peaks:
            peak = row["percent_of_peak"]
            share = "" if peak is None else f"{peak:.0f} ({row['peak']})"
            ratio = "" if row["ratio"] is None else number(row["ratio"])
            lines.append(f"| {row['name']} | {row['unit']} | {number(row['ours'])} | {share} | {peers} | {ratio} | {bar} |")
        else:
            lines.append(f"| {row['name']} | {row['unit']} | {number(row['ours'])} | {peers} | {bar} |")
    return lines


def table(name: str) -> str:
    about = read("about")[name]
    lines = trainings() if name == "training" else benchmark(name)
    text = f"Measured on {about['date']}: {about['machine']}."
    if about["others"] >= 0.5:
        text += (f" Other programs were running (load {about['others']}), so that times, ours and others', are longer than on "
                 "an idle machine.")
    return "\n".join(lines) + f"\n\n{text}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", nargs="*", metavar="NAME", choices=["training", *BENCHMARKS, *OF_GPU])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure or ["training", *BENCHMARKS])
    stale = False
    for page in PAGES:
        before = page.read_text()
        after = PLACE.sub(lambda place: place[1] + table(place[2]) + place[3], before)
        if after == before:
            continue
        stale = True
        if not options.check:
            page.write_text(after)
        print(f"{page.relative_to(ROOT)}: " + ("differs from docs/figures" if options.check else "written"))
    for picture in CURVES:
        faults = faults_of(picture)
        stale = stale or bool(faults)
        print("".join(f"{picture.relative_to(ROOT)}: {fault}\n" for fault in faults), end="")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
