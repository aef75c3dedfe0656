"""Layers on a GPU give the bits of the CPU. Continuous integration names a software driver, so they do run there."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import aleatron as al

NAMED = os.environ.get("SC_GPU_ADAPTER", "")


def test_requested_adapter_is_listed() -> None:
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
    assert (gpu.device, gpu.device_for(), repr(gpu)[-13:]) == ("gpu", al.gpus()[0].device, "device='gpu')")
    assert np.array_equal(gpu.counts(x), cpu.counts(x))
    assert np.array_equal(gpu(x[0], seed=5), cpu(x[0], seed=5))
    gpu.weights = cpu.weights = weights[::-1]
    assert np.array_equal(gpu.counts(x), cpu.counts(x))
    with pytest.raises(ValueError, match=r"value at index \(1, 2\) is nan"):
        bad = x.copy()
        bad[1, 2] = np.nan
        gpu(bad)


@pytest.mark.parametrize("generator", ["bernoulli", "sobol", "lfsr:3+halton:5", "bernoulli+sobol:2", "vdc+bernoulli"])
def test_every_layer_runs_on_every_device(generator: str) -> None:
    rng = np.random.default_rng(2)
    weights, mask, x = rng.random((150, 40)), rng.random((150, 40)) < 0.4, rng.random((9, 40))
    options: dict[str, Any] = {"length": 100, "generator": generator}
    places = [gpu.device for gpu in al.gpus()]
    devices: list[Any] = ["auto", ["cpu", "cpu"]] + places + [["cpu", *places]] * bool(places)
    dense = al.DenseLayer.from_weights(weights, device="cpu", **options)
    sparse = al.SparseLayer.from_weights(weights, mask, device="cpu", **options)
    kernels, images = rng.uniform(-1, 1, (6, 2, 3, 3)), rng.uniform(-1, 1, (5, 4, 9, 8))
    shape: dict[str, Any] = {"input_shape": (4, 9, 8), "stride": 2, "padding": 1, "groups": 2, "polarity": "signed"}
    conv = al.ConvLayer.from_weights(kernels, device="cpu", **shape, **options)
    graph = al.Network.from_onnx(al.Network.digits("cnn").to_onnx())
    for device in devices:
        other = al.DenseLayer.from_weights(weights, device=device, **options)
        assert np.array_equal(other.counts(x), dense.counts(x)), device
        thin = al.SparseLayer.from_weights(weights, mask, device=device, **options)
        assert np.array_equal(thin.counts(x), sparse.counts(x)), device
        # Layers are equal if their weights and bits are equal, on any device.
        assert other == dense and thin == sparse and other != thin
        network = al.Network.digits()
        samples = al.load_digits()[0][:20]
        scores = network.forward_streams(samples, 64, generator, device=device)
        assert np.array_equal(scores, network.forward_streams(samples, 64, generator, device="cpu")), device
        image = al.ConvLayer.from_weights(kernels, device=device, **shape, **options)
        assert np.array_equal(image.counts(images), conv.counts(images)) and image == conv, device
        assert np.array_equal(image(images[0]), conv(images[0])), device
        scores = graph.forward_streams(samples, 64, generator, device=device)
        assert np.array_equal(scores, graph.forward_streams(samples, 64, generator, device="cpu")), device


def test_auto_gives_the_same_bits() -> None:
    x = np.random.default_rng(1).random((64, 100))
    auto, cpu = al.DenseLayer(100, 50), al.DenseLayer(100, 50, device="cpu")
    assert np.array_equal(auto.counts(x), cpu.counts(x))
    assert auto.device_for(64) in {"cpu", *(gpu.device for gpu in al.gpus())}


def test_the_environment_decides_for_auto() -> None:
    program = "import aleatron as al; layer = al.DenseLayer(3, 2); layer([0.5] * 3); print(layer.device_for())"
    places = {"cpu": "cpu"} | ({"gpu": al.gpus()[0].device} if al.gpus() else {})
    for device, place in places.items():
        environment = {**os.environ, "ALEATRON_DEVICE": device}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        assert (done.stdout, done.stderr, done.returncode) == (f"{place}\n", "", 0)


def test_missing_adapter_is_an_error() -> None:
    program = "import aleatron as al; print(al.gpus()); al.DenseLayer(2, 2, device='gpu')"
    environment = {**os.environ, "SC_GPU_ADAPTER": "no such adapter"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout == "[]\n"
    assert 'RuntimeError: gpu: no GPU adapter matches "no such adapter"' in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.timeout(60)
def test_forked_children_do_not_use_the_gpu() -> None:
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
