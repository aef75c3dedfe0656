"""Searching, sorting and sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._creation import astype, default_integer
from aleatron.tensor._dtypes import INTEGERS, NUMERIC
from aleatron.tensor._manipulation import expand_dims, reshape
from aleatron.tensor._tensor import Number, Tensor, check_kind, check_tensor, normal_axis


def where(condition: Tensor, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
    """Returns `x1` where the condition is true, otherwise `x2`; all are broadcast, one of the two may be a number."""
    check_kind(check_tensor(condition, "condition"), (types.bool_,), "where")
    for x in (x1, x2):
        if isinstance(x, Tensor) and x.device != condition.device:
            raise ValueError(f"where: one tensor is on {condition.device}, another on {x.device}; move one with to_device")
    if isinstance(x1, Tensor):
        types.promote(x1.dtype, x2.dtype) if isinstance(x2, Tensor) else types.scalar_type(x2, x1.dtype)
    elif isinstance(x2, Tensor):
        types.scalar_type(x1, x2.dtype)
    else:
        raise TypeError("where: x1 or x2 must be a tensor")
    left, right = (x._core if isinstance(x, Tensor) else x for x in (x1, x2))
    return Tensor(condition._core.where(left, right))


def _place_of(x: Tensor, name: str, axis: int | None, keepdims: bool) -> Tensor:
    check_kind(check_tensor(x, "x"), NUMERIC, name)
    if axis is None:
        found = _place_of(reshape(x, (-1,)), name, 0, False)
        return reshape(found, (1,) * x.ndim) if keepdims else found
    place = normal_axis(axis, x.ndim, name)
    if x.shape[place] == 0:
        raise ValueError(f"{name}: an axis without elements, shape {x.shape}")
    found = Tensor(x._core.reduce(name, [place], False))
    found = astype(found, default_integer(x.device), copy=False)
    return expand_dims(found, axis=place) if keepdims else found


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the largest element of an axis, or of all elements: the first of several; the first NaN if there is one."""
    return _place_of(x, "argmax", axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Returns the index of the smallest element of an axis, or of all elements: the first of several; the first NaN if there is one."""
    return _place_of(x, "argmin", axis, keepdims)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the elements of each row along an axis in order; NaN is larger than every number.

    Parameters
    ----------
    x
        The tensor.
    axis
        The axis.
    descending
        Whether the largest comes first.
    stable
        Of no effect: equal elements always keep their order.
    """
    check_kind(check_tensor(x, "x"), NUMERIC, "sort")
    place = normal_axis(axis, x.ndim, "sort")
    return Tensor(x._core.sort(place, bool(descending)))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Returns the indices that sort `x`; parameters as of `sort`."""
    check_kind(check_tensor(x, "x"), NUMERIC, "argsort")
    place = normal_axis(axis, x.ndim, "argsort")
    found = Tensor(x._core.argsort(place, bool(descending)))
    return astype(found, default_integer(x.device), copy=False)


def topk(x: Tensor, k: int, /, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    """Returns the `k` largest elements of each row along an axis, the largest first, and their indices."""
    check_kind(check_tensor(x, "x"), NUMERIC, "topk")
    place = normal_axis(axis, x.ndim, "topk")
    if not 0 <= k <= x.shape[place]:
        raise ValueError(f"topk: k is {k}, but the axis has {x.shape[place]} elements")
    values, indices = x._core.topk(k, place)
    return Tensor(values), astype(Tensor(indices), default_integer(x.device), copy=False)


# The output size of the following functions depends on values, so they are computed on the host, from a copy of a GPU's elements;
# the result is on the device of its argument.


def _back(array: npt.NDArray[Any], device: str) -> Tensor:
    return Tensor(CoreTensor.from_numpy(np.require(array, requirements=["C", "A"]), device))


def _places(array: npt.NDArray[Any], device: str) -> Tensor:
    return _back(array.astype(default_integer(device).numpy), device)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Returns the indices of nonzero elements, one tensor for each axis. Computed on the host."""
    if check_tensor(x, "x").ndim == 0:
        raise ValueError("nonzero needs at least one axis")
    return tuple(_places(places, x.device) for places in np.nonzero(x.numpy()))


def searchsorted(
    x1: Tensor, x2: Tensor | Number, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Returns the insertion indices of elements in a sorted axis. Computed on the host.

    Parameters
    ----------
    x1
        The sorted elements, in one axis.
    x2
        The elements to put in.
    side
        "left" to come before equal ones, "right" to come after them.
    sorter
        Where the elements of `x1` are in order, if they are not.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    check_kind(check_tensor(x1, "x1"), NUMERIC, "searchsorted")
    if isinstance(x2, Tensor):
        check_kind(x2, NUMERIC, "searchsorted")
        types.promote(x1.dtype, x2.dtype)
        if x1.device != x2.device:
            raise ValueError(f"searchsorted: one tensor is on {x1.device}, another on {x2.device}")
    else:
        types.scalar_type(x2, x1.dtype)
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: x1 must have one axis, not {x1.ndim}")
    order = None
    if sorter is not None:
        check_kind(check_tensor(sorter, "sorter"), INTEGERS, "searchsorted")
        order = sorter.numpy()
    values = x2.numpy() if isinstance(x2, Tensor) else np.asarray(x2, dtype=x1.dtype.numpy)
    return _places(np.asarray(np.searchsorted(x1.numpy(), values, side=side, sorter=order)), x1.device)  # type: ignore[call-overload]


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Returns the unique elements in order, the first index of each, the unique index of each element of `x`, and the counts.

    Each NaN is different from every other. Computed on the host.
    """
    values, indices, inverse, counts = np.unique(
        check_tensor(x, "x").numpy(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    inverse = inverse.reshape(x.shape)
    return UniqueAll(_back(values, x.device), *(_places(part, x.device) for part in (indices, inverse, counts)))


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Returns the different elements in order and how often each occurs; as `unique_all`."""
    everything = unique_all(x)
    return UniqueCounts(everything.values, everything.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Returns the different elements in order and which one each element of `x` is; as `unique_all`."""
    everything = unique_all(x)
    return UniqueInverse(everything.values, everything.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Returns the different elements in order; as `unique_all`."""
    return unique_all(x).values


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """Returns whether each element of `x1` is one of `x2`, or is not if `invert` is true. For integers; computed on the host."""
    given = [x for x in (x1, x2) if isinstance(x, Tensor)]
    if not given:
        raise TypeError("isin: x1 or x2 must be a tensor")
    for x in given:
        check_kind(x, INTEGERS, "isin")
    device = given[0].device
    if len(given) == 2 and given[1].device != device:
        raise ValueError(f"isin: one tensor is on {device}, another on {given[1].device}")
    for number in (x1, x2):
        if not isinstance(number, Tensor):
            types.scalar_type(number, given[0].dtype)
    left, right = (x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in (x1, x2))
    return _back(np.isin(left, right, invert=invert), device)
