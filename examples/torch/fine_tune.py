"""Fine-tunes a convolutional network of torch through its own streams, on the embedded digits.

    python examples/torch/fine_tune.py                       three seeds, about a minute on two cores
    python examples/torch/fine_tune.py --length 16 --generator bernoulli

For each seed a network is trained in floating point and converted by `to_streams`, whose calibration sees training images alone. It is then trained
through its streams for a few more epochs. As a control, the network in floating point is trained for the same number of further epochs and converted again.
Test images are used for the table alone. It needs torch.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import aleatron as al
from aleatron.torch import to_streams

BATCH = 64


def images(part: Any) -> tuple[Any, Any]:
    """Returns images of 8 x 8 pixels and their classes."""
    x, y = al.load_digits(part)
    return torch.from_numpy(x).float().reshape(-1, 1, 8, 8), torch.from_numpy(y)


def network() -> Any:
    """Returns a network with two convolutions and a linear layer."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )


def train(model: Any, x: Any, y: Any, epochs: int, rate: float) -> None:
    """Minimizes the cross entropy with Adam; the rate falls along half a cosine."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
        schedule.step()


def accuracy(model: Any, x: Any, y: Any) -> float:
    """Returns the percentage of correct classes."""
    with torch.no_grad():
        return float(100 * (model.eval()(x).argmax(1) == y).double().mean())


def main() -> None:
    """Prints a row for each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--generator", default="sobol")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--tuning", type=int, default=15)
    arguments = parser.parse_args()
    x, y = images("train")
    x_test, y_test = images("test")

    def streams_of(model: Any) -> Any:
        return to_streams(model, length=arguments.length, generator=arguments.generator, calibration=x)

    print(f"{arguments.generator}, {arguments.length} bits; percent of {len(y_test)} test digits")
    print("seed  float  streams before  streams after  control")
    for seed in range(arguments.seeds):
        torch.manual_seed(seed)
        model = network()
        train(model, x, y, arguments.epochs, 5e-3)
        streams = streams_of(model)
        found = [accuracy(model, x_test, y_test), accuracy(streams, x_test, y_test)]
        train(streams, x, y, arguments.tuning, 2e-3)
        found.append(accuracy(streams, x_test, y_test))
        train(model, x, y, arguments.tuning, 2e-3)
        found.append(accuracy(streams_of(model), x_test, y_test))
        print("{:4}  {:5.1f}  {:14.1f}  {:13.1f}  {:7.1f}".format(seed, *found))


if __name__ == "__main__":
    main()
