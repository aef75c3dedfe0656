"""Every function of the standard equals its reference implementation in shapes, types, values, errors."""

from __future__ import annotations

import math
from typing import Any

import array_api_strict as strict
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from standard import DEVICES, DTYPES, arrays, dtypes_of, ours, same_outcome, theirs

import aleatron.tensor as at

checked = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
on_every_device = pytest.mark.parametrize("device", DEVICES)

# Units in the last place, and the range of arguments of the bound.
UNARY: dict[str, tuple[float, float, float]] = {
    "abs": (0, -1e3, 1e3),
    "acos": (8, -1, 1),
    "acosh": (10, 1, 1e3),
    "asin": (8, -1, 1),
    "asinh": (8, -1e3, 1e3),
    "atan": (4, -1e3, 1e3),
    "atanh": (10, -0.99, 0.99),
    "bitwise_invert": (0, -1e3, 1e3),
    "ceil": (0, -1e3, 1e3),
    "cos": (4, -1, 1),
    "cosh": (8, -80, 80),
    "exp": (2, -80, 80),
    "expm1": (3, -80, 80),
    "floor": (0, -1e3, 1e3),
    "isfinite": (0, -1e3, 1e3),
    "isinf": (0, -1e3, 1e3),
    "isnan": (0, -1e3, 1e3),
    "log": (3, 1e-3, 1e3),
    "log10": (3, 1e-3, 1e3),
    "log1p": (3, -0.5, 1e3),
    "log2": (3, 1e-3, 1e3),
    "logical_not": (0, -1e3, 1e3),
    "negative": (0, -1e3, 1e3),
    "positive": (0, -1e3, 1e3),
    "reciprocal": (2.5, -1e3, 1e3),
    "round": (0, -1e3, 1e3),
    "sign": (0, -1e3, 1e3),
    "signbit": (0, -1e3, 1e3),
    "sin": (4, -3, 3),
    "sinh": (8, -80, 80),
    "sqrt": (1.5, 0, 1e3),
    "square": (0.5, -1e3, 1e3),
    "tan": (10, -1, 1),
    "tanh": (4, -80, 80),
    "trunc": (0, -1e3, 1e3),
}
BINARY: dict[str, tuple[float, float, float]] = {
    "add": (0.5, -1e3, 1e3),
    "atan2": (6, -1e3, 1e3),
    "bitwise_and": (0, -1e3, 1e3),
    "bitwise_or": (0, -1e3, 1e3),
    "bitwise_xor": (0, -1e3, 1e3),
    "copysign": (0, -1e3, 1e3),
    "divide": (2.5, -1e3, 1e3),
    "equal": (0, -1e3, 1e3),
    "greater": (0, -1e3, 1e3),
    "greater_equal": (0, -1e3, 1e3),
    "hypot": (4, -1e3, 1e3),
    "less": (0, -1e3, 1e3),
    "less_equal": (0, -1e3, 1e3),
    "logaddexp": (6, 0, 80),
    "logical_and": (0, -1e3, 1e3),
    "logical_or": (0, -1e3, 1e3),
    "logical_xor": (0, -1e3, 1e3),
    "maximum": (0, -1e3, 1e3),
    "minimum": (0, -1e3, 1e3),
    "multiply": (0.5, -1e3, 1e3),
    "nextafter": (0, -1e3, 1e3),
    "not_equal": (0, -1e3, 1e3),
    "subtract": (0.5, -1e3, 1e3),
}


def wide(x: Any) -> Any:
    return strict.asarray(x.astype(np.float64)) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else theirs_or_number(x)


def theirs_or_number(x: Any) -> Any:
    return theirs(x) if isinstance(x, np.ndarray) else x


def exactly(name: str, ulps: float, *args: Any) -> Any:
    """The values in 64 bits, where floats round."""
    if ulps == 0 or not all(not isinstance(x, np.ndarray) or x.dtype.kind == "f" for x in args):
        return None
    return lambda: getattr(strict, name)(*map(wide, args))._array


@on_every_device
@pytest.mark.parametrize("name", UNARY)
@checked
@given(data=st.data())
def test_functions_of_one_tensor(name: str, device: str, data: st.DataObject) -> None:
    ulps, low, high = UNARY[name]
    # Drivers may choose the sign of zero and infinities in shader functions only if WGSL permits it.
    x = data.draw(arrays(dtypes_of(device), low=low, high=high, special=device == "cpu"))
    same_outcome(
        lambda: getattr(at, name)(ours(x, device)),
        lambda: getattr(strict, name)(theirs(x)),
        ulps=ulps,
        exact=exactly(name, ulps, x),
    )


