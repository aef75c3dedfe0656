"""What networks need beyond the standard, against 64-bit floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from standard import DEVICES

import aleatron.tensor as at

on_every_device = pytest.mark.parametrize("device", DEVICES)
# One rounding of a 32-bit float.
UNIT = 2.0**-24


def normal(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(got: at.Tensor, exact: Any, bound: Any) -> None:
    assert got.shape == exact.shape
    assert (np.abs(np.asarray(got, dtype=np.float64) - exact) <= bound).all()


@on_every_device
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(device: str, axis: int) -> None:
    x = 30 * normal(3, 5, 7)
    wide = x.astype(np.float64)
    shifted = np.exp(wide - wide.max(axis, keepdims=True))
    exact = shifted / shifted.sum(axis, keepdims=True)
    # The difference from the largest is rounded, then the exponential, its sum and the quotient.
    bound = exact * UNIT * (np.abs(wide - wide.max(axis, keepdims=True)) + 20) + 1e-30
    close(at.softmax(at.asarray(x, device=device), axis=axis), exact, bound)
    logarithm = np.log(exact)
    close(at.log_softmax(at.asarray(x, device=device), axis=axis), logarithm, UNIT * (np.abs(logarithm) * 4 + 150))


@on_every_device
def test_norms(device: str) -> None:
    x, weight, bias = normal(4, 6, 33), normal(33, seed=2), normal(33, seed=3)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    tensors = [at.asarray(part, device=device) for part in (x, weight, bias)]
    close(at.layer_norm(*tensors), exact, UNIT * 100 * (1 + np.abs(exact)))
    root = np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    close(at.rms_norm(*tensors[:2]), wide / root * weight, UNIT * 50 * (1 + np.abs(wide * weight)))


def convolved(x: Any, w: Any, stride: int, padding: int, dilation: int, groups: int) -> Any:
    """A convolution by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, channels, height, width = x.shape
    outputs, _, rows, columns = w.shape
    tall = (height - dilation * (rows - 1) - 1) // stride + 1
    broad = (width - dilation * (columns - 1) - 1) // stride + 1
    result = np.zeros((n, outputs, tall, broad), x.dtype)
    for o in range(outputs):
        group = o // (outputs // groups)
        part = x[:, group * (channels // groups) : (group + 1) * (channels // groups)]
        for i in range(tall):
            for j in range(broad):
                window = part[
                    :, :, i * stride : i * stride + dilation * rows : dilation, j * stride : j * stride + dilation * columns : dilation
                ][:, :, :rows, :columns]
                result[:, o, i, j] = (window * w[o]).sum((1, 2, 3))
    return result


@on_every_device
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 1), (3, 1, 1, 4)])
def test_convolutions(device: str, stride: int, padding: int, dilation: int, groups: int) -> None:
    x, w, b = normal(2, 4, 9, 8), normal(8, 4 // groups, 3, 3, seed=2), normal(8, seed=3)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    arguments = (stride, padding, dilation, groups)
    exact = convolved(x.astype(np.float64), w.astype(np.float64), *arguments) + b[:, None, None]
    magnitude = convolved(np.abs(x), np.abs(w), *arguments).astype(np.float64) + np.abs(b)[:, None, None]
    tensors = [at.asarray(part, device=device) for part in (x, w, b)]
    close(at.conv2d(*tensors, **options), exact, UNIT * (w[0].size + 2) * magnitude)
    line = at.conv1d(tensors[0][:, :, 0, :], tensors[1][:, :, 0, :], **options)
    rows = convolved(x[:, :, :1].astype(np.float64), w[:, :, :1].astype(np.float64), stride, 0, dilation, groups)
    if padding == 0:
        close(line, rows[:, :, 0], UNIT * (w[0].size + 2) * 100)


@on_every_device
def test_pools(device: str) -> None:
    x = normal(2, 3, 6, 8)
    windows = x.reshape(2, 3, 3, 2, 4, 2)
    tensor = at.asarray(x, device=device)
    assert np.array_equal(np.asarray(at.max_pool2d(tensor, 2)), windows.max((3, 5)))
    close(at.avg_pool2d(tensor, (2, 2)), windows.astype(np.float64).mean((3, 5)), UNIT * 5 * np.abs(x).max())


@on_every_device
@pytest.mark.parametrize("causal", [False, True])
def test_attention(device: str, causal: bool) -> None:
    q, k, v = (normal(2, 3, 5, 8, seed=seed) for seed in (1, 2, 3))
    scores = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) / math.sqrt(8)
    if causal:
        scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ v
    got = at.scaled_dot_product_attention(*(at.asarray(part, device=device) for part in (q, k, v)), causal=causal)
    close(got, exact, UNIT * 100 * np.abs(v).max())


@on_every_device
def test_random_numbers_are_the_same_everywhere(device: str) -> None:
    uniform, normals = at.rand((1000,), seed=7, device=device), at.randn((1000,), seed=7, device=device)
    assert np.array_equal(np.asarray(uniform), np.asarray(at.rand((1000,), seed=7)))
    assert np.array_equal(np.asarray(normals), np.asarray(at.randn((1000,), seed=7)))
    assert 0 <= float(at.min(uniform)) and float(at.max(uniform)) < 1
    # Five standard errors.
    assert abs(float(at.mean(uniform)) - 0.5) < 5 * math.sqrt(1 / 12 / 1000)
    assert abs(float(at.mean(normals))) < 5 / math.sqrt(1000)
    assert abs(float(at.std(normals)) - 1) < 5 / math.sqrt(2000)


@on_every_device
def test_random_numbers_without_a_seed_are_new_and_can_be_repeated(device: str) -> None:
    def draw() -> list[np.ndarray]:
        return [np.asarray(at.rand((64,), device=device)), np.asarray(at.randn((64,), device=device))]

    at.manual_seed(5)
    first, second = draw(), draw()
    assert all(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    at.manual_seed(5)
    assert all(np.array_equal(a, b) for a, b in zip(first, draw(), strict=True))


@on_every_device
def test_halves_are_summed_in_32_bits(device: str) -> None:
    x = at.asarray(np.full(4096, 1.0, np.float16), device=device)
    assert float(at.sum(x)) == 4096 and at.sum(x).dtype is at.float16
    product = at.matmul(at.ones((1, 4097), dtype=at.float16, device=device), at.ones((4097, 1), dtype=at.float16, device=device))
    # 4097 is between two 16-bit floats, 4096 and 4100.
    assert float(product) == 4096


@on_every_device
def test_topk_pad_and_split(device: str) -> None:
    x = at.asarray([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]], device=device)
    values, places = at.topk(x, 2)
    assert values.tolist() == [[3, 2], [5, 4]] and places.tolist() == [[0, 2], [1, 2]]
    assert at.pad(x, [(0, 1), (1, 0)], value=9.0).tolist() == [[9, 3, 1, 2], [9, 0, 5, 4], [9, 9, 9, 9]]
    assert [part.tolist() for part in at.split(x, (1, 2), axis=1)] == [[[3], [0]], [[1, 2], [5, 4]]]
    with pytest.raises(ValueError, match="topk"):
        at.topk(x, 4)
    with pytest.raises(ValueError, match="split"):
        at.split(x, (1, 1), axis=1)
