"""Rows of whole programs: memory at its peak, time to start, size, and time to an accuracy."""
from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import time

import networks
import onnx_model
from cpu_bench import CpuBench
from harness import run_json
from servers import HERE, Competitor, Server, environment, python
from table import PeakRow


def memory(bench: CpuBench) -> None:
    """The most that a program holds for ResNet-18's step at batch 128: of all, and above what it held before it had a
    network, which leaves Python and the libraries' code aside."""
    name = "ResNet-18 step, batch 128, peak memory"
    if not bench.wanted(name):
        return
    bench.say(name)
    networks.write_data("ResNet-18", 128, bench.data)
    arguments = ("ResNet-18", "train", "128", bench.data)
    whole, grown = {}, {}

    def add(label: str, server: Server, case: str) -> None:
        with server:
            before = server.megabytes("VmRSS")
            server.ask("check " + case)
            server.ask(f"time 1 1 {case}")
            whole[label] = server.megabytes("VmHWM")
            grown[label] = whole[label] - before

    add("ours", Server(bench.program("resnet18"), *arguments[1:], threads=2), "ours")
    add("bounded", Server(bench.program("resnet18_bounded"), *arguments[1:], threads=2), "ours")
    add("PyTorch eager", python("torch_peer.py", *arguments, threads=2), "eager")
    if not bench.options.quick:
        add("PyTorch compile", python("torch_peer.py", *arguments, threads=2), "compile")
    for label, figures in ((name, whole), (name + ", above the program's own", grown)):
        ours, bounded = figures.pop("ours"), figures.pop("bounded")
        bench.rows.append(PeakRow(label, "MB", ours, figures, 0.6, "ratio"))
        bench.rows.append(PeakRow(label + ", with MemoryBound", "MB", bounded, figures))


def bound(bench: CpuBench) -> None:
    """What it costs in time that less is kept in memory."""
    name = "ResNet-18 step, batch 128, 2 threads, with MemoryBound over without"
    if not bench.wanted(name):
        return
    bench.say(name)
    networks.write_data("ResNet-18", 128, bench.data)
    arguments = ("train", "128", bench.data)
    competitors = [Competitor(Server(bench.program(program), *arguments, threads=2), "ours", program)
                   for program in ("resnet18", "resnet18_bounded")]
    bench.compare(competitors, networks.NETWORKS["ResNet-18"].tolerance)
    seconds, busy = bench.measure(competitors, 2)
    for each in competitors:
        each.server.close()
    bench.rows.append(PeakRow(name, "times", seconds["resnet18_bounded"] / seconds["resnet18"], busy=busy))


def start(bench: CpuBench) -> None:
    """From starting a program to the first output of LeNet for one image."""
    name = "LeNet inference, from start to first output"
    if not bench.wanted(name):
        return
    bench.say(name)
    networks.write_data("LeNet", 1, bench.data)
    onnx_model.write("LeNet", 1, bench.data)
    arguments = ("LeNet", "infer", "1", bench.data)
    starts = {"ours": lambda: (Server(bench.program("lenet"), *arguments[1:]), "ours"),
              "PyTorch eager": lambda: (python("torch_peer.py", *arguments), "eager"),
              "ONNX Runtime": lambda: (python("onnx_peer.py", bench.data), "infer")}
    best: dict[str, float] = {}
    for _ in range(2 if bench.options.quick else 4):
        for label, begin_server in starts.items():
            begin = time.perf_counter()
            server, case = begin_server()
            server.ask("check " + case)
            best[label] = min(best.get(label, 1e30), (time.perf_counter() - begin) * 1e3)
            server.close()
    bench.rows.append(PeakRow(name, "ms", best.pop("ours"), best))


def size(bench: CpuBench) -> None:
    """The file that computes: ours, stripped, and the peers' libraries."""
    name = "LeNet trained and served, size of the program"
    if not bench.wanted(name):
        return
    stripped = bench.folder / "stripped"
    subprocess.run(["strip", "-o", str(stripped), str(bench.program("lenet"))], check=True)
    peers = {}
    for label, package, pattern in (("PyTorch's libtorch_cpu", "torch", "lib/libtorch_cpu.so"),
                                    ("ONNX Runtime's library", "onnxruntime", "capi/onnxruntime_pybind11_state*.so")):
        folder = pathlib.Path(importlib.util.find_spec(package).origin).parent
        peers[label] = sum(path.stat().st_size for path in folder.glob(pattern)) / 1e6
    bench.rows.append(PeakRow(name, "MB", stripped.stat().st_size / 1e6, peers))


def accuracy(bench: CpuBench) -> None:
    """ResNet-18 on Fashion-MNIST, one competitor after the other, two threads each: hours."""
    name = "ResNet-18 on Fashion-MNIST"
    options = bench.options
    if not options.long or not bench.wanted(name):
        return
    arguments = [str(options.images), str(options.epochs), str(options.accuracy)]
    commands = {"ours": [bench.program("accuracy")], "PyTorch": [sys.executable, HERE / "torch_accuracy.py"]}
    found = {}
    for label, command in commands.items():
        bench.say(f"{name}: {label}")
        found[label] = run_json(*command, *arguments, env=environment(2))
    if options.images:
        name += f", {options.images} images"
    fastest = {label: min(epoch["seconds"] for epoch in result["epochs"]) for label, result in found.items()}
    best = {label: max(epoch["accuracy"] for epoch in result["epochs"]) for label, result in found.items()}
    reached = {label: result["reached"] for label, result in found.items() if result["reached"] > 0}
    bench.rows.append(PeakRow(name + ", one epoch", "s", fastest.pop("ours"), fastest, 0.7, "ratio"))
    if options.images:
        return  # too few to reach an accuracy
    bench.rows.append(PeakRow(f"{name}, best test accuracy", "", best.pop("ours"), best, options.accuracy,
                              higher_is_better=True))
    bench.rows.append(PeakRow(f"{name}, training to {options.accuracy}", "s", reached.pop("ours", None), reached))
