"""What the tests of `aleatron.tensor` share: both namespaces, and arrays of each that hold the same."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from typing import Any

import array_api_strict as strict
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np

import aleatron as al
import aleatron.tensor as at

# The types that both have.
DTYPES = ("bool", "uint8", "int32", "int64", "float32")
DEVICES = ["cpu", *(["gpu"] if al.gpus() else [])]


def ours(array: Any, device: str = "cpu") -> at.Tensor:
    """The array as a tensor."""
    return at.asarray(array, device=device)


def theirs(array: Any) -> Any:
    """The array as the standard's reference implementation has it."""
    return strict.asarray(array)


def dtypes_of(device: str) -> tuple[str, ...]:
    """The names of the types of a device that the reference implementation has, too."""
    return tuple(name for name in DTYPES if name in at.__array_namespace_info__().dtypes(device=device))


@st.composite
def arrays(
    draw: st.DrawFn,
    dtypes: tuple[str, ...] = DTYPES,
    *,
    min_dims: int = 0,
    max_dims: int = 3,
    min_side: int = 0,
    low: float = -1e3,
    high: float = 1e3,
    special: bool = True,
    shape: tuple[int, ...] | None = None,
) -> np.ndarray[Any, Any]:
    """Arrays of any shape and type; floats in a range, with infinities and NaN on request."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    if shape is None:
        shape = draw(hnp.array_shapes(min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=5))
    if dtype.kind == "f":
        inside = st.floats(float(np.float32(low)), float(np.float32(high)), width=32, allow_subnormal=False)
        elements: st.SearchStrategy[Any] = inside
        if special:
            elements = st.one_of(inside, st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]))
    elif dtype.kind == "b":
        elements = st.booleans()
    else:
        limits = np.iinfo(dtype)
        elements = st.integers(max(int(limits.min), -100), min(int(limits.max), 100))
    return draw(hnp.arrays(dtype, shape, elements=elements))


def same_outcome(
    ours_call: Any, theirs_call: Any, *, ulps: float = 0.0, exact: Any = None, bound: Any = None, signs: bool = True
) -> None:
    """Checks that both calls raise the same exception, or return arrays of one shape and type with equal values.

    Floats may be `ulps` units in the last place, or `bound`, off `exact`, the result in 64 bits. Zeros have the same sign if `signs` is true.
    """
    try:
        with quiet():
            expected = theirs_call()
    except Exception as error:
        try:
            got = ours_call()
        except Exception as own:
            assert kind(own) == kind(error), f"{own!r} instead of {error!r}"
            return
        raise AssertionError(f"{got!r} instead of {error!r}") from error
    with quiet():
        compare(
            ours_call(), expected, ulps, None if exact is None else exact(), None if bound is None else bound(), signs=signs
        )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without NumPy's warnings, which the standard does not know."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kind(error: Exception) -> str:
    """Exceptions that programs cannot tell apart by the standard's rules: which arguments are wrong, not how."""
    for wrong, name in ((TypeError, "type"), (OverflowError, "range"), ((ValueError, IndexError), "value")):
        if isinstance(error, wrong):  # type: ignore[arg-type]
            return name
    return type(error).__name__


def compare(got: Any, expected: Any, ulps: float, exact: Any, bound: Any = None, *, signs: bool = True) -> None:
    """Checks shape, type and values."""
    if isinstance(expected, tuple):
        assert isinstance(got, tuple) and len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            compare(one, other, ulps, None, signs=signs)
        return
    if not hasattr(expected, "dtype"):
        assert got == expected
        return
    assert isinstance(got, at.Tensor)
    values, wanted = np.asarray(got), np.asarray(expected._array)
    assert values.shape == wanted.shape
    name = wanted.dtype.name
    # The reference implementation's default float has 64 bits, and its default unsigned integer too.
    if name == "float64":
        wanted, name = wanted.astype(np.float32), "float32"
    if name == "uint64":
        wanted, name = wanted.astype(np.int64), "int64"
    assert values.dtype.name == name
    if exact is not None:
        truth = np.asarray(exact, dtype=np.float64)
        allowed = ulps * np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64) if bound is None else bound
        close = np.abs(values.astype(np.float64) - truth) <= allowed
        same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
        assert (close | same).all(), f"{values} instead of {truth}"
        return
    assert np.array_equal(values, wanted, equal_nan=wanted.dtype.kind == "f"), f"{values} instead of {wanted}"
    if signs and wanted.dtype.kind == "f":
        zero = wanted == 0
        assert np.array_equal(np.signbit(values[zero]), np.signbit(wanted[zero])), f"{values} instead of {wanted}"
