"""Layers as Python objects: shapes, attributes, copies, pickles."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import aleatron as al

RNG = np.random.default_rng(7)
MASK = RNG.random((5, 9)) < 0.5
WEIGHTS = RNG.random((5, 9))


def dense() -> al.DenseLayer:
    return al.DenseLayer.from_weights(WEIGHTS, length=100, seed=3)


def sparse() -> al.SparseLayer:
    return al.SparseLayer.from_weights(WEIGHTS, MASK, length=100, seed=3)


@pytest.mark.parametrize("make", [dense, sparse])
def test_sample_and_batch(make: Any) -> None:
    layer, batch = make(), RNG.random((4, 9))
    for method, dtype in [(layer, np.float64), (layer.counts, np.uint64)]:
        whole = method(batch, seed=11)
        assert whole.shape == (4, 5) and whole.dtype == dtype and whole.flags.c_contiguous
        assert method(batch[0], seed=11).shape == (5,)
        assert np.array_equal(method(batch[0], seed=11), whole[0])
        # Every sample draws its own streams.
        assert not np.array_equal(method(batch[[1]], seed=11)[0], whole[1])
        assert method(np.zeros((0, 9))).shape == (0, 5)
    assert np.array_equal(layer(batch), layer(batch, seed=44257))
    assert not np.array_equal(layer(batch), layer(batch, seed=44258))


@pytest.mark.parametrize("make", [dense, sparse])
def test_long_batches_equal_their_samples(make: Any) -> None:
    # 2**28 words per chunk: this layer of 1024 inputs has 256 samples in one.
    n = 300
    weights = RNG.random((960, 1024))
    layer = al.DenseLayer.from_weights(weights, length=64) if make is dense else al.SparseLayer.from_weights(
        weights, np.ones(weights.shape, bool), length=64
    )
    x = RNG.random((n, 1024))
    encoded = al.DenseLayer.from_weights(weights, length=64).counts_encoded(al.encode(x, 64))
    assert np.array_equal(layer.counts(x), encoded)
    x[n - 1, 5] = np.nan
    with pytest.raises(ValueError, match=r"value at index \(299, 5\) is nan, not in \[0, 1\]"):
        layer(x)


def test_attributes() -> None:
    layer = al.DenseLayer(9, 5, length=100, seed=3, polarity="bipolar", device="cpu")
    assert (layer.n_inputs, layer.n_neurons, layer.length, layer.seed) == (9, 5, 100, 3)
    assert (layer.polarity, layer.device) == ("bipolar", "cpu")
    assert repr(layer) == (
        "DenseLayer(n_inputs=9, n_neurons=5, length=100, seed=3, polarity='bipolar', device='cpu')"
    )
    assert layer.weights.min() < 0 < layer.weights.max()
    with pytest.raises(AttributeError):
        layer.length = 5
    default = al.DenseLayer(2, 3)
    assert (default.length, default.seed, default.polarity) == (1024, 24301, "unipolar")
    assert al.DenseLayer(2, 3).device == "auto"
    assert layer.device_for() == layer.device_for(10**6) == "cpu"


def test_sparse_attributes() -> None:
    layer = sparse()
    assert (layer.n_inputs, layer.n_neurons, layer.length, layer.seed, layer.polarity) == (9, 5, 100, 3, "unipolar")
    assert layer.n_connections == MASK.sum()
    assert np.array_equal(layer.mask, MASK)
    assert np.array_equal(layer.weights, np.where(MASK, WEIGHTS, 0))
    assert repr(layer) == (
        f"SparseLayer(n_inputs=9, n_neurons=5, n_connections={MASK.sum()}, length=100, seed=3, "
        "polarity='unipolar', device='auto')"
    )
    # A connection has the bits of the dense layer; a weight of 0 adds none.
    x = RNG.random(9)
    cut = al.DenseLayer.from_weights(np.where(MASK, WEIGHTS, 0), length=100, seed=3)
    assert np.array_equal(layer.counts(x), cut.counts(x))
    random = al.SparseLayer(MASK, length=100, seed=3)
    assert np.array_equal(random.weights, np.where(MASK, al.DenseLayer(9, 5, 100, 3).weights, 0))


@pytest.mark.parametrize("make", [dense, sparse])
def test_weights_are_replaced_as_a_whole(make: Any) -> None:
    layer, x = make(), RNG.random(9)
    before = layer.counts(x)
    weights = layer.weights
    with pytest.raises(ValueError, match="read-only"):
        weights[0, 0] = 0.5
    layer.weights = np.zeros((5, 9))
    assert not layer.counts(x).any()
    layer.weights = weights
    assert np.array_equal(layer.counts(x), before)
    with pytest.raises(ValueError, match=r"weight at index \(1, 2\) is 2"):
        bad = weights.copy()
        bad[1, 2] = 2
        layer.weights = bad
    with pytest.raises(ValueError, match=r"weights have shape \(9, 5\); expected \(5, 9\)"):
        layer.weights = weights.T
    assert np.array_equal(layer.counts(x), before)


@pytest.mark.parametrize("make", [dense, sparse])
def test_copies(make: Any) -> None:
    layer, x = make(), RNG.random((3, 9))
    expected = layer.counts(x)
    copies = [copy.copy(layer), copy.deepcopy(layer)]
    copies += [pickle.loads(pickle.dumps(layer, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for other in copies:
        assert other is not layer and repr(other) == repr(layer)
        assert np.array_equal(other.counts(x), expected)
        assert np.array_equal(other.weights, layer.weights)
        other.weights = np.zeros((5, 9))
        assert np.array_equal(layer.counts(x), expected)


def test_streams_are_shared_by_layers() -> None:
    x = RNG.random((3, 9))
    streams = al.encode(x, 100, seed=4)
    for seed in [1, 2]:
        layer = al.DenseLayer(9, 5, length=100, seed=seed)
        assert np.array_equal(layer.counts_encoded(streams), layer.counts(x, seed=4))
        assert np.array_equal(layer.forward_encoded(streams[0]), layer(x[0], seed=4))


def test_extreme_values_are_exact() -> None:
    layer = al.DenseLayer.from_weights(np.ones((2, 3)), length=77)
    assert layer([1, 1, 1]).tolist() == [3.0, 3.0]
    assert layer([0, 0, 0]).tolist() == [0.0, 0.0]
    # Small probabilities are not lost.
    long = al.DenseLayer.from_weights(np.ones((1, 64)), length=1 << 16)
    assert abs(long(np.full(64, 0.003))[0] - 64 * 0.003) < 0.01
