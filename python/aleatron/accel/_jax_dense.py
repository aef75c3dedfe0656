"""Dense layers through streams in JAX, with gradients. `aleatron.accel.jax_backend` is where they are used from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from aleatron.accel._checks import as_length, interval
from aleatron.accel._jax_streams import (
    as_floats,
    jax,
    jax_encode,
    jax_vec_mac,
    jnp,
    lax,
    to_jax,
)
from aleatron.accel._optional import once
from aleatron.accel.numpy_streams import Domain

if TYPE_CHECKING:
    from jax import Array as JaxArray


def jax_dense_counts(
    x: Any,
    weights: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    weight_seed: Any = 24301,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Counts the products of a dense layer: encodes inputs and weights, multiplies streams, counts ones.

    The counts are those of `aleatron.DenseLayer.from_weights(weights, length, weight_seed, polarity)` for the seed.

    Parameters
    ----------
    x
        Values of shape (n_inputs,), or (N, n_inputs) for a batch.
    weights
        Weights of shape (n_neurons, n_inputs).
    length
        Bits per stream; static.
    seed, weight_seed
        The seeds of the input and weight streams; traced ones may vary inside jit.
    polarity
        AND products of values in [0, 1], or XNOR products of values in [-1, 1].
    layer, first_row
        The layer's index in a network and the row of the first sample.

    Returns
    -------
    jax.Array
        Integer counts of shape (n_neurons,) or (N, n_neurons).

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_dense_counts
    >>> jax_dense_counts([1.0, 0.0], [[1.0, 1.0], [0.0, 1.0]], length=64).tolist()
    [64, 0]
    """
    bits = as_length(length)
    inputs = jax_encode(x, bits, seed, polarity=polarity, layer=layer, first_row=first_row)
    streams = jax_encode(weights, bits, weight_seed, polarity=polarity, domain=Domain.WEIGHT, layer=layer)
    counts = jax_vec_mac(streams, inputs)
    if polarity == "unipolar":
        return counts
    n = np.shape(weights)[1] * bits
    return n - _ones(streams, counts) - _ones(inputs, counts)[..., None] + 2 * counts


def _ones(words: Any, like: Any) -> Any:
    """The ones of all streams of a neuron or of a sample."""
    axes = (-3, -2, -1) if words.dtype == np.uint32 else (-2, -1)
    return lax.population_count(words).astype(like.dtype).sum(axis=axes, dtype=like.dtype)


def jax_dense(
    x: Any,
    weights: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    weight_seed: Any = 24301,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Computes a dense layer through streams; gradients are those of the product `x @ weights.T` that it estimates.

    The forward pass is the value of `jax_dense_counts`: c / L, or (2 c - n L) / L for bipolar layers. The backward pass goes
    straight through the streams, so a network learns with the noise it will have. Vary the seeds from step to step.

    Values outside the interval are a ValueError. Inside jit, where values are not known, they are moved to its ends, where
    the gradient is zero, and NaN makes the outputs that depend on it NaN.

    Parameters are those of `jax_dense_counts`.

    Examples
    --------
    >>> import jax
    >>> from aleatron.accel.jax_backend import jax_dense, jnp
    >>> x, w = jnp.array([0.5, 1.0]), jnp.array([[0.25, 0.75]])
    >>> bool(abs(jax_dense(x, w, length=4096)[0] - 0.875) < 0.05)
    True
    >>> jax.grad(lambda w: jax_dense(x, w, length=64).sum())(w).tolist()
    [[0.5, 1.0]]
    """
    low, high = interval(polarity)
    bits = as_length(length)
    # The gradient is taken with respect to these. Host values are encoded in float64, before JAX rounds them to its own type.
    inside_x, inside_w = _inside(as_floats(to_jax(x)), low, high), _inside(as_floats(to_jax(weights)), low, high)
    _check_shapes(inside_x.shape, inside_w.shape)
    counts = jax_dense_counts(
        _constant(x),
        _constant(weights),
        bits,
        seed,
        weight_seed,
        polarity=polarity,
        layer=layer,
        first_row=first_row,
    )
    if polarity == "bipolar":
        counts = 2 * counts - inside_w.shape[1] * bits
    # XLA replaces division by a constant with multiplication by its reciprocal, which rounds differently. A divisor that
    # depends on the data prevents that.
    divisor = jnp.where(counts == np.iinfo(counts.dtype).min, 1, bits)
    floats = jnp.result_type(inside_x, inside_w)
    value = counts.astype(floats) / divisor.astype(floats)
    # `_inside` leaves NaN as it is.
    value = value + _nan_of(inside_x)[..., None] + _nan_of(inside_w)
    return _straight_through()(inside_x, inside_w, value)


def _constant(obj: Any) -> Any:
    """What is encoded, cut off from gradients."""
    return lax.stop_gradient(obj) if isinstance(obj, jax.Array) else obj


def _inside(values: Any, low: float, high: float) -> Any:
    """Values moved into an interval: the gradient is one inside, ends included, and zero outside."""
    return jnp.where(values < low, low, jnp.where(values > high, high, values))


def _nan_of(values: Any) -> Any:
    return jnp.where(jnp.isnan(values).any(axis=-1), jnp.nan, 0.0).astype(values.dtype)


def _check_shapes(x: tuple[int, ...], weights: tuple[int, ...]) -> None:
    if len(weights) != 2:
        raise ValueError(f"weights have shape {weights}, not (n_neurons, n_inputs)")
    n = weights[1]
    if len(x) not in (1, 2) or x[-1] != n:
        raise ValueError(f"x has shape {x}; expected ({n},) for a sample or (N, {n}) for a batch")


@once
def _straight_through() -> Any:
    """The value as it is, with the gradient of x @ weights.T."""

    def value_of(x: Any, weights: Any, value: Any) -> Any:
        return value

    def forward(x: Any, weights: Any, value: Any) -> Any:
        return value, (x, weights)

    def backward(kept: Any, g: Any) -> Any:
        x, weights = kept
        batch = (g.ndim - 1) * [0]
        by_x = (g @ weights).astype(x.dtype)
        by_weights = jnp.tensordot(g, x, axes=(batch, batch)) if batch else jnp.outer(g, x)
        return by_x, by_weights.astype(weights.dtype), jnp.zeros_like(g)

    function = jax.custom_vjp(value_of)
    function.defvjp(forward, backward)
    return function
