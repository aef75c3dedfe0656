"""Sums, largest elements and other numbers of many elements."""

from __future__ import annotations

import builtins
import math

from aleatron.tensor import _dtypes as types
from aleatron.tensor._creation import astype, default_integer, full
from aleatron.tensor._dtypes import ALL, FLOATS, INTEGERS, NUMERIC, DType
from aleatron.tensor._elementwise import not_equal, sqrt, square
from aleatron.tensor._manipulation import concat
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axes, normal_axis

Axes = int | tuple[int, ...] | None


def _reduce(x: Tensor, name: str, axis: Axes, keepdims: bool) -> Tensor:
    axes = normal_axes(axis, x.ndim, name)
    # Over no axis, each element is a reduction of its own.
    return x if x.ndim and not axes else Tensor(x._core.reduce(name, axes, bool(keepdims)))


def _of_all(x: Tensor, dtype: DType | None, name: str) -> Tensor:
    """Returns the elements of a sum or product, in the type of its computation."""
    check_kind(check_tensor(x, "x"), NUMERIC, name)
    if dtype is None:
        dtype = default_integer(x.device) if x.dtype in INTEGERS else x.dtype
    return astype(x, types.check(dtype), copy=False)


def sum(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """Returns the sum over axes, or over all.

    Parameters
    ----------
    x
        The tensor.
    axis
        An axis, several, or None for all.
    dtype
        The type it is summed in; without it int64 for integers, otherwise that of `x`. 16-bit floats are summed in 32 bits.
    keepdims
        Whether the axes stay, with size 1.
    """
    terms = _of_all(x, dtype, "sum")
    return astype(_reduce(terms, "sum", axis, keepdims), terms.dtype, copy=False)


def prod(x: Tensor, /, *, axis: Axes = None, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    """Returns the product over axes, or over all; parameters as of `sum`."""
    factors = _of_all(x, dtype, "prod")
    return astype(_reduce(factors, "prod", axis, keepdims), factors.dtype, copy=False)


def mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the mean over axes, or over all; NaN without elements."""
    check_kind(check_tensor(x, "x"), FLOATS, "mean")
    return _reduce(x, "mean", axis, keepdims)


def _count(x: Tensor, axis: Axes, name: str) -> int:
    return math.prod(x.shape[place] for place in normal_axes(axis, x.ndim, name))


def max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the largest element over axes, or over all; NaN if there is a NaN."""
    return _extreme(x, "max", axis, keepdims)


def min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the smallest element over axes, or over all; NaN if there is a NaN."""
    return _extreme(x, "min", axis, keepdims)


def _extreme(x: Tensor, name: str, axis: Axes, keepdims: bool) -> Tensor:
    check_kind(check_tensor(x, "x"), NUMERIC, name)
    if _count(x, axis, name) == 0:
        raise ValueError(f"{name}: there is no {name} of no elements, shape {x.shape}")
    return _reduce(x, name, axis, keepdims)


def var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the variance over axes, or over all.

    Parameters
    ----------
    x
        The tensor, of floats.
    axis
        An axis, several, or None for all.
    correction
        What is taken from the number of elements: 0 for a population, 1 for a sample.
    keepdims
        Whether the axes stay, with size 1.
    """
    check_kind(check_tensor(x, "x"), FLOATS, "var")
    # Squares of 16-bit floats overflow early.
    wide = astype(x, types.float32, copy=False) if x.dtype is types.float16 else x
    squares = sum(square(wide - mean(wide, axis=axis, keepdims=True)), axis=axis, keepdims=keepdims)
    left = builtins.max(_count(x, axis, "var") - float(correction), 0.0)
    # A tensor, so that 0 / 0 is NaN, not an exception.
    return astype(squares / full((), left, dtype=wide.dtype, device=x.device), x.dtype, copy=False)


def std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Returns the standard deviation over axes, or over all; parameters as of `var`."""
    check_kind(check_tensor(x, "x"), FLOATS, "std")
    wide = astype(x, types.float32, copy=False) if x.dtype is types.float16 else x
    wide = var(wide, axis=axis, correction=correction, keepdims=keepdims)
    return astype(sqrt(wide), x.dtype, copy=False)


def _truths(x: Tensor, name: str) -> Tensor:
    check_kind(check_tensor(x, "x"), ALL, name)
    return x if x.dtype is types.bool_ else not_equal(x, 0)


def all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns whether no element over axes, or over all, is zero."""
    return _reduce(_truths(x, "all"), "all", axis, keepdims)


def any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns whether an element over axes, or over all, is not zero."""
    return _reduce(_truths(x, "any"), "any", axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns how many elements over axes, or over all, are not zero."""
    ones = astype(_truths(x, "count_nonzero"), default_integer(x.device))
    return _reduce(ones, "sum", axis, keepdims)


def _cumulative(
    x: Tensor, name: str, start: int, axis: int | None, dtype: DType | None, include_initial: bool
) -> Tensor:
    terms = _of_all(x, dtype, f"cumulative_{name}")
    if x.ndim == 0:
        raise ValueError(f"cumulative_{name} needs at least one axis")
    if axis is None:
        if x.ndim > 1:
            raise ValueError(f"cumulative_{name}: an axis is needed for a tensor of {x.ndim}")
        axis = 0
    place = normal_axis(axis, x.ndim, f"cumulative_{name}")
    # Small integers are summed in wider ones.
    result = astype(Tensor(terms._core.cumulative(name, place)), terms.dtype, copy=False)
    if not include_initial:
        return result
    first = full((*x.shape[:place], 1, *x.shape[place + 1 :]), start, dtype=terms.dtype, device=x.device)
    return concat([first, result], axis=place)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Returns the sums of all elements up to each along an axis.

    Parameters
    ----------
    x
        The tensor.
    axis
        The axis; optional for a tensor of one axis.
    dtype
        The type it is summed in, as of `sum`.
    include_initial
        Whether the sum of no elements comes first.
    """
    return _cumulative(x, "sum", 0, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType | None = None, include_initial: bool = False
) -> Tensor:
    """Returns the products of all elements up to each along an axis; parameters as of `cumulative_sum`."""
    return _cumulative(x, "prod", 1, axis, dtype, include_initial)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Returns the differences of neighbours along an axis, `n` times over.

    Parameters
    ----------
    x
        The tensor.
    axis
        The axis.
    n
        The number of differences; 0 returns `x`.
    prepend, append
        Elements to put before and after `x` first.
    """
    check_kind(check_tensor(x, "x"), NUMERIC, "diff")
    if n < 0:
        raise ValueError(f"diff: n is {n}, which is negative")
    place = normal_axis(axis, x.ndim, "diff")
    parts = [part for part in (prepend, x, append) if part is not None]
    result = concat(parts, axis=place) if len(parts) > 1 else x
    # Each difference has one element less.
    for _ in range(builtins.min(n, result.shape[place])):
        length = result.shape[place]
        kept = builtins.max(length - 1, 0)
        later = Tensor(result._core.slice(place, length - kept, length, 1))
        result = later - Tensor(result._core.slice(place, 0, kept, 1))
    return result


def logsumexp(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns log(sum(exp(x))) over axes, or over all, without overflow on the way."""
    check_kind(check_tensor(x, "x"), FLOATS, "logsumexp")
    return _reduce(x, "logsumexp", axis, keepdims)

