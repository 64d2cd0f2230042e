"""Data parallelism on two cores: steps on two logical devices beside PyTorch's DistributedDataParallel, and all_reduce
among threads and among processes beside Open MPI's and gloo's. Steps on one core that are queued by a front end on
another, parameter servers whose ranks are slow in turns, predicted step times, what hides behind the backward pass on a
slow link, the towers of a network on two devices, a sparse model without locks, and gradients in shared memory."""
from __future__ import annotations

import collections
import functools
import itertools
import statistics
import subprocess
import sys
from typing import Any, Generator

import networks
from harness import BUILD, ROOT, Row, arguments, build, report, run_json
from servers import HERE, Competitor, Server, environment, measure

# A part is measured in turns with all others, so that minutes in which the machine is slow, or its cores are far apart,
# do not hold all that a part has: it yields between two turns, and returns its rows.
Part = Generator[None, None, list[Row]]

gloo: dict[str, float] = {}  # microseconds of its all_reduce by bytes, as the peers' programs find them beside their steps
CASES = ("one", "half", "direct", "ring", "reproducible", "micro", "synchronised")


def check(name: str, figures: dict[str, list[float]], tolerance: float) -> None:
    """All of them have the same losses."""
    expected = next(iter(figures.values()))
    for label, found in figures.items():
        if any(abs(a - b) > tolerance * abs(b) for a, b in zip(found, expected, strict=True)):
            raise SystemExit(f"{name}: {label} has the losses {found}, the first one {expected}")


def least(a: Any, b: Any) -> Any:
    """Of two results of the same form the lesser numbers."""
    if isinstance(a, dict):
        return {key: least(each, b[key]) for key, each in a.items()}
    return [least(*pair) for pair in zip(a, b, strict=True)] if isinstance(a, list) else min(a, b)


def least_of_runs(*command, turns: int = 3) -> Generator[None, None, dict]:
    """Of a program whose figures are times, or the same in each run."""
    found = run_json(*command)
    for _ in range(turns - 1):
        yield
        found = least(found, run_json(*command))
    return found


def steps(name: str, batch: int, turns: int = 4,
          cases: tuple[str, ...] = CASES) -> Generator[None, None, tuple[dict[str, float], dict]]:
    """Seconds of our steps by case, and what PyTorch's program finds."""
    folder = BUILD / "benchmarks" / "parallel" / name
    networks.write_data(name, batch, folder)
    program = build("bench_parallel_ours_steps") / "bench_parallel_ours_steps"
    peer: dict = {}
    best: dict[str, float] = {}
    for turn in range(3):
        if turn > 0:
            yield
        with Server(program, name, str(batch), folder, threads=1) as server:
            losses = {case: server.ask("check " + case) for case in cases}  # this is also what has a case begin
            found = measure([Competitor(server, case, case) for case in cases], turns, 0.5)
            best = least(found, best or found)
        found = run_json(sys.executable, HERE / "torch_ddp.py", name, str(batch), folder,
                         *["--keep"] * (turn % 2), env=environment(1))
        losses["PyTorch"] = found["losses"]
        # Batch norm takes its statistics from a replica's part: one device has others.
        alike = [(2e-2, ("direct", "ring", "PyTorch")), (1e-3, ("one", "synchronised"))]
        if name != "ResNet-18":
            alike.append((1e-3, ("one", "direct", "reproducible", "micro")))
        for tolerance, group in alike:
            check(name, {case: losses[case] for case in group if case in losses}, tolerance)
        for key in ("step", "alone"):
            peer[key] = min(found[key], peer.get(key, found[key]))
        gloo.update({size: min(gloo.get(size, each), each) for size, each in found["all_reduce"].items()})
    return best, peer


