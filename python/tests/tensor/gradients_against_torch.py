"""Compares gradients of random programs with those of torch, which must be installed.

    python python/tests/tensor/gradients_against_torch.py [--programs 50] [--operations 20] [--seed 0]

A program applies random operations to four matrices, whose values stay in the range in which every operation is smooth, and sums the results with
random weights. Both libraries compute it in 64-bit floats; gradients must agree within 1e-10 of the largest one. The two operands of an operation are
different values: the gradient of `x / x` is rounding alone, and no two libraries round alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import aleatron.tensor as at

SIZE = 4

# Operations of one matrix: for tensors, and for torch.
UNARY: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("exp", lambda x: at.exp(-x), lambda x: torch.exp(-x)),
    ("log", at.log, torch.log),
    ("sqrt", at.sqrt, torch.sqrt),
    ("sin", lambda x: at.sin(x) + 2, lambda x: torch.sin(x) + 2),
    ("tanh", at.tanh, torch.tanh),
    ("sigmoid", at.sigmoid, torch.sigmoid),
    ("relu", lambda x: at.relu(x - 1) + x, lambda x: torch.relu(x - 1) + x),
    ("gelu", at.gelu, torch.nn.functional.gelu),
    ("silu", at.silu, torch.nn.functional.silu),
    ("softmax", lambda x: at.softmax(x, axis=1) * x, lambda x: torch.softmax(x, 1) * x),
    ("log_softmax", lambda x: at.log_softmax(x, axis=0) + x, lambda x: torch.log_softmax(x, 0) + x),
    ("mean", lambda x: x / at.mean(x, axis=1, keepdims=True), lambda x: x / torch.mean(x, 1, keepdim=True)),
    ("var", lambda x: x + at.var(x, axis=0), lambda x: x + torch.var(x, 0, correction=0)),
    ("max", lambda x: x - at.max(x, axis=1, keepdims=True), lambda x: x - torch.amax(x, 1, keepdim=True)),
    ("prod", lambda x: x + at.prod(x, axis=0) / 8, lambda x: x + torch.prod(x, 0) / 8),
    ("cumsum", lambda x: at.cumulative_sum(x, axis=1) / SIZE, lambda x: torch.cumsum(x, 1) / SIZE),
    ("cumprod", lambda x: at.cumulative_prod(x, axis=0) / 4, lambda x: torch.cumprod(x, 0) / 4),
    ("transpose", lambda x: x.mT, lambda x: x.mT),
    ("flip", lambda x: at.flip(x, axis=0) * x, lambda x: torch.flip(x, [0]) * x),
    ("roll", lambda x: at.roll(x, 1, axis=1) - x, lambda x: torch.roll(x, 1, 1) - x),
    ("slice", lambda x: at.concat([x[:, 1:], x[:, :1]], axis=1), lambda x: torch.cat([x[:, 1:], x[:, :1]], 1)),
    # The factor x separates equal rows, whose order in a sum, and so whose rounding, libraries choose.
    ("step", lambda x: at.repeat(x[::2, :], 2, axis=0) * x, lambda x: torch.repeat_interleave(x[::2, :], 2, 0) * x),
    ("sort", lambda x: at.sort(x, axis=1), lambda x: torch.sort(x, dim=1, stable=True).values),
    ("reshape", lambda x: at.reshape(at.reshape(x, (2, 8)), (4, 4)), lambda x: x.reshape(2, 8).reshape(4, 4)),
    ("diagonal", lambda x: at.tril(x) + x, lambda x: torch.tril(x) + x),
]

# Operations of two matrices.
BINARY: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    ("add", lambda x, y: x + y, lambda x, y: x + y),
    ("subtract", lambda x, y: x - y, lambda x, y: x - y),
    ("multiply", lambda x, y: x * y, lambda x, y: x * y),
    ("divide", lambda x, y: x / y, lambda x, y: x / y),
    ("pow", lambda x, y: x**y, lambda x, y: x**y),
    ("maximum", at.maximum, torch.maximum),
    ("minimum", at.minimum, torch.minimum),
    ("hypot", at.hypot, torch.hypot),
    ("atan2", at.atan2, torch.atan2),
    ("logaddexp", at.logaddexp, torch.logaddexp),
    ("matmul", lambda x, y: x @ y / SIZE, lambda x, y: x @ y / SIZE),
    ("row", lambda x, y: x * y[:1, :], lambda x, y: x * y[:1, :]),
    ("where", lambda x, y: at.where(x > y, x * x, y), lambda x, y: torch.where(x > y, x * x, y)),
]


def bounded(x: Any, library: Any) -> Any:
    """Maps values smoothly to the interval from 0.5 to 2, in which every operation is differentiable."""
    return library.tanh(x / 2) * 0.75 + 1.25


def run(library: Any, column: int, leaves: list[Any], weights: list[Any], steps: list[tuple[int, int, int, int]]) -> Any:
    """Returns the weighted sum of the last values of a program, whose steps name an operation and its arguments.

    Without weights, the gradient of a sum of normalized values, such as those of softmax, would be zero but for rounding.
    """
    values = [bounded(x, library) for x in leaves]
    for kind, number, left, right in steps:
        result = UNARY[number][column](values[left]) if kind == 0 else BINARY[number][column](values[left], values[right])
        values.append(bounded(result, library))
    return sum(library.sum(value * weight) for value, weight in zip(values[-len(weights) :], weights, strict=True))


def compare(seed: int, operations: int) -> float:
    """Returns the largest difference between the gradients of one program, relative to the largest gradient."""
    rng = np.random.default_rng(seed)
    start, weights = ([rng.uniform(-1, 1, (SIZE, SIZE)) for _ in range(4)] for _ in range(2))
    steps: list[tuple[int, int, int, int]] = []
    while len(steps) < operations:
        kind = int(rng.integers(2))
        number = int(rng.integers(len(UNARY if kind == 0 else BINARY)))
        # Recent values are more likely, so that programs are deep.
        left, right = (max(0, 4 + len(steps) - int(rng.geometric(0.5))) for _ in range(2))
        step = (kind, number, left, left if kind == 0 else right)
        # A repeated step would have an equal value.
        if (kind == 0 or left != right) and step not in steps:
            steps.append(step)
    ours = [at.asarray(x).requires_grad_() for x in start]
    theirs = [torch.tensor(x, requires_grad=True) for x in start]
    loss = run(at, 1, ours, [at.asarray(weight) for weight in weights], steps)
    expected = run(torch, 2, theirs, [torch.tensor(weight) for weight in weights], steps)
    # Weighted values are at most 2, and there are 64.
    if not abs(loss.item() - expected.item()) < 64 * 2 * 1e-13:
        raise SystemExit(f"program {seed}: the value is {loss.item()}, torch has {expected.item()}\n{names(steps)}")
    loss.backward()
    expected.backward()
    worst, largest = 0.0, 1e-30
    for own, other in zip(ours, theirs, strict=True):
        if (own.grad is None) != (other.grad is None):
            raise SystemExit(f"program {seed}: one library has no gradient\n{names(steps)}")
        if own.grad is not None and other.grad is not None:
            worst = max(worst, float(np.abs(own.grad.numpy() - other.grad.numpy()).max()))
            largest = max(largest, float(other.grad.abs().max()))
    return worst / largest


def names(steps: list[tuple[int, int, int, int]]) -> str:
    """Returns the operations of a program."""
    return ", ".join((UNARY if kind == 0 else BINARY)[number][0] for kind, number, _, _ in steps)


def main() -> None:
    """Compares programs and ends with status 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=50)
    parser.add_argument("--operations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    worst = 0.0
    for seed in range(arguments.seed, arguments.seed + arguments.programs):
        difference = compare(seed, arguments.operations)
        if not difference < 1e-10:
            print(f"program {seed}: gradients differ by {difference:e} of the largest", file=sys.stderr)
            sys.exit(1)
        worst = max(worst, difference)
    print(f"{arguments.programs} programs of {arguments.operations} operations: gradients agree within {worst:.1e}")


if __name__ == "__main__":
    main()