@on_every_device
@pytest.mark.parametrize("name", BINARY)
@checked
@given(data=st.data())
def test_functions_of_two_tensors(name: str, device: str, data: st.DataObject) -> None:
    ulps, low, high = BINARY[name]
    special = device == "cpu"
    x = data.draw(arrays(dtypes_of(device), low=low, high=high, special=special))
    other = data.draw(
        st.one_of(
            arrays(dtypes_of(device), low=low, high=high, special=special),
            arrays((x.dtype.name,), low=low, high=high, special=special, shape=x.shape[1:]),
        )
    )
    same_outcome(
        lambda: getattr(at, name)(ours(x, device), ours(other, device)),
        lambda: getattr(strict, name)(theirs(x), theirs(other)),
        ulps=ulps,
        exact=exactly(name, ulps, x, other),
        # Which of two zeros is the larger is not said.
        signs=name not in ("maximum", "minimum"),
    )


NUMBERS = st.one_of(st.booleans(), st.integers(-100, 300), st.just(2**40), st.floats(-100, 100, width=32))


@pytest.mark.parametrize("name", [name for name in BINARY if name not in ("nextafter",)])
@checked
@given(x=arrays(low=-80, high=80), number=NUMBERS, first=st.booleans())
def test_functions_of_a_tensor_and_a_number(name: str, x: Any, number: Any, first: bool) -> None:
    ulps = BINARY[name][0]
    pair = (lambda array: (number, array)) if first else (lambda array: (array, number))
    exact = exactly(name, ulps, *pair(x))
    same_outcome(
        lambda: getattr(at, name)(*pair(ours(x))), lambda: getattr(strict, name)(*pair(theirs(x))), ulps=ulps, exact=exact,
        signs=name not in ("maximum", "minimum"),
    )


@on_every_device
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "bitwise_left_shift", "bitwise_right_shift"])
@checked
@given(data=st.data())
def test_functions_with_a_smaller_domain(name: str, device: str, data: st.DataObject) -> None:
    dtypes = tuple(one for one in dtypes_of(device) if one in (("uint8", "int32", "int64") if "shift" in name else DTYPES))
    x = data.draw(arrays(dtypes, low=0.25, high=30, special=False))
    y = data.draw(arrays((x.dtype.name,), low=0.25, high=5, special=False, shape=x.shape))
    if y.dtype.kind in "iu":
        y = np.where(y <= 0, 1, y).astype(y.dtype) % 7 + ("shift" not in name)
        y = y.astype(x.dtype)
    # x^y has the error of y log(x), times 2^-24, and of a few roundings.
    exact = exactly(name, 80 if name == "pow" else 0, x, y)
    same_outcome(
        lambda: getattr(at, name)(ours(x, device), ours(y, device)),
        lambda: getattr(strict, name)(theirs(x), theirs(y)),
        ulps=80,
        exact=exact,
    )


AXES = st.one_of(st.none(), st.integers(-3, 3), st.tuples(), st.tuples(st.integers(-2, 2)), st.tuples(st.integers(-2, 2), st.integers(-2, 2)))


@on_every_device
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "var", "std", "all", "any", "count_nonzero"])
@checked
@given(data=st.data())
def test_reductions(name: str, device: str, data: st.DataObject) -> None:
    low, high = (0.5, 2) if name == "prod" else (-1e3, 1e3)
    x = data.draw(arrays(dtypes_of(device), low=low, high=high, special=False))
    # What an axis of a tensor without axes is, is not said.
    axis, keepdims = data.draw(AXES if x.ndim else st.none()), data.draw(st.booleans())

    def bound() -> Any:
        # n roundings of the sum of magnitudes, and as many again for its use.
        n = max(x.size, 1)
        magnitude = strict.sum(strict.abs(wide(x)), axis=axis, keepdims=keepdims)._array
        if name in ("var", "std"):
            magnitude = magnitude**2 + 1
        if name == "prod":
            magnitude = strict.prod(wide(x), axis=axis, keepdims=keepdims)._array
        return 2.0**-24 * (4 * n + 8) * magnitude + 1e-30

    if name == "std" and x.dtype.kind == "f":
        # The root of a small variance is as uncertain as the root of its error.
        bound_of, half = bound, lambda: np.sqrt(bound_of())
    else:
        half = bound
    exact = None
    if x.dtype.kind == "f" and name in ("sum", "prod", "mean", "var", "std"):
        exact = lambda: getattr(strict, name)(wide(x), axis=axis, keepdims=keepdims)._array  # noqa: E731
    same_outcome(
        lambda: getattr(at, name)(ours(x, device), axis=axis, keepdims=keepdims),
        lambda: getattr(strict, name)(theirs(x), axis=axis, keepdims=keepdims),
        exact=exact,
        bound=half if exact else None,
    )


