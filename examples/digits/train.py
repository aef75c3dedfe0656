"""Train the two digit networks that Aleatron embeds, and write the data set next to them.

    python examples/digits/train.py            # needs aleatron and scikit-learn, takes about ten seconds

Writes `digits.bin`, plain.onnx and noise_aware.onnx into the assets of the crates that embed them, or all into the folder
given with --out; crates/aleatron-data/assets/digits/README.md describes the format of `digits.bin`.
Everything is drawn from --seed. Matrix products differ in the last bits between BLAS builds, so another machine
may end with slightly different weights; the accuracies move by a few tenths of a point at most.

`plain` is an ordinary network: ReLU, no constraint. `noise_aware` learns under the conditions of a stochastic
circuit: weights and activations live in [-1, 1] and are rounded to 8-bit thresholds, and each sum of n products
gets the noise that counting L bits adds to n independent bipolar products, whose variance is at most n / L, with
L drawn from 8, 16 and 32. Gradients pass the rounding straight through.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import aleatron as al

CRATES = Path(__file__).resolve().parents[2] / "crates"
DATA, NETWORKS = (CRATES / name / "assets" / "digits" for name in ("aleatron-data", "aleatron-engine"))
HIDDEN, CLASSES = 64, 10
INPUT_OFFSET, INPUT_SCALE = 8.0, 8.0  # pixels 0..16 become -1..1
NOISE_LENGTHS = (8, 16, 32)


@dataclass
class Data:
    """Pixels as bytes, labels, and which images are for testing."""

    pixels: np.ndarray
    labels: np.ndarray
    is_test: np.ndarray

    def inputs(self, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (self.pixels[test] - INPUT_OFFSET) / INPUT_SCALE, self.labels[test]


def load(seed: int) -> Data:
    digits = load_digits()
    everything = np.arange(len(digits.target))
    _, test = train_test_split(everything, test_size=0.2, stratify=digits.target, random_state=seed)
    is_test = np.zeros(len(everything), dtype=bool)
    is_test[test] = True
    return Data(digits.data.astype(np.uint8), digits.target.astype(np.uint8), is_test)


def write_data(data: Data, path: Path) -> None:
    records = np.column_stack([data.is_test.astype(np.uint8), data.labels, data.pixels])
    path.write_bytes(records.astype(np.uint8).tobytes())


def to_threshold(values: np.ndarray) -> np.ndarray:
    """Bipolar values as an 8-bit comparator sees them."""
    return np.floor((np.clip(values, -1, 1) + 1) * 128 + 0.5) / 128 - 1


def train(x: np.ndarray, y: np.ndarray, seed: int, *, aware: bool, epochs: int = 250) -> dict[str, np.ndarray]:
    """Cross-entropy, Adam with a cosine schedule. Weights are stored as scale * v, where the circuit holds v."""
    rng = np.random.default_rng(seed)
    batch, rate, decay = 64, 3e-3, 1e-4
    params = {
        "v1": rng.uniform(-0.5, 0.5, (HIDDEN, x.shape[1])),
        "v2": rng.uniform(-0.5, 0.5, (CLASSES, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "b2": np.zeros(CLASSES),
        "log_s1": np.log(np.array(1 / 8)),
        "log_s2": np.log(np.array(1 / 2)),
    }
    first = {k: np.zeros_like(p) for k, p in params.items()}
    second = {k: np.zeros_like(p) for k, p in params.items()}
    steps, step = epochs * (len(x) // batch), 0

    def product(inputs: np.ndarray, v: np.ndarray, length: int) -> np.ndarray:
        if not aware:
            return inputs @ v.T
        exact = to_threshold(inputs) @ to_threshold(v).T
        return exact + rng.normal(size=exact.shape) * np.sqrt(inputs.shape[1] / length)

    for _ in range(epochs):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - batch + 1, batch):
            chosen = order[start : start + batch]
            inputs, targets = x[chosen], y[chosen]
            p = params
            s1, s2 = np.exp(p["log_s1"]), np.exp(p["log_s2"])
            length = int(rng.choice(NOISE_LENGTHS))
            sum1 = product(inputs, p["v1"], length)
            z1 = sum1 * s1 + p["b1"]
            hidden = np.clip(z1, -1, 1) if aware else np.maximum(z1, 0)
            sum2 = product(hidden, p["v2"], length)
            z2 = sum2 * s2 + p["b2"]
            z2 -= z2.max(axis=1, keepdims=True)
            d2 = np.exp(z2)
            d2 /= d2.sum(axis=1, keepdims=True)
            d2[np.arange(batch), targets] -= 1
            d2 /= batch
            d1 = d2 @ p["v2"] * s2 * ((np.abs(z1) < 1) if aware else (z1 > 0))
            gradients = {
                "v1": d1.T @ inputs * s1 + decay * p["v1"],
                "v2": d2.T @ hidden * s2 + decay * p["v2"],
                "b1": d1.sum(axis=0),
                "b2": d2.sum(axis=0),
                "log_s1": (d1 * sum1).sum() * s1,
                "log_s2": (d2 * sum2).sum() * s2,
            }
            step += 1
            now = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for key, g in gradients.items():
                first[key] = 0.9 * first[key] + 0.1 * g
                second[key] = 0.999 * second[key] + 0.001 * g * g
                mean = first[key] / (1 - 0.9**step)
                spread = np.sqrt(second[key] / (1 - 0.999**step))
                params[key] = params[key] - now * mean / (spread + 1e-8)
            if aware:
                params["v1"] = np.clip(params["v1"], -1, 1)
                params["v2"] = np.clip(params["v2"], -1, 1)

    return {
        "hidden.weight": np.float32(params["v1"] * np.exp(params["log_s1"])),
        "hidden.bias": np.float32(params["b1"]),
        "output.weight": np.float32(params["v2"] * np.exp(params["log_s2"])),
        "output.bias": np.float32(params["b2"]),
    }


def hidden_values(tensors: dict[str, np.ndarray], x: np.ndarray, *, aware: bool) -> np.ndarray:
    z = x @ tensors["hidden.weight"].T.astype(np.float64) + tensors["hidden.bias"]
    return np.clip(z, -1, 1) if aware else np.maximum(z, 0)


def accuracy(tensors: dict[str, np.ndarray], x: np.ndarray, y: np.ndarray, *, aware: bool) -> float:
    scores = hidden_values(tensors, x, aware=aware) @ tensors["output.weight"].T + tensors["output.bias"]
    return float((scores.argmax(axis=1) == y).mean())


def write_network(name: str, tensors: dict[str, np.ndarray], hidden_scale: float, out: Path, *, aware: bool) -> None:
    def layer(prefix: str, input_scale: float, activation: Any) -> al.Layer:
        weight, bias = tensors[f"{prefix}.weight"], tensors[f"{prefix}.bias"]
        scale = float(np.abs(weight).max())
        return al.Layer(weight, bias, activation, "bipolar", input_scale, scale, prefix)

    hidden = layer("hidden", 1.0, (-1.0, 1.0) if aware else "relu")
    network = al.Network([hidden, layer("output", hidden_scale, "identity")], name, INPUT_OFFSET, INPUT_SCALE)
    network.save(out / f"{name}.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    folder, networks = args.out or DATA, args.out or NETWORKS
    for path in (folder, networks):
        path.mkdir(parents=True, exist_ok=True)

    data = load(args.seed)
    write_data(data, folder / "digits.bin")
    x_train, y_train = data.inputs(~data.is_test)
    x_test, y_test = data.inputs(data.is_test)
    for name, aware in (("plain", False), ("noise_aware", True)):
        tensors = train(x_train, y_train, args.seed, aware=aware)
        hidden_scale = 1.0 if aware else float(hidden_values(tensors, x_train, aware=aware).max())
        write_network(name, tensors, hidden_scale, networks, aware=aware)
        trained = accuracy(tensors, x_train, y_train, aware=aware)
        tested = accuracy(tensors, x_test, y_test, aware=aware)
        print(f"{name:12} float accuracy: {trained:.4f} on the training images, {tested:.4f} on the test images")


if __name__ == "__main__":
    main()
