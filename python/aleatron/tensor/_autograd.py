"""Gradients: `no_grad`, `enable_grad`, `is_grad_enabled` and `grad`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ContextDecorator
from types import TracebackType

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor._tensor import Tensor, check_tensor


class _Recording(ContextDecorator):
    """A context that enables or disables the recording of operations in this thread."""

    _enabled: bool

    def __init__(self) -> None:
        # A context that is entered several times restores each state.
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(CoreTensor.set_recording(self._enabled))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        CoreTensor.set_recording(self._before.pop())


class no_grad(_Recording):
    """A context, or a decorator, in which operations of this thread are not recorded.

    >>> import aleatron.tensor as at
    >>> x = at.asarray([1.0]).requires_grad_()
    >>> with at.no_grad():
    ...     y = 2 * x
    >>> y.requires_grad
    False
    """

    _enabled = False


class enable_grad(_Recording):
    """A context, or a decorator, in which operations of this thread are recorded, also inside `no_grad`."""

    _enabled = True


def is_grad_enabled() -> bool:
    """Returns whether operations of this thread on tracked tensors are recorded."""
    return CoreTensor.is_recording()


def grad(output: Tensor, inputs: Sequence[Tensor]) -> list[Tensor | None]:
    """Returns the gradients of an output of one element with respect to some tensors, and changes no leaf.

    Parameters
    ----------
    output
        The result of a recorded computation. The visited part of its graph is freed.
    inputs
        Leaves, or intermediate values of the computation.

    Returns
    -------
    list
        A gradient for each input; None for a tensor that the output does not depend on.

    Raises
    ------
    RuntimeError
        For an output that is not part of a recorded computation, or whose graph was freed.
    """
    cores = [check_tensor(tensor, "an input")._core for tensor in inputs]
    gradients = check_tensor(output, "output")._core.gradients_of(cores)
    return [None if gradient is None else Tensor(gradient) for gradient in gradients]