def asynchronous() -> Part:
    """n steps, queued, over t1 + n * t2 + t3: times of preparing a batch, training on it, and taking the result."""
    rows = []
    program = build("bench_parallel_ours_asynchronous") / "bench_parallel_ours_asynchronous"
    best = yield from least_of_runs(program)  # it has checked that both ways give the same bits
    for name, found in best.items():
        bound = found["t1"] + found["steps"] * found["t2"] + found["t3"]
        rows.append(Row(f"{name}, asynchronous: {found['steps']} steps over t1 + n*t2 + t3", "times",
                        found["queued"] / bound, {}, 1.05 if found["t2"] > 1e-4 else None))
        rows.append(Row(f"{name}, one after the other over asynchronous", "times", found["alone"] / found["queued"], {},
                        higher_is_better=True))
    return rows


def staleness() -> Part:
    """Parameter servers, four ranks: in each step another one, at random, is three times slower than the others."""
    found = yield from least_of_runs(build("bench_parallel_ours_staleness") / "bench_parallel_ours_staleness", turns=1)
    if found["most_ahead"] > found["bound"]:
        raise SystemExit(f"a rank was {found['most_ahead']} steps ahead, allowed were {found['bound']}")
    name = "parameter server, 4 ranks, one at a time three times slower:"
    return [Row(f"{name} staleness bound {found['bound']} over bulk-synchronous", "times",
                found["bulk_synchronous"] / found["bounded"], {}, 1.6, higher_is_better=True),
            Row(f"parameter server, staleness bound {found['bound']}: the furthest that a rank was ahead in "
                f"{found['steps']:,} steps", "steps", found["most_ahead"], {}, found["bound"]),
            Row(f"{name} asynchronous over bulk-synchronous", "times",
                found["bulk_synchronous"] / found["asynchronous"], {}, higher_is_better=True)]


def inter_op() -> Part:
    """Two towers that do not depend on each other on two devices, over one after the other; 0.5 is the limit."""
    program = build("bench_parallel_ours_inter_op") / "bench_parallel_ours_inter_op"
    best = yield from least_of_runs(program)  # it compares the bits
    return [Row(f"two towers of {name}, InterOpParallel<2> over one core", "times", each["two"] / each["one"], {}, 0.55)
            for name, each in best.items()]


def prediction() -> Part:
    """Step times of two workers: predicted from what one worker takes by itself, and measured; the larger over the
    smaller. And what ranks gain that are slow in turns, to be compared with the measured rows of `staleness`."""
    found: dict = {}
    for what in ("", "_ranks", "_devices"):
        name = f"bench_parallel_ours_prediction{what}"
        if found:
            yield
        found |= yield from least_of_runs(build(name) / name, turns=1)
    turns, many = found.pop("slow in turns"), found.pop("16,384 workers")
    rows = [Row(f"{name}: predicted step over measured, or the other way round", "times",
                max(each["predicted"] / each["measured"], each["measured"] / each["predicted"]), {}, 1.1)
            for name, each in found.items()]
    name = "predicted: parameter server, 4 ranks, one at a time three times slower:"
    rows += [Row(f"predicting a step of 16,384 ranks, {policy}", "s", seconds, {}, 1)
             for policy, seconds in many.items()]
    return rows + [Row(f"{name} staleness bound 8 over bulk-synchronous", "times", turns["bounded"], {},
                       higher_is_better=True),
                   Row(f"{name} asynchronous over bulk-synchronous", "times", turns["asynchronous"], {},
                       higher_is_better=True)]


