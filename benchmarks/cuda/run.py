"""Training steps and inference on a GPU beside PyTorch, eager and compiled (max-autotune, CUDA graphs), in TF32 and bf16.

With --rehearse everything but the times is done without a GPU: our programs' kernels run on the processor, PyTorch does,
and both have to compute the same.
"""
from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import sys
import threading

import networks
from bench import Bench, add_options
from harness import arguments
from networks import NETWORKS
from servers import Competitor, Server, measure, python
from table import PeakRow, report


@dataclasses.dataclass
class Work:
    """One measurement of a network: how many times as fast as PyTorch's eager and compiled programs ours has to be."""

    network: str
    kind: str  # train or infer
    batch: int
    precision: str  # tf32 or bf16
    over_eager: float | None = None
    over_compile: float | None = None
    variant: str = ""  # of our program: a policy

    @property
    def name(self) -> str:
        what = f"{self.network} {'step' if self.kind == 'train' else 'inference'}, {self.precision}, batch {self.batch}"
        return f"{what}, {self.variant}" if self.variant else what


SMALL = {"over_eager": 5.0, "over_compile": 1.5}
WORKS = [
    Work("ResNet-18", "train", 256, "bf16", over_eager=2.0, over_compile=1.2),
    Work("ResNet-18", "train", 1024, "bf16"),
    Work("ResNet-18", "train", 256, "tf32"),
    Work("ResNet-18", "infer", 256, "bf16"),
    Work("ResNet-18", "infer", 1, "bf16"),
    Work("ResNet-18", "infer", 256, "bf16", variant="FusedConvolution"),
    Work("ResNet-18", "infer", 1, "bf16", variant="FusedConvolution"),
    *(Work(network, "train", 256, precision, **SMALL)
      for network in ("MLP 784-256-10", "LeNet") for precision in ("tf32", "bf16")),
    Work("MLP 784-256-10", "infer", 256, "tf32"),
    Work("LeNet", "infer", 256, "tf32"),
    Work("GPT", "train", 16, "bf16"),
    Work("GPT", "train", 16, "tf32"),
    Work("GPT", "infer", 16, "bf16"),
]
# In bf16 both round in other places; floats are rounded to TF32 on a GPU.
TOLERANCE = {"bf16": 0.05, "tf32": 0.01}


ACCURACY = "Fashion-MNIST to a test accuracy of "


