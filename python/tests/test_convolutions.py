"""Convolutions as layers of stochastic neurons."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import aleatron as al


def convolve(x: np.ndarray, weights: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: int) -> np.ndarray:
    """The convolution of images (N, channels, rows, columns), tap by tap."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    out, channels, *kernel = weights.shape
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation)]
    result = np.zeros((len(x), out, *sizes))
    for o in range(out):
        first = o // (out // groups) * channels
        for c, i, j in np.ndindex(channels, *kernel):
            rows = slice(i * dilation[0], i * dilation[0] + stride[0] * (sizes[0] - 1) + 1, stride[0])
            columns = slice(j * dilation[1], j * dilation[1] + stride[1] * (sizes[1] - 1) + 1, stride[1])
            result[:, o] += weights[o, c, i, j] * x[:, first + c, rows, columns]
    return result


CASES = [
    ((1, 1), ((0, 0), (0, 0)), (1, 1), 1),
    ((2, 1), ((1, 1), (2, 0)), (1, 1), 1),
    ((1, 3), ((0, 0), (1, 1)), (2, 1), 2),
    ((2, 2), ((3, 3), (3, 3)), (2, 2), 4),
]


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), CASES)
@pytest.mark.parametrize("polarity", ["signed", "bipolar", "unipolar"])
def test_streams_without_noise_are_exact(stride: Any, padding: Any, dilation: Any, groups: int, polarity: Any) -> None:
    # A stream of 1, 0 (but for bipolar) or -1 has no noise, and neither has their product.
    rng = np.random.default_rng(0)
    values = {"signed": [-1.0, 0.0, 1.0], "bipolar": [-1.0, 1.0], "unipolar": [0.0, 1.0]}[polarity]
    weights = rng.choice(values, (8, 4 // groups, 3, 2))
    x = rng.choice(values, (3, 4, 9, 7))
    layer = al.ConvLayer.from_weights(
        weights, (4, 9, 7), 100, polarity=polarity, device="cpu", stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    expected = convolve(x, weights, stride, padding, dilation, groups)
    assert layer.input_shape == (4, 9, 7) and layer.output_shape == expected.shape[1:]
    assert np.array_equal(layer(x), expected)
    assert np.array_equal(layer(x[0]), expected[0])


@pytest.mark.parametrize("generator", ["bernoulli", "sobol", "bernoulli+sobol:2", "sobol:1+bernoulli"])
@pytest.mark.parametrize("polarity", ["signed", "bipolar", "unipolar"])
def test_a_kernel_over_the_whole_image_is_a_dense_layer(polarity: Any, generator: str) -> None:
    rng = np.random.default_rng(1)
    low = 0.0 if polarity == "unipolar" else -1.0
    weights, x = rng.uniform(low, 1, (5, 3, 4, 2)), rng.uniform(low, 1, (6, 3, 4, 2))
    dense = al.DenseLayer.from_weights(weights.reshape(5, 24), 333, 7, polarity, "cpu", generator=generator)
    conv = al.ConvLayer.from_weights(weights, (3, 4, 2), 333, 7, polarity, "cpu", generator=generator)
    assert np.array_equal(conv.counts(x, seed=3).reshape(6, 5), dense.counts(x.reshape(6, 24), seed=3))
    assert np.array_equal(conv(x, seed=3).reshape(6, 5), dense(x.reshape(6, 24), seed=3))


def test_sequences_are_images_of_one_row() -> None:
    rng = np.random.default_rng(2)
    weights, x = rng.uniform(-1, 1, (4, 3, 5)), rng.uniform(-1, 1, (2, 3, 20))
    settings: Any = {"length": 200, "polarity": "signed", "device": "cpu"}
    line = al.ConvLayer.from_weights(weights, (3, 20), stride=2, padding=[(1, 3)], dilation=2, **settings)
    image = al.ConvLayer.from_weights(
        weights[:, :, None], (3, 1, 20), stride=(1, 2), padding=[(0, 0), (1, 3)], dilation=(1, 2), **settings
    )
    assert line.weights.shape == (4, 3, 5) and image.weights.shape == (4, 3, 1, 5)
    assert line.output_shape == (4, image.output_shape[2])
    assert np.array_equal(line.counts(x), image.counts(x[:, :, None])[:, :, 0])
    assert line == image


def test_means_are_those_of_products() -> None:
    rng = np.random.default_rng(3)
    weights, x = rng.uniform(-1, 1, (2, 2, 3, 3)), rng.uniform(-1, 1, (2, 6, 6))
    layer = al.ConvLayer.from_weights(weights, (2, 6, 6), 64, polarity="signed", padding=1, device="cpu")
    runs = [layer(x, seed=seed) for seed in range(200)]
    exact = convolve(x[None], weights, (1, 1), ((1, 1), (1, 1)), (1, 1), 1)[0]
    # Inputs are drawn anew for each seed, the weights' streams are not: their error stays, up to 1 / sqrt(64) for each of 18.
    noise = 5 * np.sqrt(18 / 64)
    assert np.abs(np.mean(runs, axis=0) - exact).max() < noise
    assert np.std(runs, axis=0).max() > 0


def test_packed_streams() -> None:
    x = np.random.default_rng(4).random((3, 2, 5, 5))
    layer = al.ConvLayer((2, 5, 5), 3, 2, length=130, device="cpu")
    # Units are counted by channel, row and column.
    streams = al.encode(x[0].ravel(), length=130, seed=9)
    assert streams.shape == (50, 3)
    assert np.array_equal(layer.counts_encoded(streams), layer.counts(x[0], seed=9))
    assert np.array_equal(layer.forward_encoded(streams[None])[0], layer(x[0], seed=9))
    with pytest.raises(ValueError, match=r"streams has shape \(2, 5, 5, 3\); expected \(50, 3\) for a sample"):
        layer.counts_encoded(streams.reshape(2, 5, 5, 3))


def test_random_weights_and_their_replacement() -> None:
    layer = al.ConvLayer((4, 6, 6), 8, (3, 2), groups=2, seed=5, length=64)
    assert layer.weights.shape == (8, 2, 3, 2) and layer.n_inputs == 144 and layer.n_neurons == 8 * 4 * 5
    assert layer == al.ConvLayer((4, 6, 6), 8, (3, 2), groups=2, seed=5, length=64)
    assert layer != al.ConvLayer((4, 6, 6), 8, (3, 2), groups=2, seed=6, length=64)
    x = np.random.default_rng(5).random((4, 6, 6))
    copies = [copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
    before = layer.counts(x)
    layer.weights = np.zeros((8, 2, 3, 2))
    assert not layer.counts(x).any()
    for made in copies:
        assert type(made) is al.ConvLayer and np.array_equal(made.counts(x), before) and made.output_shape == (8, 4, 5)
    with pytest.raises(ValueError, match=r"weights have shape \(8, 2, 3\); expected \(8, 2, 3, 2\)"):
        layer.weights = np.zeros((8, 2, 3))


def test_representation() -> None:
    assert repr(al.ConvLayer((1, 8), 2, 3, device="cpu")) == (
        "ConvLayer(input_shape=(1, 8), n_channels=2, kernel_size=(3,), length=1024, seed=24301, polarity='unipolar', device='cpu')"
    )
    layer = al.ConvLayer((2, 8, 8), 2, 3, 64, stride=2, padding=(1, 0), dilation=(1, 2), groups=2, device="cpu")
    assert "stride=(2, 2), padding=[(1, 1), (0, 0)], dilation=(1, 2), groups=2, length=64" in repr(layer)


def test_wrong_arguments() -> None:
    layer = al.ConvLayer((2, 5, 5), 3, 2, length=64)
    for x in (np.zeros((5, 5)), np.zeros(50), np.zeros((1, 50)), np.zeros((2, 2, 2, 5, 5))):
        with pytest.raises(ValueError, match=r"x has shape .*; expected \(2, 5, 5\) for a sample or \(N, 2, 5, 5\)"):
            layer(x)
    x = np.full((3, 2, 5, 5), 0.5)
    x[1, 0, 4, 2] = np.nan
    with pytest.raises(ValueError, match=r"at index \(1, 0, 4, 2\) is nan, not in \[0, 1\]"):
        layer(x)
    weights = np.full((3, 2, 2, 2), 0.5)
    weights[2, 1, 0, 1] = -0.5
    with pytest.raises(ValueError, match=r"weight at index \(2, 1, 0, 1\) is -0.5, not in \[0, 1\]"):
        al.ConvLayer.from_weights(weights, (2, 5, 5))
    weights = np.abs(weights)
    for wrong, said in [
        ({"input_shape": (2, 5)}, "weights have shape"),
        ({"input_shape": (3, 5, 5)}, "must have 3 channels together"),
        ({"groups": 3}, "must have 2 channels together"),
        ({"groups": 0}, "channels together"),
        ({"stride": (1, 2, 3)}, "stride must be"),
        ({"stride": -1}, "stride must be"),
        ({"stride": 0}, "."),
        ({"padding": [(1, 1)]}, "padding must be"),
        ({"padding": "same"}, "padding must be"),
        ({"dilation": 0}, "."),
        ({"dilation": 100}, "."),
        ({"padding": 2**62}, "."),
    ]:
        arguments: Any = {"input_shape": (2, 5, 5), **wrong}
        with pytest.raises(ValueError, match=said):
            al.ConvLayer.from_weights(weights, **arguments)
    with pytest.raises(ValueError, match=r"input_shape is \(5,\)"):
        al.ConvLayer((5,), 2, 3)
    for shape, n, kernel in [((0, 5, 5), 2, 3), ((1, 5, 5), 0, 3), ((1, 5, 5), 2, 0), ((1, 5, 5), 2, 6)]:
        with pytest.raises(ValueError):
            al.ConvLayer(shape, n, kernel)
