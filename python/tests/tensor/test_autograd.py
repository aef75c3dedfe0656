"""Gradients of tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from standard import DEVICES

import aleatron.tensor as at


def leaf(values: list[float] | list[list[float]], device: str = "cpu") -> at.Tensor:
    return at.asarray(values, dtype=at.float32, device=device).requires_grad_()


def gradient(x: at.Tensor) -> list[float]:
    assert x.grad is not None
    result: list[float] = x.grad.tolist()
    return result


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_operators_accumulate(device: str) -> None:
    x, y = leaf([1.0, 2.0], device), leaf([3.0, 5.0], device)
    assert x.requires_grad and x.is_leaf and x.grad is None
    for times in (1, 2):
        at.sum((2 * x + y) * x / 4 - y).backward()
        assert gradient(x) == [times * (4 * a + b) / 4 for a, b in ((1, 3), (2, 5))]
        assert gradient(y) == [times * (a / 4 - 1) for a in (1, 2)]
    x.grad = None
    assert x.grad is None
    with pytest.raises(TypeError, match="None"):
        x.grad = y  # type: ignore[assignment]


def test_functions_of_the_namespace_record() -> None:
    functions: list[Callable[[at.Tensor], at.Tensor]] = [
        at.exp,
        lambda x: at.softmax(x, axis=-1) * x,
        lambda x: x @ x.mT,
        lambda x: at.concat([x, x[:, ::2]], axis=1) ** 2,
        lambda x: at.std(x, axis=0),
        lambda x: at.take(x, at.asarray([1, 1, 0]), axis=0) * 3,
        lambda x: at.where(x > 1, x * x, x),
        lambda x: x[0, ..., None, 1:],
        lambda x: x[x > 1.0],
        lambda x: at.linalg.vector_norm(x, axis=1),
    ]
    rng = np.random.default_rng(5)
    for number, function in enumerate(functions):
        start = rng.uniform(0.5, 1.5, (2, 3))
        x = at.asarray(start).requires_grad_()
        at.sum(function(x)).backward()
        assert x.grad is not None
        for place in np.ndindex(2, 3):
            step = np.zeros((2, 3))
            step[place] = 1e-5
            above, below = (float(at.sum(function(at.asarray(start + s)))) for s in (step, -step))
            assert abs(x.grad.numpy()[place] - (above - below) / 2e-5) < 1e-8, number


def test_no_grad_is_a_context_and_a_decorator() -> None:
    x = leaf([1.0])

    @at.no_grad()
    def double() -> at.Tensor:
        return 2 * x

    assert not double().requires_grad
    with at.no_grad():
        assert not at.is_grad_enabled()
        with at.enable_grad():
            assert (2 * x).requires_grad
        assert not (2 * x).requires_grad
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(at.is_grad_enabled()))
        thread.start()
        thread.join()
        assert found == [True]
    assert at.is_grad_enabled()
    with pytest.raises(KeyError), at.no_grad():
        raise KeyError
    assert at.is_grad_enabled() and (2 * x).requires_grad


def test_a_training_loop_finds_the_line() -> None:
    x = at.linspace(-1, 1, 20, dtype=at.float64)
    slope, shift = (at.zeros(1, dtype=at.float64).requires_grad_() for _ in range(2))
    for _ in range(200):
        loss = at.mean((slope * x + shift - (3 * x + 1)) ** 2)
        loss.backward()
        for parameter in (slope, shift):
            with at.no_grad():
                parameter[...] = parameter - 0.3 * parameter.grad
    assert abs(float(slope) - 3) < 1e-6 and abs(float(shift) - 1) < 1e-6


def test_assignments_pass_gradients_on() -> None:
    x, y = leaf([1.0, 2.0, 3.0, 4.0]), leaf([10.0, 20.0])
    z = x * 1.0
    z[1:3] = y * 2.0
    z[3] = 7.0
    assert z.tolist() == [1.0, 20.0, 40.0, 7.0]
    at.sum(z * z).backward()
    assert gradient(x) == [2.0, 0.0, 0.0, 0.0]
    assert gradient(y) == [80.0, 160.0]
    plain = at.zeros(4)
    plain[at.asarray([True, False, True, False])] = y
    at.sum(plain).backward()
    assert gradient(y) == [81.0, 161.0]
    with pytest.raises(RuntimeError, match="no_grad"):
        x[0] = 1.0


def test_errors_name_the_remedy() -> None:
    x = leaf([1.0, 2.0])
    with pytest.raises(ValueError, match="pass the gradient"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="requires_grad"):
        at.ones(1).backward()
    with pytest.raises(TypeError, match="floats"):
        at.asarray([1]).requires_grad_()
    y = at.sum(at.exp(x))
    y.backward()
    with pytest.raises(RuntimeError, match="compute the output again"):
        y.backward()


def test_grad_changes_no_leaf() -> None:
    x, unused = leaf([3.0]), leaf([1.0])
    inner = x * x
    assert [None if g is None else g.tolist() for g in at.grad(2 * inner, [x, inner, unused])] == [[12.0], [2.0], None]
    assert x.grad is None
    (x * x).backward(at.asarray([10.0], dtype=at.float32))
    assert gradient(x) == [60.0]
    assert not (x * x).detach().requires_grad
