"""`aleatron.compat`: the names, signatures, defaults and shapes of sc_neurocore_engine, and its faults done right."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import aleatron as al
from aleatron import compat

LIF = "data_width=16, fraction=8, v_rest=0, v_reset=0, v_threshold=256, refractory_period=2"

# As `inspect.signature` gives them for sc_neurocore_engine 3.15.7 (GpuDenseLayer: its source), annotations aside.
SIGNATURES = {
    "DenseLayer": "(n_inputs, n_neurons, length=1024, seed=24301)",
    "DenseLayer.forward": "(input_values, seed=44257)",
    "DenseLayer.forward_fast": "(input_values, seed=44257)",
    "DenseLayer.forward_numpy": "(input_values, seed=44257)",
    "DenseLayer.forward_batch_numpy": "(input_values, seed=44257)",
    "DenseLayer.forward_prepacked": "(packed_inputs)",
    "DenseLayer.forward_prepacked_numpy": "(packed_inputs)",
    "DenseLayer.get_weights": "()",
    "DenseLayer.set_weights": "(weights)",
    "DenseLayer.refresh_packed_weights": "()",
    # A seed is added if the call has no seed: always the same weights, always the same noise.
    "VectorizedSCLayer": "(n_inputs, n_neurons, length=1024, use_gpu=False, seed=24301)",
    "VectorizedSCLayer.forward": "(input_values, seed=44257)",
    "VectorizedSCLayer.forward_fast": "(input_values, seed=44257)",
    "VectorizedSCLayer.forward_numpy": "(input_values, seed=44257)",
    "VectorizedSCLayer.forward_batch_numpy": "(input_values, seed=44257)",
    "VectorizedSCLayer.forward_prepacked": "(packed_inputs)",
    "VectorizedSCLayer.forward_prepacked_numpy": "(packed_inputs)",
    "GpuDenseLayer": "(n_inputs, n_neurons, length=1024, seed=24301, max_batch=256)",
    "GpuDenseLayer.forward_fast": "(input_values, seed=42)",
    "GpuDenseLayer.forward_batch": "(inputs_flat, n_samples, seed=42)",
    "GpuDenseLayer.gpu_name": "()",
    "batch_encode": "(probs, length=1024, seed=44257)",
    "batch_encode_numpy": "(probs, length=1024, seed=44257)",
    "pack_bitstream": "(bits)",
    "pack_bitstream_numpy": "(bits)",
    "unpack_bitstream": "(packed, original_length, original_shape=None)",
    "unpack_bitstream_numpy": "(packed, original_length)",
    "popcount": "(packed)",
    "popcount_numpy": "(packed)",
    "batch_lif_run": f"(n_steps, leak_k, gain_k, i_t, noise_in=0, {LIF})",
    "batch_lif_run_multi": f"(n_neurons, n_steps, leak_k, gain_k, currents, {LIF})",
    "batch_lif_run_varying": f"(leak_k, gain_k, currents, noises=None, {LIF})",
    "FixedPointLif": f"({LIF})",
    "FixedPointLif.step": "(leak_k, gain_k, i_t, noise_in=0)",
    "FixedPointLif.reset": "()",
    "FixedPointLif.reset_state": "()",
    "FixedPointLif.get_state": "()",
    "simd_tier": "()",
    "set_num_threads": "(n)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    thing: Any = compat
    for part in name.split("."):
        thing = getattr(thing, part)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(thing).parameters.values()
        if parameter.name != "self"
    ]
    assert str(inspect.Signature(parameters)) == SIGNATURES[name]


def test_every_name_is_there() -> None:
    assert {name.split(".")[0] for name in SIGNATURES} == set(compat.__all__)
    assert isinstance(inspect.getattr_static(compat.GpuDenseLayer, "is_gpu_available"), staticmethod)


@pytest.mark.parametrize("length", [64, 100, 1024])
@pytest.mark.parametrize("kind", [compat.DenseLayer, compat.VectorizedSCLayer])
def test_all_six_forwards_give_the_same_bits(kind: Any, length: int) -> None:
    layer = kind(n_inputs=70, n_neurons=9, length=length)
    x = np.random.default_rng(0).random(70)
    for seed in [42, 44257]:
        packed = compat.batch_encode_numpy(x, length, seed)
        expected = al.DenseLayer(70, 9, length)(x, seed).tolist()
        six = [
            layer.forward(x.tolist(), seed=seed),
            layer.forward_fast(x.tolist(), seed=seed),
            layer.forward_numpy(x, seed=seed),
            layer.forward_prepacked(compat.batch_encode(x, length, seed)),
            layer.forward_prepacked_numpy(packed),
            layer.forward_batch_numpy(x[None, :], seed=seed)[0],
        ]
        assert [list(result) for result in six] == [expected] * 6
    assert list(layer.forward(x)) == list(layer.forward(x, seed=44257)) == list(layer.forward_fast(x))


def test_batch_rows_are_samples() -> None:
    layer = compat.DenseLayer(5, 3, length=200)
    batch = np.random.default_rng(1).random((4, 5))
    assert np.array_equal(layer.forward_batch_numpy(batch, seed=8), al.DenseLayer(5, 3, 200)(batch, seed=8))
    assert layer.forward_batch_numpy(np.zeros((0, 5))).shape == (0, 3)


def test_dense_layer_types() -> None:
    layer, x = compat.DenseLayer(4, 3), [0.1] * 4
    assert type(layer.forward(x)) is type(layer.forward_fast(x)) is list
    assert type(layer.forward_prepacked(compat.batch_encode(x))) is list
    assert layer.forward_numpy(x).dtype == np.float64
    assert layer.forward_prepacked_numpy(compat.batch_encode_numpy(x)).shape == (3,)
    assert (layer.n_inputs, layer.n_neurons, layer.length) == (4, 3, 1024)
    assert repr(layer) == "DenseLayer(n_inputs=4, n_neurons=3, length=1024, seed=24301)"
    weights = layer.get_weights()
    layer.set_weights([[1.0] * 4] * 3)
    layer.refresh_packed_weights()
    assert layer.forward([1.0] * 4) == [4.0] * 3
    layer.set_weights(weights)
    assert np.array_equal(layer.get_weights(), al.DenseLayer(4, 3).weights)
    for other in [pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)]:
        assert other.forward(x) == layer.forward(x)


def test_vectorized_layer() -> None:
    layer = compat.VectorizedSCLayer(4, 3)
    assert repr(layer) == "VectorizedSCLayer(n_inputs=4, n_neurons=3, length=1024, use_gpu=False, seed=24301)"
    assert layer.packed_weights is None
    assert type(layer.forward([0.1] * 4)) is np.ndarray
    layer.weights[:] = 1.0
    layer._refresh_packed_weights()
    assert layer.forward([1.0] * 4).tolist() == [4.0] * 3
    layer.weights = np.zeros((3, 4))
    assert layer.forward([1.0] * 4).tolist() == [0.0] * 3
    assert not np.array_equal(
        compat.VectorizedSCLayer(4, 3, seed=1).weights, compat.VectorizedSCLayer(4, 3, seed=2).weights
    )
    assert pickle.loads(pickle.dumps(layer)) == layer


def test_gpu_layer() -> None:
    if not compat.GpuDenseLayer.is_gpu_available():
        with pytest.raises(RuntimeError, match="GPU"):
            compat.GpuDenseLayer(64, 32)
        with pytest.warns(UserWarning, match="no GPU"):
            layer = compat.VectorizedSCLayer(64, 32, use_gpu=True)
        assert np.array_equal(layer.forward([0.5] * 64), compat.DenseLayer(64, 32).forward([0.5] * 64))
        return
    gpu = compat.GpuDenseLayer(64, 32, length=1000, seed=42, max_batch=4)
    cpu = al.DenseLayer(64, 32, length=1000, seed=42, device="cpu")
    x = np.random.default_rng(2).random((9, 64))
    assert (gpu.n_inputs, gpu.n_neurons, gpu.length) == (64, 32, 1000)
    assert gpu.gpu_name() == al.gpus()[0].name
    assert gpu.forward_fast(x[0].tolist()) == cpu(x[0], seed=42).tolist()
    assert gpu.forward_batch(x.ravel().tolist(), n_samples=9, seed=7) == cpu(x, seed=7).ravel().tolist()
    with pytest.raises(ValueError, match=r"inputs_flat has shape \(3,\); expected \(128,\) for 2 samples"):
        gpu.forward_batch([0.5] * 3, 2)


def test_bitstreams() -> None:
    assert compat.pack_bitstream([1, 0, 1]) == [5]
    assert compat.pack_bitstream(np.array([2, 0, 255], np.uint8)) == [5]
    assert compat.pack_bitstream([[1, 0, 1], [1, 1, 1]]) == [[5], [7]]
    assert compat.unpack_bitstream([5], 3) == b"\x01\x00\x01"
    assert compat.unpack_bitstream([[5], [7]], 6) == [b"\x01\x00\x01", b"\x01\x01\x01"]
    assert compat.unpack_bitstream([[5], [7]], 6, (2, 3)) == [b"\x01\x00\x01", b"\x01\x01\x01"]
    assert compat.unpack_bitstream([5], 3, (3,)) == b"\x01\x00\x01"
    assert compat.popcount([5, 7]) == compat.popcount([[5], [7]]) == 5
    bits = np.random.default_rng(3).integers(0, 2, 1000, dtype=np.uint8)
    packed = compat.pack_bitstream_numpy(bits)
    assert packed.dtype == np.uint64 and packed.shape == (16,)
    assert np.array_equal(compat.unpack_bitstream_numpy(packed, 1000), bits)
    assert type(compat.popcount_numpy(packed)) is int
    assert compat.popcount_numpy(packed) == bits.sum()


def test_encodings_agree() -> None:
    p = np.random.default_rng(4).random(10)
    words = compat.batch_encode_numpy(p, length=100, seed=5)
    assert words.shape == (10, 2) and words.dtype == np.uint64
    assert compat.batch_encode(p, 100, 5) == words.tolist()
    assert compat.batch_encode_numpy([], 100).shape == (0, 2)
    assert compat.batch_encode_numpy(p).shape == (10, 16)


def test_neurons() -> None:
    spikes, voltages = compat.batch_lif_run(1000, 20, 256, 100, 3)
    assert (spikes.dtype, voltages.dtype, spikes.shape) == (np.int32, np.int16, (1000,))
    neuron = compat.FixedPointLif()
    assert [neuron.step(20, 256, 100, 3) for _ in range(1000)] == list(zip(spikes.tolist(), voltages.tolist()))
    neuron.reset_state()
    assert neuron.get_state() == {"v": 0, "refractory_counter": 0}
    many = compat.batch_lif_run_multi(3, 50, 20, 256, np.array([0, 50, 100], np.int16))
    assert many[0].shape == many[1].shape == (3, 50) and many[0].dtype == np.int32
    assert np.array_equal(many[1][2], compat.batch_lif_run(50, 20, 256, 100)[1])
    varying = compat.batch_lif_run_varying(20, 256, [100] * 50, [3] * 50)
    assert np.array_equal(varying[1], voltages[:50])
    with pytest.raises(ValueError, match=r"currents has shape \(1,\); expected \(2,\) for 2 neurons"):
        compat.batch_lif_run_multi(2, 50, 20, 256, [1])


class TestFaultsDoneRight:
    """What that system does wrong; `docs/python/sc-neurocore.md` lists each."""

    layer = compat.DenseLayer(8, 4, length=512)

    def test_nan_and_values_out_of_range(self) -> None:
        for bad in [float("nan"), 1.5, -0.1, float("inf")]:
            with pytest.raises(ValueError, match="value at index 2 is"):
                self.layer.forward_numpy([0.5, 0.5, bad] + [0.5] * 5)
            with pytest.raises(ValueError, match=r"weight at index \(3, 7\) is"):
                self.layer.set_weights(np.where(np.arange(32).reshape(4, 8) == 31, bad, 0.5))

    def test_fortran_order(self) -> None:
        batch = np.random.default_rng(5).random((6, 8))
        expected = self.layer.forward_batch_numpy(batch)
        assert np.array_equal(self.layer.forward_batch_numpy(np.asfortranarray(batch)), expected)
        packed = compat.batch_encode_numpy(batch[0], 512)
        assert np.array_equal(self.layer.forward_prepacked_numpy(np.asfortranarray(packed)), expected[0])

    def test_other_types_and_strides(self) -> None:
        x = np.arange(16)[::2] / 16
        expected = self.layer.forward_numpy(x.copy())
        assert np.array_equal(self.layer.forward_numpy(x.astype(np.float32)), expected)
        assert np.array_equal(self.layer.forward_numpy((np.arange(16) / 16)[::2]), expected)

    def test_no_panics(self) -> None:
        for sizes in [(0, 4, 64), (4, 0, 64), (4, 4, 0)]:
            with pytest.raises(ValueError, match="at least 1"):
                compat.DenseLayer(*sizes)
        with pytest.raises(ValueError, match="length is 65"):
            compat.unpack_bitstream_numpy(np.array([1], np.uint64), 65)
        with pytest.raises(ValueError, match="data width is 17"):
            compat.FixedPointLif(data_width=17)
        with pytest.raises(MemoryError):
            compat.DenseLayer(10**6, 10**6)

    def test_small_probabilities_are_kept(self) -> None:
        layer = compat.DenseLayer(64, 8, length=1 << 16)
        exact = np.array(layer.get_weights()) @ np.full(64, 0.003)
        assert np.allclose(layer.forward_numpy(np.full(64, 0.003)), exact, atol=0.01)

    def test_neighbouring_seeds_are_independent(self) -> None:
        layer, x = compat.DenseLayer(64, 32), np.full(64, 0.5)
        outputs = np.array([layer.forward_numpy(x, seed=seed) for seed in range(64)])
        noise = outputs - outputs.mean(axis=0)
        lag = (noise[1:] * noise[:-1]).sum() / (noise**2).sum()
        assert abs(lag) < 0.2
        assert not np.array_equal(compat.batch_encode_numpy(x, seed=1)[0], compat.batch_encode_numpy(x, seed=0)[1])

    def test_garbage_past_the_length(self) -> None:
        layer, x = compat.DenseLayer(8, 4, length=100), np.full(8, 0.5)
        packed = compat.batch_encode_numpy(x, 100)
        packed[:, -1] |= np.uint64(1 << 63)
        kept = packed.copy()
        assert np.array_equal(layer.forward_prepacked_numpy(packed), layer.forward_numpy(x))
        assert np.array_equal(packed, kept)

    def test_threads_can_be_set_again(self, keep_threads: None) -> None:
        self.layer.forward([0.5] * 8)
        for n in [2, 3, 0]:
            compat.set_num_threads(n)
            assert al.get_num_threads() == n or n == 0

    def test_leak_keeps_its_sign(self) -> None:
        neuron = compat.FixedPointLif(v_rest=20000, v_reset=-22000, v_threshold=20000, refractory_period=0)
        assert neuron.step(0, 0, 0) == (1, -22000)
        # (20000 + 22000) * 64 >> 8 = 10500 up towards rest.
        assert neuron.step(64, 0, 0) == (0, -11500)

    def test_wrong_ranks(self) -> None:
        with pytest.raises(ValueError, match="input_values must have one axis"):
            self.layer.forward(np.zeros((2, 8)))
        with pytest.raises(ValueError, match="input_values must have 2 axes"):
            self.layer.forward_batch_numpy(np.zeros(8))
        with pytest.raises(ValueError, match="packed_inputs must have 2 axes"):
            self.layer.forward_prepacked(np.zeros(8, np.uint64))
