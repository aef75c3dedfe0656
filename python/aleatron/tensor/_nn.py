"""Functions of neural networks beyond the standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor._dtypes import FLOATS
from aleatron.tensor._elementwise import _binary, _unary
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axes, normal_axis, whole_numbers

erf = _unary("erf", "erf", FLOATS, "Returns the error function, accurate near 0.")
gelu = _unary("gelu", "gelu", FLOATS, "Returns x times the probability that a normal variable is below x.")
gelu_tanh = _unary("gelu_tanh", "gelu_tanh", FLOATS, "Returns the approximation of `gelu` through tanh.")
relu = _unary("relu", "relu", FLOATS, "Returns the larger of x and 0.")
rsqrt = _unary("rsqrt", "rsqrt", FLOATS, "Returns 1 divided by the square root.")
sigmoid = _unary("sigmoid", "sigmoid", FLOATS, "Returns 1 / (1 + exp(-x)).")
silu = _unary("silu", "silu", FLOATS, "Returns x / (1 + exp(-x)).")
softplus = _unary("softplus", "softplus", FLOATS, "Returns log(1 + exp(x)).")
leaky_relu = _binary("leaky_relu", "leaky_relu", FLOATS, "Returns x1 where it is positive, else x1 times x2.")
elu = _binary("elu", "elu", FLOATS, "Returns x1 where it is positive, else x2 (exp(x1) - 1).")


def softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns exp(x) divided by its sum along an axis, without overflow on the way."""
    check_kind(check_tensor(x, "x"), FLOATS, "softmax")
    return Tensor(x._core.softmax(normal_axis(axis, x.ndim, "softmax")))


def log_softmax(x: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the logarithm of `softmax`, accurate if the softmax is near 0 or 1."""
    check_kind(check_tensor(x, "x"), FLOATS, "log_softmax")
    return Tensor(x._core.log_softmax(normal_axis(axis, x.ndim, "log_softmax")))


def _core(x: Tensor | None) -> CoreTensor | None:
    return None if x is None else check_tensor(x, "an argument")._core


def layer_norm(
    x: Tensor,
    /,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    axes: int | tuple[int, ...] = -1,
    eps: float = 1e-5,
) -> Tensor:
    """Returns x less its mean over axes, divided by its deviation there.

    Parameters
    ----------
    x
        The tensor, of floats.
    weight, bias
        The scale and the shift of the result; of the shape of the axes.
    axes
        The axes.
    eps
        What is added to the variance.
    """
    check_kind(check_tensor(x, "x"), FLOATS, "layer_norm")
    return Tensor(x._core.layer_norm(normal_axes(axes, x.ndim, "layer_norm"), _core(weight), _core(bias), eps))


def rms_norm(
    x: Tensor, /, weight: Tensor | None = None, *, axes: int | tuple[int, ...] = -1, eps: float = 1e-6
) -> Tensor:
    """Returns x divided by the root of its mean square over axes, times `weight`; parameters as of `layer_norm`."""
    check_kind(check_tensor(x, "x"), FLOATS, "rms_norm")
    return Tensor(x._core.rms_norm(normal_axes(axes, x.ndim, "rms_norm"), _core(weight), eps))


def _two(value: int | Sequence[int], n: int, what: str) -> list[int]:
    values = whole_numbers(value, what)
    if not hasattr(value, "__len__"):
        values *= n
    if len(values) != n:
        raise ValueError(f"{what}: {n} numbers are needed, not {len(values)}")
    if min(values) < 1:
        raise ValueError(f"{what} is {min(values)}, not at least 1")
    return values


def _sides(padding: int | Sequence[int] | Sequence[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """Padding before and after each axis."""
    each: Any = padding if hasattr(padding, "__len__") else [padding] * n
    pairs = [whole_numbers(one, "padding") for one in each]
    sides = [(pair[0], pair[-1]) for pair in pairs if len(pair) in (1, 2)]
    if len(sides) != n:
        raise ValueError(f"padding for {n} axes is needed, not for {len(sides)}")
    if min(min(pair) for pair in sides) < 0:
        raise ValueError(f"padding is {padding}, which is negative")
    return sides


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: int = 1,
    padding: int | Sequence[tuple[int, int]] = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the cross-correlation of (batch, channels, length) with kernels of shape (outputs, channels / groups, length).

    Parameters
    ----------
    x
        The tensor.
    weight, bias
        The kernels, and the bias of each output channel.
    stride, dilation
        The distance between positions and between taps.
    padding
        Zeros on both sides, or a pair (before, after) in a list.
    groups
        The number of groups of channels, each with its own kernels.
    """
    return Tensor(
        check_tensor(x, "x")._core.conv(
            check_tensor(weight, "weight")._core,
            _core(bias),
            _two(stride, 1, "stride"),
            _sides(padding, 1),
            _two(dilation, 1, "dilation"),
            _two(groups, 1, "groups")[0],
        )
    )


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    /,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    """Returns the cross-correlation of (batch, channels, rows, columns) with kernels; parameters as of `conv1d`, a pair for the two axes."""
    return Tensor(
        check_tensor(x, "x")._core.conv(
            check_tensor(weight, "weight")._core,
            _core(bias),
            _two(stride, 2, "stride"),
            _sides(padding, 2),
            _two(dilation, 2, "dilation"),
            _two(groups, 1, "groups")[0],
        )
    )


def max_pool2d(
    x: Tensor,
    kernel: int | tuple[int, int],
    /,
    *,
    stride: int | tuple[int, int] | None = None,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
) -> Tensor:
    """Returns the largest element of each window of (batch, channels, rows, columns).

    Parameters
    ----------
    x
        The tensor.
    kernel
        The size of the windows.
    stride
        The distance between windows; the size of them without it.
    padding
        Elements on both sides that are never the largest.
    """
    size = _two(kernel, 2, "kernel")
    step = size if stride is None else _two(stride, 2, "stride")
    return Tensor(check_tensor(x, "x")._core.pool("max", size, step, _sides(padding, 2)))


def avg_pool2d(
    x: Tensor,
    kernel: int | tuple[int, int],
    /,
    *,
    stride: int | tuple[int, int] | None = None,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
) -> Tensor:
    """Returns the mean of each window, without padded elements; parameters as of `max_pool2d`."""
    size = _two(kernel, 2, "kernel")
    step = size if stride is None else _two(stride, 2, "stride")
    return Tensor(check_tensor(x, "x")._core.pool("average", size, step, _sides(padding, 2)))


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, /, mask: Tensor | None = None, *, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Returns softmax(query keyᵀ scale + mask) value.

    Parameters
    ----------
    query, key, value
        (…, positions, length) each.
    mask
        What is added, or booleans of which true lets a pair through; broadcast.
    causal
        Whether a query sees only keys that are not after it.
    scale
        The factor; 1 / sqrt(length) without it.
    """
    return Tensor(
        check_tensor(query, "query")._core.attention(
            check_tensor(key, "key")._core, check_tensor(value, "value")._core, _core(mask), bool(causal), scale
        )
    )
