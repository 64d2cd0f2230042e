"""Rows of networks: training steps and inference."""
from __future__ import annotations

import dataclasses

import networks
import onnx_model
from cpu_bench import CpuBench, threads_text
from networks import NETWORKS
from servers import Competitor, Server, python
from table import PeakRow


@dataclasses.dataclass
class Bar:
    """`limit` on the ratio to the peers whose names begin with `peers`; in a row of its own if there is a `label`."""

    limit: float
    peers: str = ""
    label: str = ""


@dataclasses.dataclass
class Work:
    """One measurement of a network: `bars` on ratios, `most` on the seconds, `percent` of the peak ("fma", or "copy" of
    `bytes` a call); `tail` adds how long 99.9 % of the calls take."""

    network: str
    kind: str  # train or infer
    batch: int
    threads: int = 1
    bars: list[Bar] = dataclasses.field(default_factory=list)
    most: float | None = None
    percent: float | None = None
    precision: str = ""
    tail: bool = False
    bytes: float | None = None

    @property
    def name(self) -> str:
        kind = "step" if self.kind == "train" else "inference"
        precision = ", " + self.precision if self.precision else ""
        return f"{self.network} {kind}{precision}, batch {self.batch}, {threads_text(self.threads)}"


def faster(times: float, peers: str = "", label: str = "") -> Bar:
    return Bar(1 / times, peers, label)


ONNX = ("LeNet", "MLP 784-256-10", "MLP 32-64-64-10", "ResNet-18")
DLIB = ("LeNet", "MLP 784-256-10", "ResNet-18")
NOT_BY_DLIB = (("ResNet-18", "train", 1), ("ResNet-18", "train", 128), ("ResNet-18", "infer", 128))  # seconds a call
SERVING = [faster(4, "ONNX", "over ONNX Runtime"), faster(15, "PyTorch", "over PyTorch")]
ACTIVATIONS = 32 * 64 * 28 * 28 * 4.0  # bytes of one value of the batch norms
UPDATE = 4096 * 1024 * 4.0  # bytes of the layer's weights
WORKS = [
    *(Work("ResNet-18", "train", 32, threads, [faster(1.5)]) for threads in (1, 2)),
    *(Work("ResNet-18", "train", 32, threads, [faster(1.2)], precision="bf16") for threads in (1, 2)),
    Work("ResNet-18", "train", 1),
    Work("ResNet-18", "train", 1, precision="bf16"),
    Work("ResNet-18", "train", 128),
    Work("ResNet-18", "train", 128, precision="bf16"),
    Work("ResNet-18", "infer", 1, 1, [faster(1.8)], tail=True),
    Work("ResNet-18", "infer", 1, precision="bf16"),
    Work("ResNet-18", "infer", 32, 1, [faster(1.8)]),
    Work("ResNet-18", "infer", 32, precision="bf16"),
    Work("ResNet-18", "infer", 128),
    Work("ResNet-18", "infer", 128, precision="bf16"),
    Work("LeNet", "train", 256, 1, [faster(2.5)]),
    Work("LeNet", "train", 256, 2, [faster(3)]),
    Work("LeNet", "train", 256, precision="bf16"),
    Work("LeNet", "train", 32),
    Work("LeNet", "train", 32, precision="bf16"),
    Work("LeNet", "train", 1),
    Work("LeNet", "train", 1, precision="bf16"),
    Work("LeNet", "infer", 1, 1, SERVING, tail=True),
    Work("LeNet", "infer", 1, precision="bf16"),
    Work("LeNet", "infer", 32),
    Work("LeNet", "infer", 32, precision="bf16"),
    Work("LeNet", "infer", 256),
    Work("LeNet", "infer", 256, precision="bf16"),
    Work("MLP 784-256-10", "train", 256, 1, [faster(1.1), faster(1.25, "PyTorch", "over PyTorch")], percent=85),
    Work("MLP 784-256-10", "train", 256, 2, [faster(1.1), faster(1.25, "PyTorch", "over PyTorch")]),
    Work("MLP 784-256-10", "train", 256, precision="bf16"),
    Work("MLP 784-256-10", "train", 32),
    Work("MLP 784-256-10", "train", 32, precision="bf16"),
    Work("MLP 784-256-10", "train", 1),
    Work("MLP 784-256-10", "train", 1, precision="bf16"),
    Work("MLP 784-256-10", "infer", 1, 1, SERVING, tail=True),
    Work("MLP 784-256-10", "infer", 1, precision="bf16"),
    Work("MLP 784-256-10", "infer", 32),
    Work("MLP 784-256-10", "infer", 32, precision="bf16"),
    Work("MLP 784-256-10", "infer", 256),
    Work("MLP 784-256-10", "infer", 256, precision="bf16"),
    Work("MLP 32-64-64-10", "infer", 1, 1, [faster(1.6)], most=0.15e-6, tail=True),
    Work("MLP 32-64-64-10", "infer", 1, precision="bf16"),
    Work("MLP 32-64-64-10", "train", 1, most=0.6e-6),
    Work("MLP 32-64-64-10", "train", 1, precision="bf16"),
    Work("GPT", "train", 16, 1, [faster(1.3)]),
    Work("GPT", "train", 16, 2),
    Work("GPT", "train", 16, precision="bf16"),
    Work("GPT", "infer", 16),
    Work("GPT", "infer", 16, precision="bf16"),
    # Floors: both inputs twice forward (statistics, then values; the last result is never needed), once backward.
    Work("two batch norms with ReLU", "train", 32, bytes=8 * ACTIVATIONS),
    Work("softmax of 1000", "infer", 1024, bytes=2 * 1024 * 1000 * 4),
    Work("attention 128x128, 4 heads", "infer", 16),
    # The product reads the weights, the gradient is written; the update reads p, g, m, v and writes p, m, v.
    Work("AdamW on a layer 4096-1024", "train", 1, bytes=9 * UPDATE),
]