@on_every_device
@pytest.mark.parametrize("name", ["argmax", "argmin", "argsort", "sort"])
@checked
@given(data=st.data())
def test_argmax_and_argmin(name: str, device: str, data: st.DataObject) -> None:
    # GPUs sort 32-bit keys.
    dtypes = tuple(dtype for dtype in dtypes_of(device) if device == "cpu" or "sort" not in name or dtype != "int64")
    x = data.draw(arrays(dtypes, min_dims=1, special=False))
    axis = data.draw(st.integers(-3, 3))
    option = {"descending": data.draw(st.booleans())} if "sort" in name else {"keepdims": data.draw(st.booleans())}
    same_outcome(
        lambda: getattr(at, name)(ours(x, device), axis=axis, **option),
        lambda: getattr(strict, name)(theirs(x), axis=axis, **option),
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@checked
@given(x=arrays(special=False))
def test_argmax_and_argmin_over_all_elements(name: str, x: Any) -> None:
    same_outcome(lambda: getattr(at, name)(ours(x)), lambda: getattr(strict, name)(theirs(x)))


@on_every_device
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@checked
@given(data=st.data())
def test_cumulative(name: str, device: str, data: st.DataObject) -> None:
    x = data.draw(arrays(dtypes_of(device), min_dims=1, low=0.5, high=2, special=False))
    options: dict[str, Any] = {"axis": data.draw(st.one_of(st.none(), st.integers(-3, 2))), "include_initial": data.draw(st.booleans())}
    if options["axis"] is not None and not -x.ndim <= options["axis"] < x.ndim:
        options["include_initial"] = False
    exact = (lambda: getattr(strict, name)(wide(x), **options)._array) if x.dtype.kind == "f" else None
    same_outcome(
        lambda: getattr(at, name)(ours(x, device), **options), lambda: getattr(strict, name)(theirs(x), **options), ulps=8, exact=exact
    )


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_operations_unsupported_on_gpus_are_errors(dtype: str) -> None:
    if len(DEVICES) == 1 or dtype not in dtypes_of("gpu"):
        return
    x = at.ones((2, 2), dtype=getattr(at, dtype), device="gpu")
    with pytest.raises(ValueError, match="integer matrix products"):
        at.matmul(x, x)
    if dtype == "int64":
        with pytest.raises(TypeError, match="at most 32 bits"):
            at.sort(x)


@on_every_device
@checked
@given(data=st.data())
def test_matmul(device: str, data: st.DataObject) -> None:
    # GPUs multiply matrices of floats.
    dtype = data.draw(st.sampled_from(dtypes_of(device) if device == "cpu" else ("float32", "bool")))
    batch = data.draw(st.sampled_from([(), (2,), (3, 1)]))
    m, k, n = (data.draw(st.integers(0, 4)) for _ in range(3))
    left = data.draw(st.sampled_from([(k,), (*batch, m, k), (m, k)]))
    right = data.draw(st.sampled_from([(k,), (k, n), (2, k, n), (k + 1, n)]))
    x, y = (data.draw(arrays((dtype,), special=False, shape=shape)) for shape in (left, right))
    exact = bound = None
    if dtype == "float32":
        exact = lambda: strict.matmul(wide(x), wide(y))._array  # noqa: E731
        bound = lambda: strict.matmul(strict.abs(wide(x)), strict.abs(wide(y)))._array * 2.0**-24 * (k + 1) * 1.01  # noqa: E731
    same_outcome(
        lambda: at.matmul(ours(x, device), ours(y, device)), lambda: strict.matmul(theirs(x), theirs(y)), exact=exact, bound=bound
    )


INTEGRAL = ("uint8", "int32", "int64")


@checked
@given(data=st.data())
def test_tensordot_and_vecdot(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(INTEGRAL))
    x = data.draw(arrays((dtype,), shape=(2, 3, 4)))
    y = data.draw(arrays((dtype,), shape=data.draw(st.sampled_from([(3, 4, 2), (4, 3), (4,), (2, 4)]))))
    axes = data.draw(st.sampled_from([0, 1, 2, ((2,), (0,)), ((1, 2), (0, 1)), ((-1,), (-1,))]))
    same_outcome(lambda: at.tensordot(ours(x), ours(y), axes=axes), lambda: strict.tensordot(theirs(x), theirs(y), axes=axes))
    axis = data.draw(st.sampled_from([-1, 0, -2]))
    same_outcome(lambda: at.vecdot(ours(x), ours(y), axis=axis), lambda: strict.vecdot(theirs(x), theirs(y), axis=axis))


SHAPE_CALLS: dict[str, Any] = {
    "broadcast_to": lambda xp, x: xp.broadcast_to(x, (2, *x.shape)),
    "broadcast_to wrong": lambda xp, x: xp.broadcast_to(x, (*x.shape, 7)),
    "concat": lambda xp, x: xp.concat([x, x]),
    "concat flat": lambda xp, x: xp.concat([x, x], axis=None),
    "concat last": lambda xp, x: xp.concat((x, x), axis=-1),
    "expand_dims": lambda xp, x: xp.expand_dims(x, axis=1),
    "expand_dims end": lambda xp, x: xp.expand_dims(x, axis=-1),
    "flip": lambda xp, x: xp.flip(x),
    "flip first": lambda xp, x: xp.flip(x, axis=0),
    "moveaxis": lambda xp, x: xp.moveaxis(x, 0, -1),
    "permute_dims": lambda xp, x: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "permute_dims wrong": lambda xp, x: xp.permute_dims(x, (0,) * (x.ndim + 1)),
    "repeat": lambda xp, x: xp.repeat(x, 2),
    "repeat axis": lambda xp, x: xp.repeat(x, 3, axis=0),
    "reshape": lambda xp, x: xp.reshape(x, (-1,)),
    "reshape wrong": lambda xp, x: xp.reshape(x, (7, 11)),
    "roll": lambda xp, x: xp.roll(x, 2),
    "roll axes": lambda xp, x: xp.roll(x, (1, -2), axis=(0, -1)),
    "squeeze": lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0),
    "squeeze wrong": lambda xp, x: xp.squeeze(x, axis=0),
    "stack": lambda xp, x: xp.stack([x, x], axis=-1),
    "tile": lambda xp, x: xp.tile(x, (2, 1, 2)),
    "unstack": lambda xp, x: xp.unstack(x),
    "unstack last": lambda xp, x: xp.unstack(x, axis=-1),
    "tril": lambda xp, x: xp.tril(x, k=-1),
    "triu": lambda xp, x: xp.triu(x, k=1),
    "broadcast_arrays": lambda xp, x: xp.broadcast_arrays(x, xp.expand_dims(x, axis=0)),
    "meshgrid": lambda xp, x: xp.meshgrid(xp.reshape(x, (-1,)), xp.reshape(x, (-1,))),
    "meshgrid ij": lambda xp, x: xp.meshgrid(xp.reshape(x, (-1,)), xp.reshape(x, (-1,)), indexing="ij"),
    "diff": lambda xp, x: xp.diff(x),
    "diff twice": lambda xp, x: xp.diff(x, axis=0, n=2),
    "matrix_transpose": lambda xp, x: xp.matrix_transpose(x),
    "nonzero": lambda xp, x: xp.nonzero(x),
    "where": lambda xp, x: xp.where(x != x, x, xp.zeros_like(x)),
    "take": lambda xp, x: xp.take(x, xp.asarray([0, 0]), axis=0) if x.ndim and x.shape[0] else xp.take(x, x),
    "ones_like": lambda xp, x: xp.ones_like(x),
    "full_like": lambda xp, x: xp.full_like(x, True),
    "empty_like": lambda xp, x: xp.zeros_like(xp.empty_like(x)),
    "astype": lambda xp, x: xp.astype(x, xp.float32),
    "astype bool": lambda xp, x: xp.astype(x, xp.bool),
    "unique_all": lambda xp, x: tuple(xp.unique_all(x)),
    "unique_counts": lambda xp, x: tuple(xp.unique_counts(x)),
    "unique_inverse": lambda xp, x: tuple(xp.unique_inverse(x)),
    "unique_values": lambda xp, x: xp.unique_values(x),
    "T": lambda xp, x: x.T,
    "mT": lambda xp, x: x.mT,
    "-x": lambda xp, x: -x,
    "x[0]": lambda xp, x: x[0, ...],
    "x[-1]": lambda xp, x: x[..., -1],
    "x[::-1]": lambda xp, x: x[::-1, ...],
    "x[1:4:2]": lambda xp, x: x[..., 1:4:2],
    "x[3:0:-2]": lambda xp, x: x[3:0:-2, ...],
    "x[None]": lambda xp, x: x[None, ...],
    "x[mask]": lambda xp, x: x[x == x],
    "x[99]": lambda xp, x: x[99, ...],
}


