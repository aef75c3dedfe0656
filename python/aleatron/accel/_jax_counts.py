"""Counts of products of streams in JAX, for dense layers and convolutions of every polarity."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from aleatron._types import Polarity
from aleatron.accel._checks import as_values, interval, tail_mask, words_of
from aleatron.accel._jax_streams import (
    as_floats,
    has_64_bits,
    is_traced,
    jax,
    jax_encode,
    jax_vec_mac,
    jnp,
    lax,
    to_jax,
)
from aleatron.accel.numpy_streams import Domain


class Operand(NamedTuple):
    """Streams of shape (..., n, words), and for signed ones whether each is negative, of shape (..., n).

    Negative streams are complemented: the specification counts products of signed operands this way without looking at signs bit by bit.
    """

    streams: Any
    negative: Any


def ends_of(polarity: str) -> tuple[float, float]:
    """Returns the values that streams of a polarity can have."""
    if polarity == "signed":
        return interval("bipolar")
    if polarity not in ("unipolar", "bipolar"):
        raise ValueError(f'polarity is {polarity!r}, not "unipolar", "bipolar" or "signed"')
    return interval(polarity)


def encode_operand(
    values: Any, bits: int, seed: Any, polarity: Polarity, domain: Domain, layer: SupportsIndex, first_row: Any = 0
) -> Operand:
    """Encodes values of shape (..., n); those outside the interval are errors if they are concrete."""
    if polarity != "signed":
        streams = jax_encode(values, bits, seed, polarity=polarity, domain=domain, layer=layer, first_row=first_row)
        return Operand(streams, None)
    if isinstance(values, jax.Array):
        values = as_floats(values)
        if not is_traced(values) and not bool((abs(values) <= 1).all()):
            as_values(np.asarray(values), "probability", "bipolar")
        magnitudes = jnp.abs(values)
    else:
        # Thresholds of host values are computed in float64.
        values = as_values(values, "probability", "bipolar")
        magnitudes = np.abs(values)
    streams = jax_encode(magnitudes, bits, seed, domain=domain, layer=layer, first_row=first_row)
    ones = np.full(words_of(bits), np.uint64(2**64 - 1))
    ones[-1] = tail_mask(bits)
    full = to_jax(ones)
    # -0.0 is not negative.
    negative = jnp.asarray(values < 0)
    mask = negative.reshape(*negative.shape, *[1] * full.ndim)
    return Operand(jnp.where(mask, streams ^ full, streams), negative)


def ones_of(words: Any, dtype: Any) -> Any:
    """Returns the ones of each stream."""
    axes = (-2, -1) if words.dtype == np.uint32 else (-1,)
    return lax.population_count(words).astype(dtype).sum(axis=axes, dtype=dtype)


def numerators(weights: Operand, inputs: Operand, bits: int, polarity: Polarity, valid: Any = None) -> tuple[Any, Any]:
    """Counts products: the counts, and the integers that are divided by the length to be values.

    Parameters
    ----------
    weights
        Streams of shape (m, n, words).
    inputs
        Streams of shape (..., n, words); those that `valid` leaves out are zeros and not negative.
    bits
        Bits per stream.
    polarity
        The polarity of both.
    valid
        Booleans that broadcast to (..., n), for excluded products; all products are included if not given.

    Returns
    -------
    tuple
        Two integer arrays of shape (..., m).
    """
    m, n = weights.streams.shape[:2]
    shape = inputs.streams.shape
    # Of one row: the streams and their words, which may be pairs.
    row_axes = weights.streams.ndim - 1
    rows = shape[:-row_axes]
    flat = inputs.streams.reshape(math.prod(rows), *shape[-row_axes:])
    counts = jax_vec_mac(weights.streams, flat).reshape(*rows, m)
    if polarity == "unipolar":
        return counts, counts
    if polarity == "signed":
        counts = _wide_enough(counts, 2 * n * bits)
    dtype = counts.dtype
    used = np.ones((n,), dtype) if valid is None else np.asarray(valid, dtype)
    # How many bits all products of a row have.
    total = (used.sum(axis=-1, dtype=dtype) * bits)[..., None].astype(dtype)
    of_weights, of_inputs = ones_of(weights.streams, dtype), ones_of(inputs.streams, dtype)
    if polarity == "bipolar":
        counts = total - used @ of_weights.T - of_inputs.sum(axis=-1, dtype=dtype)[..., None] + 2 * counts
        return counts, 2 * counts - total
    w, x = weights.negative.astype(dtype), inputs.negative.astype(dtype)
    value = counts - of_inputs @ w.T - x @ of_weights.T + bits * (x @ w.T)
    return value + total, value


def _wide_enough(counts: Any, largest: int) -> Any:
    """Returns counts in a type that holds the largest of a signed layer."""
    if largest < 2**31:
        return counts
    if not has_64_bits():
        raise ValueError(f"counts may be as large as {largest}: they need JAX's 64-bit mode")
    return counts.astype(np.int64)


def quotient(numerator: Any, bits: int, dtype: Any) -> Any:
    """Divides by the length, with one rounding of each number and one of the quotient."""
    # XLA replaces division by a constant with multiplication by its reciprocal, which rounds differently. A divisor that
    # depends on the data prevents that.
    divisor = jnp.where(numerator == np.iinfo(numerator.dtype).min, 1, bits)
    return numerator.astype(dtype) / divisor.astype(dtype)


def constant(obj: Any) -> Any:
    """Returns the encoded operands, without gradients."""
    return lax.stop_gradient(obj) if isinstance(obj, jax.Array) else obj


def inside(values: Any, low: float, high: float) -> Any:
    """Moves values into an interval: the gradient is one inside, ends included, and zero outside."""
    return jnp.where(values < low, low, jnp.where(values > high, high, values))
