"""The shared sequences of the stream specification in NumPy: LFSR, Sobol, Halton, ramp, and streams of them.

A sequence is integers of `width` bits; a stream of the probability p is one where they are below floor(p * 2**width + 0.5).

>>> from aleatron.accel import numpy_sequences as sequences
>>> sequences.lfsr(6, width=8, seed=1).tolist()
[1, 2, 4, 8, 17, 35]
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_words
from aleatron.accel._checks import Words, as_counter, as_values
from aleatron.accel.vector_ops import pack_bitstream

__all__ = ["encode_shared", "halton", "lfsr", "ramp", "sobol"]

Values = npt.NDArray[np.uint64]

TAPS: dict[int, tuple[int, ...]] = {
    3: (3, 2), 4: (4, 3), 5: (5, 3), 6: (6, 5), 7: (7, 6), 8: (8, 6, 5, 4), 9: (9, 5), 10: (10, 7),
    11: (11, 9), 12: (12, 6, 4, 1), 13: (13, 4, 3, 1), 14: (14, 5, 3, 1), 15: (15, 14), 16: (16, 15, 13, 4),
    17: (17, 14), 18: (18, 11), 19: (19, 6, 2, 1), 20: (20, 17), 21: (21, 19), 22: (22, 21), 23: (23, 18),
    24: (24, 23, 22, 17), 25: (25, 22), 26: (26, 6, 2, 1), 27: (27, 5, 2, 1), 28: (28, 25), 29: (29, 27),
    30: (30, 6, 4, 1), 31: (31, 28), 32: (32, 22, 2, 1),
}  # fmt: skip


def lfsr(
    count: SupportsIndex, *, width: SupportsIndex, seed: SupportsIndex, taps: Sequence[int] | None = None
) -> Values:
    """Returns the first states of a Fibonacci register that shifts left, the seed first.

    Examples
    --------
    >>> from aleatron.accel.numpy_sequences import lfsr
    >>> lfsr(5, width=3, seed=5, taps=(3, 2)).tolist()
    [5, 3, 7, 6, 4]
    """
    bits, state = _width(width, 3), operator.index(seed)
    if not 1 <= state < 2**bits:
        raise ValueError(f"seed is {state}, not in [1, 2**{bits})")
    chosen = tuple(operator.index(tap) for tap in (TAPS[bits] if taps is None else taps))
    if len(set(chosen)) != len(chosen) or not chosen or max(chosen) != bits or min(chosen) < 1:
        raise ValueError(f"taps are {chosen}; they must differ, lie in [1, {bits}] and include {bits}")
    mask = sum(1 << (tap - 1) for tap in chosen)
    out = np.empty(as_counter(count, "count", 40), np.uint64)
    for k in range(len(out)):
        out[k] = state
        state = (state << 1 | (state & mask).bit_count() & 1) & ((1 << bits) - 1)
    return out


def sobol(
    count: SupportsIndex,
    *,
    width: SupportsIndex,
    degree: SupportsIndex = 0,
    polynomial: SupportsIndex = 0,
    initial: Sequence[int] = (),
    first: SupportsIndex = 0,
) -> Values:
    """Returns points of one dimension of a Sobol sequence, given its row of the table of Joe and Kuo.

    Parameters
    ----------
    count, first
        How many points, and the index of the first.
    width
        The bits of an integer.
    degree, polynomial, initial
        s, a and m_1, …, m_s of the row; nothing for dimension 1.

    Examples
    --------
    >>> from aleatron.accel.numpy_sequences import sobol
    >>> sobol(6, width=8).tolist()
    [0, 128, 192, 64, 96, 224]
    >>> sobol(6, width=8, degree=2, polynomial=1, initial=(1, 3)).tolist()
    [0, 128, 64, 192, 160, 32]
    """
    bits, s, a = _width(width, 1), operator.index(degree), operator.index(polynomial)
    m = [operator.index(number) for number in initial]
    if s < 0 or len(m) != s or (s and not 0 <= a < 2 ** (s - 1)):
        raise ValueError(
            f"a polynomial of degree {s} has {s} initial numbers and {max(s - 1, 0)} bits, not {m} and {a}"
        )
    if any(number % 2 == 0 or not 0 < number < 2 << i for i, number in enumerate(m)):
        raise ValueError(f"initial numbers are {m}; number i, counted from 1, must be odd and below 2**i")
    start, n = as_counter(first, "first", 40), as_counter(count, "count", 40)
    for i in range(len(m), 64):
        if s == 0:
            m.append(1)
            continue
        number = (m[i - s] << s) ^ m[i - s]
        for k in range(1, s):
            number ^= (a >> (s - 1 - k) & 1) * (m[i - k] << k)
        m.append(number)
    # Point k is the XOR of the directions at the ones of the Gray code of k.
    index = np.arange(start, start + n, dtype=np.uint64)
    gray = index ^ (index >> np.uint64(1))
    points = np.zeros(n, np.uint64)
    for i in range(41):
        direction = np.uint64((m[i] << (63 - i)) & (2**64 - 1))
        points ^= ((gray >> np.uint64(i)) & np.uint64(1)) * direction
    return np.asarray(points >> np.uint64(64 - bits))


def halton(count: SupportsIndex, *, width: SupportsIndex, base: SupportsIndex, first: SupportsIndex = 0) -> Values:
    """Returns the radical inverses of successive integers in a base, floor(2**width r); base 2 is van der Corput.

    Examples
    --------
    >>> from aleatron.accel.numpy_sequences import halton
    >>> halton(5, width=8, base=3).tolist()
    [0, 85, 170, 28, 113]
    """
    bits, b = _width(width, 1), operator.index(base)
    if not 2 <= b <= 65536:
        raise ValueError(f"base is {b}, not in [2, 65536]")
    start, n = as_counter(first, "first", 40), as_counter(count, "count", 40)
    # Python integers, because the mirrored digits may need more than 64 bits.
    return np.array([_radical_inverse(k, b, bits) for k in range(start, start + n)], np.uint64)


def _radical_inverse(k: int, base: int, bits: int) -> int:
    mirrored, scale = 0, 1
    while k:
        k, digit = divmod(k, base)
        mirrored, scale = mirrored * base + digit, scale * base
    return (mirrored << bits) // scale


def ramp(count: SupportsIndex, *, width: SupportsIndex) -> Values:
    """Returns k mod 2**width: the temporal code.

    Examples
    --------
    >>> from aleatron.accel.numpy_sequences import ramp
    >>> ramp(5, width=2).tolist()
    [0, 1, 2, 3, 0]
    """
    bits = _width(width, 1)
    return np.arange(as_counter(count, "count", 40), dtype=np.uint64) & np.uint64((1 << bits) - 1)


def encode_shared(p: npt.ArrayLike, sequence: npt.ArrayLike, *, width: SupportsIndex) -> Words:
    """Encodes probabilities of any shape with one sequence, whose length is that of the streams.

    Examples
    --------
    >>> from aleatron.accel.numpy_sequences import encode_shared, ramp
    >>> encode_shared([0.25, 1.0], ramp(4, width=2), width=2).tolist()
    [[1], [15]]
    """
    bits = _width(width, 1)
    values = as_words(sequence, "sequence")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"sequence has shape {values.shape}; expected one axis and at least one integer")
    limits = np.floor(as_values(p, "probability") * 2.0**bits + 0.5).astype(np.uint64)
    return pack_bitstream(values < limits[..., None])


def _width(width: SupportsIndex, least: int) -> int:
    bits = operator.index(width)
    if not least <= bits <= 32:
        raise ValueError(f"width is {bits}, not in [{least}, 32]")
    return bits
