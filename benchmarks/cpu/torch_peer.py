"""PyTorch's side: torch_peer.py NETWORK (train|infer) BATCH FOLDER. Channels last, fused optimizers, threads of
BENCH_THREADS; the cases are eager, compile (TorchInductor; for inference with frozen weights), and both in bf16."""
import logging
import os
import pathlib
import sys

import torch
import torch.nn.functional as functional

import networks
from serve import serve

NAME, KIND, BATCH, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])
NETWORK = networks.NETWORKS[NAME]


def prepared(training: bool):
    inputs, targets = (torch.from_numpy(part) for part in networks.read_data(NAME, BATCH, FOLDER))
    net = networks.load(NAME, FOLDER).train(training)
    if len(NETWORK.input) == 3:
        net, inputs = (part.to(memory_format=torch.channels_last) for part in (net, inputs))
    if NETWORK.data == "tokens":
        inputs = inputs.long()
    return net, inputs, targets.long()


def train(compiled: bool, bfloat16: bool):
    net, inputs, targets = prepared(True)
    make = torch.optim.AdamW if NETWORK.optimizer == "adamw" else torch.optim.SGD
    optimizer = make(net.parameters(), lr=NETWORK.learning_rate, fused=True)

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            return functional.cross_entropy(net(x).flatten(0, -2), y.flatten())

    run = torch.compile(loss_of) if compiled else loss_of

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = run(inputs, targets)
        loss.backward()
        optimizer.step()
        return loss

    def check():
        losses = [step().item() for _ in range(3)]
        for group in optimizer.param_groups:
            group["lr"] *= 1e-3  # timing is not to wear the batch out
        return losses

    return check, step


def infer(compiled: bool, bfloat16: bool):
    net, inputs, _ = prepared(False)
    if bfloat16:
        net = net.bfloat16()
        inputs = inputs.bfloat16() if inputs.is_floating_point() else inputs
    if compiled:
        torch._inductor.config.freezing = True
        net = torch.compile(net)
    guard = torch.inference_mode if not compiled else torch.no_grad

    def call():
        with guard():
            return net(inputs)

    return lambda: call().flatten()[:640].tolist(), call


if __name__ == "__main__":
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # that there is no CUDA is as it should be
    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    make = train if KIND == "train" else infer
    CASES = {"eager": (False, False), "compile": (True, False), "bf16": (False, True), "bf16 compile": (True, True)}
    serve({name: lambda arguments=arguments: make(*arguments) for name, arguments in CASES.items()})
