"""Packed streams in NumPy."""

from __future__ import annotations

import re
from typing import Any

import aleatron as al
import numpy as np
import pytest
from aleatron.accel import vector_ops as v
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

BITS = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=2, max_side=150), elements=st.integers(0, 1))


@settings(max_examples=50, deadline=None)
@given(BITS)
def test_pack_and_unpack(bits: Any) -> None:
    packed = v.pack_bitstream(bits)
    assert packed.dtype == np.uint64 and np.array_equal(packed, al.pack(bits))
    for other in [
        bits.astype(bool),
        bits.astype(np.int64),
        bits.astype(np.float32),
        np.asfortranarray(bits),
        bits.tolist(),
    ]:
        assert np.array_equal(v.pack_bitstream(other), packed)
    found = v.unpack_bitstream(packed, bits.size, bits.shape)
    assert found.dtype == np.uint8 and np.array_equal(found, bits)
    assert np.array_equal(v.unpack_bitstream(packed, bits.size), bits)
    assert np.array_equal(v.unpack_bitstream(packed, bits.shape[-1], bits.shape), bits)
    assert v.vec_popcount(packed) == bits.sum()
    assert np.array_equal(v.vec_popcount(packed, axis=-1), bits.sum(axis=-1))


def test_shapes_of_unpacked_bits() -> None:
    rows = v.pack_bitstream([[1, 0, 1], [1, 1, 1]])
    assert v.unpack_bitstream(rows, 6).tolist() == [[1, 0, 1], [1, 1, 1]]
    assert v.unpack_bitstream(rows, 6, (6,)).tolist() == [1, 0, 1, 1, 1, 1]
    assert v.unpack_bitstream(rows, 2).tolist() == [[1], [1]]
    assert v.unpack_bitstream([5], 4, (2, 2)).tolist() == [[1, 0], [1, 0]]
    assert v.unpack_bitstream([5], 0).shape == (0,)
    assert v.unpack_bitstream(np.zeros((0, 2), np.uint64), 0).shape == (0, 0)
    assert v.unpack_bitstream(np.zeros((3, 0), np.uint64), 0).shape == (3, 0)
    assert v.unpack_bitstream(np.asfortranarray(np.repeat(rows, 2, axis=1)), 8).tolist() == [[1, 0, 1, 0], [1, 1, 1, 0]]
    # Big-endian words.
    assert v.unpack_bitstream(np.array([5], ">u8"), 3).tolist() == [1, 0, 1]
    assert v.pack_bitstream(np.zeros((3, 0))).shape == (3, 0)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_gates(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 200))
    shape = data.draw(st.sampled_from([(length,), (3, length)]))
    a, b, s = (data.draw(hnp.arrays(np.uint8, shape, elements=st.integers(0, 1))) for _ in range(3))
    pa, pb, ps = (v.pack_bitstream(bits) for bits in (a, b, s))
    for found, expected in [
        (v.vec_and(pa, pb), a & b),
        (v.vec_xnor(pa, pb, length), 1 - (a ^ b)),
        (v.vec_not(pa, length), 1 - a),
        (v.vec_mux(ps, pa, pb), np.where(s, a, b)),
    ]:
        # Equal words: the bits, and a clean tail.
        assert found.dtype == np.uint64 and np.array_equal(found, v.pack_bitstream(expected))


def test_without_a_length_streams_are_whole_words() -> None:
    packed = v.pack_bitstream(np.ones(70, np.uint8))
    assert v.vec_not(packed).tolist() == [0, 2**64 - 2**6]
    assert v.vec_xnor(packed, packed).tolist() == [2**64 - 1] * 2
    assert v.vec_popcount(v.vec_not(packed, 70)) == 0
    whole = v.pack_bitstream(np.arange(128) % 3 == 0)
    assert np.array_equal(v.vec_not(whole), v.vec_not(whole, 128))
    assert whole.tolist() == v.vec_not(v.vec_not(whole)).tolist()


BAD: list[tuple[Any, str]] = [
    (lambda: v.pack_bitstream([0, 2, 1]), "bitstream at index 1 is 2, neither 0 nor 1"),
    (lambda: v.pack_bitstream([[0, 1], [1, -1]]), "bitstream at index (1, 1) is -1, neither 0 nor 1"),
    (lambda: v.pack_bitstream([0.0, np.nan]), "bitstream at index 1 is nan"),
    (lambda: v.pack_bitstream(np.array([0, 257], np.uint16)), "bitstream at index 1 is 257"),
    (lambda: v.pack_bitstream(1), "at least one axis"),
    (lambda: v.unpack_bitstream([1], 65), "65 bits were asked for, but streams of 1 words have 64"),
    (lambda: v.unpack_bitstream([[1], [1]], 130), "65 bits were asked for"),
    (lambda: v.unpack_bitstream([[1], [1]], 7), "original_length is 7, not a multiple of the 2 streams"),
    (lambda: v.unpack_bitstream([1], -1), "must not be negative"),
    (lambda: v.unpack_bitstream([1], 4, (3, 2)), "original_shape (3, 2) does not hold 4 bits"),
    (lambda: v.unpack_bitstream([1], 4, (-2, -2)), "sizes must not be negative"),
    (lambda: v.unpack_bitstream(np.zeros((0, 2), np.uint64), 4), "there are no streams"),
    (lambda: v.unpack_bitstream(np.zeros((1, 1, 1), np.uint64), 4), "expected (words,) or (Batch, words)"),
    (lambda: v.vec_and([1], [1, 2]), "shapes are (1,) and (2,)"),
    (lambda: v.vec_not([1], 65), "streams of 65 bits have shape (..., 2), not (1,)"),
    (lambda: v.vec_not([1], 0), "length is 0"),
    (lambda: v.vec_not([[1], [8]], 3), "the stream at index 1 has ones past its length of 3"),
    (lambda: v.vec_xnor([7], [8], 3), "has ones past its length of 3"),
    (lambda: v.vec_not(1), "at least one axis"),
    (lambda: v.vec_popcount([-1]), "packed at index 0 is -1"),
    (lambda: v.vec_popcount([[1]], axis=0), "axis is 0"),  # type: ignore[call-overload]
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_wrong_types() -> None:
    for call in [
        lambda: v.pack_bitstream(["a"]),
        lambda: v.unpack_bitstream([0.5], 1),
        lambda: v.vec_popcount(np.ones(3)),
        lambda: v.pack_bitstream(np.ma.masked_array([1, 0], [True, False])),
    ]:
        with pytest.raises(TypeError):
            call()


def test_operands_are_unchanged() -> None:
    a = v.pack_bitstream(np.ones((2, 70), np.uint8))
    kept = a.copy()
    v.vec_not(a, 70), v.vec_xnor(a, a, 70), v.vec_mux(a, a, a), v.vec_and(a, a)
    assert np.array_equal(a, kept)
