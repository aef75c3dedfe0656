"""Convolutions through streams in JAX, with gradients. `aleatron.accel.jax_backend` exports them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from aleatron._arrays import read
from aleatron._types import Polarity
from aleatron.accel._checks import as_length
from aleatron.accel._jax_counts import (
    Operand,
    constant,
    encode_operand,
    ends_of,
    inside,
    numerators,
    quotient,
)
from aleatron.accel._jax_streams import as_floats, is_traced, jax, jnp, lax, to_jax
from aleatron.accel._optional import once
from aleatron.accel.numpy_streams import Domain

if TYPE_CHECKING:
    from jax import Array as JaxArray

Sizes: TypeAlias = SupportsIndex | Sequence[int]
Padding: TypeAlias = SupportsIndex | Sequence[int] | Sequence[tuple[int, int]]


class Geometry(NamedTuple):
    """The sizes of a convolution, one for each axis of an image or sequence."""

    channels: int
    image: tuple[int, ...]
    n_kernels: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def output(self) -> tuple[int, ...]:
        """Positions along each axis."""
        rows = zip(self.image, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((size + sum(around) - d * (k - 1) - 1) // s + 1 for size, k, s, around, d in rows)

    def inputs(self, group: int) -> npt.NDArray[np.int64]:
        """The input of each tap of a group at each position, of shape (positions, taps); the number of inputs in the padding."""
        n_axes, channels = len(self.image), self.channels // self.groups
        index = np.arange(channels).reshape(-1, *[1] * 2 * n_axes) + group * channels
        is_inside = np.ones((), bool)
        # Axes: channel, positions, taps.
        for axis, (size, kernel, stride, (before, _), dilation) in enumerate(
            zip(self.image, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        ):
            positions = np.arange(self.output[axis]).reshape(-1, *[1] * (2 * n_axes - 1 - axis))
            taps = np.arange(kernel).reshape(-1, *[1] * (n_axes - 1 - axis))
            at = positions * stride + taps * dilation - before
            is_inside = is_inside & (at >= 0) & (at < size)
            index = index * size + at
        index = np.where(is_inside, index, self.channels * math.prod(self.image))
        order = (*range(1, 1 + n_axes), 0, *range(1 + n_axes, 1 + 2 * n_axes))
        return np.asarray(index.transpose(order).reshape(math.prod(self.output), -1))


def jax_conv_counts(
    x: Any,
    weights: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    weight_seed: Any = 24301,
    *,
    polarity: Polarity = "unipolar",
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: SupportsIndex = 1,
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Counts the products of a convolution: encodes pixels and weights, multiplies streams, counts ones.

    The counts are those of `aleatron.ConvLayer.from_weights(weights, input_shape, length, weight_seed, polarity)` for the seed: a pixel has one
    stream in a sample, and taps in the padding are skipped.

    Parameters
    ----------
    x
        Images (channels, rows, columns), sequences (channels, positions), or a batch of either.
    weights
        Kernels of shape (n_channels, channels of a group, rows, columns), without rows for sequences.
    length
        Bits per stream; static.
    seed, weight_seed
        The seeds of the input and weight streams; traced ones may vary inside jit.
    polarity
        As for `jax_dense_counts`.
    stride, padding, dilation, groups
        As for `aleatron.ConvLayer`; static.
    layer, first_row
        The layer's index in a network and the row of the first sample.

    Returns
    -------
    jax.Array
        Integer counts of shape (n_channels, rows, columns), or with an axis of samples before.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_conv_counts
    >>> jax_conv_counts([[1.0, 0.0, 1.0]], [[[1.0, 1.0]]], length=64, padding=1).tolist()
    [[64, 64, 64, 64]]
    """
    geometry = _geometry(np.shape(x), np.shape(weights), stride, padding, dilation, groups)
    return _numerators(x, weights, geometry, length, seed, weight_seed, polarity, layer, first_row)[0]


