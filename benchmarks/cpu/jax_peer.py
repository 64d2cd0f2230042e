"""JAX' side: jax_peer.py NETWORK (train|infer) BATCH FOLDER, jitted, what a step changes donated to it; the cases are
jax and jax bf16."""
import os
import pathlib
import sys

THREADS = int(os.environ["BENCH_THREADS"])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])  # XLA takes as many threads as it sees processors
os.environ["JAX_PLATFORMS"] = "cpu"
# Neither is XLA's default; together they halve the time of ResNet-18's inference at batch 1.
os.environ["XLA_FLAGS"] = ("--xla_cpu_experimental_ynn_fusion_type=individual_convolution "
                           "--xla_cpu_prefer_vector_width=512")

import jax
import jax.numpy as jnp
from safetensors.numpy import load_file

import networks
from jax_networks import FORWARD, laid_out
from serve import serve

NAME, KIND, BATCH, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])
NETWORK = networks.NETWORKS[NAME]


def prepared():
    """(parameters, running statistics, inputs, targets)"""
    inputs, targets = networks.read_data(NAME, BATCH, FOLDER)
    inputs = inputs.transpose(0, 2, 3, 1) if inputs.ndim == 4 else inputs
    parameters, statistics = {}, {}
    for key, value in load_file(FOLDER / "weights.safetensors").items():
        if not key.endswith("num_batches_tracked"):
            (statistics if "running" in key else parameters)[key] = jnp.array(laid_out(key, value))
    return parameters, statistics, jnp.array(inputs), jnp.array(targets.ravel())


def narrow(tree):
    return jax.tree.map(lambda x: x.astype(jnp.bfloat16) if x.dtype == jnp.float32 else x, tree)


def infer(bfloat16: bool):
    parameters, statistics, inputs, _ = prepared()
    given = {**parameters, **statistics}, inputs
    given = narrow(given) if bfloat16 else given
    run = jax.jit(lambda p, x: FORWARD[NAME](p, x, None))
    call = lambda: run(*given).block_until_ready()
    return lambda: call().flatten()[:640].astype(jnp.float32).tolist(), call


def sgd(state, parameters, gradients, rate):
    return state, jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)


def adamw(state, parameters, gradients, rate):
    """With PyTorch's default settings."""
    count, means, squares = state
    count = count + 1
    means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, gradients)
    factor, scale = rate / (1 - 0.9 ** count), jax.lax.rsqrt(1 - 0.999 ** count)
    parameters = jax.tree.map(lambda p, m, v: p * (1 - 0.01 * rate) - factor * m / (jnp.sqrt(v) * scale + 1e-8),
                              parameters, means, squares)
    return (count, means, squares), parameters


def train(bfloat16: bool):
    parameters, statistics, inputs, targets = prepared()
    optimize, moments = sgd, ()
    if NETWORK.optimizer == "adamw":
        optimize, zeros = adamw, lambda: jax.tree.map(jnp.zeros_like, parameters)
        moments = jnp.float32(0), zeros(), zeros()

    def loss_of(p, statistics, x, y):
        new = {}
        p, x = narrow((p, x)) if bfloat16 else (p, x)
        scores = jax.nn.log_softmax(FORWARD[NAME]({**p, **statistics}, x, new).astype(jnp.float32))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean(), new

    def update(state, x, y, rate):
        moments, p, statistics = state
        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(p, statistics, x, y)
        return (*optimize(moments, p, gradients, rate), statistics), loss

    run = jax.jit(update, donate_argnums=0)
    held = {"state": (moments, parameters, statistics), "rate": jnp.float32(NETWORK.learning_rate)}

    def step():
        held["state"], loss = run(held["state"], inputs, targets, held["rate"])
        return loss.block_until_ready()

    def check():
        losses = [float(step()) for _ in range(3)]
        held["rate"] = held["rate"] * 1e-3  # timing is not to wear the batch out
        return losses

    return check, step


if __name__ == "__main__":
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # handing a call to another thread takes its time
    make = train if KIND == "train" else infer
    serve({"jax": lambda: make(False), "jax bf16": lambda: make(True)})
