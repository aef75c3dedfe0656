"""One set of cases through every backend, compared with `==`."""

from __future__ import annotations

import os
import re
import sys
import types
from typing import Any

import aleatron as al
import numpy as np
import pytest
from aleatron import accel
from aleatron.accel import numpy_streams as ns

# Installed by continuous integration: these must run, a missing one is a failure.
INSTALLED = ["numpy", "rust", "numba", "jax"] + ["gpu"] * bool(os.environ.get("SC_GPU_ADAPTER"))

# n_inputs, n_neurons, length, samples (0: one sample without an axis), seed.
CASES = [
    (1, 1, 1, 0, 0),
    (3, 2, 64, 0, 44257),
    (5, 7, 65, 3, 2**32),
    (16, 4, 100, 0, 2**64 - 1),
    (33, 7, 1000, 6, 2),
    (130, 40, 256, 2, 7),
]


def case_of(n_inputs: int, n_neurons: int, length: int, samples: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([n_inputs, n_neurons, length])
    x = rng.random((samples, n_inputs) if samples else n_inputs)
    x.flat[:: 3 + n_inputs // 2] = rng.choice([0.0, 1.0, 2.0**-33, 1 - 2.0**-33])
    return ns.encode(rng.random((n_neurons, n_inputs)), length, seed=99, domain=ns.Domain.WEIGHT), x


def plain(weights: Any, x: Any, length: int, seed: int) -> Any:
    """The forward pass in bits of the engine, one at a time."""
    bits = al.unpack(al.encode(x, length, seed), length).astype(int)
    products = al.unpack(weights, length)[None] & np.atleast_3d(bits.reshape(-1, *bits.shape[-2:]))[:, None]
    return (products.sum(axis=(-2, -1)) / length).reshape(*x.shape[:-1], len(weights))


@pytest.mark.parametrize("name", accel.PRIORITY)
def test_forward(name: str, with_cupy: types.ModuleType) -> None:
    if name not in INSTALLED and name != "cupy" and not accel.available_backends()[name]:
        with pytest.raises(RuntimeError, match=f"the backend '{name}' cannot run here: .+"):
            accel.get_backend(name)
        return
    backend = accel.get_backend(name)
    assert backend.name == name
    for case in CASES:
        weights, x = case_of(*case)
        length, seed = case[2], case[4]
        y = backend.sc_forward(weights, x, length=length, seed=seed)
        assert y.dtype == np.float64
        assert np.array_equal(y, plain(weights, x, length, seed)), case
        assert np.array_equal(y, accel.sc_forward(weights, x, length=length, seed=seed, backend=backend))
    weights, x = case_of(*CASES[1])
    assert backend.sc_forward(weights, np.zeros((0, 3)), length=64).shape == (0, 2)
    assert np.array_equal(
        backend.sc_forward(np.asfortranarray(weights), np.stack([x, x], axis=1).T[::-1], length=64),
        backend.sc_forward(weights.tolist(), [x.tolist()] * 2, length=64),
    )


@pytest.mark.parametrize("name", ["rust", *INSTALLED[4:]])
def test_chunked_products_equal_whole_products(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["aleatron.accel.backend"]
    weights, x = case_of(*CASES[4])
    whole = accel.get_backend(name).sc_forward(weights, x, length=1000)
    for block in [1, 3 * weights[0].size + 5]:
        monkeypatch.setattr(module, "PRODUCT_BLOCK", block)
        monkeypatch.setattr(module, "DEVICE_BLOCK", block)
        assert np.array_equal(accel.get_backend(name).sc_forward(weights, x, length=1000), whole)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input_probs": [0.5, np.nan, 0.5]}, "input_probs at index 1 is nan, not in [0, 1]"),
    ({"input_probs": [[0.5, 0.5, 0.5], [0.5, 0.5, -1]]}, "input_probs at index (1, 2) is -1.0, not in [0, 1]"),
    ({"input_probs": [0.5, 0.5, np.inf]}, "input_probs at index 2 is inf"),
    ({"input_probs": [0.5, 0.5]}, "input_probs has shape (2,); expected (3,) for a sample or (N, 3) for a batch"),
    ({"input_probs": 0.5}, "input_probs has shape ()"),
    ({"input_probs": np.zeros((1, 1, 3))}, "input_probs has shape (1, 1, 3)"),
    ({"weights_packed": np.zeros((2, 3, 2), np.uint64)}, "weights_packed has shape (2, 3, 2); streams of 60 bits"),
    ({"weights_packed": np.zeros((3, 1), np.uint64)}, "weights_packed has shape (3, 1); expected (n_neurons"),
    ({"weights_packed": np.zeros((0, 3, 1), np.uint64)}, "weights_packed has shape (0, 3, 1)"),
    ({"weights_packed": np.zeros((2, 0, 1), np.uint64)}, "weights_packed has shape (2, 0, 1)"),
    (
        {"weights_packed": [[[0], [0], [0]], [[0], [2**60], [0]]]},
        "the stream at index (1, 1) has ones past its length of 60",
    ),
    ({"weights_packed": [[[0], [-1], [0]]]}, "weights_packed at index (0, 1, 0) is -1, not in [0, "),
    ({"length": 0}, "length is 0, not in [1, 17179869184]"),
    ({"length": 2**34 + 1}, "length is 17179869185"),
    ({"seed": -1}, "seed is -1, not in [0, 2**64)"),
    ({"seed": 2**64}, "seed is 18446744073709551616"),
]


@pytest.mark.parametrize("name", ["numpy", "rust", "jax", "numba"])
@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_input(name: str, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "weights_packed": np.zeros((2, 3, 1), np.uint64),
        "input_probs": [0.5] * 3,
        "length": 60,
        **change,
    }
    backend = accel.get_backend(name)
    with pytest.raises(ValueError, match=re.escape(message)):
        backend.sc_forward(**arguments)


def test_wrong_types() -> None:
    for change in [
        {"weights_packed": np.zeros((2, 3, 1))},
        {"input_probs": ["a"] * 3},
        {"length": 60.0},
        {"seed": 1.5},
    ]:
        arguments: dict[str, Any] = {
            "weights_packed": np.zeros((2, 3, 1), np.uint64),
            "input_probs": [0.5] * 3,
            "length": 60,
        }
        with pytest.raises(TypeError):
            accel.get_backend("numpy").sc_forward(**{**arguments, **change})


def test_choice() -> None:
    found = accel.available_backends()
    assert tuple(found) == accel.PRIORITY and found["numpy"] is True
    assert [name for name in INSTALLED if not found[name]] == []
    assert accel.get_backend().name == next(name for name in accel.PRIORITY if found[name]) == "rust"
    with pytest.raises(ValueError, match="there is no backend 'mojo'; the backends are auto, rust, "):
        accel.get_backend("mojo")
    with pytest.raises(ValueError, match="there is no backend ''"):
        accel.sc_forward([[[1]]], [0.5], length=64, backend="")
    assert isinstance(accel.get_backend("numpy"), accel.NumpyBackend)
    assert issubclass(accel.RustBackend, accel.Backend) and issubclass(accel.GpuBackend, accel.Backend)
    with pytest.raises(TypeError, match="abstract"):
        accel.Backend()  # type: ignore[abstract]


def test_unknown_device_is_an_error() -> None:
    # The engine's own message says which devices it has.
    if not accel.available_backends()["cuda"]:
        with pytest.raises(RuntimeError, match="the backend 'cuda' cannot run here: .*(cuda|CUDA)"):
            accel.get_backend("cuda")


ENCODERS = ["numpy", "engine", "jax", "numba", "cupy"]


def encoded(name: str, cupy: types.ModuleType, *arguments: Any, **options: Any) -> Any:
    from aleatron.accel import jax_backend, jit_kernels

    if name == "engine":
        return al.encode(*arguments, **options)
    if name == "jax":
        return jax_backend.to_host(jax_backend.jax_encode(*arguments, **options))
    if name == "numba":
        return jit_kernels.jit_encode(*arguments, **options)
    if name == "cupy":
        return cupy.to_host(cupy.gpu_encode(*arguments, **options))
    return ns.encode(*arguments, **options)


@pytest.mark.parametrize("polarity", ["unipolar", "bipolar"])
@pytest.mark.parametrize("name", ENCODERS)
def test_encode(name: str, polarity: Any, cupy_module: types.ModuleType) -> None:
    rng = np.random.default_rng(3)
    low = 0.0 if polarity == "unipolar" else -1.0
    ends = np.array([low, 1.0, np.nextafter(low, 1), np.nextafter(1, 0), low + 2.0**-33, 0.5, 0.499999999])
    for shape, length, seed in [((), 1, 0), ((7,), 31, 1), ((7,), 64, 2**64 - 1), ((2, 3, 4), 65, 5), ((2, 0), 9, 5)]:
        p = ends if shape == (7,) else rng.uniform(low, 1, shape)
        expected = al.encode(p, length, seed, polarity=polarity)
        found = encoded(name, cupy_module, p, length, seed, polarity=polarity)
        assert found.dtype == np.uint64 and found.shape == expected.shape
        assert np.array_equal(found, expected), (shape, length)
    for wrong, place in [
        ([0.5, 2.0], "at index 1 is 2"),
        ([[0.5], [np.nan]], r"at index \(1, 0\) is nan"),
        (-7, "is -7"),
    ]:
        with pytest.raises(ValueError, match=f"probability {place}.*, not in "):
            encoded(name, cupy_module, wrong, 64, polarity=polarity)


@pytest.mark.parametrize("name", ["numba", "jax", "cupy"])
def test_addresses(name: str, cupy_module: types.ModuleType) -> None:
    p = np.random.default_rng(4).random((3, 5))
    options: dict[str, Any] = {"domain": ns.Domain.NOISE, "layer": 2**28 - 1, "first_row": 2**32 - 3}
    expected = ns.encode(p, 70, 9, **options)
    assert np.array_equal(encoded(name, cupy_module, p, 70, 9, **options), expected)
    for change in [{"first_row": 2**32 - 2}, {"layer": 2**28}, {"first_row": -1}]:
        with pytest.raises(ValueError, match="not in"):
            encoded(name, cupy_module, p, 70, 9, **{**options, **change})
