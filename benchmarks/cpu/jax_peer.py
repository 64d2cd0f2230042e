"""JAX' side: jax_peer.py NETWORK (train|infer) BATCH FOLDER, jitted, the parameters donated to the step."""
import os
import pathlib
import sys

THREADS = int(os.environ["BENCH_THREADS"])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-THREADS:])  # XLA takes as many threads as it sees processors
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from safetensors.numpy import load_file

import networks
from serve import serve

NAME, KIND, BATCH, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])


def dense(x, parameters, layer):
    return x @ parameters[f"{layer}.weight"].T + parameters[f"{layer}.bias"]


def convolution(x, parameters, layer, padding):
    y = jax.lax.conv_general_dilated(x, parameters[f"{layer}.weight"], (1, 1), [(padding, padding)] * 2,
                                     dimension_numbers=("NCHW", "OIHW", "NCHW"))
    return y + parameters[f"{layer}.bias"][:, None, None]


def pool(x):
    batch, channels, height, width = x.shape
    return x.reshape(batch, channels, height // 2, 2, width // 2, 2).mean((3, 5))


def chain(x, parameters, *layers):
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(x, parameters, layer))
    return dense(x, parameters, layers[-1])


def lenet(parameters, x):
    x = pool(jax.nn.relu(convolution(x, parameters, 0, 2)))
    x = pool(jax.nn.relu(convolution(x, parameters, 3, 0)))
    return chain(x.reshape(x.shape[0], -1), parameters, 7, 9, 11)


FORWARD = {
    "MLP 784-256-10": lambda parameters, x: chain(x, parameters, 0, 2),
    "MLP 32-64-64-10": lambda parameters, x: chain(x, parameters, 0, 2, 4),
    "LeNet": lenet,
}


def make():
    inputs, targets = (jnp.asarray(part) for part in networks.read_data(NAME, BATCH, FOLDER))
    weights = load_file(FOLDER / "weights.safetensors")
    forward = FORWARD[NAME]
    if KIND == "infer":
        run = jax.jit(forward)
        parameters = {key: jnp.asarray(value) for key, value in weights.items()}
        call = lambda: run(parameters, inputs).block_until_ready()
        return lambda: call().flatten()[:640].tolist(), call

    def loss_of(parameters, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(forward(parameters, x)), y[:, None], 1).mean()

    def update(parameters, x, y, rate):
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, y)
        return jax.tree.map(lambda p, g: p - rate * g, parameters, gradients), loss

    run = jax.jit(update, donate_argnums=0)
    state = {"rate": jnp.float32(networks.NETWORKS[NAME].learning_rate),
             "parameters": {key: jnp.asarray(value) for key, value in weights.items()}}

    def step():
        state["parameters"], loss = run(state["parameters"], inputs, targets, state["rate"])
        return loss.block_until_ready()

    def check():
        losses = [float(step()) for _ in range(3)]
        state["rate"] = state["rate"] * 1e-3  # timing is not to wear the batch out
        return losses

    return check, step


if __name__ == "__main__":
    serve({"jax": make})