def overlap() -> Part:
    """Two ranks whose messages take as long as over 1 Gbit/s: the communication that hides behind the backward pass, over
    what the plan of buckets allows. And ranks under mpirun: communication beside which they compute, and by how much
    steps are longer than without."""
    delayed = build("bench_parallel_ours_overlap") / "bench_parallel_ours_overlap"
    program = build("bench_parallel_ours_mpi_overlap") / "bench_parallel_ours_mpi_overlap"
    delays: list[dict] = []
    runs: dict[int, list[dict]] = {2: [], 4: []}
    over_tcp: list[dict] = []
    can_limit_links = subprocess.run([ROOT / "tools" / "over_tcp.sh", "2gbit", "1", "true"], stdout=subprocess.DEVNULL,
                                     check=False).returncode == 0
    if not can_limit_links:
        print("no link of 1 Gbit/s, as this user may not limit one: rows by TCP are left out", file=sys.stderr)
    for turn in range(3):
        if turn > 0:
            yield
        delays.append(run_json(delayed))
        for ranks, found in runs.items():
            found.append(run_json(ROOT / "tools" / "mpirun.sh", str(ranks), program))
        if can_limit_links:  # for two ranks' two ways: 1 Gbit/s each
            over_tcp.append(run_json(ROOT / "tools" / "over_tcp.sh", "2gbit", "2", program, "messages"))
    rows = []
    for name in delays[0]:
        # Each run has compared steps with and without the link, one by one: times of different runs do not go together.
        figures = [run[name] for run in delays]
        label = f"{name}, two ranks over 1 Gbit/s (delayed):"
        for timers, what in ((0, ""), (1, ", its timers' turns on the processor taken for its own")):
            rows.append(Row(f"{label} hidden communication over what the buckets allow{what}", "times",
                            statistics.median((each["communicating"] - (each["slow"] - each["fast"]) -
                                               timers * each["timers"]) / each["allowed"] for each in figures),
                            {}, 0.9, higher_is_better=True))
        rows.append(Row(f"{label} communication that the buckets allow to be hidden", "%",
                        statistics.median(100 * each["allowed"] / each["communicating"] for each in figures), {},
                        higher_is_better=True))
        rows.append(Row(f"{label} what its timers take from a step", "ms",
                        statistics.median(1e3 * each["timers"] for each in figures), {}))
    ways = (("messages", "by MPI's messages"), ("shared", "in shared memory"))
    for ranks, name, (way, text_of_way) in itertools.product(runs, runs[2][0], ways):
        found = [run[name][way] for run in runs[ranks]]
        label = f"{name}, mpirun -n {ranks} on two cores, {text_of_way}"
        for first, what in ((0, "communication"), (2, "communication without waiting for the other rank")):
            rows.append(Row(f"{label}: {what} beside which a rank computes", "%",
                            100 * max(each[first] for each in found), {}, 85, higher_is_better=True))
            rows.append(Row(f"{label}: {what} beside which it does not, of a step", "ms",
                            1e3 * min(each[first + 1] for each in found), {}))
        rows += longer(label, found)
    for name in over_tcp[0] if over_tcp else ():
        rows += longer(f"{name}, two ranks by TCP over 1 Gbit/s", [run[name]["messages"] for run in over_tcp])
    return rows


def longer(label: str, found: list[list[float]]) -> list[Row]:
    """What exchanging does to a step, by what the runs of a program have found: see ours_mpi_overlap.cpp."""
    communicating, added = (statistics.median(each[i] for each in found) for i in (4, 6))
    return [Row(f"{label}: communication that does not make a step longer", "%", 100 * (1 - added / communicating), {},
                85, higher_is_better=True),
            Row(f"{label}: what exchanging adds to a step", "%",
                statistics.median(100 * each[6] / (each[5] - each[6]) for each in found), {})]


def sparse() -> Part:
    """A table of 10^7 parameters of which a batch touches some rows: Hogwild beside one thread, which takes batches as
    large as Hogwild's updates."""
    program = build("bench_parallel_ours_sparse") / "bench_parallel_ours_sparse"
    runs = [run_json(program)]
    for _ in range(2):
        yield
        runs.append(run_json(program))
    found = functools.reduce(least, runs)
    name = "Hogwild, 10^7 sparse parameters, 2 threads:"
    return [Row(f"{name} one thread over it", "times", min(found["serial"], found["one"]) / found["two"], {}, 1.6,
                higher_is_better=True),
            Row(f"{name} loss after 4 epochs over that of one thread", "times",
                max(run["two_loss"] / run["serial_loss"] for run in runs), {}, 1.02),  # no time: the worst counts
            Row("step of 64 samples, 10^7 parameters, one thread: dense table over sparse", "times",
                found["dense_step"] / found["sparse_step"], {}, higher_is_better=True)]


