"""The networks as PyTorch modules whose parameters have our names; weights and data for all competitors."""
from __future__ import annotations

import dataclasses
import gzip
import pathlib
from collections.abc import Callable

import numpy
import torch
import torch.nn.functional as functional
from safetensors.torch import load_file, save_file
from torch import nn

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


class ResidualUnit(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        same = inputs == outputs and stride == 1
        self.conv3 = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride=stride)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + self.conv3(x))


def resnet18() -> nn.Module:
    stages = [nn.Sequential(ResidualUnit(inputs, outputs, stride), ResidualUnit(outputs, outputs))
              for inputs, outputs, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))]
    stem = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def lenet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                         nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(),
                         nn.Linear(84, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def wide() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048),
                         nn.ReLU(), nn.Linear(2048, 10))


def small() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 96, 128, 4, 4, 128


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, x):
        batch, length, _ = x.shape
        parts = functional.linear(x, self.in_proj_weight, self.in_proj_bias).split(WIDTH, 2)
        q, k, v = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(attended.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.tokens(tokens) + self.positions)))


def norms() -> nn.Module:
    """Two batch norms with ReLU: forward, and backward to parameters (the first) and to the input (the second)."""
    return nn.Sequential(nn.BatchNorm2d(64), nn.ReLU(), nn.BatchNorm2d(64), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, 10))


@dataclasses.dataclass
class Network:
    make: Callable[[], nn.Module]
    program: str  # ours, and its first arguments
    input: tuple[int, ...]  # extents of one sample
    data: str = "images"  # images of Fashion-MNIST, normal or tokens
    learning_rate: float = 0.05  # of the steps that are checked
    optimizer: str = "sgd"
    tolerance: float = 1e-4  # relative, of losses and outputs
    classes: int = 10


NETWORKS = {
    "MLP 784-256-10": Network(mlp, "mlp", (784,)),
    "MLP 784-2048-2048-2048-10": Network(wide, "", (784,)),  # for benchmarks/parallel alone
    "LeNet": Network(lenet, "lenet", (1, 28, 28)),
    "ResNet-18": Network(resnet18, "resnet18", (1, 28, 28), learning_rate=1e-3, tolerance=1e-3),
    "MLP 32-64-64-10": Network(small, "small", (32,), "normal"),
    "GPT": Network(Gpt, "gpt", (CONTEXT,), "tokens", 1e-3, "adamw", 1e-3),
    "two batch norms with ReLU": Network(norms, "layers norms", (64, 28, 28), "normal", tolerance=1e-3),
    "softmax of 1000": Network(lambda: nn.Softmax(1), "layers softmax", (1000,), "normal"),
    "attention 128x128, 4 heads": Network(Attention, "layers attention", (CONTEXT, WIDTH), "normal"),
    "AdamW on a layer 4096-1024": Network(lambda: nn.Sequential(nn.Linear(4096, 1024)), "layers update", (4096,),
                                          "normal", 1e-3, "adamw", 1e-3, classes=1024),
}


def fashion_mnist(name: str, offset: int) -> numpy.ndarray:
    with gzip.open(DATA / name) as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=offset)


def write_data(name: str, batch: int, folder: pathlib.Path) -> None:
    """Weights, inputs and targets for one network, the same in every run."""
    network = NETWORKS[name]
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    net = network.make()
    for layer in net.modules():  # statistics as after some training: inference is to use them
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.2, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    save_file({key: value.contiguous() for key, value in net.state_dict().items()}, folder / "weights.safetensors")
    generator = numpy.random.default_rng(0)
    if network.data == "tokens":
        tokens = generator.integers(0, VOCABULARY, (batch, CONTEXT + 1)).astype(numpy.int32)
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
    elif network.data == "normal":
        inputs = generator.standard_normal((batch, *network.input)).astype(numpy.float32)
        targets = generator.integers(0, network.classes, batch).astype(numpy.int32)
    else:
        images = fashion_mnist("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:batch]
        inputs = images.astype(numpy.float32) / 255
        targets = fashion_mnist("train-labels-idx1-ubyte.gz", 8)[:batch].astype(numpy.int32)
    inputs.tofile(folder / "inputs.bin")
    targets.tofile(folder / "targets.bin")
    numpy.array([network.learning_rate], numpy.float32).tofile(folder / "learning_rate.bin")


def read_data(name: str, batch: int, folder: pathlib.Path):
    """(inputs, targets) as arrays of the shapes that PyTorch takes."""
    network = NETWORKS[name]
    tokens = network.data == "tokens"
    inputs = numpy.fromfile(folder / "inputs.bin", numpy.int32 if tokens else numpy.float32)
    targets = numpy.fromfile(folder / "targets.bin", numpy.int32)
    return inputs.reshape(batch, *network.input), targets.reshape(batch, CONTEXT) if tokens else targets


def load(name: str, folder: pathlib.Path) -> nn.Module:
    net = NETWORKS[name].make()
    net.load_state_dict(load_file(folder / "weights.safetensors"))
    return net


def flops(name: str, batch: int, training: bool) -> float:
    """Multiplications and additions of products and direct convolutions; no gradient by the network's input."""
    network, total, first = NETWORKS[name], 0.0, True
    tokens = network.data == "tokens"
    net = network.make().eval()

    def count(layer, inputs, output):
        nonlocal total, first
        forward = 2.0 * output.numel() * layer.weight[0].numel()
        total += forward * ((2 if first and not tokens else 3) if training else 1)
        first = False

    for layer in net.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            layer.register_forward_hook(count)
    with torch.inference_mode():
        net(torch.zeros((1, *network.input), dtype=torch.long if tokens else torch.float32))
    for layer in net.modules():
        if isinstance(layer, Attention):  # queries, keys and values; scores and sums, half of them behind the mask
            forward = 2.0 * CONTEXT * 3 * WIDTH * WIDTH + 2.0 * CONTEXT * CONTEXT * WIDTH
            total += forward * (3 if training else 1)
    return total * batch
