"""PyTorch's side on the GPU: torch_peer.py NETWORK (train|infer) BATCH FOLDER. Channels last, fused optimizers, factors
of floats rounded to TF32; the cases are eager, compile (max-autotune, which replays CUDA graphs), and both in bf16.
Batches come from page-locked memory at each step, as ours do. Without a GPU, for rehearsals, it runs on the processor."""
import pathlib
import sys

import torch
import torch.nn.functional as functional

import networks
from serve import serve

NAME, KIND, BATCH, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])
NETWORK = networks.NETWORKS[NAME]
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def wait() -> None:
    if GPU:
        torch.cuda.synchronize()


def compiled(function):
    return torch.compile(function, mode="max-autotune") if GPU else torch.compile(function)


def prepared(training: bool):
    """The network on the device, and batches where a loader would have left them."""
    inputs, targets = (torch.from_numpy(part) for part in networks.read_data(NAME, BATCH, FOLDER))
    net = networks.load(NAME, FOLDER).train(training).to(DEVICE)
    if len(NETWORK.input) == 3:
        net, inputs = (part.to(memory_format=torch.channels_last) for part in (net, inputs))
    if NETWORK.data == "tokens":
        inputs = inputs.long()
    targets = targets.long()
    return net, *((part.pin_memory() for part in (inputs, targets)) if GPU else (inputs, targets))


def train(compile_it: bool, bfloat16: bool):
    net, inputs, targets = prepared(True)
    make = torch.optim.AdamW if NETWORK.optimizer == "adamw" else torch.optim.SGD
    optimizer = make(net.parameters(), lr=NETWORK.learning_rate, fused=True)

    def loss_of(x, y):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=bfloat16):
            return functional.cross_entropy(net(x).flatten(0, -2), y.flatten())

    run = compiled(loss_of) if compile_it else loss_of
    here = [torch.empty_like(part, device=DEVICE) for part in (inputs, targets)]  # graphs read from fixed places

    def step():
        if compile_it and GPU:
            torch.compiler.cudagraph_mark_step_begin()
        for to, part in zip(here, (inputs, targets), strict=True):
            to.copy_(part, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = run(*here)
        loss.backward()
        optimizer.step()
        return loss

    def check():
        losses = [step().item() for _ in range(3)]
        for group in optimizer.param_groups:
            group["lr"] *= 1e-3  # timing is not to wear the batch out
        return losses

    return check, step, wait


def infer(compile_it: bool, bfloat16: bool):
    net, inputs, _ = prepared(False)
    if bfloat16:
        net = net.bfloat16()
    if compile_it:
        torch._inductor.config.freezing = True
        net = compiled(net)

    def call():
        with torch.no_grad() if compile_it else torch.inference_mode():
            here = inputs.to(DEVICE, non_blocking=True)
            return net(here.bfloat16() if bfloat16 and here.is_floating_point() else here).float().cpu()

    return lambda: call().flatten()[:640].tolist(), call, wait


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    make = train if KIND == "train" else infer
    CASES = {"eager": (False, False), "compile": (True, False), "bf16": (False, True), "bf16 compile": (True, True)}
    serve({name: lambda arguments=arguments: make(*arguments) for name, arguments in CASES.items()})
