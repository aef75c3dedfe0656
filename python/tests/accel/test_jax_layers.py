"""Signed dense layers and convolutions through streams in JAX, compared with the engine's and with gradients of JAX's own products."""

from __future__ import annotations

from typing import Any

import aleatron as al
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from aleatron.accel import jax_backend as j
from aleatron.accel._jax_conv import _geometry
from aleatron.accel._jax_counts import _wide_enough

POLARITIES = ["unipolar", "bipolar", "signed"]

# The shapes of an image and of kernels, and the options of the layer.
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 5, 6), (3, 2, 3, 3), {}),
    ((2, 5, 6), (3, 2, 3, 2), {"padding": 1, "stride": 2}),
    ((4, 6, 5), (6, 2, 2, 3), {"padding": ((0, 1), (2, 1)), "stride": (1, 2), "groups": 2}),
    ((1, 7, 7), (2, 1, 3, 2), {"dilation": (2, 3), "padding": (1, 0)}),
    # With so much padding, some positions have no tap inside the image.
    ((1, 2, 2), (2, 1, 1, 2), {"padding": 3}),
    ((3, 9), (4, 3, 4), {"padding": 2, "stride": 2}),
    ((4, 9), (4, 1, 3), {"dilation": 2, "groups": 4, "padding": ((3, 0),)}),
]


def values(rng: Any, polarity: str, *shape: int) -> Any:
    v = rng.uniform(0 if polarity == "unipolar" else -1, 1, shape)
    # The ends, zero and its negative.
    special = [1.0, 0.0] if polarity == "unipolar" else [1.0, -1.0, 0.0, -0.0]
    v.reshape(-1)[: len(special)] = special[: v.size]
    return v


@pytest.mark.parametrize("polarity", POLARITIES)
@pytest.mark.parametrize(("image", "kernels", "options"), CONVOLUTIONS, ids=str)
def test_convolutions_are_the_engines(image: Any, kernels: Any, options: dict[str, Any], polarity: Any) -> None:
    rng = np.random.default_rng(1)
    x, w = values(rng, polarity, 3, *image), values(rng, polarity, *kernels)
    layer = al.ConvLayer.from_weights(w, image, 70, 11, polarity, "cpu", **options)
    counts = j.jax_conv_counts(x, w, 70, 13, 11, polarity=polarity, **options)
    assert np.array_equal(np.asarray(counts), layer.counts(x, 13))
    value = np.asarray(j.jax_conv(x, w, 70, 13, 11, polarity=polarity, **options))
    # One rounding to float32 of the integer, and one of the quotient.
    assert np.array_equal(value, np.round(layer(x, 13) * 70).astype(np.float32) / np.float32(70))


def test_samples_have_their_own_rows() -> None:
    rng = np.random.default_rng(5)
    x, w = values(rng, "signed", 3, 2, 4, 4), values(rng, "signed", 2, 2, 3, 3)
    value = np.asarray(j.jax_conv(x, w, 40, polarity="signed"))
    assert np.array_equal(np.asarray(j.jax_conv(x[0], w, 40, polarity="signed")), value[0])
    assert np.array_equal(np.asarray(j.jax_conv(x[1:], w, 40, polarity="signed", first_row=1)), value[1:])


@pytest.mark.parametrize("polarity", POLARITIES)
def test_convolutions_inside_jit_have_the_bits_of_float32_values(polarity: Any) -> None:
    rng = np.random.default_rng(2)
    x, w = (jnp.asarray(values(rng, polarity, *shape)) for shape in [(2, 2, 4, 5), (3, 2, 2, 2)])
    layer = al.ConvLayer.from_weights(np.asarray(w), (2, 4, 5), 64, 11, polarity, "cpu", padding=1)
    compiled = jax.jit(lambda x, w, seed: j.jax_conv_counts(x, w, 64, seed, 11, polarity=polarity, padding=1))
    for seed in [1, 2]:
        assert np.array_equal(np.asarray(compiled(x, w, jnp.uint32(seed))), layer.counts(np.asarray(x), seed))


# Each takes seconds to compile: padding with stride, groups, dilation, and a sequence.
@pytest.mark.parametrize(("image", "kernels", "options"), [*CONVOLUTIONS[1:4], CONVOLUTIONS[6]], ids=str)
def test_gradients_are_those_of_the_convolution(image: Any, kernels: Any, options: dict[str, Any]) -> None:
    polarity: Any = "unipolar" if len(image) == 2 else "signed"
    rng = np.random.default_rng(3)
    x, w = (jnp.asarray(values(rng, polarity, *shape)) for shape in [(2, *image), kernels])
    geometry = _geometry(x.shape, w.shape, options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1), options.get("groups", 1))

    def in_floats(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, geometry.stride, geometry.padding, rhs_dilation=geometry.dilation, feature_group_count=geometry.groups
        )

    g = jnp.asarray(rng.normal(size=in_floats(x, w).shape))

    def loss(product: Any) -> Any:
        return lambda x, w: (g * product(x, w)).sum()

    expected = jax.grad(loss(in_floats), argnums=(0, 1))(x, w)
    streams = loss(lambda x, w: j.jax_conv(x, w, 8, polarity=polarity, **options))
    for own, other in zip(jax.jit(jax.grad(streams, argnums=(0, 1)))(x, w), expected, strict=True):
        assert np.allclose(own, other, rtol=1e-5, atol=1e-5) and np.abs(other).max() > 0