def gradients_in_shared_memory() -> Part:
    """Steps of two processes whose gradients lie where they are sent from, over those that are copied to be sent."""
    program = build("bench_parallel_ours_shared_memory_steps") / "bench_parallel_ours_shared_memory_steps"
    best = yield from least_of_runs(ROOT / "tools" / "processes.sh", "2", program)  # it compares the bits
    return [Row(f"{name}, 2 processes: gradients in shared memory over copied into it", "times", shared / copied, {})
            for name, (shared, copied) in best.items()]


def text(size: int) -> str:
    return f"{size / 1024:g} KB" if size < 1 << 20 else f"{size / (1 << 20):.3g} MB"


def resnet18_steps() -> Part:
    ours, ddp = yield from steps("ResNet-18", 32, turns=10, cases=(*CASES, "apart"))  # few steps a turn
    name, peers = "ResNet-18 step, batch 32,", {"PyTorch DDP, 2 processes": ddp["step"] * 1e3}
    return [Row(f"{name} DataParallel<2> over one core", "times", ours["one"] / ours["direct"], {}, 1.85,
                higher_is_better=True),
            Row(f"{name} one core over two trainers of half of it that have nothing in common", "times",
                ours["one"] / ours["apart"], {}, higher_is_better=True),
            Row(f"{name} DataParallel<2>", "ms", ours["direct"] * 1e3, peers, 1 / 1.7, of="ratio"),
            Row(f"{name} DataParallel<2>, Ring", "ms", ours["ring"] * 1e3, peers),
            Row(f"{name} DataParallel<2>, Reproducible over DataParallel<2>", "times",
                ours["reproducible"] / ours["direct"], {}),
            Row(f"{name} one core, MicroBatches<4> over the whole batch", "times", ours["micro"] / ours["one"], {}),
            Row(f"{name} DataParallel<2>, SyncBatchNorm over DataParallel<2>", "times",
                ours["synchronised"] / ours["direct"], {})]


def wide_steps() -> Part:
    ours, ddp = yield from steps("MLP 784-2048-2048-2048-10", 32, cases=("one", "direct"))
    name, peers = "784-2048-2048-2048-10 step, batch 32,", {"PyTorch DDP, 2 processes": ddp["step"] * 1e3}
    return [Row(f"{name} DataParallel<2> over one core", "times", ours["one"] / ours["direct"], {},
                higher_is_better=True),
            Row(f"{name} DataParallel<2>", "ms", ours["direct"] * 1e3, peers)]


def small_steps() -> Part:
    rows = []
    for label in ("784-256-10", "32-64-64-10"):
        ours, ddp = yield from steps("MLP " + label, 256)
        alone = {"PyTorch DDP": (ddp["step"] - ddp["alone"]) * 1e6}
        for case, name in (("direct", ""), ("ring", ", Ring")):
            rows.append(Row(f"{label}, batch 256, what synchronising two devices adds{name}", "us",
                            (ours[case] - ours["half"]) * 1e6, alone, 30 if case == "direct" else None))
    return rows