@on_every_device
@pytest.mark.parametrize("name", SHAPE_CALLS)
@checked
@given(data=st.data())
def test_shapes_and_parts(name: str, device: str, data: st.DataObject) -> None:
    # What lies outside of a slice's axis, and an axis of a tensor without axes, is not said.
    needs = {"x[1:4:2]": 4, "x[3:0:-2]": 4}.get(name, 0)
    has_axis = needs or name in ("x[0]", "x[-1]", "x[99]", "x[::-1]", "repeat axis", "squeeze wrong", "unstack", "unstack last")
    x = data.draw(arrays(dtypes_of(device), min_dims=1 if has_axis else 0, min_side=needs, special=False))
    call = SHAPE_CALLS[name]
    if name.startswith("unique") or name == "nonzero":
        device = "cpu"
    if name == "diff" and x.dtype.kind == "b":
        return
    if name == "take":
        indices = np.array([0, -1, 0]) % max(x.shape[0], 1) if x.ndim else np.array([0])
        if x.ndim == 0 or x.shape[0] == 0:
            return
        same_outcome(
            lambda: at.take(ours(x, device), ours(indices.astype(np.int32), device), axis=0),
            lambda: strict.take(theirs(x), theirs(indices.astype(np.int32)), axis=0),
        )
        return
    same_outcome(lambda: call(at, ours(x, device)), lambda: call(strict, theirs(x)))