def jax_conv(
    x: Any,
    weights: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    weight_seed: Any = 24301,
    *,
    polarity: Polarity = "unipolar",
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: SupportsIndex = 1,
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Computes a convolution through streams; gradients are those of the convolution that it estimates.

    Values are c / L, (2 c - n L) / L for bipolar layers, or (c - n L) / L for signed ones, where n is the number of taps inside the image. Values outside the interval
    and NaN are treated as in `jax_dense`.

    Parameters are those of `jax_conv_counts`.

    Examples
    --------
    >>> import jax
    >>> from aleatron.accel.jax_backend import jax_conv, jnp
    >>> x, edges = jnp.array([[0.0, 1.0, 1.0, 0.0]]), jnp.array([[[-1.0, 1.0]]])
    >>> jax_conv(x, edges, length=64, polarity="signed").tolist()
    [[1.0, 0.0, -1.0]]
    >>> jax.grad(lambda w: jax_conv(x, w, length=64, polarity="signed").sum())(edges).tolist()
    [[[2.0, 2.0]]]
    """
    low, high = ends_of(polarity)
    bits = as_length(length)
    # The gradient is taken with respect to these. Host values are encoded in float64, before JAX rounds them to its own type.
    inside_x, inside_w = inside(as_floats(to_jax(x)), low, high), inside(as_floats(to_jax(weights)), low, high)
    geometry = _geometry(inside_x.shape, inside_w.shape, stride, padding, dilation, groups)
    _, numerator = _numerators(
        constant(x), constant(weights), geometry, bits, seed, weight_seed, polarity, layer, first_row
    )
    dtype = jnp.result_type(inside_x, inside_w)
    value = quotient(numerator, bits, dtype)
    if is_traced(inside_x, inside_w):
        # Known NaN is an error of the encoding.
        value = jnp.where(_depends_on_nan(inside_x, inside_w, geometry), jnp.nan, value).astype(dtype)
    return _straight_through(geometry)(inside_x, inside_w, value)


def _numerators(
    x: Any,
    weights: Any,
    geometry: Geometry,
    length: SupportsIndex,
    seed: Any,
    weight_seed: Any,
    polarity: Polarity,
    layer: SupportsIndex,
    first_row: Any,
) -> tuple[Any, Any]:
    """Counts, and the integers whose quotients by the length are values."""
    ends_of(polarity)
    bits = as_length(length)
    n_inputs = geometry.channels * math.prod(geometry.image)
    samples = np.shape(x)[: -1 - len(geometry.image)]
    x = x if isinstance(x, jax.Array) else read(x, "x")
    weights = weights if isinstance(weights, jax.Array) else read(weights, "weights")
    # Without an axis of samples there is one row.
    inputs = encode_operand(x.reshape(*samples, n_inputs), bits, seed, polarity, Domain.INPUT, layer, first_row)
    kernels = encode_operand(
        weights.reshape(geometry.n_kernels, -1), bits, weight_seed, polarity, Domain.WEIGHT, layer
    )
    axis = len(samples)
    per_group = geometry.n_kernels // geometry.groups
    parts = []
    for group in range(geometry.groups):
        index = geometry.inputs(group)
        patches = Operand(*(None if each is None else _gather(each, index, axis) for each in inputs))
        rows = slice(group * per_group, (group + 1) * per_group)
        own = Operand(*(None if each is None else each[rows] for each in kernels))
        parts.append(numerators(own, patches, bits, polarity, index < n_inputs))
    shape = (*samples, geometry.n_kernels, *geometry.output)
    counts, numerator = (
        jnp.moveaxis(jnp.concatenate(each, axis=-1), -1, axis).reshape(shape) for each in zip(*parts, strict=True)
    )
    return counts, numerator


def _gather(values: Any, index: npt.NDArray[np.int64], axis: int) -> Any:
    """Takes entries along an axis; those in the padding are zero."""
    around = [(0, 0)] * values.ndim
    around[axis] = (0, 1)
    return jnp.take(jnp.pad(values, around), index, axis=axis)


def _geometry(
    x: tuple[int, ...],
    weights: tuple[int, ...],
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: SupportsIndex,
) -> Geometry:
    """Checks shapes and sizes that belong together."""
    n_axes = len(weights) - 2
    if n_axes not in (1, 2) or 0 in weights:
        raise ValueError(f"weights have shape {weights}, not (n_channels, channels, rows, columns) or (n_channels, channels, places)")
    n_groups = operator.index(groups)
    if n_groups < 1 or weights[0] % n_groups:
        raise ValueError(f"groups is {n_groups}; it must divide the {weights[0]} output channels")
    channels = weights[1] * n_groups
    if len(x) not in (n_axes + 1, n_axes + 2) or x[-1 - n_axes] != channels:
        sample = f"({channels}, {'rows, columns' if n_axes == 2 else 'places'})"
        raise ValueError(f"x has shape {x}; expected {sample} for a sample, or a batch of such samples")
    geometry = Geometry(
        channels,
        tuple(x[-n_axes:]),
        weights[0],
        tuple(weights[2:]),
        _sizes(stride, n_axes, "stride", 1),
        _pairs(padding, n_axes),
        _sizes(dilation, n_axes, "dilation", 1),
        n_groups,
    )
    if min(geometry.output) < 1:
        raise ValueError(
            f"a sample of size {geometry.image} with padding {geometry.padding} is smaller than the kernel of size "
            f"{geometry.kernel} with dilation {geometry.dilation}"
        )
    return geometry


def _sizes(value: Any, n_axes: int, name: str, least: int) -> tuple[int, ...]:
    """Reads one number for all axes, or one for each."""
    items = list(value) if isinstance(value, Sequence) else [value] * n_axes
    if len(items) != n_axes:
        raise ValueError(f"{name} is {value}; expected a number, or {n_axes} numbers")
    numbers = tuple(operator.index(item) for item in items)
    if min(numbers) < least:
        raise ValueError(f"{name} is {value}; it must be at least {least}")
    return numbers


def _pairs(padding: Any, n_axes: int) -> tuple[tuple[int, int], ...]:
    """Reads padding before and after along each axis."""
    items = list(padding) if isinstance(padding, Sequence) else [padding] * n_axes
    if len(items) != n_axes:
        raise ValueError(f"padding is {padding}; expected a number, {n_axes} numbers, or {n_axes} pairs")
    pairs = [_sizes(item if isinstance(item, Sequence) else [item, item], 2, "padding", 0) for item in items]
    return tuple((before, after) for before, after in pairs)


def _product(x: Any, weights: Any, geometry: Geometry) -> Any:
    """The convolution in floating point."""
    is_one = x.ndim == len(geometry.image) + 1
    found = lax.conv_general_dilated(
        x[None] if is_one else x,
        weights,
        geometry.stride,
        geometry.padding,
        rhs_dilation=geometry.dilation,
        feature_group_count=geometry.groups,
    )
    return found[0] if is_one else found


def _depends_on_nan(x: Any, weights: Any, geometry: Geometry) -> Any:
    """Returns whether an output has a NaN among its pixels or weights; counted, because 0 times NaN is NaN in the padding of some algorithms."""
    hits = _product(jnp.isnan(x).astype(np.float32), jnp.ones(weights.shape, np.float32), geometry) > 0.5
    of_kernel = jnp.isnan(weights).any(axis=tuple(range(1, weights.ndim)))
    return hits | of_kernel.reshape(-1, *[1] * len(geometry.image))


@once
def _straight_through(geometry: Geometry) -> Any:
    """Returns the value unchanged, with the gradient of the convolution."""

    def value_of(x: Any, weights: Any, value: Any) -> Any:
        return value

    def forward(x: Any, weights: Any, value: Any) -> Any:
        return value, (x, weights)

    def backward(kept: Any, g: Any) -> Any:
        x, weights = kept
        dtype = jnp.result_type(x, weights)
        _, pull = jax.vjp(lambda x, w: _product(x, w, geometry), x.astype(dtype), weights.astype(dtype))
        by_x, by_weights = pull(g.astype(dtype))
        return by_x.astype(x.dtype), by_weights.astype(weights.dtype), jnp.zeros_like(g)

    function = jax.custom_vjp(value_of)
    function.defvjp(forward, backward)
    return function
