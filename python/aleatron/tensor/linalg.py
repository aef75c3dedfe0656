"""Linear algebra: the extension `linalg` of the array API standard.

Products, norms of vectors and diagonals run on the device of their arguments. Decompositions and functions based on them (`cholesky`, `det`, `eigh`, `eigvalsh`, `inv`, `matrix_norm` with
singular values, `matrix_power`, `matrix_rank`, `pinv`, `qr`, `slogdet`, `solve`, `svd`, `svdvals`) are computed on the host by LAPACK, in the precision of the argument and in
32 bits for float16; the result is on the device of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from aleatron.tensor import _dtypes as types
from aleatron.tensor._creation import asarray, astype, full
from aleatron.tensor._dtypes import DType
from aleatron.tensor._elementwise import abs as _abs
from aleatron.tensor._elementwise import not_equal, sqrt, square
from aleatron.tensor._indexing import take
from aleatron.tensor._linalg import matmul, matrix_transpose, tensordot, vecdot
from aleatron.tensor._manipulation import concat, expand_dims, moveaxis, reshape
from aleatron.tensor._reductions import max as _max
from aleatron.tensor._reductions import min as _min
from aleatron.tensor._reductions import sum as _sum
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axes

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

Array = npt.NDArray[Any]


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """An orthogonal and an upper triangular matrix."""

    Q: Tensor
    R: Tensor


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


class SVDResult(NamedTuple):
    """The singular vectors on the left, the singular values in descending order, and the singular vectors on the right, as rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def _matrices(x: Tensor, name: str, *, square: bool = False) -> Array:
    """Returns the elements on the host, in a type of LAPACK."""
    check_kind(check_tensor(x, "x"), types.FLOATS, name)
    if x.ndim < 2:
        raise ValueError(f"{name} needs matrices, which have at least two axes, not {x.ndim}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} needs square matrices, not {x.shape[-2]} x {x.shape[-1]}")
    array = x.numpy()
    return array.astype(np.float32) if x.dtype is types.float16 else array


def _like(array: Any, x: Tensor) -> Tensor:
    """Converts a result of the host to the type and the device of an argument."""
    return asarray(np.asarray(array, dtype=x.dtype.numpy), dtype=x.dtype, device=x.device)


def _checked(function: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
    try:
        return function(*arguments, **options)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name}: {error}") from None


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """Returns the lower triangular factor of positive definite matrices, or the upper one.

    Raises
    ------
    ValueError
        For a matrix that is not positive definite.
    """
    factor = _checked(np.linalg.cholesky, "cholesky", _matrices(x, "cholesky", square=True))
    return _like(np.swapaxes(factor, -1, -2) if upper else factor, x)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the cross products of vectors of three elements along an axis."""
    check_kind(check_tensor(x1, "x1"), types.NUMERIC, "cross")
    check_kind(check_tensor(x2, "x2"), types.NUMERIC, "cross")
    left, right = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    if left.shape[-1] != 3 or right.shape[-1] != 3:
        raise ValueError(f"cross needs 3 elements along the axis, not {left.shape[-1]} and {right.shape[-1]}")

    def part(i: int, j: int) -> Tensor:
        return expand_dims(left[..., i] * right[..., j] - left[..., j] * right[..., i], axis=-1)

    return moveaxis(concat([part(1, 2), part(2, 0), part(0, 1)], axis=-1), -1, axis)


def det(x: Tensor, /) -> Tensor:
    """Returns the determinants of matrices."""
    return _like(np.linalg.det(_matrices(x, "det", square=True)), x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Returns the diagonals of matrices; `offset` counts diagonals above the main one."""
    if check_tensor(x, "x").ndim < 2:
        raise ValueError(f"diagonal needs at least two axes, not {x.ndim}")
    rows, columns = x.shape[-2:]
    first, second = max(-offset, 0), max(offset, 0)
    length = max(min(rows - first, columns - second), 0)
    places = (np.arange(length) + first) * columns + np.arange(length) + second
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    return take(flat, asarray(places.astype(np.int32), device=x.device), axis=-1)