class CudaBench(Bench):
    def __init__(self, options):
        super().__init__("cuda", options)
        self.machine = Server(self.program("machine"))
        self.one_at_a_time = threading.Lock()  # what builds programs and writes data
        self.written: set[pathlib.Path] = set()

    def program(self, name: str):
        return super().program(name + ("_on_host" if self.options.rehearse else ""))

    def competitors(self, work: Work) -> list[Competitor]:
        batch = self.batch(work)
        data = self.data / f"{work.network} {batch}".replace(" ", "-")
        program, *_ = NETWORKS[work.network].program.split()
        program += "_fused" if work.variant == "FusedConvolution" else ""
        with self.one_at_a_time:
            if data not in self.written:
                networks.write_data(work.network, batch, data)
                self.written.add(data)
            ours = self.program(program)
        words = (work.kind, str(batch), data, *(["bf16"] if work.precision == "bf16" else []))
        torch = python("torch_peer.py", work.network, work.kind, str(batch), data)
        prefix = "bf16 " if work.precision == "bf16" else ""
        found = [Competitor(Server(ours, *words), "ours", "ours"),
                 Competitor(torch, prefix.strip() or "eager", "PyTorch eager")]
        if not self.options.quick:
            found.append(Competitor(torch, prefix + "compile", "PyTorch compile"))
        return found

    def batch(self, work: Work) -> int:
        """Few samples for a rehearsal: plain kernels on the processor are slow."""
        return min(work.batch, 4) if self.options.rehearse else work.batch

    def prepared(self, work: Work) -> list[Competitor]:
        """Those of one measurement, that compute the same: where PyTorch compiles, it takes a minute or so."""
        self.say(work.name)
        competitors = self.competitors(work)
        try:
            self.compare(competitors, TOLERANCE[work.precision])
        except BaseException:
            self.close(competitors)
            raise
        return competitors

    @staticmethod
    def close(competitors: list[Competitor]) -> None:
        for server in {id(each.server): each.server for each in competitors}.values():
            server.close()

    def run_works(self, works: list[Work]) -> None:
        """So many of them are prepared at once; they are measured one by one."""
        at_once = self.options.at_once
        for first in range(0, len(works), at_once):
            some = works[first:first + at_once]
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                ready = {work.name: pool.submit(self.prepared, work) for work in some}
            self.run_all([(work.name, lambda work=work: self.run(work, ready[work.name].result())) for work in some])

    def run(self, work: Work, competitors: list[Competitor]) -> None:
        try:
            if self.options.rehearse:
                print(f"{work.name}: all of them compute the same, with a batch of {self.batch(work)}")
            else:
                self.add(work, competitors)
        finally:
            self.close(competitors)

    def add(self, work: Work, competitors: list[Competitor]) -> None:
        """The row of one measurement, in turns with the GPU's peak, as its clock changes; and those of its bars."""
        turns, budget = (3, 0.1) if self.options.quick else (6, 0.5)
        seconds = measure([*competitors, Competitor(self.machine, work.precision, "peak")], turns, budget)
        peak = self.machine.ask("check " + work.precision)[0] / seconds.pop("peak")
        mine = seconds.pop("ours")
        amount = networks.flops(work.network, work.batch, work.kind == "train")
        peers = {name: value * 1e6 for name, value in seconds.items()}
        self.say(f"{work.name}: ours {mine * 1e6:.1f} us" + "".join(f", {name} {us:.1f}" for name, us in peers.items()))
        self.rows.append(PeakRow(work.name, "us", mine * 1e6, peers, percent=100 * amount / mine / peak,
                                 percent_of=work.precision + " products"))
        for peer, times in (("PyTorch eager", work.over_eager), ("PyTorch compile", work.over_compile)):
            if times is not None and peer in peers:
                self.rows.append(PeakRow(f"{work.name}, over {peer}", "us", mine * 1e6, {peer: peers[peer]}, 1 / times,
                                         "ratio"))

    def host_work(self, network: str) -> None:
        """What a step costs the host: one call of a recorded step, and a few numbers that are copied in."""
        with Server(self.program("host")) as server:
            server.ask("check " + network)
            if self.options.rehearse:
                return
            seconds = measure([Competitor(server, network, "ours")], 3, 0.2)["ours"]
            self.rows.append(PeakRow(f"{network}, batch 256: the host's work a step", "us", seconds * 1e6, limit=10))

    def groups(self, network: str) -> None:
        """Fused element-wise groups, with the sums that they take, by the bandwidth that each has; those that last too
        short to be told are left out."""
        with Server(self.program("groups")) as server:
            numbers = server.ask("check " + network)
        if self.options.rehearse:
            return
        peak = self.machine.ask("check copy")[0] / measure([Competitor(self.machine, "copy", "copy")], 3, 0.2)["copy"]
        groups = [(size, seconds) for size, seconds in zip(numbers[::2], numbers[1::2], strict=True) if size >= 64e6]
        if not groups:
            raise RuntimeError("no group moves 64 MB")
        share = [100 * size / seconds / peak for size, seconds in groups]
        all_of_them = 100 * sum(size for size, _ in groups) / sum(seconds for _, seconds in groups) / peak
        name = f"{network} step, bf16: {len(groups)} fused groups"
        self.rows.append(PeakRow(name + ", the slowest", "% of copying", min(share), limit=85, higher_is_better=True))
        self.rows.append(PeakRow(name + ", together", "% of copying", all_of_them, higher_is_better=True))

    def accuracy(self, goal: str) -> None:
        """Seconds to a test accuracy on Fashion-MNIST, from nothing: data, the GPU's start and tests included."""
        with Server(self.program("accuracy")) as server:
            seconds, reached = server.ask("check " + goal)
        if self.options.rehearse:
            return
        if reached < float(goal):
            raise RuntimeError(f"{reached:.4f} was reached in {seconds:.1f} s")
        self.rows.append(PeakRow(ACCURACY + goal, "s", seconds, limit=10 if goal == "0.92" else None))

    def peaks(self) -> None:
        for case, unit, scale in (("bf16", "TFLOP/s", 1e-12), ("tf32", "TFLOP/s", 1e-12), ("copy", "GB/s", 1e-9)):
            label = f"this GPU's {'copy' if case == 'copy' else case + ' products'} peak"
            if self.wanted(label) and not self.options.rehearse:
                seconds = measure([Competitor(self.machine, case, case)], 3, 0.2)[case]
                self.rows.append(PeakRow(label, unit, self.machine.ask("check " + case)[0] / seconds * scale,
                                         higher_is_better=True))


def has_gpu() -> bool:
    import torch
    return torch.cuda.is_available()


def main() -> int:
    parser = add_options(arguments(__doc__))
    parser.add_argument("--rehearse", action="store_true", help="without a GPU, and without times")
    parser.add_argument("--at-once", type=int, default=1, metavar="NUMBER",
                        help="networks that are prepared at the same time: quicker, but PyTorch measures its kernels "
                             "while others run")
    options = parser.parse_args()
    if not options.rehearse and not has_gpu():
        print("bench cuda: there is no GPU that PyTorch sees; --rehearse does everything but the times without one",
              file=sys.stderr)
        return 2
    bench = CudaBench(options)
    tasks = [(f"{network}: the host's work", lambda network=network: bench.host_work(network))
              for network in ("MLP 784-256-10", "LeNet")]
    tasks += [("ResNet-18: fused groups", lambda: bench.groups("ResNet-18"))]
    tasks += [(ACCURACY + goal, lambda goal=goal: bench.accuracy(goal)) for goal in ("0.92", "0.94")]
    bench.run_all([("peaks", bench.peaks)])
    bench.run_works([work for work in WORKS if bench.wanted(work.name)])
    bench.run_all([task for task in tasks if bench.wanted(task[0])])
    bench.machine.close()
    return bench.finish(0 if options.rehearse else report(bench.rows, options))


if __name__ == "__main__":
    sys.exit(main())
