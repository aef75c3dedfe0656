"""Training epochs of LeNet-5 in floating point: `al.train` and torch, in turns.

    python benchmarks/torch_training.py [--threads 2] [--rounds 3] [--images 8000]

Both train the same network (ReLU, average pools, no biases) on the same random images of 28 x 28 pixels with Adam and batches of 64. Losses of
both must be finite and fall. The time of an epoch is half the difference between a training of four epochs and one of two, so that
preparation does not count; the shortest time of each counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import numpy.typing as npt
import torch

import aleatron as al

BATCH, RATE = 64, 2e-3


def lenet5() -> torch.nn.Sequential:
    """Returns LeNet-5 with random weights."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 6, 5, padding=2, bias=False),
        torch.nn.ReLU(),
        torch.nn.AvgPool2d(2),
        torch.nn.Conv2d(6, 16, 5, bias=False),
        torch.nn.ReLU(),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(400, 120, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(120, 84, bias=False),
        torch.nn.ReLU(),
        torch.nn.Linear(84, 10, bias=False),
    )


def train_torch(model: torch.nn.Sequential, x: torch.Tensor, y: torch.Tensor, epochs: int) -> list[float]:
    """Trains with torch; returns the mean loss of each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), RATE)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[index]), y[index])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(index)
        losses.append(total / len(x))
    return losses


def train_aleatron(network: al.Network, x: npt.NDArray[np.float32], y: npt.NDArray[np.int64], epochs: int) -> list[float]:
    """Trains with aleatron; returns the mean loss of each epoch."""
    trained = al.train(network, x, y, through="float", epochs=epochs, batch=BATCH, rate=RATE, validation=0.0)
    return [epoch.loss for epoch in trained.history]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=8000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    al.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, options.images)
    # Classes differ in their mean image, so that a network can learn them.
    x = np.clip(rng.random((10, 1, 28, 28))[y] + 0.3 * rng.standard_normal((options.images, 1, 28, 28)), 0, 1).astype(np.float32)
    torch.manual_seed(0)
    model = lenet5()
    network = al.Network.from_torch(model, x[:16])
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    shortest = {(name, epochs): float("inf") for name in ["aleatron", "torch"] for epochs in [2, 4]}
    for _ in range(options.rounds):
        for name, epochs in shortest:
            torch.manual_seed(0)
            copy = lenet5()
            start = time.perf_counter()
            losses = train_aleatron(network, x, y, epochs) if name == "aleatron" else train_torch(copy, *tensors, epochs)
            seconds = time.perf_counter() - start
            assert np.isfinite(losses).all() and losses[-1] < losses[0], f"{name}: losses {losses} do not fall"
            shortest[name, epochs] = min(shortest[name, epochs], seconds)
    best = {name: (shortest[name, 4] - shortest[name, 2]) / 2 for name in ["aleatron", "torch"]}
    for name, second in best.items():
        print(f"{name:<10} {second:.3f} s an epoch of {options.images} images on {options.threads} threads")
    print(f"ratio      {best['aleatron'] / best['torch']:.2f} of torch's time")


if __name__ == "__main__":
    main()