def eigh(x: Tensor, /) -> EighResult:
    """Returns the eigenvalues and eigenvectors of symmetric matrices, of which the lower triangle is read."""
    values, vectors = _checked(np.linalg.eigh, "eigh", _matrices(x, "eigh", square=True))
    return EighResult(_like(values, x), _like(vectors, x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Returns the eigenvalues of symmetric matrices."""
    return _like(_checked(np.linalg.eigvalsh, "eigvalsh", _matrices(x, "eigvalsh", square=True)), x)


def inv(x: Tensor, /) -> Tensor:
    """Returns the inverse matrices.

    Raises
    ------
    ValueError
        For a singular matrix.
    """
    return _like(_checked(np.linalg.inv, "inv", _matrices(x, "inv", square=True)), x)


def matrix_norm(
    x: Tensor, /, *, keepdims: bool = False, ord: float | Literal["fro", "nuc"] | None = "fro"
) -> Tensor:
    """Returns norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    array = _matrices(x, "matrix_norm")
    return _like(_checked(np.linalg.norm, "matrix_norm", array, ord=ord, axis=(-2, -1), keepdims=keepdims), x)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """Returns powers of square matrices; negative ones are those of the inverse."""
    return _like(_checked(np.linalg.matrix_power, "matrix_power", _matrices(x, "matrix_power", square=True), n), x)


def _cutoff(rtol: float | Tensor | None, x: Tensor, values: Array) -> Array:
    """The singular values that count as zero: those up to `rtol` times the largest."""
    if rtol is None:
        precision = np.finfo(np.float32 if x.dtype is types.float16 else x.dtype.numpy).eps
        rtol = max(x.shape[-2:]) * float(precision)
    relative = rtol.numpy() if isinstance(rtol, Tensor) else np.asarray(rtol)
    largest = values.max(axis=-1, initial=0.0)
    limit: Array = np.asarray(largest * relative)
    return limit


def matrix_rank(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Returns the number of singular values above `rtol` times the largest one."""
    values = np.linalg.svd(_matrices(x, "matrix_rank"), compute_uv=False)
    ranks = np.count_nonzero(values > _cutoff(rtol, x, values)[..., None], axis=-1)
    return asarray(np.asarray(ranks, dtype=np.int64), device=x.device)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the products of all pairs of elements of two vectors."""
    for x in (check_tensor(x1, "x1"), check_tensor(x2, "x2")):
        check_kind(x, types.NUMERIC, "outer")
        if x.ndim != 1:
            raise ValueError(f"outer needs vectors, which have one axis, not {x.ndim}")
    return expand_dims(x1, axis=1) * expand_dims(x2, axis=0)


def pinv(x: Tensor, /, *, rtol: float | Tensor | None = None) -> Tensor:
    """Returns the pseudo-inverse matrices; singular values up to `rtol` times the largest one count as zero."""
    left, values, right = _checked(np.linalg.svd, "pinv", _matrices(x, "pinv"), full_matrices=False)
    is_kept = values > _cutoff(rtol, x, values)[..., None]
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=is_kept)
    return _like(np.swapaxes(right, -1, -2) @ (inverse[..., None] * np.swapaxes(left, -1, -2)), x)


def qr(x: Tensor, /, *, mode: Literal["reduced", "complete"] = "reduced") -> QRResult:
    """Returns an orthogonal and an upper triangular matrix whose product is `x`."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"mode must be 'reduced' or 'complete', not {mode!r}")
    q, r = _checked(np.linalg.qr, "qr", _matrices(x, "qr"), mode=mode)
    return QRResult(_like(q, x), _like(r, x))


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Returns the signs of determinants, and the logarithms of their magnitudes."""
    sign, logarithm = np.linalg.slogdet(_matrices(x, "slogdet", square=True))
    return SlogdetResult(_like(sign, x), _like(logarithm, x))


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Returns the solutions of systems of linear equations; `x2` is a vector, or has the right sides as columns.

    Raises
    ------
    ValueError
        For a singular matrix, or sizes that do not match.
    """
    left = _matrices(x1, "solve", square=True)
    check_kind(check_tensor(x2, "x2"), types.FLOATS, "solve")
    if x1.device != x2.device:
        raise ValueError(f"solve: one tensor is on {x1.device}, another on {x2.device}; move one with to_device")
    dtype = types.promote(x1.dtype, x2.dtype)
    is_vector = x2.ndim == 1
    right = x2.numpy().astype(np.float32 if x2.dtype is types.float16 else x2.dtype.numpy)
    result = _checked(np.linalg.solve, "solve", left, right[:, None] if is_vector else right)
    return _like(result[..., 0] if is_vector else result, astype(x1, dtype, copy=False))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """Returns the singular value decompositions of matrices."""
    u, s, vh = _checked(np.linalg.svd, "svd", _matrices(x, "svd"), full_matrices=full_matrices)
    return SVDResult(_like(u, x), _like(s, x), _like(vh, x))


def svdvals(x: Tensor, /) -> Tensor:
    """Returns the singular values of matrices, in descending order."""
    return _like(_checked(np.linalg.svd, "svdvals", _matrices(x, "svdvals"), compute_uv=False), x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DType | None = None) -> Tensor:
    """Returns the sums of the diagonals of matrices, in `dtype` if it is given."""
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(
    x: Tensor, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Tensor:
    """Returns the norm of the elements along axes: the root of order `ord` of the sum of the powers of the magnitudes.

    0 counts the elements that are not zero; inf and -inf give the largest and the smallest magnitude.
    """
    check_kind(check_tensor(x, "x"), types.FLOATS, "vector_norm")
    axes = tuple(range(x.ndim)) if axis is None else tuple(normal_axes(axis, x.ndim, "vector_norm"))
    # Squares of 16-bit floats overflow early.
    wide = astype(x, types.float32, copy=False) if x.dtype is types.float16 else x
    if not axes:
        norm = _abs(wide)
    elif ord == np.inf:
        norm = _max(_abs(wide), axis=axes, keepdims=keepdims)
    elif ord == -np.inf:
        norm = _min(_abs(wide), axis=axes, keepdims=keepdims)
    elif ord == 0:
        norm = _sum(astype(not_equal(wide, 0.0), wide.dtype), axis=axes, keepdims=keepdims)
    elif ord == 1:
        norm = _sum(_abs(wide), axis=axes, keepdims=keepdims)
    elif ord == 2:
        norm = sqrt(_sum(square(wide), axis=axes, keepdims=keepdims))
    else:
        total = _sum(_abs(wide) ** float(ord), axis=axes, keepdims=keepdims)
        norm = total ** full((), 1.0 / ord, dtype=wide.dtype, device=x.device)
    return astype(norm, x.dtype, copy=False)
