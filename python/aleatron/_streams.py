"""Gates and measures of packed streams: uint64 arrays of shape (..., words), as `encode` and `pack` return them.

AND multiplies independent unipolar streams, XNOR bipolar ones; operands broadcast as NumPy's do. Bits past a stream's length
are zero in every result, so a gate that would set them takes the length.
"""

from __future__ import annotations

import operator
from typing import Any, Literal, SupportsIndex, cast, overload

import numpy as np
import numpy.typing as npt

from aleatron import _core
from aleatron._arrays import as_words, first_index

Words = npt.NDArray[np.uint64]


def and_(a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    """Returns the bits that are one in both: the product of independent unipolar streams.

    Examples
    --------
    >>> import aleatron as al
    >>> al.unpack(al.and_(al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0])), 4).tolist()
    [1, 0, 0, 0]
    >>> a, b = al.encode(0.5, 4096, seed=1), al.encode(0.4, 4096, seed=2)
    >>> bool(abs(al.decode(al.and_(a, b), 4096) - 0.5 * 0.4) < 0.03)
    True
    """
    return _same_words(np.bitwise_and, a, b)


def or_(a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    """Returns the bits that are one in at least one."""
    return _same_words(np.bitwise_or, a, b)


def xor(a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    """Returns the bits in which the two differ."""
    return _same_words(np.bitwise_xor, a, b)


def xnor(a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex) -> Words:
    """Returns the bits in which the two agree: the product of independent bipolar streams.

    Examples
    --------
    >>> import aleatron as al
    >>> al.unpack(al.xnor(al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0]), length=4), 4).tolist()
    [1, 0, 0, 1]
    """
    return not_(_same_words(np.bitwise_xor, a, b), length)


def not_(a: npt.ArrayLike, length: SupportsIndex) -> Words:
    """Returns the complement of streams of `length` bits: 1 - v, or -v for bipolar ones.

    Examples
    --------
    >>> import aleatron as al
    >>> al.popcount(al.not_(al.pack([1, 0, 0]), length=3))
    2
    """
    words = as_words(a, "a")
    mask = _check_tail(words, length)
    out = np.bitwise_not(words, out=np.empty_like(words))
    out[..., -1] &= mask
    return out


def mux(select: npt.ArrayLike, a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    """Returns the bits of `a` where `select` is one, and those of `b` where it is zero.

    With a select stream of 1/2 that is the scaled sum (a + b) / 2.

    Examples
    --------
    >>> import aleatron as al
    >>> al.unpack(al.mux(al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0]), al.pack([0, 1, 0, 1])), 4).tolist()
    [1, 0, 0, 1]
    """
    # b ^ (select & (a ^ b)): one temporary, and no tail to clean.
    out = _same_words(np.bitwise_xor, a, b)
    out = _same_words(np.bitwise_and, select, out)
    return _same_words(np.bitwise_xor, out, b)


@overload
def popcount(words: npt.ArrayLike, axis: None = None) -> int: ...
@overload
def popcount(words: npt.ArrayLike, axis: Literal[-1]) -> Words: ...
def popcount(words: npt.ArrayLike, axis: Literal[-1] | None = None) -> int | Words:
    """Counts ones: all of them, or those of each stream along the last axis.

    Parameters
    ----------
    words
        Packed words of any shape.
    axis
        None for one number, -1 for an array of shape words.shape[:-1].

    Examples
    --------
    >>> import aleatron as al
    >>> al.popcount([[3, 1], [0, 7]])
    6
    >>> al.popcount([[3, 1], [0, 7]], axis=-1)
    array([3, 3], dtype=uint64)
    """
    if axis is None:
        return cast(int, _core._count_ones(words, False))
    if axis != -1:
        raise ValueError(f"axis is {axis!r}, not None or -1: streams lie along the last axis")
    return cast(Words, _core._count_ones(words, True))


def decode(
    words: npt.ArrayLike, length: SupportsIndex, *, polarity: Literal["unipolar", "bipolar"] = "unipolar"
) -> npt.NDArray[np.float64]:
    """Returns the values of streams along the last axis: the share of ones, or twice that less one.

    Examples
    --------
    >>> import aleatron as al
    >>> al.decode(al.pack([[1, 1, 0, 0], [1, 1, 1, 1]]), length=4)
    array([0.5, 1. ])
    >>> al.decode(al.pack([[1, 1, 0, 0], [1, 1, 1, 1]]), length=4, polarity="bipolar")
    array([0., 1.])
    """
    array = as_words(words, "words")
    _check_tail(array, length)
    ones = np.asarray(popcount(array, axis=-1)).astype(np.float64)
    if polarity == "unipolar":
        return ones / float(operator.index(length))
    if polarity == "bipolar":
        return (2.0 * ones - float(operator.index(length))) / float(operator.index(length))
    raise ValueError(f'polarity is {polarity!r}, not "unipolar" or "bipolar"')


def hamming_distance(a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    """Counts, for each pair of streams along the last axis, the bits in which the two differ.

    Examples
    --------
    >>> import aleatron as al
    >>> int(al.hamming_distance(al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0])))
    2
    """
    return popcount(xor(a, b), axis=-1)


def scc(a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex) -> npt.NDArray[np.float64]:
    """Returns the stochastic computing correlation of pairs of streams along the last axis, in [-1, 1].

    0 is what AND as a multiplier needs: the overlap that independent streams have on average. 1 is the largest overlap that streams
    with these numbers of ones can have, -1 the smallest.

    Examples
    --------
    >>> import aleatron as al
    >>> a, b = al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0])
    >>> float(al.scc(a, b, length=4)), float(al.scc(a, a, length=4)), float(al.scc(a, al.not_(a, 4), length=4))
    (0.0, 1.0, -1.0)
    """
    return _correlation(a, b, length, "scc")


def zce(a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex) -> npt.NDArray[np.float64]:
    """Returns the zero correlation error of pairs of streams along the last axis.

    That is how far their overlap is from that of independent streams, beyond what the length makes inevitable: 0 where no other
    arrangement of the bits would be closer.

    Examples
    --------
    >>> import aleatron as al
    >>> a, b = al.pack([1, 1, 0, 0]), al.pack([1, 0, 1, 0])
    >>> float(al.zce(a, b, length=4)), float(al.zce(a, a, length=4))
    (0.0, 0.25)
    """
    return _correlation(a, b, length, "zce")


def _correlation(a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex, measure: str) -> npt.NDArray[np.float64]:
    left, right = as_words(a, "a"), as_words(b, "b")
    for words in (left, right):
        _check_tail(words, length)
    left, right = np.broadcast_arrays(left, right)
    return _core._correlation(np.ascontiguousarray(left), np.ascontiguousarray(right), length, measure)


def _words(obj: npt.ArrayLike, name: str) -> Words:
    # NumPy's gates take any memory order: words are used unchanged.
    if type(obj) is np.ndarray and obj.dtype == np.uint64:
        return obj
    return as_words(obj, name)


def _same_words(gate: Any, a: npt.ArrayLike, b: npt.ArrayLike) -> Words:
    left, right = _words(a, "a"), _words(b, "b")
    if left.shape[-1:] != right.shape[-1:]:
        raise ValueError(f"streams differ in words: shapes are {left.shape} and {right.shape}")
    return cast(Words, gate(left, right))


def _check_tail(words: Words, length: SupportsIndex) -> np.uint64:
    """Checks that streams of `length` bits take these words, with no ones past them; returns the bits of the last word that are theirs."""
    bits = operator.index(length)
    if bits < 1:
        raise ValueError(f"length is {bits}; it must be at least 1")
    expected = -(-bits // 64)
    if words.ndim == 0 or words.shape[-1] != expected:
        raise ValueError(f"streams of {bits} bits have shape (..., {expected}), not {words.shape}")
    mask = np.uint64((1 << ((bits - 1) % 64 + 1)) - 1)
    dirty = (words[..., -1] & ~mask) != 0
    if dirty.any():
        place = f" at index {first_index(dirty)}" if dirty.ndim else ""
        raise ValueError(f"stream{place} has ones past its {bits} bits")
    return mask
