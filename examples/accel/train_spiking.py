"""Trains a spiking network of two layers on the embedded digits with surrogate gradients.

    python examples/accel/train_spiking.py                         some seconds on two cores
    python examples/accel/train_spiking.py --path legacy_stop_gradient

The pixels drive 128 leaky integrate-and-fire neurons for some steps, whose spikes drive ten more; the class is the one that fires
most. It needs `pip install aleatron[jax]`.
"""

from __future__ import annotations

import argparse
from typing import Any

import aleatron as al
import jax
import jax.numpy as jnp
import numpy as np
from aleatron.accel.jax_backend import JAX_SURROGATE_PATHS, jax_forward_pass, jax_surrogate_gradient_step

HIDDEN, CLASSES, BATCH, STEPS = 128, 10, 64, 12
# The slope of the surrogates. A small one gives gradients to neurons far from their threshold.
BETA = 3.0
# A sigmoid is steeper at the threshold than a fast sigmoid, and its gradients larger.
RATES = {"custom_vjp": 2.0, "legacy_stop_gradient": 0.5}


def digits(part: Any) -> tuple[Any, Any]:
    """Pixels in [0, 1] with a constant one, for a bias, and classes."""
    x, y = al.load_digits(part)
    return np.hstack([x / 16, np.ones((len(x), 1))]).astype(np.float32), y


def train(epochs: int, seed: int = 0, path: str = "custom_vjp") -> list[Any]:
    """Gradient descent with a rate that falls to zero along a cosine; the steps of an epoch are one compiled loop."""
    x, y = (jnp.asarray(part) for part in digits("train"))
    rng = np.random.default_rng(seed)
    # Output weights have a positive mean: neurons that never fire learn slowly.
    first = rng.normal(0, 1 / np.sqrt(x.shape[1]), (HIDDEN, x.shape[1]))
    second = rng.normal(4 / HIDDEN, 1 / np.sqrt(HIDDEN), (CLASSES, HIDDEN))
    weights = [jnp.asarray(w, jnp.float32) for w in (first, second)]
    n_batches = len(x) // BATCH

    @jax.jit
    def epoch(weights: list[Any], batches: Any, lr: Any) -> tuple[list[Any], Any]:
        def step(weights: list[Any], chosen: Any) -> tuple[list[Any], Any]:
            return jax_surrogate_gradient_step(weights, x[chosen], y[chosen], STEPS, lr, BETA, surrogate_path=path)

        return jax.lax.scan(step, weights, batches)  # type: ignore[no-any-return]

    for e in range(epochs):
        batches = rng.permutation(len(x))[: n_batches * BATCH].reshape(n_batches, BATCH)
        lr = RATES[path] * 0.5 * (1 + np.cos(np.pi * e / epochs))
        weights, losses = epoch(weights, batches, np.float32(lr))
        if e % 10 == 9:
            print(f"epoch {e + 1}: loss {float(losses.mean()):.3f}, {accuracy(weights):.2f} % of the test digits right")
    return weights


def accuracy(weights: list[Any]) -> float:
    """The percentage of test digits whose class fires most."""
    x, y = digits("test")
    trains, potentials = jax_forward_pass(weights, x, STEPS)
    # Potentials break ties between classes that fired equally often.
    votes = np.asarray(trains[-1]).sum(axis=0) + 1e-3 * np.asarray(potentials)
    return 100 * float((votes.argmax(axis=1) == y).mean())


def main() -> None:
    """Trains the network and prints its accuracy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--path", choices=JAX_SURROGATE_PATHS, default="custom_vjp")
    arguments = parser.parse_args()
    weights = train(arguments.epochs, arguments.seed, arguments.path)
    print(f"{accuracy(weights):.2f} % of 360 test digits right")


if __name__ == "__main__":
    main()
