"""What users of NumPy try: arrays and numbers of its types, large and odd shapes, printing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from standard import DEVICES

import aleatron.tensor as at


@pytest.mark.parametrize("device", DEVICES)
def test_indices_out_of_range_are_errors_from_both_ends(device: str) -> None:
    x = at.asarray([1.0, 2.0, 3.0], device=device)
    for place in (-4, -5, -6, 3, 2**31 - 1, *([2**32] if at.__array_namespace_info__().dtypes(device=device).get("int64") else [])):
        with pytest.raises(IndexError, match=f"index {place} "):
            at.take(x, at.asarray([place], device=device)).numpy()
        with pytest.raises(IndexError, match=f"index {place} "):
            at.take_along_axis(x, at.asarray([place], device=device)).numpy()
    assert at.take(x, at.asarray([-3, 2, -1], device=device)).tolist() == [1, 3, 3]
    assert at.take(x, at.asarray([2], dtype=at.uint8, device=device)).tolist() == [3]


def test_unsupported_indices_are_errors() -> None:
    x = at.reshape(at.arange(6), (2, 3))
    for key in (np.array([0, 1]), np.array([True, False]), [0, 1], 1.0, (at.asarray([0]), 2**70), 2**70):
        with pytest.raises(IndexError):
            x[key]
    assert x[np.int64(1), np.array(2)].item() == 5
    assert x[0, :: 2**70].tolist() == [0] and x[0, :: -(2**70)].tolist() == [2]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64, np.longdouble])
def test_floats_become_integers_as_astype_makes_them(dtype: str, source: Any) -> None:
    numbers = np.array([1.9, -1.9, 300.5, -300.5, math.nan, math.inf, -math.inf, 0.0], dtype=source)
    if source is not np.float16:
        numbers = np.append(numbers, np.array([2.0**31, 2.0**63, -(2.0**63), 1e30, -1e30], dtype=source))
    integer = getattr(at, dtype)
    assert at.asarray(numbers, dtype=integer).tolist() == at.astype(at.asarray(numbers), integer).tolist()
    # Past 32 bits, 64-bit floats keep their value.
    assert at.asarray(2.0**53 - 1, dtype=at.int64).item() == 2**53 - 1
    assert at.linspace(0, 300, 4, dtype=at.uint8).tolist() == [0, 100, 200, 255]


def test_object_integers_are_type_errors() -> None:
    with pytest.raises(TypeError, match="object"):
        at.asarray(np.array([1, 2], dtype=object))
    with pytest.raises(OverflowError, match=str(2**64)):
        at.asarray([1, 2**64])


def test_comparison_with_an_array_is_not_silently_false() -> None:
    x = at.arange(3)
    for other in (np.arange(3), np.int64(1), np.float32(1), [0, 1, 2], (0, 1, 2)):
        for compare in (lambda a, b: a == b, lambda a, b: a != b, lambda a, b: b == a):
            with pytest.raises(TypeError):
                compare(x, other)
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    assert (at.ones(2) == np.float64(1)).tolist() == [True, True]


def test_integers_beside_floats_may_be_large() -> None:
    x = at.ones(1)
    assert (x + 2**70).item() == 2.0**70 and (2**70 * x).item() == 2.0**70
    assert at.full(1, 2**70, dtype=at.float32).item() == 2.0**70
    assert at.pad(x, [(0, 1)], value=-(2**70)).tolist() == [1, -(2.0**70)]
    with pytest.raises(OverflowError):
        x + 10**400
    with pytest.raises(OverflowError):
        at.arange(2) + 2**70


def test_ranges_stay_inside_their_type() -> None:
    for numbers, dtype in (((0, 257), at.uint8), ((-1, 3), at.uint8), ((2**31 - 1, 2**31 + 1), at.int32), ((2**63, 2**63 + 2), at.int64)):
        with pytest.raises(OverflowError):
            at.arange(*numbers, dtype=dtype)
    assert at.arange(254, 256, dtype=at.uint8).tolist() == [254, 255]
    assert at.arange(2**31 - 1, 2**31, dtype=at.int32).tolist() == [2**31 - 1]
    assert at.arange(5, 0, -2, dtype=at.uint8).tolist() == [5, 3, 1]


@pytest.mark.parametrize("device", DEVICES)
def test_shifts_by_the_width_leave_no_bit(device: str) -> None:
    for name, dtype in at.__array_namespace_info__().dtypes(device=device, kind="integral").items():
        bits = at.iinfo(dtype).bits
        numbers = [1, 5, 100] if dtype is at.uint8 else [1, 5, -100]
        x = at.asarray(numbers, dtype=dtype, device=device)
        for by in (bits, bits + 1, 2 * bits, 100):
            assert at.bitwise_left_shift(x, by).tolist() == [0, 0, 0], (name, by)
            assert at.bitwise_right_shift(x, by).tolist() == [number >> by for number in numbers], (name, by)


@pytest.mark.parametrize("device", DEVICES)
def test_special_values_are_those_of_the_standard(device: str) -> None:
    infinity = float("inf")
    assert not at.signbit(at.sign(at.asarray([-0.0, 0.0], device=device))).numpy().any()
    cases = [(-0.0, -1.0, 0.0), (0.0, -1.0, -0.0), (infinity, 2.0, infinity), (infinity, -2.0, -infinity), (-1.0, infinity, -0.0), (1.0, -infinity, -0.0)]
    for x, y, expected in cases:
        found = (at.asarray(x, device=device) // at.asarray(y, device=device)).numpy()
        assert found == expected and np.signbit(found) == np.signbit(expected), (x, y)


@pytest.mark.parametrize("device", DEVICES)
def test_cumulative_functions_have_the_type_asked_for(device: str) -> None:
    x = at.asarray([200, 100, 3], dtype=at.uint8, device=device)
    for initial in (False, True):
        sums = at.cumulative_sum(x, dtype=at.uint8, include_initial=initial)
        assert sums.dtype is at.uint8 and sums.tolist() == [0] * initial + [200, 300 % 256, 303 % 256]
        products = at.cumulative_prod(x, dtype=at.uint8, include_initial=initial)
        assert products.dtype is at.uint8 and products.tolist() == [1] * initial + [200, 20000 % 256, 60000 % 256]


@pytest.mark.parametrize("device", DEVICES)
def test_masks_without_elements(device: str) -> None:
    for shape, n in [((0,), 1), ((0, 3), 1), ((0, 3), 2), ((3, 0), 1), ((3, 0), 2), ((3, 0, 2), 2), ((0, 0, 2), 2), ((2, 3), 0)]:
        for value in (False, True):
            x, mask = np.zeros(shape, np.float32), np.full(shape[:n], value)
            found = at.asarray(x, device=device)[at.asarray(mask, device=device)]
            assert found.shape == x[mask].shape, (shape, n, value)


@pytest.mark.parametrize("device", DEVICES)
def test_mask_with_an_axis_of_size_zero_selects_nothing(device: str) -> None:
    for shape, mask, found in [
        ((0, 1), (0, 0), (0,)),
        ((3, 2), (0, 2), (0,)),
        ((3, 2), (3, 0), (0,)),
        ((3, 2), (0,), (0, 2)),
        ((3, 2, 4), (0, 0), (0, 4)),
    ]:
        x = at.ones(shape, device=device)
        key = at.zeros(mask, dtype=at.bool, device=device)
        assert x[key].shape == found, (shape, mask)
        x[key] = 5.0
        assert at.all(x == 1.0), (shape, mask)
    for shape, mask in [((3, 2), (2,)), ((3, 2), (3, 1)), ((0, 2), (1,)), ((3,), (0, 0)), ((3,), (3, 0))]:
        x = at.ones(shape, device=device)
        key = at.zeros(mask, dtype=at.bool, device=device)
        with pytest.raises(IndexError, match="mask of shape"):
            x[key]
        with pytest.raises(IndexError):
            x[key] = 5.0


def test_names_of_devices_may_have_capital_letters() -> None:
    assert at.ones(2, device="CPU").device == "cpu"
    assert "float32" in at.__array_namespace_info__().dtypes(device="CPU", kind="real floating")
    assert isinstance(at.__array_namespace_info__().devices(), tuple)


def test_sizes_are_integers_of_any_library() -> None:
    x = at.arange(3)
    for call in (
        lambda: at.reshape(x, (1.9, 3)),
        lambda: at.zeros(2.5),
        lambda: at.zeros((2, True)),
        lambda: at.broadcast_to(x, (2.5, 3)),
        lambda: at.pad(x, [(1.9, 0)]),
        lambda: at.split(x, (1.5, 1.5)),
        lambda: at.split(x, 3),
        lambda: at.roll(x, 1.5),
        lambda: at.tile(x, (1.5,)),
        lambda: at.tril(at.ones((2, 2)), k=1.5),
        lambda: at.max_pool2d(at.ones((1, 1, 3, 3)), (2.7, 2)),
        lambda: at.conv2d(at.ones((1, 1, 3, 3)), at.ones((1, 1, 2, 2)), padding="same"),
        lambda: at.concat(x for _ in range(2)),
        lambda: at.stack(x),
    ):
        with pytest.raises(TypeError, match="integer|sizes|list"):
            call()
    with pytest.raises(ValueError, match="negative"):
        at.broadcast_to(x, (2, -1))
    one = np.int64(1)
    assert at.reshape(x, -1).shape == at.reshape(x, np.array([3])).shape == (3,)
    assert at.roll(x, one).tolist() == [2, 0, 1] and at.repeat(x, one).tolist() == at.tile(x, one).tolist() == [0, 1, 2]
    assert at.max_pool2d(at.ones((1, 1, 3, 3)), np.int64(2), padding=one).shape == (1, 1, 2, 2)


@pytest.mark.timeout(30)
def test_differences_of_nothing_are_nothing() -> None:
    x = at.reshape(at.arange(6), (2, 3))
    assert at.diff(x, n=10**12).shape == (2, 0) and at.diff(x, n=2).tolist() == [[0], [0]]


def test_shapes_unsupported_by_numpy() -> None:
    empty = at.zeros((2**62, 0))
    assert empty.shape == (2**62, 0)
    with pytest.raises(ValueError, match="too big|too large"):
        empty.numpy()
    deep = np.zeros((1,) * 32).reshape((1,) * (64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32))
    assert at.asarray(deep).shape == deep.shape == at.asarray(deep).numpy().shape


@pytest.mark.parametrize("device", DEVICES)
def test_printing_reads_what_is_shown(device: str) -> None:
    wide = at.broadcast_to(at.asarray([1.0], device=device), (10**12,))
    assert "[1., 1., 1., ..., 1., 1., 1.]" in repr(wide)
    array = np.arange(30_000, dtype=np.float32).reshape(3, 100, 100)
    place = f", device={at.asarray(0, device=device).device!r}" if device != "cpu" else ""
    text = np.array2string(array, separator=", ", prefix="Tensor(")
    assert repr(at.asarray(array, device=device)) == f"Tensor({text}, dtype=float32{place})"
    assert "shape=(0, 5)" in repr(at.zeros((0, 5), device=device))
    assert f"{at.asarray(1.5, device=device):.2f}" == "1.50"
    with pytest.raises(TypeError, match="format"):
        f"{at.ones(2):.2f}"