@checked
@given(data=st.data())
def test_take_along_axis(data: st.DataObject) -> None:
    x = data.draw(arrays(shape=(3, 4)))
    indices = data.draw(arrays(("int32", "int64"), shape=(3, 2))) % 4
    same_outcome(lambda: at.take_along_axis(ours(x), ours(indices)), lambda: strict.take_along_axis(theirs(x), theirs(indices)))


@checked
@given(data=st.data())
def test_integer_arrays_as_indices(data: st.DataObject) -> None:
    x = data.draw(arrays(shape=(3, 4)))
    rows, columns = (data.draw(arrays(("int64",), shape=(2, 2))) % n - n * data.draw(st.booleans()) for n in (3, 4))
    same_outcome(lambda: ours(x)[ours(rows), ours(columns)], lambda: theirs(x)[theirs(rows), theirs(columns)])
    same_outcome(lambda: ours(x)[1, ours(columns)], lambda: theirs(x)[1, theirs(columns)])


@checked
@given(data=st.data())
def test_searchsorted_and_isin(data: st.DataObject) -> None:
    x = np.sort(data.draw(arrays(("int32", "float32"), min_dims=1, max_dims=1, special=False)))
    y = data.draw(arrays((x.dtype.name,), special=False))
    side = data.draw(st.sampled_from(["left", "right"]))
    same_outcome(
        lambda: at.searchsorted(ours(x), ours(y), side=side), lambda: strict.searchsorted(theirs(x), theirs(y), side=side)
    )
    a, b = (data.draw(arrays(INTEGRAL)) for _ in range(2))
    same_outcome(lambda: at.isin(ours(a), ours(b)), lambda: strict.isin(theirs(a), theirs(b)))
    # The reference implementation leaves `invert` out.
    same_outcome(lambda: at.isin(ours(a), ours(b), invert=True), lambda: strict.logical_not(strict.isin(theirs(a), theirs(b))))


