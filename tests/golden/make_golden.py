#!/usr/bin/env python3
"""Writes golden.txt, the values that tests/golden/*.cpp compare with: losses, gradients, parameters and outputs found by
PyTorch. Weights, inputs and targets come from the formula below, which formula.hpp computes too, so the file stays small.

usage: python3 make_golden.py            (needs PyTorch; with the package safetensors it also writes tiny.safetensors)
"""
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

FOLDER = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def random_bits(stream, count):
    """`count` random integers in [0, 2^32): a mix of the bits of the element's number and the stream's."""
    x = torch.arange(count, dtype=torch.int64) + stream * 0x9E3779B9
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x &= 0xFFFFFFFF
        x = ((x ^ (x >> shift)) * factor) & 0xFFFFFFFF
    return x


def uniform(stream, *shape):
    """Uniform in [-1, 1), multiples of 2^-23: exact in float32."""
    bits = random_bits(stream, math.prod(shape))
    return ((bits >> 8).to(torch.float32) * 2.0**-23 - 1.0).reshape(shape)


def integers(stream, below, *shape):
    return (random_bits(stream, math.prod(shape)) % below).reshape(shape)


def initialize(model):
    """Tensor k of state_dict, counters not counted: uniform in ±1/sqrt(fan in); vectors ±0.1, weights of norms 1 ± 0.1."""
    with torch.no_grad():
        stream = 0
        for name, tensor in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            stream += 1
            if "running" in name:
                continue
            values = uniform(stream, *tensor.shape)
            if tensor.dim() >= 2:
                fan_in = math.prod(tensor.shape[1:])
                tensor.copy_(values * torch.tensor(1.0 / math.sqrt(fan_in), dtype=torch.float32))
            else:
                tensor.copy_(values * torch.tensor(0.1) + (1.0 if name.endswith("weight") else 0.0))
    return model


lines = []


def write(key, values):
    if isinstance(values, torch.Tensor):
        values = values.detach().flatten().tolist()
    lines.append(" ".join([key] + [f"{value:.9g}" for value in values]))


def digest(key, tensor):
    """The sum, the sum of magnitudes, and six elements."""
    flat = tensor.detach().to(torch.float64).flatten()
    picked = [flat[(i * 7919 + 3) % len(flat)] for i in range(6)]
    write(key, [flat.sum(), flat.abs().sum(), *picked])


def run(case, model, inputs, targets, loss, optimizer, steps, gradients=True, names=()):
    """Trains `model` and writes the losses, the first step's gradients, and at the end parameters, buffers and outputs."""
    initialize(model).train()
    optimizer = optimizer(model.parameters())
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(model(inputs), targets)
        value.backward()
        losses.append(value.item())
        if step == 0 and gradients:
            for name, parameter in model.named_parameters():
                if parameter.grad.abs().mean() > 1e-7:  # else it is zero but for rounding: the bias of a key, say
                    digest(f"{case}/gradient/{name}", parameter.grad)
        optimizer.step()
    write(f"{case}/losses", losses)
    for name, tensor in model.state_dict().items():
        if not names or name in names:
            if not name.endswith("num_batches_tracked"):
                digest(f"{case}/final/{name}", tensor)
    model.eval()
    with torch.no_grad():
        digest(f"{case}/outputs", model(inputs))
    print(case, losses)


# Networks: their state_dict names are those of the C++ networks.

def conv(i, o, k, **options):
    return nn.Conv2d(i, o, k, **options)


