"""PyTorch's DistributedDataParallel, two processes of one thread each over gloo: torch_ddp.py NETWORK BATCH FOLDER
[--keep]; "--keep": each process keeps to one processor.

Prints {"losses": of three steps, "step": seconds with the batch shared by both, "alone": seconds of half the batch in
one process, "all_reduce": {bytes: microseconds}}; losses are means of both ranks'.
"""
import json
import os
import pathlib
import socket
import sys
import time

import torch
import torch.distributed as distributed
import torch.multiprocessing
import torch.nn.functional as functional
from torch.nn.parallel import DistributedDataParallel

import networks

NAME, BATCH, FOLDER = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
RANKS, ROUNDS = 2, 7
SIZES = (256, 1024, 16384, 262144, 1048576, 11200000)


def least(call, repeats: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        distributed.barrier()
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best


def steps(rank: int, parallel: bool):
    """A function that takes one step and returns its loss."""
    inputs, targets = (torch.from_numpy(part) for part in networks.read_data(NAME, BATCH, FOLDER))
    part = slice(rank * BATCH // RANKS, (rank + 1) * BATCH // RANKS)
    inputs, targets = inputs[part], targets[part].long()
    net = networks.load(NAME, FOLDER)
    if len(networks.NETWORKS[NAME].input) == 3:
        net, inputs = (part.to(memory_format=torch.channels_last) for part in (net, inputs))
    if parallel:
        net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=networks.NETWORKS[NAME].learning_rate, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(net(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    return step, optimizer


def work(rank: int, port: int) -> None:
    if "--keep" in sys.argv:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})  # before gloo's threads begin
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    step, optimizer = steps(rank, True)
    losses = []
    for _ in range(3):
        loss = step().detach()
        distributed.all_reduce(loss)
        losses.append(loss.item() / RANKS)
    optimizer.param_groups[0]["lr"] *= 1e-3
    repeats = 2 if NAME == "ResNet-18" else 50
    found = {"losses": losses, "step": least(step, repeats), "alone": least(steps(rank, False)[0], repeats), "all_reduce": {}}
    for count in SIZES:
        numbers = torch.zeros(count)
        found["all_reduce"][str(4 * count)] = least(lambda: distributed.all_reduce(numbers), max(1, 500000 // count)) * 1e6
    if rank == 0:
        print(json.dumps(found), flush=True)
    distributed.barrier()
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads now and then end a process that is being taken down by an abort


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (port,), RANKS)