def test_values_outside_and_nan_inside_jit() -> None:
    w = jnp.array([[[0.5, -0.25]]])

    def total(x: Any) -> Any:
        return j.jax_conv(x, w, 8, polarity="signed").sum()

    x = jnp.array([[2.0, 1.0, -1.0, -3.0]])
    # Each pixel meets both weights but the first and the last; these are outside and have no gradient.
    assert jax.jit(jax.grad(total))(x).tolist() == [[0.0, 0.25, 0.25, 0.0]]
    with pytest.raises(ValueError, match="probability at index 0 is 2.0"):
        total(x)
    # NaN spreads to the outputs that depend on it.
    y = jax.jit(lambda x, w: j.jax_conv(x, w, 8, polarity="signed", padding=1))
    nan = y(jnp.array([[1.0, 1.0, 1.0, np.nan]]), jnp.ones((2, 1, 2)))
    assert np.isnan(nan).tolist() == [[False, False, False, True, True]] * 2
    nan = y(jnp.ones((1, 4)), jnp.array([[[1.0, np.nan]], [[1.0, 1.0]]]))
    assert np.isnan(nan).tolist() == [[True] * 5, [False] * 5]
    dense = jax.jit(lambda x: j.jax_dense(x, jnp.array([[0.25, 0.5]]), 8, polarity="signed"))
    assert np.isnan(dense(jnp.array([np.nan, 1.0]))).all() and dense(jnp.array([0.0, -9.0])).tolist() == [-0.5]


def test_signed_gradients_go_straight_through() -> None:
    rng = np.random.default_rng(4)
    x, w, g = (jnp.asarray(rng.uniform(-1, 1, shape)) for shape in [(5, 9), (4, 9), (5, 4)])
    found = jax.grad(lambda x, w: (g * j.jax_dense(x, w, 16, polarity="signed")).sum(), argnums=(0, 1))(x, w)
    for own, other in zip(found, jax.grad(lambda x, w: (g * (x @ w.T)).sum(), argnums=(0, 1))(x, w), strict=True):
        assert np.allclose(own, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("polarity", POLARITIES)
def test_empty_batches(polarity: Any) -> None:
    assert j.jax_dense(np.zeros((0, 3)), np.zeros((2, 3)), 8, polarity=polarity).shape == (0, 2)
    assert j.jax_conv(np.zeros((0, 1, 4, 4)), np.zeros((2, 1, 3, 3)), 8, polarity=polarity).shape == (0, 2, 2, 2)


def test_large_signed_counts_need_64_bits() -> None:
    # The count of one product may be 2 * 2**30; the check encodes nothing.
    counts = jnp.zeros((1,), jnp.int32)
    assert _wide_enough(counts, 2**31 - 1) is counts
    with pytest.raises(ValueError, match="counts may be as large as 2147483648: they need JAX's 64-bit mode"):
        _wide_enough(counts, 2**31)


BAD: list[tuple[Any, Any, str]] = [
    (lambda: j.jax_dense([0.5], [[0.5]], 8, polarity="x"), ValueError, "polarity is 'x', not \"unipolar\", \"bipolar\" or \"signed\""),  # type: ignore[arg-type]
    (lambda: j.jax_conv([[0.5]], [[[0.5]]], 8, polarity="x"), ValueError, "polarity is 'x'"),  # type: ignore[arg-type]
    (lambda: j.jax_dense([0.5, -1.5], [[0.5, 0.5]], 8, polarity="signed"), ValueError, r"probability at index 1 is -1.5, not in \[-1, 1\]"),
    (lambda: j.jax_dense(jnp.array([np.nan]), [[0.5]], 8, polarity="signed"), ValueError, "probability at index 0 is nan"),
    (lambda: j.jax_conv([[0.5]], [[[0.5]]], 0), ValueError, "length is 0"),
    (lambda: j.jax_conv([[0.5]], [[0.5]], 8), ValueError, r"weights have shape \(1, 1\)"),
    (lambda: j.jax_conv([0.5], [[[0.5]]], 8), ValueError, r"x has shape \(1,\); expected \(1, places\)"),
    (lambda: j.jax_conv(np.zeros((3, 4, 4)), np.zeros((2, 2, 1, 1)), 8), ValueError, r"expected \(2, rows, columns\)"),
    (lambda: j.jax_conv(np.zeros((4, 4)), np.zeros((3, 2, 1)), 8, groups=2), ValueError, "groups is 2; it must divide the 3 output"),
    (lambda: j.jax_conv(np.zeros((1, 4)), np.zeros((1, 1, 1)), 8, stride=0), ValueError, "stride is 0; it must be at least 1"),
    (lambda: j.jax_conv(np.zeros((1, 4)), np.zeros((1, 1, 1)), 8, dilation=(1, 2)), ValueError, r"dilation is \(1, 2\); expected a number, or 1 numbers"),
    (lambda: j.jax_conv(np.zeros((1, 4)), np.zeros((1, 1, 1)), 8, padding=-1), ValueError, "it must be at least 0"),
    (lambda: j.jax_conv(np.zeros((1, 4)), np.zeros((1, 1, 1)), 8, padding=(1, 2)), ValueError, r"padding is \(1, 2\)"),
    (lambda: j.jax_conv(np.zeros((1, 2)), np.zeros((1, 1, 3)), 8), ValueError, r"size \(2,\) with padding .* smaller than the kernel of size \(3,\)"),
    (lambda: j.jax_conv(np.zeros((1, 4)), np.zeros((1, 1, 1)), 8, stride=1.5), TypeError, "float"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
