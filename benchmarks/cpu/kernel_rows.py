"""Rows of kernels alone, on one thread: products beside OpenBLAS, the convolutions of ResNet-18 beside libdnnl."""
from __future__ import annotations

from cpu_bench import CpuBench
from servers import Competitor, Server
from table import PeakRow

PASSES = ("forward", "backward-data", "backward-weights")
PRODUCT_SHARE = 0.9  # of the FMA peak, at sizes from 128 to 1024


def names(server: Server) -> list[str]:
    return server.ask_text("list").split("\t")


def run(bench: CpuBench) -> None:
    only = bench.options.only
    if only and not any(text.lower().startswith("kernel") for text in only):
        return  # the names are the program's: it is not built for nothing
    ours = Server(bench.program("kernels"))
    wanted = [name for name in names(ours) if bench.wanted("kernel: " + name)]
    libraries = {"product": ("OpenBLAS", "openblas.cpp", "-lopenblas"), "conv": ("libdnnl", "dnnl.cpp", "-ldnnl")}
    for kind, (peer_name, source, library) in libraries.items():
        chosen = [name for name in wanted if name.startswith("product") == (kind == "product")]
        if not chosen:
            continue
        peer = Server(bench.compiled(source, library))
        offered = names(peer)
        for name in chosen:
            bench.say("kernel: " + name)
            competitors = [Competitor(ours, name, "ours")]
            for case in offered:
                if case == name or case.startswith(name + " "):
                    competitors.append(Competitor(peer, case, peer_name + case.removeprefix(name)))
            row(bench, name, competitors)
        peer.close()
    ours.close()


def row(bench: CpuBench, name: str, competitors: list[Competitor]) -> None:
    flops = bench.compare(competitors, 1e-4)[0]
    seconds, busy = bench.measure(competitors, 1)
    peak = seconds.pop("peak")
    speeds = {peer: flops / value * 1e-9 for peer, value in seconds.items()}
    ours = speeds.pop("ours")
    limit, of = None, "ours"
    if name.startswith("product"):
        limit = PRODUCT_SHARE * peak * 1e-9
    elif "libdnnl winograd" in speeds:
        limit, of = 1.0, "ratio"
    bench.rows.append(PeakRow(f"kernel: {name}", "GFLOP/s", ours, speeds, limit, of, higher_is_better=True,
                              percent=100 * ours * 1e9 / peak, busy=busy))
