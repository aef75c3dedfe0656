"""Whatever holds numbers is read right, and copied only when it must be."""

from __future__ import annotations

import array
import tracemalloc
from typing import Any

import numpy as np
import pytest

import aleatron as al
import aleatron.tensor as at

LAYER = al.DenseLayer(6, 4, length=200)
X = (np.arange(30).reshape(5, 6) % 2).astype(float)
FRACTIONS = np.random.default_rng(3).integers(0, 17, (5, 6)) / 16
EXPECTED = LAYER.counts(FRACTIONS)


class OnlyDlpack:
    """An array of another library."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._values.__dlpack_device__()


class OnlyArray:
    """An object with `__array__` only."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return FRACTIONS.astype(dtype or np.float64)


def strided(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = np.full((values.shape[0] * 2, values.shape[1] * 3), np.nan)
    wide[::2, ::3] = values
    return wide[::2, ::3]


def unaligned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    buffer = np.zeros(values.nbytes + 1, np.uint8)
    view = buffer[1:].view(np.float64).reshape(values.shape)
    view[...] = values
    return view


READABLE = {
    "C order": FRACTIONS,
    "Fortran order": np.asfortranarray(FRACTIONS),
    "transposed": np.ascontiguousarray(FRACTIONS.T).T,
    "strided": strided(FRACTIONS),
    "reversed": np.ascontiguousarray(FRACTIONS[::-1, ::-1])[::-1, ::-1],
    "unaligned": unaligned(FRACTIONS),
    "read-only": np.frombuffer(FRACTIONS.tobytes()).reshape(5, 6),
    "big-endian": FRACTIONS.astype(">f8"),
    "float32": FRACTIONS.astype(np.float32),
    "float16": FRACTIONS.astype(np.float16),
    "longdouble": FRACTIONS.astype(np.longdouble),
    "lists": FRACTIONS.tolist(),
    "tuples of arrays": tuple(FRACTIONS),
    "matrix": np.array(FRACTIONS, subok=True).view(np.recarray),
    "memoryview": memoryview(FRACTIONS),
    "dlpack": OnlyDlpack(FRACTIONS),
    "dlpack float32": OnlyDlpack(FRACTIONS.astype(np.float32)),
    "__array__": OnlyArray(),
    "unmasked": np.ma.masked_array(FRACTIONS, False),
}


@pytest.mark.parametrize("kind", READABLE)
def test_real_numbers(kind: str) -> None:
    assert np.array_equal(LAYER.counts(READABLE[kind]), EXPECTED)
    layer = al.DenseLayer.from_weights(READABLE[kind], length=64)
    assert np.array_equal(layer.weights, FRACTIONS)
    assert np.array_equal(al.encode(READABLE[kind], 100), al.encode(FRACTIONS, 100))


def test_lists_of_any_numbers() -> None:
    expected = LAYER.counts(FRACTIONS[0])
    half = FRACTIONS[0].tolist()
    for numbers in [half, [np.float32(v) for v in half], [np.float64(v) for v in half], tuple(half)]:
        assert np.array_equal(LAYER.counts(numbers), expected)
    assert np.array_equal(LAYER.counts([0, 1.0, True, 0.0, 1, False]), LAYER.counts([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))
    assert al.pack([256, -1, 0, 2]).tolist() == al.pack([[256, -1, 0, 2]])[0].tolist() == [11]
    assert al.pack([]).shape == (0,)


def test_tensors_of_aleatron() -> None:
    for tensor in [at.asarray(FRACTIONS), at.asarray(FRACTIONS, dtype=at.float32), at.asarray(FRACTIONS).requires_grad_()]:
        assert np.array_equal(LAYER.counts(tensor), EXPECTED)
    doubled = at.asarray(FRACTIONS / 2).requires_grad_() * 2
    assert np.array_equal(LAYER.counts(doubled), EXPECTED)
    assert al.popcount(at.asarray([[1], [3]])) == 3


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">i4"])
def test_integers_and_booleans(dtype: str) -> None:
    assert np.array_equal(LAYER.counts(X.astype(dtype)), LAYER.counts(X))