def peers_of(bench: CpuBench, work: Work) -> list[Competitor]:
    arguments = (work.network, work.kind, str(work.batch), bench.data)
    torch = python("torch_peer.py", *arguments, threads=work.threads)
    prefix = work.precision + " " if work.precision else ""
    found = [Competitor(torch, prefix.strip() or "eager", f"PyTorch {prefix or 'eager'}".strip())]
    if not bench.options.quick:
        found.append(Competitor(torch, prefix + "compile", f"PyTorch {prefix}compile"))
    jax = python("jax_peer.py", *arguments, threads=work.threads)
    found.append(Competitor(jax, f"jax {prefix}".strip(), f"JAX {prefix}".strip()))
    if work.precision:
        return found
    if work.network in ONNX and work.kind == "infer":
        found.append(onnx(bench, work))
    if work.network in DLIB and (work.network, work.kind, work.batch) not in NOT_BY_DLIB:
        dlib = Server(bench.compiled("dlib_peer.cpp", "-ldlib", "-lopenblas"), *arguments, threads=work.threads)
        found.append(Competitor(dlib, "dlib", "dlib"))
    if work.network == "MLP 32-64-64-10":
        eigen = Server(bench.compiled("eigen_small.cpp"), *arguments[1:])
        found.append(Competitor(eigen, "eigen", "Eigen"))
    return found


def onnx(bench: CpuBench, work: Work) -> Competitor:
    onnx_model.write(work.network, work.batch, bench.data)
    return Competitor(python("onnx_peer.py", bench.data, threads=work.threads), "infer", "ONNX Runtime")


def ours(bench: CpuBench, work: Work) -> Competitor:
    program, *words = NETWORKS[work.network].program.split()
    precision = [work.precision] if work.precision else []
    command = (bench.program(program), *words, work.kind, str(work.batch), bench.data, *precision)
    return Competitor(Server(*command, threads=work.threads), "ours", "ours")


def run(bench: CpuBench, work: Work) -> None:
    bench.say(work.name)
    networks.write_data(work.network, work.batch, bench.data)
    competitors = [ours(bench, work), *peers_of(bench, work)]
    try:
        bench.compare(competitors, 0.05 if work.precision else NETWORKS[work.network].tolerance)
        seconds, busy = bench.measure(competitors, work.threads, "copy" if work.bytes else "fma")
        add(bench, work, seconds, busy)
        if work.tail:
            calls = min(20000, int(0.5 / seconds["ours"]))
            tails = {each.name: each.server.ask(f"tail {calls} {each.case}")[3] * 1e6 for each in competitors}
            bench.rows.append(PeakRow(f"{work.name}, 99.9 % within", "us", tails.pop("ours"), tails, busy=busy))
    finally:
        for server in {id(each.server): each.server for each in competitors}.values():
            server.close()


def add(bench: CpuBench, work: Work, seconds: dict[str, float], busy: float) -> None:
    peak, mine = seconds["peak"], seconds["ours"]
    times = {name: value for name, value in seconds.items() if name not in ("peak", "ours")}
    unit, scale = ("ms", 1e3) if max(times.values()) > 1e-3 else ("us", 1e6)
    scaled = mine * scale
    peers = {name: value * scale for name, value in times.items()}
    amount = work.bytes or networks.flops(work.network, work.batch, work.kind == "train")
    percent = 100 * amount / mine / peak
    of = "copying" if work.bytes else "FMA"
    whole = next((bar.limit for bar in work.bars if not bar.label), None)
    rows = bench.rows
    rows.append(PeakRow(work.name, unit, scaled, peers, whole, "ratio", percent=percent, percent_of=of, busy=busy))
    for bar in work.bars:
        if bar.label:
            chosen = {name: value for name, value in peers.items() if name.startswith(bar.peers)}
            rows.append(PeakRow(f"{work.name}, {bar.label}", unit, scaled, chosen, bar.limit, "ratio", busy=busy))
    if work.most is not None:
        rows.append(PeakRow(f"{work.name}, at most", unit, scaled, {}, work.most * scale, busy=busy))
    if work.percent is not None:
        rows.append(PeakRow(f"{work.name}, share of the FMA peak", "%", percent, {}, work.percent, higher_is_better=True,
                            busy=busy))


def speedup(bench: CpuBench) -> None:
    """Two threads against one, where both were measured."""
    found = {row.name: row for row in bench.rows}
    one, two = (found.get(f"ResNet-18 step, batch 32, {threads_text(threads)}") for threads in (1, 2))
    if one and two:
        peers = {name: one.peers[name] / two.peers[name] for name in one.peers}
        bench.rows.append(PeakRow("ResNet-18 step, batch 32, two threads over one", "times", one.ours / two.ours, peers,
                                  1.85, higher_is_better=True, busy=max(one.busy, two.busy)))
