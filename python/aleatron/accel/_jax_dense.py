"""Dense layers through streams in JAX, with gradients. `aleatron.accel.jax_backend` exports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from aleatron._types import Polarity
from aleatron.accel._checks import as_length
from aleatron.accel._jax_counts import (
    constant,
    encode_operand,
    ends_of,
    inside,
    numerators,
    quotient,
)
from aleatron.accel._jax_streams import as_floats, jax, jnp, to_jax
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
    polarity: Polarity = "unipolar",
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
        "unipolar": AND products of values in [0, 1]; "bipolar": XNOR products of values in [-1, 1]; "signed": AND products of magnitudes,
        with signs.
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
    return _numerators(x, weights, length, seed, weight_seed, polarity, layer, first_row)[0]


def _numerators(
    x: Any,
    weights: Any,
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
    _check_shapes(np.shape(x), np.shape(weights))
    inputs = encode_operand(x, bits, seed, polarity, Domain.INPUT, layer, first_row)
    streams = encode_operand(weights, bits, weight_seed, polarity, Domain.WEIGHT, layer)
    return numerators(streams, inputs, bits, polarity)


def jax_dense(
    x: Any,
    weights: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    weight_seed: Any = 24301,
    *,
    polarity: Polarity = "unipolar",
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Computes a dense layer through streams; gradients are those of the product `x @ weights.T` that it estimates.

    The forward pass is the value of `jax_dense_counts`: c / L, (2 c - n L) / L for bipolar layers, or (c - n L) / L for signed ones. The backward pass goes
    straight through the streams, so a network learns with the noise it will have. Vary the seeds from step to step.

    Values outside the interval are a ValueError. Inside jit, where values are traced, they are clipped to it, where
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
    low, high = ends_of(polarity)
    bits = as_length(length)
    # The gradient is taken with respect to these. Host values are encoded in float64, before JAX rounds them to its own type.
    inside_x, inside_w = inside(as_floats(to_jax(x)), low, high), inside(as_floats(to_jax(weights)), low, high)
    _check_shapes(inside_x.shape, inside_w.shape)
    _, numerator = _numerators(constant(x), constant(weights), bits, seed, weight_seed, polarity, layer, first_row)
    value = quotient(numerator, bits, jnp.result_type(inside_x, inside_w))
    # `inside` leaves NaN as it is.
    value = value + _nan_of(inside_x)[..., None] + _nan_of(inside_w)
    return _straight_through()(inside_x, inside_w, value)


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
    """Returns the value unchanged, with the gradient of x @ weights.T."""

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