def all_reduce() -> Part:
    """Among threads, processes and ranks under mpirun, of numbers where they were left, and of numbers just written."""
    if not gloo:
        yield from steps("MLP 32-64-64-10", 256)
    programs = build(*(f"bench_parallel_ours_{kind}_all_reduce" for kind in ("threads", "shared_memory", "mpi")))
    best: dict[str, dict[str, list[float]]] = {}
    for turn in range(3):
        if turn > 0:
            yield
        for kind, launcher in (("threads", []), ("mpi", ["mpirun.sh", "2"]), ("shared_memory", ["processes.sh", "2"]),
                               ("four ranks", ["mpirun.sh", "4"])):
            program = programs / f"bench_parallel_ours_{'mpi' if kind == 'four ranks' else kind}_all_reduce"
            found = run_json(*([ROOT / "tools" / launcher[0], launcher[1]] if launcher else []), program)
            # Of ranks the figures of one turn, as the program says why.
            together = kind in ("mpi", "four ranks")
            take = (lambda a, b: {size: min(a[size], b[size], key=sum) for size in a}) if together else least
            best[kind] = take(found, best.get(kind, found))
    threads, processes, shared = best["threads"], best["mpi"], best["shared_memory"]
    bars = {4096: 0.5, 65536: 3, 4194304: 120}
    rows = []
    for size, (kept, written) in threads.items():
        peers = {"Open MPI": processes[size][2], "gloo": gloo[size]}
        rows.append(Row(f"all_reduce of {text(int(size))}, 2 threads", "us", kept, peers, bars.get(int(size))))
        rows.append(Row(f"writing {text(int(size))} and all_reduce of it, 2 threads", "us", written,
                        {"Open MPI": processes[size][3]}))
    for size, figures in shared.items():
        peers = {"Open MPI": processes[size][2], "gloo": gloo[size]}
        for where, figure in zip(("in shared memory", "copied into shared memory"), figures):
            bar = bars.get(int(size)) if where == "in shared memory" else None
            rows.append(Row(f"all_reduce of {text(int(size))}, 2 processes, {where}", "us", figure, peers, bar))
    for ranks, figures in ((2, processes), (4, best["four ranks"])):
        for size, (ours, by_messages, theirs, _) in figures.items():
            name = f"all_reduce of {text(int(size))}, mpirun -n {ranks}"
            rows.append(Row(name, "us", ours, {"Open MPI": theirs}, 1, of="ratio"))
            rows.append(Row(f"{name}, by MPI's messages", "us", by_messages, {"Open MPI": theirs}, 1, of="ratio"))
    return rows


def cores() -> Part:
    """What this machine's cores are worth while all this is measured: nothing below can be better."""
    program = build("bench_parallel_ours_cores") / "bench_parallel_ours_cores"
    alone: list[float] = []
    together: list[float] = []
    for turn in range(3):
        if turn > 0:
            yield
        found = run_json(program)
        alone += found["alone"]
        together += found["together"]
    one, two = statistics.median(alone), statistics.median(together)
    if 2 * one / two < 1.9 or one / min(alone) > 1.1:
        print("this machine's cores are not its own: its times say little of bars that take two", file=sys.stderr)
    return [Row("two cores at a time over one, products and sums in the first cache", "times", 2 * one / two, {},
                higher_is_better=True),
            Row("the same on one core, median time over the least", "times", one / min(alone), {})]


PARTS = (cores, resnet18_steps, wide_steps, small_steps, asynchronous, staleness, prediction, overlap, inter_op, sparse,
         gradients_in_shared_memory, all_reduce)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", metavar="PART", action="append", choices=[part.__name__ for part in PARTS],
                        help="one of " + ", ".join(part.__name__ for part in PARTS) +
                             "; may be repeated; in the JSON file the other rows stay")
    options = parser.parse_args()
    rows: dict[str, list[Row]] = {part.__name__: [] for part in PARTS}
    waiting = collections.deque((part.__name__, part()) for part in PARTS
                                if not options.only or part.__name__ in options.only)
    while waiting:
        name, part = waiting.popleft()
        print("==", name, file=sys.stderr, flush=True)
        try:
            next(part)
            waiting.append((name, part))
        except StopIteration as end:
            rows[name] = end.value
    return report([row for part in rows.values() for row in part], options)


if __name__ == "__main__":
    sys.exit(main())
