"""The networks in JAX, FORWARD[name](parameters, x, statistics), laid out as XLA's CPU backend is fastest: images and
weights with the channels last, weights of linear layers by inputs, tokens of all samples in one matrix.

`statistics` takes the running statistics of batch norms after a training step; it is None for inference."""
import jax
import jax.numpy as jnp
import numpy

import networks


def laid_out(name: str, weight: numpy.ndarray) -> numpy.ndarray:
    """A parameter of PyTorch's as the functions below take it."""
    if weight.ndim == 4:
        return weight.transpose(2, 3, 1, 0)
    return weight.T if weight.ndim == 2 and name.endswith("weight") and name != "tokens.weight" else weight


def dense(p, x, layer):
    return x @ p[f"{layer}.weight"] + p[f"{layer}.bias"]


def convolution(p, x, layer, padding, stride=1):
    y = jax.lax.conv_general_dilated(x, p[f"{layer}.weight"], (stride, stride), [(padding, padding)] * 2,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + p[f"{layer}.bias"]


def pool(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).mean((2, 4))


def batch_norm(p, x, layer, statistics):
    names = f"{layer}.running_mean", f"{layer}.running_var"
    mean, variance = p[names[0]], p[names[1]]
    if statistics is not None:
        wide = x.astype(jnp.float32)
        now, count = (wide.mean((0, 1, 2)), wide.var((0, 1, 2))), x.size // x.shape[-1]
        statistics[names[0]] = 0.9 * mean + 0.1 * now[0]
        statistics[names[1]] = 0.9 * variance + 0.1 * now[1] * (count / (count - 1))
        mean, variance = now
    scale = p[f"{layer}.weight"] / jnp.sqrt(variance + 1e-5)
    return x * scale.astype(x.dtype) + (p[f"{layer}.bias"] - mean * scale).astype(x.dtype)


def layer_norm(p, x, layer):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / jnp.sqrt(variance + 1e-5) * p[f"{layer}.weight"] + p[f"{layer}.bias"]


def chain(p, x, *layers):
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(p, x, layer))
    return dense(p, x, layers[-1])


def lenet(p, x, statistics):
    x = pool(jax.nn.relu(convolution(p, x, 0, 2)))
    x = pool(jax.nn.relu(convolution(p, x, 3, 0)))
    return chain(p, x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1), 7, 9, 11)


def residual_unit(p, x, unit, statistics, stride):
    y = jax.nn.relu(batch_norm(p, convolution(p, x, f"{unit}.conv1", 1, stride), f"{unit}.bn1", statistics))
    y = batch_norm(p, convolution(p, y, f"{unit}.conv2", 1), f"{unit}.bn2", statistics)
    return jax.nn.relu(y + (convolution(p, x, f"{unit}.conv3", 0, stride) if f"{unit}.conv3.weight" in p else x))


def resnet18(p, x, statistics):
    x = jax.nn.relu(batch_norm(p, convolution(p, x, "0.0", 1), "0.1", statistics))
    for stage in range(1, 5):
        x = residual_unit(p, x, f"{stage}.0", statistics, 1 if stage == 1 else 2)
        x = residual_unit(p, x, f"{stage}.1", statistics, 1)
    return dense(p, x.mean((1, 2)), 7)


def norms(p, x, statistics):
    for layer in (0, 2):
        x = jax.nn.relu(batch_norm(p, x, layer, statistics))
    return dense(p, x.mean((1, 2)), 6)


def attention(p, x, prefix=""):
    """x: (batch * CONTEXT, WIDTH)"""
    joined = x @ p[f"{prefix}in_proj_weight"] + p[f"{prefix}in_proj_bias"]
    q, k, v = (part.reshape(-1, networks.CONTEXT, networks.HEADS, networks.WIDTH // networks.HEADS)
               for part in jnp.split(joined, 3, -1))
    return dense(p, jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape), f"{prefix}out_proj")


def gpt(p, tokens, statistics):
    x = (p["tokens.weight"][tokens] + p["positions"]).reshape(-1, networks.WIDTH)
    for layer in range(networks.LAYERS):
        block = f"blocks.{layer}"
        x = x + attention(p, layer_norm(p, x, f"{block}.ln_1"), f"{block}.attn.")
        y = jax.nn.gelu(dense(p, layer_norm(p, x, f"{block}.ln_2"), f"{block}.mlp.0"), approximate=False)
        x = x + dense(p, y, f"{block}.mlp.2")
    return layer_norm(p, x, "norm") @ p["head.weight"]


FORWARD = {
    "MLP 784-256-10": lambda p, x, statistics: chain(p, x, 0, 2),
    "LeNet": lenet,
    "ResNet-18": resnet18,
    "MLP 32-64-64-10": lambda p, x, statistics: chain(p, x, 0, 2, 4),
    "GPT": gpt,
    "two batch norms with ReLU": norms,
    "softmax of 1000": lambda p, x, statistics: jax.nn.softmax(x),
    "attention 128x128, 4 heads": lambda p, x, statistics: attention(p, x.reshape(-1, networks.WIDTH)),
    "AdamW on a layer 4096-1024": lambda p, x, statistics: dense(p, x, 0),
}
