"""Networks are trained in JAX: spiking ones with both surrogates, and dense ones through real streams."""

from __future__ import annotations

import importlib.util
import pathlib
from typing import Any

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "accel"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", ["custom_vjp", "legacy_stop_gradient"])
def test_a_spiking_network_learns_the_digits(path: str) -> None:
    spiking = example("train_spiking")
    # Five seeds gave 93.3 to 95.0 % after 20 epochs.
    weights = spiking.train(20, seed=0, path=path)
    assert [w.shape for w in weights] == [(128, 65), (10, 128)]
    assert spiking.accuracy(weights) > 90


def test_training_through_streams_improves_accuracy_at_their_length() -> None:
    # Ten seeds gave 6.7 points, the worst 5.2, after more epochs: see docs/python/accel.md.
    found = example("train_through_streams").compare(n_seeds=2, length=16, epochs=25)
    streams, floats = found["streams, evaluated at 16 bits"], found["floats, evaluated at 16 bits"]
    assert all(a > b + 2 for a, b in zip(streams, floats))
    assert min(streams) > 88 and min(found["floats, evaluated in floats"]) > 94