def test_one_dimensional_buffers() -> None:
    for buffer in [array.array("d", FRACTIONS[0]), array.array("f", FRACTIONS[0]), FRACTIONS[0, :]]:
        assert np.array_equal(LAYER.counts(buffer), EXPECTED[0])
    column = np.asfortranarray(np.tile(FRACTIONS[0], (3, 1)).T)[:, 1]
    assert np.array_equal(LAYER.counts(column), EXPECTED[0])
    assert np.array_equal(LAYER.counts(bytearray([0, 1, 0, 1, 1, 1])), LAYER.counts([0, 1, 0, 1, 1, 1]))


@pytest.mark.parametrize(
    "words",
    [
        np.array([[1, 2**63]], dtype=np.uint64),
        [[1, 2**63]],
        np.array([[1, 2**63]], dtype=">u8"),
        np.array([[1, 0, 2**63, 0]], dtype=np.uint64)[:, ::2],
        OnlyDlpack(np.array([[1, 2**63]], dtype=np.uint64)),
    ],
)
def test_words(words: Any) -> None:
    assert al.popcount(words) == 2
    assert al.popcount(words, axis=-1).tolist() == [2]
    assert al.unpack(words, 128).sum() == 2
    assert np.array_equal(al.or_(words, [0, 0]), [[1, 2**63]])
    assert al.popcount(np.array([[1], [3]], dtype=np.int32)) == 3


def test_fortran_order_is_not_misread() -> None:
    words = np.asfortranarray(al.encode(FRACTIONS[0], 200))
    assert not words.flags.c_contiguous
    assert np.array_equal(LAYER.counts_encoded(words), LAYER.counts(FRACTIONS[0]))
    bits = np.asfortranarray(np.random.default_rng(0).integers(0, 2, (7, 70), dtype=np.uint8))
    assert np.array_equal(al.unpack(np.asfortranarray(al.pack(bits)), 70), bits)


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ("abc", "x must hold real numbers"),
        ([None] * 6, "x must hold real numbers, not object"),
        ([1j] * 6, "x must hold real numbers, not complex128"),
        (np.array(["2020-01-01"] * 6, "M8"), "x must hold real numbers, not datetime64"),
        (np.ma.masked_array(FRACTIONS[0], [1, 0, 0, 0, 0, 0]), "masked"),
        (object(), "x must hold real numbers, not object"),
        (None, "x must hold real numbers"),
    ],
)
def test_arrays_without_real_numbers_are_errors(bad: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        LAYER(bad)


def test_arrays_without_words_are_errors() -> None:
    with pytest.raises(TypeError, match="words must hold packed words"):
        al.popcount(np.array([1.0]))
    with pytest.raises(TypeError, match="words must hold integers"):
        al.popcount([1.5])
    with pytest.raises(TypeError, match="words must hold packed words"):
        al.popcount(np.array([True]))
    with pytest.raises(ValueError, match=r"words at index \(0, 1\) is -1, not in \[0, 18446744073709551615\]"):
        al.popcount([[1, -1]])
    with pytest.raises(ValueError, match="words at index 0 is 18446744073709551616"):
        al.popcount([2**64])
    with pytest.raises(ValueError, match="bits at index 1 is nan"):
        al.pack([0.0, float("nan")])
    with pytest.raises(ValueError, match="inhomogeneous"):
        LAYER([[0.5], [0.5, 0.5]])


def test_contiguous_arrays_are_not_copied() -> None:
    layer = al.DenseLayer(1 << 16, 1, length=1)
    x = np.zeros((64, 1 << 16))
    tracemalloc.start()
    try:
        layer.counts(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # NumPy reports its allocations: a copy would be 32 MiB.
    assert peak < 1 << 20