@checked
@given(data=st.data())
def test_clip(data: st.DataObject) -> None:
    x = data.draw(arrays(INTEGRAL + ("float32",)))
    kind = float if x.dtype.kind == "f" else int
    low, high = sorted(kind(data.draw(st.integers(0, 100))) for _ in range(2))
    for limits in ((low, high), (None, high), (low, None), (None, None)):
        same_outcome(lambda limits=limits: at.clip(ours(x), *limits), lambda limits=limits: strict.clip(theirs(x), *limits))


NUMBER = st.one_of(st.integers(-20, 20), st.floats(-20, 20, width=32))


@checked
@given(start=NUMBER, stop=st.one_of(st.none(), NUMBER), step=st.sampled_from([1, 2, 3, -1, -2, 0.5, -1.5]))
def test_arange(start: Any, stop: Any, step: Any) -> None:
    # In 64 bits and rounded, as ours is made.
    same_outcome(lambda: at.arange(start, stop, step), lambda: strict.arange(start, stop, step), signs=False)


@checked
@given(start=NUMBER, stop=NUMBER, num=st.integers(-1, 20), endpoint=st.booleans())
def test_linspace(start: Any, stop: Any, num: int, endpoint: bool) -> None:
    same_outcome(
        lambda: at.linspace(start, stop, num, endpoint=endpoint), lambda: strict.linspace(start, stop, num, endpoint=endpoint)
    )


@checked
@given(rows=st.integers(0, 5), columns=st.one_of(st.none(), st.integers(0, 5)), k=st.integers(-6, 6))
def test_eye(rows: int, columns: int | None, k: int) -> None:
    same_outcome(lambda: at.eye(rows, columns, k=k), lambda: strict.eye(rows, columns, k=k))


@pytest.mark.parametrize("name", ["zeros", "ones"])
@pytest.mark.parametrize("shape", [(), 3, (2, 0), (2, 3), -1, (2, -1)])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_constants(name: str, shape: Any, dtype: str | None) -> None:
    def call(xp: Any) -> Any:
        return getattr(xp, name)(shape, dtype=None if dtype is None else getattr(xp, dtype))

    same_outcome(lambda: call(at), lambda: call(strict))


@pytest.mark.parametrize("value", [True, 3, 2.5, math.inf])
@pytest.mark.parametrize("dtype", [None, *DTYPES])
def test_full(value: Any, dtype: str | None) -> None:
    if dtype in ("uint8", "int32", "int64") and isinstance(value, float):
        with pytest.raises(TypeError):
            at.full(3, value, dtype=getattr(at, dtype))
        return
    same_outcome(
        lambda: at.full(3, value, dtype=None if dtype is None else getattr(at, dtype)),
        lambda: strict.full(3, value, dtype=None if dtype is None else getattr(strict, dtype)),
    )


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_types_combine_as_the_standard_says(first: str, second: str) -> None:
    def named(xp: Any, call: str) -> Any:
        return getattr(xp, call)(getattr(xp, first), getattr(xp, second))

    try:
        wanted = named(strict, "result_type")
    except TypeError:
        with pytest.raises(TypeError):
            named(at, "result_type")
    else:
        # The smallest signed integer that holds both may be one that is not here.
        assert named(at, "result_type").name == np.dtype(wanted._np_dtype).name
    assert named(at, "can_cast") == named(strict, "can_cast")
    assert named(at, "isdtype") == named(strict, "isdtype")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "kind", ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", "other"]
)
def test_kinds(dtype: str, kind: str) -> None:
    try:
        wanted = strict.isdtype(getattr(strict, dtype), kind)
    except ValueError:
        with pytest.raises(ValueError, match="kind"):
            at.isdtype(getattr(at, dtype), kind)
        return
    assert at.isdtype(getattr(at, dtype), kind) is wanted


def test_limits() -> None:
    for name in ("uint8", "int32", "int64"):
        own, wanted = at.iinfo(getattr(at, name)), strict.iinfo(getattr(strict, name))
        assert (own.bits, own.min, own.max) == (wanted.bits, wanted.min, wanted.max)
    own, wanted = at.finfo(at.float32), strict.finfo(strict.float32)
    assert (own.bits, own.eps, own.max, own.min, own.smallest_normal) == (
        wanted.bits, wanted.eps, wanted.max, wanted.min, wanted.smallest_normal,
    )
