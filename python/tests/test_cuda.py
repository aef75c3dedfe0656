"""Layers on CUDA devices. Machines without one have the emulated driver of aleatron-cuda's tests, whose card is the CPU."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import aleatron as al


def test_missing_cuda_is_explained() -> None:
    if any(gpu.device.startswith("cuda:") for gpu in al.gpus()):
        assert al.DenseLayer(2, 2, device="cuda").device_for() == "cuda:0"
        return
    for device in ["cuda", "cuda:1"]:
        with pytest.raises(RuntimeError, match="(?i)cuda"):
            al.DenseLayer(2, 2, device=device)


def test_names() -> None:
    for device in ["cuda:", "cuda:-1", "cuda:x", "cuda 0"]:
        with pytest.raises(ValueError, match="cuda, cuda:1"):
            al.DenseLayer(2, 2, device=device)


def test_out_is_for_cards() -> None:
    layer = al.DenseLayer(2, 3, device="cpu")
    with pytest.raises(TypeError, match="out is for layers on a CUDA device"):
        layer([0.5, 0.5], out=np.zeros(3))  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="out is for layers on a CUDA device"):
        layer.counts([0.5, 0.5], out=np.zeros(3, np.uint64))  # type: ignore[call-overload]


SCRIPT = """
import ctypes
import numpy as np
import pytest
import aleatron as al


class OnCard:
    "An array on the emulated card, for libraries with the protocol of Numba and CuPy."

    def __init__(self, values, **changes):
        self.memory = al.CudaArray(0, values.shape, "float64")
        address = self.memory.__cuda_array_interface__["data"][0]
        # The card's memory is the host's.
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
        facts = self.memory.__cuda_array_interface__
        self.__cuda_array_interface__ = {**facts, "typestr": values.dtype.str, **changes}


rng = np.random.default_rng(1)
weights, x = rng.random((7, 19)), rng.random((30, 19))
cpu = al.DenseLayer.from_weights(weights, 100, device="cpu")
card = al.DenseLayer.from_weights(weights, 100, device="cuda")
assert card.device == "cuda:0" and card.device_for() == "cuda:0"
assert np.array_equal(card.counts(x), cpu.counts(x))
assert np.array_equal(card(x[0], seed=3), cpu(x[0], seed=3))

# Arrays on the card, and results there.
y = card(OnCard(x))
assert isinstance(y, al.CudaArray) and (y.shape, y.dtype, y.device) == ((30, 7), np.float64, "cuda:0")
assert np.array_equal(np.asarray(y), cpu(x))
counts = card.counts(OnCard(x[2]))
assert (counts.shape, counts.dtype) == ((7,), np.uint64)
single = card(OnCard(x.astype(np.float32)))
assert np.array_equal(np.asarray(single), cpu(x.astype(np.float32)))
out = al.CudaArray(0, (30, 7), "float64")
assert card(OnCard(x), out=out) is out
assert np.array_equal(np.asarray(out), cpu(x))

# By DLPack: the result of one call is an argument of another.
twice = al.DenseLayer.from_weights(rng.random((5, 7)), 100, device="cuda")
assert y.__dlpack_device__() == (2, 0)
scaled = al.CudaArray(0, (30, 7), "float64")
card(OnCard(x * 0.01), out=scaled)
expected = np.asarray(scaled)
assert np.array_equal(np.asarray(twice(scaled)), twice(expected))
capsule = scaled.__dlpack__(stream=1)
from aleatron import _cuda
assert len(_cuda._handed_out) == 1
del capsule
assert not _cuda._handed_out
capsule = scaled.__dlpack__(max_version=(1, 0), dl_device=(2, 0), copy=False)
del capsule
with pytest.raises(BufferError, match="without a copy only"):
    scaled.__dlpack__(copy=True)
for other in [(1, 0), (2, 1)]:
    with pytest.raises(BufferError, match="on cuda:0 only"):
        scaled.__dlpack__(dl_device=other)
assert not _cuda._handed_out

with pytest.raises(ValueError, match="C order"):
    card(OnCard(x, strides=(8, 8 * 30)))
with pytest.raises(ValueError, match="C order"):
    card(OnCard(x, shape=(30, 19), strides=(8 * 38, 8)))
with pytest.raises(TypeError, match="must be float64 or float32 on a CUDA device, not i8"):
    card(OnCard(x, typestr="<i8"))
with pytest.raises(ValueError, match="expected"):
    card(OnCard(x, shape=(19, 30)))
with pytest.raises(ValueError, match=r"value at index \\(1, 2\\) is nan"):
    bad = x.copy()
    bad[1, 2] = np.nan
    card(OnCard(bad))
with pytest.raises(ValueError, match="out has shape"):
    card(OnCard(x), out=al.CudaArray(0, (7, 30), "float64"))
with pytest.raises(TypeError, match="out must be uint64"):
    card.counts(OnCard(x), out=out)
with pytest.raises(ValueError, match="read-only"):
    card(OnCard(x), out=OnCard(np.zeros((30, 7)), data=(out.__cuda_array_interface__["data"][0], True)))
with pytest.raises(RuntimeError, match="memory"):
    card(OnCard(x, data=(x.ctypes.data, False)))
with pytest.raises(RuntimeError, match="no cuda:1"):
    al.DenseLayer(2, 2, device="cuda:1")
with pytest.raises(TypeError, match="out is for layers"):
    card(x, out=out)
print("all good")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the emulated driver is a shared library of Linux")
def test_arrays_on_an_emulated_card(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    crate = root / "crates/aleatron-cuda"
    compiler = shutil.which("g++") or "c++"
    options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so.1", "-Wno-unknown-pragmas"]
    folders = [f"-I{crate / 'kernels'}", f"-I{crate / 'tests/driver'}"]
    library = tmp_path / "libcuda.so.1"
    subprocess.run([compiler, *options, *folders, crate / "tests/driver/driver.cpp", "-o", library], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    run = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    result = subprocess.run(run, env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "all good" in result.stdout, result.stdout + result.stderr