def lenet():
    return nn.Sequential(conv(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), conv(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


class ResidualUnit(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv1 = conv(i, o, 3, padding=1, stride=stride)
        self.conv2 = conv(o, o, 3, padding=1)
        self.conv3 = conv(i, o, 1, stride=stride) if i != o or stride != 1 else nn.Identity()
        self.bn1 = nn.BatchNorm2d(o)
        self.bn2 = nn.BatchNorm2d(o)

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.conv3(x))


def resnet18():
    unit = ResidualUnit
    return nn.Sequential(
        nn.Sequential(conv(1, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        nn.Sequential(unit(64, 64), unit(64, 64)), nn.Sequential(unit(64, 128, 2), unit(128, 128)),
        nn.Sequential(unit(128, 256, 2), unit(256, 256)), nn.Sequential(unit(256, 512, 2), unit(512, 512)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class Causal(nn.Module):
    """Self-attention with the names of nn.MultiheadAttention."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if self.causal else None
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


class Attend(nn.Module):
    """Scaled dot product attention of three linear maps of the input."""

    def __init__(self, width, causal):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.causal = causal

    def forward(self, x):
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), is_causal=self.causal)


def tiny():
    return nn.Sequential(conv(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 5 * 4, 4))


def sequence_cross_entropy(scores, labels):
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


INPUT, TARGET = 1000, 2000  # streams


class Clipping(torch.optim.SGD):
    """Gradients are clipped before each step, as a training loop does."""

    def __init__(self, parameters, max_norm, **options):
        self.parameters, self.max_norm = list(parameters), max_norm
        super().__init__(self.parameters, **options)

    def step(self):
        norm = nn.utils.clip_grad_norm_(self.parameters, self.max_norm)
        assert norm > self.max_norm
        super().step()


sgd = lambda **options: lambda parameters: torch.optim.SGD(parameters, **options)
plain = sgd(lr=0.1)

run("lenet", lenet(), uniform(INPUT, 16, 1, 28, 28), integers(TARGET, 10, 16), F.cross_entropy,
    sgd(lr=0.05, momentum=0.9, weight_decay=5e-4), 10, gradients=False)
# The rate is small on purpose. A rounding error flips a ReLU here and there, and batch norm on a small batch amplifies
# that: at a rate of 0.02 PyTorch itself (contiguous against channels-last, or float32 against float64) is 1e-2 apart
# after ten steps; at this rate 2e-5.
run("resnet18", resnet18(), uniform(INPUT, 16, 1, 28, 28), integers(TARGET, 10, 16), F.cross_entropy,
    sgd(lr=5e-5, momentum=0.9), 10, gradients=False,
    names=("0.0.weight", "0.1.running_mean", "0.1.running_var", "2.0.conv3.weight", "2.0.conv3.bias", "2.0.bn2.bias",
           "3.1.bn2.running_var", "4.1.conv2.weight", "4.1.bn2.running_mean", "7.weight", "7.bias"))

image, image_case = uniform(INPUT, 3, 2, 9, 7), lambda o, h, w: uniform(TARGET, 3, o, h, w)
run("conv2d", nn.Sequential(conv(2, 3, 3, padding=1), nn.Tanh(), conv(3, 4, 3, stride=2, padding=1)), image,
    image_case(4, 5, 4), F.mse_loss, plain, 3)
run("max_pool2d", nn.Sequential(conv(2, 3, 3, padding=1), nn.MaxPool2d(3, 2, 1), conv(3, 2, 1)), image,
    image_case(2, 5, 4), F.mse_loss, plain, 3)
run("avg_pool2d", nn.Sequential(conv(2, 3, 3, padding=1), nn.AvgPool2d(3, 2, 1), conv(3, 2, 1)), image,
    image_case(2, 5, 4), F.mse_loss, plain, 3)
run("batch_norm2d", nn.Sequential(conv(2, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3), nn.Tanh(), conv(3, 2, 1)), image,
    image_case(2, 9, 7), F.mse_loss, plain, 3)
run("batch_norm1d", nn.Sequential(nn.BatchNorm1d(5), nn.Linear(8, 6), nn.Flatten(), nn.Linear(30, 6), nn.BatchNorm1d(6),
                                  nn.Tanh(), nn.Linear(6, 4)), uniform(INPUT, 7, 5, 8), uniform(TARGET, 7, 4), F.mse_loss, plain, 3)
run("residual", nn.Sequential(ResidualUnit(2, 4, 2), ResidualUnit(4, 4)), image, image_case(4, 5, 4), F.mse_loss,
    sgd(lr=0.1, momentum=0.9), 4)
sequence, sequence_target = uniform(INPUT, 3, 5, 8), uniform(TARGET, 3, 5, 8)
run("layer_norm", nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 8)), sequence, sequence_target, F.mse_loss,
    plain, 3)
run("embedding", nn.Sequential(nn.Embedding(11, 6), nn.GELU(), nn.Linear(6, 9)), integers(INPUT, 11, 3, 7),
    integers(TARGET, 9, 3, 7), sequence_cross_entropy, plain, 3)
run("softmax", nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 8), nn.Softmax(-1)), sequence, sequence_target,
    F.mse_loss, plain, 3)
run("multihead_attention", Causal(8, 2, False), sequence, sequence_target, F.mse_loss, plain, 3)
run("causal_multihead_attention", Causal(8, 2, True), sequence, sequence_target, F.mse_loss, plain, 3)
run("scaled_dot_product_attention", Attend(8, False), sequence, sequence_target, F.mse_loss, plain, 3)
run("causal_scaled_dot_product_attention", Attend(8, True), sequence, sequence_target, F.mse_loss, plain, 3)

perceptron = lambda: nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 4))
features, classes = uniform(INPUT, 5, 8), integers(TARGET, 4, 5)
for name, optimizer in {
        "sgd": sgd(lr=0.1, momentum=0.9, weight_decay=0.05),
        "adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=0.1),
        "clip_grad_norm": lambda p: Clipping(p, 0.3, lr=0.1, momentum=0.9, weight_decay=0.05)}.items():
    run(name, perceptron(), features, classes, F.cross_entropy, optimizer, 5, gradients=False)


def rates(make, steps):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


schedules = torch.optim.lr_scheduler
write("cosine_annealing", rates(lambda o: schedules.CosineAnnealingLR(o, T_max=12, eta_min=0.1), 12))
write("step", rates(lambda o: schedules.StepLR(o, step_size=3, gamma=0.5), 10))
write("linear", rates(lambda o: schedules.LinearLR(o, start_factor=0.25, end_factor=1.0, total_iters=5), 8))

(FOLDER / "golden.txt").write_text("\n".join(lines) + "\n")

# A network trained for two steps and saved under PyTorch's names.
network = initialize(tiny())
small = uniform(INPUT, 3, 2, 5, 4)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    F.cross_entropy(network(small), integers(TARGET, 4, 3)).backward()
    optimizer.step()
network.eval()
with open(FOLDER / "golden.txt", "a", encoding="ascii") as file:
    file.write("tiny/outputs " + " ".join(f"{value:.9g}" for value in network(small).flatten().tolist()) + "\n")
try:
    from safetensors.torch import save_file
    save_file(network.state_dict(), FOLDER / "tiny.safetensors", metadata={"format": "pt"})
except ImportError:
    print("the package safetensors is missing: tiny.safetensors is left as it was")
