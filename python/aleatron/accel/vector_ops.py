"""Packed streams in NumPy: pack, unpack, the gates, and counting, on one stream or a batch.

A stream of N bits is ceil(N / 64) uint64 words along the last axis, bit k being bit k % 64 of word k // 64; bits past N are
zero. NOT and XNOR would set them, so these two take the length. Without it the streams are whole words: 64 bits a word.

>>> from aleatron.accel.vector_ops import pack_bitstream, vec_not, vec_popcount
>>> packed = pack_bitstream([1, 0, 0])
>>> vec_popcount(vec_not(packed, length=3)), vec_popcount(vec_not(packed))
(2, 63)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_words, read
from aleatron.accel._checks import Words, as_length, check_bits, check_tails, tail_mask, words_of
from aleatron.accel.numpy_streams import count_ones

__all__ = [
    "pack_bitstream",
    "unpack_bitstream",
    "vec_and",
    "vec_mux",
    "vec_not",
    "vec_popcount",
    "vec_xnor",
]


def pack_bitstream(bitstream: npt.ArrayLike) -> Words:
    """Packs zeros and ones along the last axis into uint64 words.

    Parameters
    ----------
    bitstream
        Bits of shape (N,) or (Batch, N), of any number type. A value other than 0 and 1 is a ValueError with its index.

    Returns
    -------
    numpy.ndarray
        uint64 of shape (ceil(N / 64),) or (Batch, ceil(N / 64)).

    Examples
    --------
    >>> from aleatron.accel.vector_ops import pack_bitstream
    >>> pack_bitstream([1, 0, 1, 1])
    array([13], dtype=uint64)
    >>> pack_bitstream([[1] * 65, [0] * 65]).tolist()
    [[18446744073709551615, 1], [0, 0]]
    >>> pack_bitstream([0, 2])
    Traceback (most recent call last):
        ...
    ValueError: bitstream at index 1 is 2, neither 0 nor 1
    """
    bits = read(bitstream, "bitstream")
    if bits.ndim == 0:
        raise ValueError("bitstream must have at least one axis")
    packed = np.packbits(check_bits(bits, "bitstream"), axis=-1, bitorder="little")
    out = np.zeros((*bits.shape[:-1], words_of(bits.shape[-1]) * 8), np.uint8)
    out[..., : packed.shape[-1]] = packed
    return np.asarray(out.view("<u8").astype(np.uint64, copy=False))


def unpack_bitstream(
    packed: npt.ArrayLike, original_length: SupportsIndex, original_shape: Sequence[int] | None = None
) -> npt.NDArray[np.uint8]:
    """Unpacks words to uint8 zeros and ones.

    Parameters
    ----------
    packed
        Words of shape (words,), or (Batch, words) for a batch.
    original_length
        How many bits to take, of all streams together.
    original_shape
        The shape of the result. For a batch its last number is the bits of each stream, and `original_length` may be
        that of one stream or of all of them.

    Returns
    -------
    numpy.ndarray
        uint8 of shape (original_length,), of (Batch, original_length / Batch), or of the requested shape.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import pack_bitstream, unpack_bitstream
    >>> unpack_bitstream(pack_bitstream([1, 0, 1, 1]), 4)
    array([1, 0, 1, 1], dtype=uint8)
    >>> unpack_bitstream(pack_bitstream([[1, 0, 1], [1, 1, 1]]), 6, (2, 3)).tolist()
    [[1, 0, 1], [1, 1, 1]]
    >>> unpack_bitstream([1], 65)
    Traceback (most recent call last):
        ...
    ValueError: 65 bits were asked for, but streams of 1 words have 64
    """
    words, total = as_words(packed, "packed"), operator.index(original_length)
    if words.ndim not in (1, 2):
        raise ValueError(f"packed has shape {words.shape}; expected (words,) or (Batch, words)")
    if total < 0:
        raise ValueError(f"original_length is {total}; it must not be negative")
    shape = None if original_shape is None else tuple(operator.index(n) for n in original_shape)
    if shape is not None and any(n < 0 for n in shape):
        raise ValueError(f"original_shape is {shape}; sizes must not be negative")
    rows = words.shape[0] if words.ndim == 2 else 1
    if words.ndim == 2 and shape is not None and shape and math.prod(shape) == rows * total:
        length = total
    elif shape is not None and math.prod(shape) != total:
        raise ValueError(f"original_shape {shape} does not hold {total} bits")
    elif rows and total % rows:
        raise ValueError(f"original_length is {total}, not a multiple of the {rows} streams")
    else:
        length = total // rows if rows else 0
    if not rows and total:
        raise ValueError(f"{total} bits were asked for, but there are no streams")
    if length > words.shape[-1] * 64:
        raise ValueError(
            f"{length} bits were asked for, but streams of {words.shape[-1]} words have {words.shape[-1] * 64}"
        )
    if words.shape[-1] == 0:
        bits = np.zeros((*words.shape[:-1], 0), np.uint8)
    else:
        bits = np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), axis=-1, bitorder="little")[..., :length]
    return np.ascontiguousarray(bits if shape is None else bits.reshape(shape))


def vec_and(a_packed: npt.ArrayLike, b_packed: npt.ArrayLike) -> Words:
    """Returns the bits that are one in both: the product of independent unipolar streams.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import vec_and
    >>> vec_and([12], [10]).tolist()
    [8]
    """
    return _gate(np.bitwise_and, a_packed, b_packed)


def vec_xnor(a_packed: npt.ArrayLike, b_packed: npt.ArrayLike, length: SupportsIndex | None = None) -> Words:
    """Returns the bits in which the two agree: the product of independent bipolar streams.

    `length` is the bits of a stream; without it, those of whole words.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import vec_xnor
    >>> vec_xnor([12], [10], length=4).tolist()
    [9]
    """
    return vec_not(_gate(np.bitwise_xor, a_packed, b_packed), length)


def vec_not(packed: npt.ArrayLike, length: SupportsIndex | None = None) -> Words:
    """Returns the complement: 1 - v, or -v of bipolar streams.

    `length` is the bits of a stream; without it, those of whole words.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import vec_not
    >>> vec_not([4], length=3).tolist()
    [3]
    """
    words = as_words(packed, "packed")
    if words.ndim == 0:
        raise ValueError("packed must have at least one axis")
    out = np.asarray(np.bitwise_not(words))
    if length is not None:
        bits = as_length(length)
        if words.shape[-1] != words_of(bits):
            raise ValueError(f"streams of {bits} bits have shape (..., {words_of(bits)}), not {words.shape}")
        check_tails(words, "packed", bits)
        out[..., -1] &= tail_mask(bits)
    return out


def vec_mux(select_packed: npt.ArrayLike, a_packed: npt.ArrayLike, b_packed: npt.ArrayLike) -> Words:
    """Returns the bits of `a` where `select` is one and those of `b` where it is zero.

    With a select stream of 1/2 that is the scaled sum (a + b) / 2.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import vec_mux
    >>> vec_mux([12], [10], [5]).tolist()
    [9]
    """
    differ = _gate(np.bitwise_xor, a_packed, b_packed)
    return _gate(np.bitwise_xor, _gate(np.bitwise_and, select_packed, differ), b_packed)


@overload
def vec_popcount(packed: npt.ArrayLike, axis: None = None) -> int: ...
@overload
def vec_popcount(packed: npt.ArrayLike, axis: Literal[-1]) -> Words: ...
def vec_popcount(packed: npt.ArrayLike, axis: Literal[-1] | None = None) -> int | Words:
    """Counts ones: all of them, or with axis=-1 those of each stream.

    Examples
    --------
    >>> from aleatron.accel.vector_ops import vec_popcount
    >>> vec_popcount([[3, 1], [0, 7]]), vec_popcount([[3, 1], [0, 7]], axis=-1).tolist()
    (6, [3, 3])
    """
    words = as_words(packed, "packed")
    if axis is None:
        return int(count_ones(words).sum(dtype=np.uint64))
    if axis != -1 or words.ndim == 0:
        raise ValueError(f"axis is {axis!r}, not None or -1: streams lie along the last axis")
    return np.asarray(count_ones(words).sum(axis=-1, dtype=np.uint64))


def _gate(gate: Any, a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    left, right = as_words(a, "packed words"), as_words(b, "packed words")
    if left.shape[-1:] != right.shape[-1:]:
        raise ValueError(f"streams differ in words: shapes are {left.shape} and {right.shape}")
    return np.asarray(gate(left, right))
