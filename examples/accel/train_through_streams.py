"""Trains one network twice, in floats and through streams of 16 bits, and evaluates both at 16 bits.

    python examples/accel/train_through_streams.py                 ten seeds, half a minute on two cores
    python examples/accel/train_through_streams.py --seeds 3 --length 32

Both networks have 64 inputs, 64 hidden neurons whose values are limited to [-1, 1], and 10 outputs, with the same initial weights,
batches and optimiser. One computes its products in floats, the other with `jax_dense`: bipolar streams with new bits in every
step, and straight-through gradients. The engine then runs both on the test digits with Bernoulli streams of the given length.
It needs `pip install aleatron[jax]`.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

import aleatron as al
import jax
import jax.numpy as jnp
import numpy as np
from aleatron.accel.jax_backend import jax_dense

HIDDEN, CLASSES, BATCH = 64, 10, 64
RATE = 4e-3
# Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom.
STUDENT = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
)  # fmt: skip


class Params(NamedTuple):
    """Weights as the circuit holds them, in [-1, 1], with a scale and biases in binary."""

    v1: Any
    log_s1: Any
    b1: Any
    v2: Any
    log_s2: Any
    b2: Any


def first_params(key: Any, n_inputs: int) -> Params:
    """The same for both networks of a seed."""
    one, two = jax.random.split(key)
    return Params(
        jax.random.uniform(one, (HIDDEN, n_inputs), minval=-0.5, maxval=0.5),
        jnp.log(1 / 8),
        jnp.zeros(HIDDEN),
        jax.random.uniform(two, (CLASSES, HIDDEN), minval=-0.5, maxval=0.5),
        jnp.log(1 / 2),
        jnp.zeros(CLASSES),
    )


def scores(params: Params, x: Any, length: int, seed: Any) -> Any:
    """The outputs: products in floats for length 0, otherwise through streams of that many bits."""

    def product(values: Any, weights: Any, layer: int) -> Any:
        if length == 0:
            return values @ weights.T
        # New bits for the weights too, else the network would fit one fixed set of streams.
        return jax_dense(values, weights, length, seed, seed, polarity="bipolar", layer=layer)

    hidden = jnp.clip(jnp.exp(params.log_s1) * product(x, params.v1, 0) + params.b1, -1, 1)
    return jnp.exp(params.log_s2) * product(hidden, params.v2, 1) + params.b2


def train(x: Any, y: Any, seed: Any, *, length: int, epochs: int) -> Params:
    """Cross-entropy, Adam, a rate that falls to zero along a cosine; one compiled loop over all steps."""
    steps_per_epoch = len(x) // BATCH
    steps = epochs * steps_per_epoch
    key = jax.random.key(seed)
    params = first_params(jax.random.fold_in(key, 0), x.shape[1])
    orders = jax.vmap(lambda e: jax.random.permutation(jax.random.fold_in(key, 1 + e), len(x)))(jnp.arange(epochs))
    batches = orders[:, : steps_per_epoch * BATCH].reshape(steps, BATCH)

    def loss(params: Params, chosen: Any, bits: Any) -> Any:
        logs = jax.nn.log_softmax(scores(params, x[chosen], length, bits))
        return -logs[jnp.arange(BATCH), y[chosen]].mean()

    def step(state: Any, now: Any) -> Any:
        params, mean, square = state
        t, chosen = now
        # The 64-bit seed of the streams: the step in the low word, the run in the high one.
        bits = jnp.stack([t.astype(jnp.uint32), jnp.asarray(seed).astype(jnp.uint32)])
        gradient = jax.grad(loss)(params, chosen, bits)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, gradient)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * t / steps))

        def moved(p: Any, m: Any, s: Any) -> Any:
            return p - rate * (m / (1 - 0.9 ** (t + 1))) / (jnp.sqrt(s / (1 - 0.999 ** (t + 1))) + 1e-8)

        params = jax.tree.map(moved, params, mean, square)
        params = params._replace(v1=jnp.clip(params.v1, -1, 1), v2=jnp.clip(params.v2, -1, 1))
        return (params, mean, square), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    (params, _, _), _ = jax.lax.scan(step, (params, zeros, zeros), (jnp.arange(steps, dtype=jnp.float32), batches))
    return params


def network(params: Params) -> al.Network:
    """The network as the engine runs it."""
    values = [np.asarray(p, np.float64) for p in params]
    v1, s1, b1, v2, s2, b2 = values[0], math.exp(values[1]), values[2], values[3], math.exp(values[4]), values[5]
    layers = [al.Layer(s1 * v1, b1, activation=(-1.0, 1.0)), al.Layer(s2 * v2, b2)]
    return al.Network(layers, offset=8.0, scale=8.0)


def accuracy(net: al.Network, length: int, n_seeds: int) -> float:
    """The share of test digits that are right: through streams, over some seeds of them, or in floats for length 0."""
    x, y = al.load_digits("test")
    if length == 0:
        return float((net(x).argmax(axis=1) == y).mean())
    runs = [net.forward_streams(x, length, "bernoulli", seed).argmax(axis=1) == y for seed in range(n_seeds)]
    return float(np.mean(runs))


def compare(n_seeds: int, length: int, epochs: int, stream_seeds: int = 5) -> dict[str, list[float]]:
    """Accuracies in percent of both networks at `length` bits and in floats, a number for each training seed."""
    x, y = al.load_digits("train")
    features, classes = jnp.asarray((x - 8) / 8, jnp.float32), jnp.asarray(y)
    found: dict[str, list[float]] = {}
    for name, bits in (("floats", 0), ("streams", length)):
        # All seeds in one vmap.
        run = jax.jit(jax.vmap(lambda seed: train(features, classes, seed, length=bits, epochs=epochs)))
        stacked = run(jnp.arange(n_seeds))
        nets = [network(Params(*(p[i] for p in stacked))) for i in range(n_seeds)]
        found[f"{name}, evaluated at {length} bits"] = [100 * accuracy(net, length, stream_seeds) for net in nets]
        found[f"{name}, evaluated in floats"] = [100 * accuracy(net, 0, 1) for net in nets]
    return found


def interval(values: list[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % confidence interval."""
    n = len(values)
    half = STUDENT[min(n - 1, len(STUDENT)) - 1] * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return float(np.mean(values)), half


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="training seeds")
    parser.add_argument("--length", type=int, default=16, help="bits per stream, in training and evaluation")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    found = compare(arguments.seeds, arguments.length, arguments.epochs)
    print(f"{arguments.seeds} seeds, {arguments.epochs} epochs; % of 360 test digits right, mean and 95 % interval\n")
    for name, values in found.items():
        mean, half = interval(values)
        print(f"trained in {name:32} {mean:6.2f} +- {half:.2f}   worst {min(values):.2f}")
    bits = arguments.length
    gains = [a - b for a, b in zip(found[f"streams, evaluated at {bits} bits"], found[f"floats, evaluated at {bits} bits"])]
    mean, half = interval(gains)
    print(f"\ngained at {bits} bits, seed by seed: {mean:.2f} +- {half:.2f} points, at least {min(gains):.2f}")


if __name__ == "__main__":
    main()
