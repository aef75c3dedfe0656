"""Packed streams: encode, decode, pack, unpack, popcount and the gates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import aleatron as al

BITS = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, max_side=150), elements=st.integers(0, 1))


def packed(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy's own packing."""
    bytes_ = np.packbits(bits, axis=-1, bitorder="little")
    fill = -bytes_.shape[-1] % 8
    bytes_ = np.pad(bytes_, [(0, 0)] * (bits.ndim - 1) + [(0, fill)])
    return np.ascontiguousarray(bytes_).view("<u8")


@settings(max_examples=60, deadline=None)
@given(BITS)
def test_pack_is_numpys(bits: np.ndarray[Any, Any]) -> None:
    words = al.pack(bits)
    assert words.dtype == np.uint64
    assert np.array_equal(words, packed(bits))
    assert np.array_equal(al.unpack(words, bits.shape[-1]), bits)
    assert al.unpack(words, bits.shape[-1]).dtype == np.uint8
    assert al.popcount(words) == bits.sum()
    assert np.array_equal(al.popcount(words, axis=-1), bits.sum(axis=-1))


@pytest.mark.parametrize("bits", [[2, 0, 255], [True, False, True], [0.5, 0.0, -1.0], b"\x01\x00\x07"])
def test_nonzero_values_are_ones(bits: object) -> None:
    assert al.pack(bits).tolist() == [5]


@pytest.mark.parametrize("shape", [(0,), (0, 65), (3, 0), (2, 0, 64)])
def test_pack_of_empty_arrays(shape: tuple[int, ...]) -> None:
    bits = np.zeros(shape, np.uint8)
    words = al.pack(bits)
    assert words.shape == (*shape[:-1], -(-shape[-1] // 64))
    assert al.unpack(words, shape[-1]).shape == shape
    assert al.popcount(words) == 0
    assert al.popcount(words, axis=-1).shape == shape[:-1]


def test_unpack_of_fewer_bits() -> None:
    words = al.pack(np.ones((2, 200), np.uint8))
    assert al.unpack(words, 70).shape == (2, 70)
    assert al.unpack(words, 0).shape == (2, 0)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_gates(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 200))
    shape = (data.draw(st.integers(1, 3)), length)
    a, b, s = (data.draw(hnp.arrays(np.uint8, shape, elements=st.integers(0, 1))) for _ in range(3))
    pa, pb, ps = al.pack(a), al.pack(b), al.pack(s)
    for result, expected in [
        (al.and_(pa, pb), a & b),
        (al.or_(pa, pb), a | b),
        (al.xor(pa, pb), a ^ b),
        (al.xnor(pa, pb, length), 1 - (a ^ b)),
        (al.not_(pa, length), 1 - a),
        (al.mux(ps, pa, pb), np.where(s, a, b)),
    ]:
        # Equal words: the bits, and a clean tail.
        assert result.dtype == np.uint64
        assert np.array_equal(result, packed(expected.astype(np.uint8)))
    assert np.array_equal(al.hamming_distance(pa, pb), (a ^ b).sum(axis=-1))
    assert np.array_equal(al.decode(pa, length), a.mean(axis=-1))
    assert np.allclose(al.decode(pa, length, polarity="bipolar"), 2 * a.mean(axis=-1) - 1)


def test_gates_broadcast_and_leave_their_operands() -> None:
    a, b = al.encode([0.2, 0.8], 100), al.encode(0.5, 100, seed=1)
    kept = a.copy()
    for gate in [al.and_, al.or_, al.xor]:
        assert gate(a, b).shape == (2, 2)
    assert al.not_(a, 100).shape == al.mux(b, a, b).shape == (2, 2)
    assert np.array_equal(a, kept)
    assert al.and_([[1, 3]], [1, 1]).tolist() == [[1, 1]]


def test_gates_of_different_word_counts_are_errors() -> None:
    with pytest.raises(ValueError, match=r"shapes are \(2,\) and \(1,\)"):
        al.and_([1, 2], [1])
    with pytest.raises(ValueError, match=r"streams of 65 bits have shape \(\.\.\., 2\), not \(1,\)"):
        al.not_([1], 65)
    with pytest.raises(ValueError, match="at least 1"):
        al.not_([1], 0)


def test_encode_shapes() -> None:
    assert al.encode(0.5, 65).shape == (2,)
    assert al.encode([], 65).shape == (0, 2)
    assert al.encode(np.zeros((3, 0)), 65).shape == (3, 0, 2)
    assert al.encode(np.full((2, 3, 4), 0.5), 65).shape == (2, 3, 4, 2)
    p = np.random.default_rng(0).random((2, 3, 4))
    flat = al.encode(p.reshape(6, 4), 100, seed=9)
    assert np.array_equal(al.encode(p, 100, seed=9).reshape(6, 4, 2), flat)
    assert np.array_equal(al.encode(p[0, 0], 100, seed=9), flat[0])
    assert np.array_equal(al.encode(p[0, 0, 0], 100, seed=9), flat[0, 0])


@pytest.mark.parametrize("shape", [(70,), (9, 70), (700, 1)])
def test_chunked_encodings_equal_whole_encodings(shape: tuple[int, ...]) -> None:
    # 2**22 words per chunk: parts of a row, and several rows, in one and in many chunks.
    p = np.random.default_rng(1).random(shape)
    length = 64 * 70_000
    streams = al.encode(p, length, seed=5)
    for index in [(0,) * len(shape), tuple(n - 1 for n in shape), tuple(n // 2 for n in shape)]:
        alone = np.zeros(tuple(i + 1 for i in index))
        alone[index] = p[index]
        assert np.array_equal(al.encode(alone, 640, seed=5)[index], streams[index][:10])
    assert np.allclose(al.decode(streams, length), p, atol=0.002)


def test_different_seeds_are_independent() -> None:
    length = 1 << 16
    base = al.encode(0.5, length, seed=100)
    for seed in [99, 101, 100 + 2**32]:
        both = al.decode(al.and_(base, al.encode(0.5, length, seed=seed)), length)
        assert abs(both - 0.25) < 0.01


def test_popcount_of_other_axes_is_an_error() -> None:
    with pytest.raises(ValueError, match="axis is 0"):
        al.popcount([[1]], axis=0)
