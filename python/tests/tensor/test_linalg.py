"""Linear algebra against NumPy's, on every device and for every float type it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from standard import DEVICES

import aleatron.tensor as at

on_every_device = pytest.mark.parametrize("device", DEVICES)


def matrices(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def placed(array: np.ndarray[Any, Any], device: str) -> at.Tensor:
    """The array with the most precise floats of the device."""
    return at.asarray(array, device=device)


def close(got: at.Tensor, exact: Any, factor: float = 1e3) -> None:
    """A backward stable result of matrices of a few rows: within `factor` roundings of the largest element."""
    unit = float(np.finfo(got.dtype.numpy).eps)
    values = np.asarray(got, dtype=np.float64)
    assert values.shape == np.shape(exact)
    assert (np.abs(values - exact) <= factor * unit * max(1.0, float(np.abs(exact).max(initial=0.0)))).all()


@on_every_device
def test_decompositions_multiply_to_the_matrix(device: str) -> None:
    x = matrices(2, 5, 3)
    tensor = placed(x, device)
    assert tensor.dtype is (at.float64 if device == "cpu" else at.float32)
    u, s, vh = at.linalg.svd(tensor, full_matrices=False)
    close(at.matmul(u * at.expand_dims(s, axis=-2), vh), x)
    assert u.device == tensor.device and (np.diff(s.numpy(), axis=-1) <= 0).all()
    close(at.linalg.svdvals(tensor), s.numpy().astype(float))
    assert at.linalg.svd(tensor).U.shape == (2, 5, 5)
    q, r = at.linalg.qr(tensor)
    close(at.matmul(q, r), x)
    close(at.matmul(q.mT, q), np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert at.linalg.qr(tensor, mode="complete").Q.shape == (2, 5, 5)
    square = x.swapaxes(-1, -2) @ x
    values, vectors = at.linalg.eigh(placed(square, device))
    close(at.matmul(vectors * at.expand_dims(values, axis=-2), vectors.mT), square)
    close(at.linalg.eigvalsh(placed(square, device)), values.numpy().astype(float))
    factor = at.linalg.cholesky(placed(square, device))
    close(at.matmul(factor, factor.mT), square)
    close(at.linalg.cholesky(placed(square, device), upper=True), factor.mT.numpy().astype(float))


@on_every_device
def test_functions_equal_numpys(device: str) -> None:
    x, y = matrices(4, 4) + 4 * np.eye(4), matrices(4, 2, seed=1)
    tensor, right = placed(x, device), placed(y, device)
    close(at.linalg.inv(tensor), np.linalg.inv(x))
    close(at.linalg.det(tensor), np.linalg.det(x))
    close(at.linalg.solve(tensor, right), np.linalg.solve(x, y))
    close(at.linalg.solve(tensor, right[:, 0]), np.linalg.solve(x, y[:, 0]))
    sign, logarithm = at.linalg.slogdet(tensor)
    close(sign, np.linalg.slogdet(x)[0])
    close(logarithm, np.linalg.slogdet(x)[1])
    close(at.linalg.matrix_power(tensor, -2), np.linalg.matrix_power(x, -2))
    close(at.linalg.pinv(right), np.linalg.pinv(y))
    ones = placed(np.ones((3, 4)), device)
    assert at.linalg.matrix_rank(ones).item() == 1 and at.linalg.matrix_rank(tensor).item() == 4
    assert at.linalg.matrix_rank(tensor, rtol=0.999).item() == 1
    close(at.linalg.pinv(ones), np.full((4, 3), 1 / 12))
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        close(at.linalg.matrix_norm(tensor, ord=order), np.linalg.norm(x, ord=order, axis=(-2, -1)))
    for order in (0, 1, 2, 3, -1, np.inf, -np.inf):
        exact = np.linalg.norm(x, ord=order, axis=1, keepdims=True)
        close(at.linalg.vector_norm(tensor, axis=1, keepdims=True, ord=order), exact)
    close(at.linalg.vector_norm(tensor), np.linalg.norm(x.reshape(-1)))
    close(at.linalg.vector_norm(tensor, axis=()), np.abs(x))
    for offset in (-5, -1, 0, 2):
        close(at.linalg.diagonal(right, offset=offset), np.diagonal(y, offset=offset))
        close(at.linalg.trace(tensor, offset=offset), np.trace(x, offset=offset))
    close(at.linalg.outer(right[:, 0], right[:2, 1]), np.outer(y[:, 0], y[:2, 1]))
    close(at.linalg.cross(tensor[:3, :], tensor[1:, :], axis=0), np.cross(x[:3], x[1:], axis=0))
    close(at.linalg.vecdot(tensor, tensor), (x * x).sum(-1))


@on_every_device
def test_wrong_matrices_are_errors(device: str) -> None:
    x = at.ones((2, 3), device=device)
    for call, error in [
        (lambda: at.linalg.inv(x), ValueError),
        (lambda: at.linalg.inv(at.ones((2, 2), device=device)), ValueError),
        (lambda: at.linalg.cholesky(-at.eye(2, device=device)), ValueError),
        (lambda: at.linalg.svd(at.ones(3, device=device)), ValueError),
        (lambda: at.linalg.qr(x, mode="r"), ValueError),  # type: ignore[arg-type]
        (lambda: at.linalg.outer(x, x), ValueError),
        (lambda: at.linalg.cross(x, at.ones((2, 2), device=device)), ValueError),
        (lambda: at.linalg.det(at.ones((2, 2), dtype=at.int32, device=device)), TypeError),
    ]:
        with pytest.raises(error):
            call()
    half = at.asarray(np.eye(2, dtype=np.float16) * 2, device=device)
    assert at.linalg.inv(half).dtype is at.float16 and at.linalg.inv(half).tolist() == [[0.5, 0], [0, 0.5]]
