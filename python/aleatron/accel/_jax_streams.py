"""Streams in JAX: packed words, encoding, dense layers. `aleatron.accel.jax_backend` exports them.

Words of 64 bits need JAX's 64-bit mode. Where it is off, a word is a pair of uint32, the low one first, along a last axis of two.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_words, first_index, read
from aleatron.accel._checks import (
    as_length,
    as_seed,
    as_values,
    check_bits,
    check_layer,
    interval,
    words_of,
)
from aleatron.accel._optional import once, optional
from aleatron.accel.numpy_streams import Domain, address

if TYPE_CHECKING:
    from jax import Array as JaxArray

jax: Any
jnp: Any
lax: Any
jax, WHY_NO_JAX = optional("jax", "jax")
jnp, _ = optional("jax.numpy", "jax")
lax, _ = optional("jax.lax", "jax")

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
INCREMENTS = 0x9E3779B9, 0xBB67AE85
DRAWS = 8


def is_traced(*arrays: Any) -> bool:
    """Returns whether a value is traced: an argument inside jit, grad or vmap."""
    return any(isinstance(array, jax.core.Tracer) for array in arrays)


def has_64_bits() -> bool:
    """Returns whether JAX is in its 64-bit mode."""
    return bool(jax.config.jax_enable_x64)


def to_jax(arr: Any) -> JaxArray:
    """Returns an array on JAX's device.

    uint64 arrays are packed words: if JAX's 64-bit mode is off they become pairs of uint32, of shape (\\*shape, 2), instead of
    losing their upper halves.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import to_host, to_jax
    >>> to_host(to_jax([0.5, 0.25])).tolist()
    [0.5, 0.25]
    """
    if isinstance(arr, jax.Array):
        return arr
    host = read(arr, "arr")
    if host.dtype == np.uint64 and not has_64_bits():
        little = np.ascontiguousarray(host).astype("<u8", copy=False)
        return jnp.asarray(little.reshape(-1).view("<u4").astype(np.uint32, copy=False).reshape(*host.shape, 2))
    if host.dtype.kind in "iu" and host.dtype.itemsize == 8 and not has_64_bits():
        wrong = (host < -(2**31)) | (host >= 2**31)
        if wrong.any():
            index = first_index(wrong)
            raise ValueError(f"arr at index {index} is {host[index]}: it needs JAX's 64-bit mode")
    return jnp.asarray(host)


def to_host(arr: Any) -> npt.NDArray[Any]:
    """Returns a JAX array as a NumPy array; pairs of uint32 become the uint64 words they are.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_pack_bitstream, to_host
    >>> to_host(jax_pack_bitstream([1, 0, 1, 1]))
    array([13], dtype=uint64)
    """
    host = np.asarray(arr)
    if host.dtype == np.uint32 and host.ndim and host.shape[-1] == 2:
        return np.asarray(host[..., 0].astype(np.uint64) | (host[..., 1].astype(np.uint64) << np.uint64(32)))
    return host


def as_floats(array: Any) -> Any:
    """Converts numbers to float32, or keeps float64."""
    if not (
        jnp.issubdtype(array.dtype, np.floating) or jnp.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_
    ):
        raise TypeError(f"expected real numbers, not {array.dtype}")
    if array.dtype in (np.float32, np.float64):
        return array
    is_wide = jnp.issubdtype(array.dtype, np.integer) and has_64_bits()
    return array.astype(np.float64 if is_wide else np.float32)


def words_array(obj: Any, name: str) -> Any:
    """Packed words on the device: uint64, or pairs of uint32."""
    if not isinstance(obj, jax.Array):
        return to_jax(as_words(obj, name))
    pairs = obj.dtype == np.uint32 and obj.ndim > 0 and obj.shape[-1] == 2
    if obj.dtype != np.uint64 and not pairs:
        raise TypeError(f"{name} must hold packed words (uint64, or pairs of uint32), not {obj.dtype}{obj.shape}")
    return obj


def words_shape(words: Any) -> tuple[int, ...]:
    """The shape in words of 64 bits."""
    shape: tuple[int, ...] = tuple(words.shape)
    return shape if words.dtype == np.uint64 else shape[:-1]


def _same_form(a: Any, b: Any) -> tuple[Any, Any]:
    """Converts two arrays to one form: words are split if the other array has pairs."""
    if a.dtype == b.dtype:
        return a, b
    return _halves(a), _halves(b)


def _halves(words: Any) -> Any:
    """Words as pairs of uint32."""
    if words.dtype == np.uint32:
        return words
    return jnp.stack([words.astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)], axis=-1)


def _words(halves: Any) -> Any:
    """Joins pairs of uint32 into words, if JAX supports them."""
    if not has_64_bits():
        return halves
    wide = halves.astype(np.uint64)
    return wide[..., 0] | (wide[..., 1] << np.uint64(32))


def jax_pack_bitstream(bits: Any) -> JaxArray:
    """Packs zeros and ones along the last axis into words.

    A value other than 0 and 1 is a ValueError with its index; inside jit, where values are traced, any nonzero value is a one.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_pack_bitstream, to_host
    >>> to_host(jax_pack_bitstream([[1] * 65, [0] * 65])).tolist()
    [[18446744073709551615, 1], [0, 0]]
    """
    if not is_traced(bits):
        bits = check_bits(np.asarray(bits) if isinstance(bits, jax.Array) else read(bits, "bits"), "bits")
    if bits.ndim == 0:
        raise ValueError("bits must have at least one axis")
    return _words(_pack()(jnp.asarray(bits)))


@once
def _pack() -> Any:
    def pack(bits: Any) -> Any:
        n = bits.shape[-1]
        ones = (bits != 0).astype(np.uint32)
        padded = jnp.pad(ones, [(0, 0)] * (bits.ndim - 1) + [(0, -n % 64)])
        grouped = padded.reshape(*bits.shape[:-1], words_of(n), 2, 32)
        return (grouped << jnp.arange(32, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)

    return jax.jit(pack)


def jax_vec_and(a: Any, b: Any) -> JaxArray:
    """Returns the bits that are one in both packed arrays, which broadcast: the product of independent unipolar streams.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_vec_and, to_host
    >>> to_host(jax_vec_and([12], [10])).tolist()
    [8]
    """
    left, right = words_array(a, "a"), words_array(b, "b")
    shapes = words_shape(left), words_shape(right)
    if shapes[0][-1:] != shapes[1][-1:]:
        raise ValueError(f"streams differ in words: shapes are {shapes[0]} and {shapes[1]}")
    left, right = _same_form(left, right)
    return left & right


def jax_popcount(packed: Any) -> JaxArray:
    """Counts the ones of each word, as int32; the result has the shape of the words.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_popcount
    >>> jax_popcount([0, 7]).tolist()
    [0, 3]
    """
    words = words_array(packed, "packed")
    ones = lax.population_count(words).astype(np.int32)
    return ones if words.dtype == np.uint64 else ones.sum(axis=-1, dtype=np.int32)


def jax_vec_mac(packed_weights: Any, packed_inputs: Any) -> JaxArray:
    """Multiplies and accumulates a dense layer: the ones of weights AND inputs, summed for each neuron.

    Parameters
    ----------
    packed_weights
        Streams of shape (n_neurons, n_inputs, words).
    packed_inputs
        Streams of shape (n_inputs, words), or (N, n_inputs, words) for a batch.

    Returns
    -------
    jax.Array
        Counts of shape (n_neurons,) or (N, n_neurons), int32, or int64 where a count could be larger.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_vec_mac
    >>> jax_vec_mac([[[7], [1]], [[3], [0]]], [[6], [1]]).tolist()
    [3, 1]
    """
    w, x = words_array(packed_weights, "packed_weights"), words_array(packed_inputs, "packed_inputs")
    check_layer(words_shape(w), words_shape(x))
    return _mac()(*_same_form(w, x), _count_type(words_shape(w)))


def _count_type(shape: tuple[int, ...]) -> Any:
    """The type that holds every count of a layer."""
    if shape[1] * shape[2] * 64 < 2**31:
        return np.int32
    if not has_64_bits():
        raise ValueError(f"counts of weights of shape {shape} may pass 2**31: they need JAX's 64-bit mode")
    return np.int64


@once
def _mac() -> Any:
    def mac(w: Any, x: Any, count_type: Any) -> Any:
        # XLA fuses AND, count and sum: the products are never stored.
        def counts(w: Any, x: Any) -> Any:
            return lax.population_count(w & x).astype(count_type).sum(axis=-1, dtype=count_type)

        n_words = math.prod(w.shape[1:])
        is_batch = x.ndim == w.ndim
        w = w.reshape(w.shape[0], n_words)
        # On the CPU, XLA vectorises such sums inside a loop and not outside: five to nine times as fast.
        if not is_batch:
            x = x.reshape(n_words)
            return lax.platform_dependent(w, x, cpu=lambda w, x: lax.map(lambda row: counts(row, x), w), default=counts)
        x = x.reshape(x.shape[0], n_words)
        return lax.platform_dependent(
            w,
            x,
            cpu=lambda w, x: lax.map(lambda sample: counts(w, sample), x),
            default=lambda w, x: counts(w, x[:, None]),
        )

    return jax.jit(mac, static_argnums=2)


def seed_words(seed: Any) -> Any:
    """A seed as two uint32, the low one first: an integer of 64 bits, a traced integer of 32, or the two words themselves."""
    if isinstance(seed, jax.Array):
        is_scalar = seed.ndim == 0 and seed.dtype.kind in "iu"
        if is_scalar and not is_traced(seed):
            return seed_words(int(seed))
        if is_scalar:
            if seed.dtype.itemsize == 8:
                return jnp.stack([seed.astype(np.uint32), (seed >> 32).astype(np.uint32)])
            return jnp.stack([seed.astype(np.uint32), jnp.zeros((), np.uint32)])
        if seed.shape == (2,) and seed.dtype == np.uint32:
            return seed
        raise TypeError(f"a seed in JAX is an integer or two uint32, not {seed.dtype}{seed.shape}")
    value = as_seed(seed)
    return np.array([value & 0xFFFFFFFF, value >> 32], np.uint32)


def jax_encode(
    probs: Any,
    length: SupportsIndex,
    seed: Any = 44257,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    domain: Domain = Domain.INPUT,
    layer: SupportsIndex = 0,
    first_row: Any = 0,
) -> JaxArray:
    """Encodes values as packed streams: the bits of `aleatron.encode`, also inside jit.

    Values on the host are taken in float64 as they are. Those of a JAX array are what its own type holds: the streams of a float32
    array are those of its values. Inside jit, where values are traced, those outside the interval are clipped to its
    ends and NaN is read as the lower end.

    Parameters
    ----------
    probs
        Values in [0, 1], or in [-1, 1] for bipolar streams. The last axis is the unit, all before it the row.
    length
        Bits per stream; static.
    seed
        An integer of 64 bits. A traced integer, or two uint32 with the low word first, may vary inside jit.
    domain, layer
        What the streams are for, as in `aleatron.accel.numpy_streams.encode`; static.
    first_row
        The row of the first sample; it may be traced.

    Returns
    -------
    jax.Array
        Words of shape (\\*probs.shape, ceil(length / 64)), as pairs of uint32 if JAX's 64-bit mode is off.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_encode, to_host
    >>> to_host(jax_encode([0.0, 1.0], length=70)).tolist()
    [[0, 0], [18446744073709551615, 63]]
    """
    bits = as_length(length)
    if isinstance(probs, jax.Array):
        probs = as_floats(probs)
        if not is_traced(probs):
            _check_values(probs, polarity)
        low, one = limits(probs, polarity)
    else:
        # Thresholds are computed in float64 on the host, for any precision of JAX.
        values = as_values(probs, "probability", polarity)
        p = values if polarity == "unipolar" else (values + 1.0) / 2.0
        limit = np.floor(p * 2.0**32 + 0.5).astype(np.uint64)
        low, one = limit.astype(np.uint32), limit == 2**32
    # A traced row cannot be checked.
    known = 0 if is_traced(first_row) else operator.index(first_row)
    _, row, c3 = address(np.shape(low), domain, layer, known)
    halves = _encode()(
        low,
        one,
        seed_words(seed),
        first_row.astype(np.uint32) if is_traced(first_row) else np.uint32(row),
        np.uint32(c3),
        bits,
    )
    return _words(halves)


def _check_values(values: Any, polarity: str) -> None:
    """Raises an error for concrete values outside the interval; only the wrong values are copied to the host."""
    low, high = interval(polarity)
    if not bool(((values >= low) & (values <= high)).all()):
        as_values(np.asarray(values), "probability", polarity)


def limits(values: Any, polarity: str) -> tuple[Any, Any]:
    """Thresholds floor(p * 2**32 + 0.5) of floats in JAX: their low 32 bits, and whether they are 2**32."""
    low, high = interval(polarity)
    values = jnp.clip(jnp.nan_to_num(values, nan=low), low, high)
    one = values >= 1.0
    if values.dtype == np.float64:
        p = values if polarity == "unipolar" else (values + 1.0) / 2.0
        limit = jnp.floor(p * 2.0**32 + 0.5).astype(np.uint64)
        return limit.astype(np.uint32), limit >> np.uint64(32) != 0
    # The float64 result, computed in float32: every factor below is a power of two, so products are exact, and no float32 below
    # 1 is close enough to it to round up.
    if polarity == "unipolar":
        whole, up = _rounded(values * 2.0**32)
        return jnp.where(one, 0.0, whole).astype(np.uint32) + up, one
    # In float64, v + 1 is rounded to a multiple of 2**-52, or of 2**-53 below 1. This changes only |v| < 2**-28.
    unit = jnp.where(values >= 0, np.float32(2.0**52), np.float32(2.0**53))
    values = jnp.round(values * unit) / unit
    # (v + 1) * 2**31 = 2**31 + v * 2**31; the second term fits int32 except for v = 1.
    whole, up = _rounded(values * 2.0**31)
    signed = jnp.where(one, -(2.0**31), whole).astype(np.int32)
    return lax.bitcast_convert_type(signed, np.uint32) + np.uint32(2**31) + up, one


def _rounded(x: Any) -> tuple[Any, Any]:
    """floor(x), and 1 where the rest is at least a half; x - floor(x) is exact."""
    whole = jnp.floor(x)
    return whole, (x - whole >= 0.5).astype(np.uint32)


@once
def _encode() -> Any:
    def encode(low: Any, one: Any, key: Any, row: Any, c3: Any, length: int) -> Any:
        low, one = jnp.asarray(low), jnp.asarray(one)
        shape = low.shape
        units = shape[-1] if shape else 1
        used = -(-length // 32)
        flat = low.reshape(-1, 1)
        n = flat.shape[0]
        index = lax.iota(np.uint32, n)[:, None]
        unit, rows = index % np.uint32(max(units, 1)), index // np.uint32(max(units, 1)) + row
        word = lax.iota(np.uint32, used)[None, :] * np.uint32(8)
        ones = jnp.where(one.reshape(-1, 1), np.uint32(0xFFFFFFFF), np.uint32(0))
        state = (jnp.broadcast_to(ones, (n, used)), jnp.full((n, used), 0xFFFFFFFF, np.uint32))

        def draw(d: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            result, undecided = state
            d = d.astype(np.uint32)
            planes = philox((word + d, unit, rows, c3), key)
            limit = flat << (np.uint32(4) * d)
            for m, plane in enumerate(planes):
                # All ones where the threshold has a one at this plane.
                mask = np.uint32(0) - ((limit >> np.uint32(31 - m)) & np.uint32(1))
                result = result | (undecided & ~plane & mask)
                undecided = undecided & (plane ^ ~mask)
            return result, undecided

        result, _ = lax.fori_loop(0, DRAWS, draw, state)
        if length % 32:
            last = np.uint32((1 << length % 32) - 1)
            result = result & jnp.where(lax.iota(np.uint32, used) == used - 1, last, np.uint32(0xFFFFFFFF))
        result = jnp.pad(result, [(0, 0), (0, used % 2)])
        return result.reshape(*shape, words_of(length), 2)

    return jax.jit(encode, static_argnums=5)


def philox(counter: tuple[Any, Any, Any, Any], key: Any) -> tuple[Any, Any, Any, Any]:
    """Philox 4x32-10 over uint32 arrays that broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key[0], key[1]
    for _ in range(10):
        hi0, lo0 = _multiply(c0, MULTIPLIERS[0])
        hi1, lo1 = _multiply(c2, MULTIPLIERS[1])
        c0, c1, c2, c3 = hi1 ^ c1 ^ k0, lo1, hi0 ^ c3 ^ k1, lo0
        k0, k1 = k0 + np.uint32(INCREMENTS[0]), k1 + np.uint32(INCREMENTS[1])
    return c0, c1, c2, c3


def _multiply(a: Any, b: int) -> tuple[Any, Any]:
    """The upper and lower word of a product of 32-bit words, in 32-bit arithmetic."""
    sixteen, mask = np.uint32(16), np.uint32(0xFFFF)
    b_low, b_high = np.uint32(b & 0xFFFF), np.uint32(b >> 16)
    a_low, a_high = a & mask, a >> sixteen
    middle = a_high * b_low + (a_low * b_low >> sixteen)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> sixteen) + (other >> sixteen), a * np.uint32(b)
