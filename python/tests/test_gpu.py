"""Layers on a GPU give the bits of the CPU. Continuous integration names a software driver, so they do run there."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import aleatron as al

NAMED = os.environ.get("SC_GPU_ADAPTER", "")


def test_the_adapter_asked_for_is_there() -> None:
    if NAMED:
        assert al.gpus() and NAMED.lower() in al.gpus()[0].name.lower()


@pytest.mark.parametrize("polarity", ["unipolar", "bipolar"])
@pytest.mark.parametrize("length", [64, 100, 1024])
def test_bits_are_the_cpus(polarity: str, length: int) -> None:
    if not al.gpus():
        with pytest.raises(RuntimeError, match="no hardware GPU adapter"):
            al.DenseLayer(2, 2, device="gpu")
        return
    low = 0.0 if polarity == "unipolar" else -1.0
    rng = np.random.default_rng(length)
    weights, x = rng.uniform(low, 1, (33, 70)), rng.uniform(low, 1, (300, 70))
    cpu = al.DenseLayer.from_weights(weights, length, polarity=polarity, device="cpu")
    gpu = al.DenseLayer.from_weights(weights, length, polarity=polarity, device="gpu")
    assert (gpu.device, gpu.device_for(), repr(gpu)[-13:]) == ("gpu", "gpu", "device='gpu')")
    assert np.array_equal(gpu.counts(x), cpu.counts(x))
    assert np.array_equal(gpu(x[0], seed=5), cpu(x[0], seed=5))
    gpu.weights = cpu.weights = weights[::-1]
    assert np.array_equal(gpu.counts(x), cpu.counts(x))
    with pytest.raises(ValueError, match=r"value at index \(1, 2\) is nan"):
        bad = x.copy()
        bad[1, 2] = np.nan
        gpu(bad)


def test_auto_gives_the_same_bits() -> None:
    x = np.random.default_rng(1).random((64, 100))
    auto, cpu = al.DenseLayer(100, 50), al.DenseLayer(100, 50, device="cpu")
    assert np.array_equal(auto.counts(x), cpu.counts(x))
    assert auto.device_for(64) in {"cpu", "gpu"}


def test_the_environment_decides_for_auto() -> None:
    program = "import aleatron as al; layer = al.DenseLayer(3, 2); layer([0.5] * 3); print(layer.device_for())"
    for device in ["cpu"] + ["gpu"] * bool(al.gpus()):
        environment = {**os.environ, "ALEATRON_DEVICE": device}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        # Drivers may have things to say on standard error.
        assert (done.stdout, done.returncode) == (f"{device}\n", 0), done.stderr


def test_an_adapter_that_is_not_there() -> None:
    program = "import aleatron as al; print(al.gpus()); al.DenseLayer(2, 2, device='gpu')"
    environment = {**os.environ, "SC_GPU_ADAPTER": "no such adapter"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n"
    assert 'RuntimeError: no GPU adapter matches "no such adapter"' in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.timeout(60)
def test_forked_children_leave_the_gpu_alone() -> None:
    program = """
import os, sys, warnings
import numpy as np
import aleatron as al
warnings.simplefilter("ignore", DeprecationWarning)
x = np.full((200, 300), 0.5)
layers = [al.DenseLayer(300, 200, device=device) for device in ["auto", "gpu"][:1 + bool(al.gpus())]]
expected = [layer.counts(x) for layer in layers]
if os.fork() == 0:
    assert np.array_equal(layers[0].counts(x), expected[0]) and layers[0].device_for(200) == "cpu"
    assert al.gpus() == []
    for call in [lambda: layers[-1].counts(x), lambda: al.DenseLayer(2, 2, device="gpu")][2 - len(layers):]:
        try:
            call()
        except RuntimeError as error:
            assert "forked process" in str(error)
        else:
            os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.stdout == "0\n", done.stderr
