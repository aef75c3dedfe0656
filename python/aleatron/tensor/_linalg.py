"""Products of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._dtypes import NUMERIC
from aleatron.tensor._elementwise import multiply
from aleatron.tensor._manipulation import permute_dims, reshape
from aleatron.tensor._reductions import sum
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axes, normal_axis


def _pair(x1: Tensor, x2: Tensor, name: str) -> tuple[CoreTensor, CoreTensor]:
    check_kind(check_tensor(x1, "x1"), NUMERIC, name)
    check_kind(check_tensor(x2, "x2"), NUMERIC, name)
    if x1.device != x2.device:
        raise ValueError(f"{name}: one tensor is on {x1.device}, another on {x2.device}; move one with to_device")
    dtype = types.promote(x1.dtype, x2.dtype)
    return x1._core.cast(dtype.core), x2._core.cast(dtype.core)


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the product of matrices, or of a matrix and a vector; other axes are broadcast.

    16-bit floats are summed in 32 bits.
    """
    left, right = _pair(x1, x2, "matmul")
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul needs at least one axis on both sides")
    inner = x2.shape[0] if x2.ndim == 1 else x2.shape[-2]
    if x1.shape[-1] != inner:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} are not compatible")
    return Tensor(left.matmul(right))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Returns a view with the last two axes exchanged."""
    return check_tensor(x, "x").mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Returns the sums of products over axes of both.

    Parameters
    ----------
    x1, x2
        The tensors.
    axes
        How many of the last axes of `x1` and the first of `x2`, or which of each.
    """
    left, right = (Tensor(core) for core in _pair(x1, x2, "tensordot"))
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot: {axes} axes of {x1.ndim} and {x2.ndim}")
        first, second = list(range(x1.ndim - axes, x1.ndim)), list(range(axes))
    else:
        first = normal_axes(tuple(axes[0]), x1.ndim, "tensordot")
        second = normal_axes(tuple(axes[1]), x2.ndim, "tensordot")
    if [x1.shape[axis] for axis in first] != [x2.shape[axis] for axis in second]:
        raise ValueError(f"tensordot: axes {axes} of shapes {x1.shape} and {x2.shape} are not compatible")
    kept = [axis for axis in range(x1.ndim) if axis not in first]
    kept_too = [axis for axis in range(x2.ndim) if axis not in second]
    inner = math.prod(x1.shape[axis] for axis in first)
    rows = tuple(x1.shape[axis] for axis in kept)
    columns = tuple(x2.shape[axis] for axis in kept_too)
    one = reshape(permute_dims(left, (*kept, *first)), (math.prod(rows), inner))
    other = reshape(permute_dims(right, (*second, *kept_too)), (inner, math.prod(columns)))
    return reshape(matmul(one, other), rows + columns)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the sums of products along an axis that both have; the others are broadcast.

    Parameters
    ----------
    x1, x2
        The tensors.
    axis
        The axis, counted from the end: a negative number.
    """
    left, right = (Tensor(core) for core in _pair(x1, x2, "vecdot"))
    if axis >= 0:
        raise ValueError("vecdot: the axis must be negative")
    places = [normal_axis(axis, x.ndim, "vecdot") for x in (x1, x2)]
    if x1.shape[places[0]] != x2.shape[places[1]]:
        raise ValueError(f"vecdot: axis {axis} of shapes {x1.shape} and {x2.shape}")
    products = multiply(left, right)
    return sum(products, axis=axis, dtype=products.dtype)
