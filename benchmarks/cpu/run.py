"""Steps, inference and kernels on the CPU beside PyTorch, JAX, ONNX Runtime, dlib, libdnnl, OpenBLAS and Eigen."""
from __future__ import annotations

import os
import sys
import time

import kernel_rows
import network_rows
import program_rows
from bench import add_options
from cpu_bench import CpuBench
from harness import arguments
from servers import Others
from table import BUSY, report


def main() -> int:
    parser = add_options(arguments(__doc__))
    parser.add_argument("--long", action="store_true", help="also train ResNet-18 to an accuracy, which takes hours")
    parser.add_argument("--epochs", type=int, default=4, help="for --long: epochs at most")
    parser.add_argument("--accuracy", type=float, default=0.92, help="for --long: the share of test images")
    parser.add_argument("--images", type=int, default=0, help="for --long: training images to use, 0 for all")
    options = parser.parse_args()

    works = [work for work in network_rows.WORKS
             if not options.only or any(text.lower() in work.name.lower() for text in options.only)]
    before = Others()
    time.sleep(1)
    if before.cores() > BUSY:
        CpuBench.say(f"THE MACHINE IS BUSY: other programs use {before.cores():.2f} of {os.cpu_count()} cores")
    bench = CpuBench(options)
    tasks = [("peaks", bench.peaks)]
    tasks += [(work.name, lambda work=work: network_rows.run(bench, work)) for work in works]
    tasks += [("speedup", lambda: network_rows.speedup(bench)), ("kernels", lambda: kernel_rows.run(bench))]
    tasks += [(part.__name__, lambda part=part: part(bench)) for part in
              (program_rows.memory, program_rows.bound, program_rows.start, program_rows.size, program_rows.accuracy)]
    bench.run_all(tasks)
    bench.machine.close()
    return bench.finish(report(bench.rows, options))


if __name__ == "__main__":
    sys.exit(main())
