"""The engine behind stream layers: values to operands, operands to sums, and the autograd function around both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from aleatron import _core
from aleatron._types import DeviceNames, Polarity, Sharing, Width

# The rules of the engine for the scales of weights (aleatron_core::arithmetic::weight_scale_of_row).
RELATIVE_LIMIT = 2.0**-32
SIGNAL_LIMIT = 2.0**-96

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)


class Interval(NamedTuple):
    """The values that a layer encodes, in the units of the module."""

    low: float
    high: float

    def clip(self, values: Any) -> Any:
        """Moves values into the interval."""
        return values.clamp(self.low, self.high)

    def mask(self, gradient: Any, values: Any) -> Any:
        """Returns a gradient that is zero where values are outside; both ends are inside."""
        return gradient.masked_fill((values < self.low) | (values > self.high), 0.0)


@dataclass
class Prepared:
    """A layer of the engine with its arguments."""

    key: tuple[object, ...]
    weights: Any
    layer: _core.StreamLayer


@dataclass(frozen=True)
class Call:
    """One forward pass: the intervals of its operands, its product, and the gradients of that."""

    name: str
    inputs: Interval
    weights: Interval
    forward: Callable[[Any, Any, Any], Any]
    by_input: Callable[[Any, Any, Any], Any]
    by_weight: Callable[[Any, Any, Any], Any]
    channel_axis: int


def ends_of(polarity: str) -> tuple[float, float]:
    """Returns the interval of a polarity, whose name the engine has checked."""
    return (0.0, 1.0) if polarity == "unipolar" else (-1.0, 1.0)


def check_settings(
    length: SupportsIndex, generator: str, polarity: Polarity, seed: SupportsIndex, width: Width, sharing: Sharing
) -> _core.DenseLayer:
    """Returns a layer of one connection with these settings; the engine refuses wrong ones."""
    return _core.DenseLayer.from_weights(
        [[0.0]], length, seed, polarity, "cpu", generator=generator, width=width, sharing=sharing
    )


def check_scale(scale: object, name: str) -> float:
    """Returns a scale as a number; it must be positive and finite."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, not {type(scale).__name__}")
    if not 0 < scale < float("inf"):
        raise ValueError(f"{name} is {scale}; it must be positive and finite")
    return float(scale)


def is_seeded(generator: str) -> bool:
    """Returns whether the bits of a generator, named as the engine names it, depend on a seed."""
    return "bernoulli" in generator or generator == "lfsr"


def weight_scales(weights: Any) -> Any:
    """Returns the divisor of each row of weights, by the rule of the engine: the largest magnitude of a row with signal."""
    largest = weights.abs().flatten(1).amax(1)
    has_signal = (largest > SIGNAL_LIMIT) & (largest > largest.max() * RELATIVE_LIMIT)
    return torch.where(has_signal, largest, largest.clamp(min=1.0))


def output_dtype(x: Any, weight: Any, name: str) -> Any:
    """Checks the types of operands; returns that of the outputs."""
    for what, tensor in (("input", x), ("weight", weight)):
        if tensor.dtype not in FLOATS:
            raise TypeError(f"{name}: the {what} is of type {tensor.dtype}; convert it to float16, bfloat16, float32 or float64")
    if x.device != weight.device:
        raise ValueError(f"{name}: the input is on {x.device} and the weight on {weight.device}; move one of them")
    if torch.is_autocast_enabled(x.device.type):
        return torch.get_autocast_dtype(x.device.type)
    if x.dtype != weight.dtype:
        raise TypeError(f"{name}: the input is of type {x.dtype} and the weight of type {weight.dtype}; convert one of them")
    return x.dtype


def refuse_wrong(values: Any, wrong: Any, message: str) -> None:
    """Raises ValueError with the index of the first wrong value, if there is one."""
    if bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(message.format(index=index, value=values[index].item()))


def operand(values: Any, scale: Any, ends: tuple[float, float]) -> Any:
    """Returns values in the interval of streams, as 64-bit floats in C order."""
    # The quotient is new memory, which may be clipped in place.
    scaled = values.detach().to(torch.float64) / scale
    return scaled.clamp_(*ends).contiguous()


def run_layer(layer: _core.StreamLayer, x: Any, seed: int, device: str) -> Any:
    """Returns the sums of a layer of the engine, 64-bit floats on the device of `x`."""
    if x.is_cuda and device.startswith("cuda"):
        # Both directions are views of the card's memory.
        return torch.from_dlpack(layer(x, seed))
    sums = torch.from_numpy(layer(x.cpu().numpy(), seed))
    return sums.to(x.device)


def device_of(x: Any, stream_device: DeviceNames | None) -> Any:
    """Returns the device that streams run on: the given one, or that of the tensor."""
    if stream_device is not None:
        return stream_device
    if x.device.type == "cuda":
        return f"cuda:{x.device.index}"
    if x.device.type == "cpu":
        return "cpu"
    raise RuntimeError(f'streams have no device for tensors on {x.device}; set stream_device, such as to "cpu", which copies them')


def new_seed() -> int:
    """Draws a seed from torch's own generator, so that `torch.manual_seed` repeats it and checkpointing replays it."""
    low, high = torch.randint(0, 2**32, (2,), dtype=torch.int64, device="cpu").tolist()
    return int(low | high << 32)


class Product(torch.autograd.Function):
    """The product of a layer through streams; gradients are those of the product of the clipped operands."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, call: Call) -> Any:
        """Runs the engine."""
        ctx.call = call
        ctx.bias_dtype = None if bias is None else bias.dtype
        ctx.save_for_backward(x, weight)
        return call.forward(x.detach(), weight.detach(), None if bias is None else bias.detach())

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Returns the gradients that are needed."""
        call: Call = ctx.call
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        by_x = by_weight = by_bias = None
        with torch.no_grad():
            g, of_x, of_weight = _same_type(gradient, x, weight)
            if needs_x:
                by_x = call.inputs.mask(call.by_input(g, of_x, call.weights.clip(of_weight)), of_x).to(x.dtype)
            if needs_weight:
                by_weight = call.by_weight(g, call.inputs.clip(of_x), of_weight)
                by_weight = call.weights.mask(by_weight, of_weight).to(weight.dtype)
            if needs_bias:
                axes = [axis for axis in range(g.dim()) if axis != g.dim() + call.channel_axis]
                by_bias = (g.sum(axes) if axes else g).to(ctx.bias_dtype)
        found: tuple[Any, ...] = (by_x, by_weight, by_bias)
        if torch.is_grad_enabled():
            sources = (gradient, x, weight)
            found = tuple(None if each is None else Once.apply(each, call.name, *sources) for each in found)
        return (*found, None)


class Once(torch.autograd.Function):
    """A gradient that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, gradient: Any, name: str, *sources: Any) -> Any:
        """Passes the gradient on."""
        ctx.name = name
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Refuses."""
        raise RuntimeError(
            f"{ctx.name}: gradients through streams are estimates and have no gradients of their own; "
            "for a penalty on gradients, differentiate the floating-point module of aleatron.torch.to_float"
        )


def _same_type(gradient: Any, x: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Returns tensors in the wider type of both operands; on the CPU, 16-bit floats are computed in 32 bits."""
    dtype = torch.promote_types(x.dtype, weight.dtype)
    if dtype in HALVES and x.device.type == "cpu":
        dtype = torch.float32
    return gradient.to(dtype), x.to(dtype), weight.to(dtype)


