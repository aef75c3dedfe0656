"""Linear layers and convolutions of torch whose products run as streams."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from aleatron import _core
from aleatron._types import DeviceNames, Polarity, Sharing, Width
from aleatron.torch import _engine
from aleatron.torch._engine import Call, Interval, Prepared, Product

# What a stream layer has in addition to the attributes of its base class.
ATTRIBUTES = (
    "length",
    "generator",
    "polarity",
    "seed",
    "width",
    "sharing",
    "input_scale",
    "weight_scale",
    "stream_device",
)


class StreamModule(torch.nn.Module):
    """The settings of streams, and the forward pass that both kinds of layer share."""

    # Parameters are those of the base class alone, so that state dicts are interchangeable.
    length: int
    generator: str
    polarity: Polarity
    seed: int
    width: Width
    sharing: Sharing
    input_scale: float
    weight_scale: float | None
    stream_device: DeviceNames | None
    _prepared: Prepared | None

    def configure(
        self,
        *,
        length: SupportsIndex,
        generator: str,
        polarity: Polarity,
        seed: SupportsIndex,
        width: Width,
        sharing: Sharing,
        input_scale: float,
        weight_scale: float | None,
        stream_device: DeviceNames | None,
    ) -> None:
        """Checks and stores the settings."""
        layer = _engine.check_settings(length, generator, polarity, seed, width, sharing)
        self.length, self.generator, self.polarity = layer.length, layer.generator, layer.polarity
        self.seed, self.width, self.sharing = layer.seed, width, layer.sharing
        self.input_scale = _engine.check_scale(input_scale, "input_scale")
        self.weight_scale = None if weight_scale is None else _engine.check_scale(weight_scale, "weight_scale")
        self.stream_device = stream_device
        self._prepared = None

    def extra_repr(self) -> str:
        """Returns the settings of the base class and those of the streams."""
        settings = (
            f"length={self.length}, generator={self.generator!r}, polarity={self.polarity!r}, input_scale={self.input_scale:g}"
        )
        return f"{super().extra_repr()}, {settings}"

    def __getstate__(self) -> dict[str, Any]:
        """Returns the attributes without the prepared layer, which the next call creates again."""
        return {**self.__dict__, "_prepared": None}

    def _intervals(self) -> tuple[Interval, Interval]:
        """Returns the inputs and the weights that streams encode, in the units of the module."""
        low, high = _engine.ends_of(self.polarity)
        scale = _engine.check_scale(self.input_scale, "input_scale")
        # Scales that follow the weights leave no weight outside but those of the wrong sign.
        of_weight = float("inf") if self.weight_scale is None else _engine.check_scale(self.weight_scale, "weight_scale")
        return Interval(low * scale, high * scale), Interval(low * of_weight if low else 0.0, high * of_weight)

    def _sums(self, x: Any, weight: Any, shape: tuple[int, ...] | None, seed: int) -> tuple[Any, Any]:
        """Returns the sums of products that the engine counts, and the value of a sum of 1 for each row of weights."""
        name, ends = type(self).__name__, _engine.ends_of(self.polarity)
        _engine.refuse_wrong(
            x, torch.isnan(x), f"{name}: the input at index {{index}} is {{value}}, which no stream encodes; look for its source before this layer"
        )
        _engine.refuse_wrong(
            weight,
            ~torch.isfinite(weight),
            f"{name}: the weight at index {{index}} is {{value}}, which no stream encodes; a smaller learning rate may keep weights finite",
        )
        wide = weight.to(torch.float64)
        if self.weight_scale is None:
            scales = _engine.weight_scales(wide)
        else:
            scales = wide.new_full((len(wide),), self.weight_scale)
        operand = _engine.operand(wide, scales.reshape(-1, *[1] * (weight.dim() - 1)), ends).cpu().numpy()
        device = _engine.device_of(x, self.stream_device)
        layer = self._layer(operand, shape, seed, device)
        sums = _engine.run_layer(layer, _engine.operand(x, self.input_scale, ends), seed, str(device))
        return sums, scales.to(x.device) * self.input_scale

    def _layer(self, weights: Any, shape: tuple[int, ...] | None, seed: int, device: DeviceNames) -> _core.StreamLayer:
        """Returns the layer of the engine, which is created again if weights or settings have changed."""
        devices = device if isinstance(device, str) else tuple(device)
        key = (shape, self.length, seed, self.polarity, devices, self.generator, str(self.width), self.sharing)
        found = self._prepared
        # Weights are compared by value: torch does not count all ways to change them.
        if found is None or found.key != key or not np.array_equal(found.weights, weights):
            found = self._prepared = Prepared(key, weights, self._create(weights, shape, seed, device))
        return found.layer

    def _create(self, weights: Any, shape: tuple[int, ...] | None, seed: int, device: DeviceNames) -> _core.StreamLayer:
        raise NotImplementedError

    def _step_seed(self) -> int:
        """Returns the seed of a call: the layer's own, or a new one for random streams in training."""
        return _engine.new_seed() if self.training and _engine.is_seeded(self.generator) else self.seed


class StreamLinear(StreamModule, torch.nn.Linear):
    """A `torch.nn.Linear` whose product runs as streams.

    Streams encode x / input_scale and weight / (its scale), clipped to the interval of the polarity; the bias is added in binary. In evaluation mode the
    counts are those of `aleatron.DenseLayer.from_weights(weight / scale, length, seed, polarity, generator=generator)` for the same seed. In training mode,
    generators with a seed (bernoulli, lfsr) draw a new one from torch's generator in each call. Row s of a batch has the bits of sample s.

    Gradients are those of the product of the clipped operands: zero for inputs and weights outside the interval. Weights of unipolar layers below 0
    have no gradient; clamp them after each step. A second derivative is a RuntimeError, NaN a ValueError with its index. Infinite inputs saturate.

    Computation is in 64-bit floats and integers; outputs have the type of the input. CPU tensors are passed without a copy besides the
    conversion to 64 bits, CUDA tensors to a layer on the same card. Compilers (`torch.compile`) leave the layer as it is.

    Parameters
    ----------
    in_features, out_features, bias, device, dtype
        As for `torch.nn.Linear`.
    length, generator, polarity, width, sharing
        As for `aleatron.DenseLayer`.
    seed
        The seed of inputs and weights of generators that have one.
    input_scale
        The input that becomes 1. It stays as it is in training and is not part of the state dict; `to_streams` finds one from samples.
    weight_scale
        The weight that becomes 1; the largest of each neuron, which follows the weights, if not given.
    stream_device
        The device of streams, as for `aleatron.DenseLayer`; the device of the tensors if not given. With another device tensors are copied.

    Examples
    --------
    >>> import torch
    >>> from aleatron.torch import StreamLinear
    >>> layer = StreamLinear(3, 2, length=256)
    >>> layer.load_state_dict(torch.nn.Linear(3, 2).state_dict())
    <All keys matched successfully>
    >>> x = torch.tensor([[0.5, -0.25, 1.0]], requires_grad=True)
    >>> y = layer(x)
    >>> y.sum().backward()
    >>> bool((x.grad == layer.weight.sum(0)).all())
    True
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        length: SupportsIndex,
        generator: str = "sobol",
        polarity: Polarity = "signed",
        seed: SupportsIndex = 44257,
        width: Width = "auto",
        sharing: Sharing = "all",
        input_scale: float = 1.0,
        weight_scale: float | None = None,
        stream_device: DeviceNames | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.configure(
            length=length,
            generator=generator,
            polarity=polarity,
            seed=seed,
            width=width,
            sharing=sharing,
            input_scale=input_scale,
            weight_scale=weight_scale,
            stream_device=stream_device,
        )

    @torch.compiler.disable
    def forward(self, input: Any) -> Any:
        """Computes outputs of shape (\\*, out_features) from inputs of shape (\\*, in_features)."""
        n = self.in_features
        if input.is_nested or input.dim() == 0 or input.shape[-1] != n:
            found = "is nested" if input.is_nested else f"has shape {tuple(input.shape)}"
            raise ValueError(f"{type(self).__name__}: the input {found}; expected (*, {n})")
        dtype, seed = _engine.output_dtype(input, self.weight, type(self).__name__), self._step_seed()

        def run(x: Any, weight: Any, bias: Any) -> Any:
            if weight.numel() == 0 or x.numel() == 0:
                outputs = x.new_zeros((*x.shape[:-1], len(weight)), dtype=torch.float64)
            else:
                sums, scales = self._sums(x.reshape(-1, n), weight, None, seed)
                outputs = (sums * scales).reshape(*x.shape[:-1], len(weight))
            if bias is not None:
                outputs = outputs + bias.to(torch.float64)
            return outputs.to(dtype)

        def by_weight(g: Any, x: Any, weight: Any) -> Any:
            return g.reshape(-1, g.shape[-1]).mT @ x.reshape(-1, n)

        inputs, weights = self._intervals()
        call = Call(type(self).__name__, inputs, weights, run, lambda g, x, weight: g @ weight, by_weight, -1)
        return Product.apply(input, self.weight, self.bias, call)

    def _create(self, weights: Any, shape: tuple[int, ...] | None, seed: int, device: DeviceNames) -> _core.StreamLayer:
        return _core.DenseLayer.from_weights(
            weights,
            self.length,
            seed,
            self.polarity,
            device,
            generator=self.generator,
            width=self.width,
            sharing=self.sharing,
        )


class StreamConv2d(StreamModule, torch.nn.Conv2d):
    """A `torch.nn.Conv2d` whose product runs as streams.

    Counts are those of `aleatron.ConvLayer.from_weights` for the same settings: a pixel has one stream in a sample, used at every position, and taps in the
    padding are skipped. Every other padding mode than "zeros" pads before the streams. See `StreamLinear` for scales, seeds and gradients.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        As for `torch.nn.Conv2d`.
    length, generator, polarity, seed, width, sharing, input_scale, weight_scale, stream_device
        As for `StreamLinear`.

    Examples
    --------
    >>> import torch
    >>> from aleatron.torch import StreamConv2d
    >>> layer = StreamConv2d(1, 4, 3, padding=1, length=16, generator="bernoulli", seed=7)
    >>> layer(torch.rand(2, 1, 8, 8)).shape
    torch.Size([2, 4, 8, 8])
    >>> layer
    StreamConv2d(1, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), length=16, generator='bernoulli', polarity='signed', input_scale=1)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        length: SupportsIndex,
        generator: str = "sobol",
        polarity: Polarity = "signed",
        seed: SupportsIndex = 44257,
        width: Width = "auto",
        sharing: Sharing = "all",
        input_scale: float = 1.0,
        weight_scale: float | None = None,
        stream_device: DeviceNames | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.configure(
            length=length,
            generator=generator,
            polarity=polarity,
            seed=seed,
            width=width,
            sharing=sharing,
            input_scale=input_scale,
            weight_scale=weight_scale,
            stream_device=stream_device,
        )

    @torch.compiler.disable
    def forward(self, input: Any) -> Any:
        """Computes outputs (N, out_channels, rows, columns) from images (N, in_channels, rows, columns), or of one image."""
        name = type(self).__name__
        if input.is_nested or input.dim() not in (3, 4) or input.shape[-3] != self.in_channels:
            found = "is nested" if input.is_nested else f"has shape {tuple(input.shape)}"
            raise ValueError(f"{name}: the input {found}; expected (N, {self.in_channels}, rows, columns) or one sample of it")
        dtype, seed = _engine.output_dtype(input, self.weight, name), self._step_seed()
        # In the order of torch.nn.functional.pad: columns before and after, rows before and after.
        padding = list(self._reversed_padding_repeated_twice)
        if self.padding_mode != "zeros" and any(padding):
            input, padding = torch.nn.functional.pad(input, padding, mode=self.padding_mode), [0] * 4
        left, right, top, bottom = padding
        if input.dim() == 3:
            return self.forward_batch(input.unsqueeze(0), dtype, seed, (top, bottom, left, right)).squeeze(0)
        return self.forward_batch(input, dtype, seed, (top, bottom, left, right))

    def forward_batch(self, input: Any, dtype: Any, seed: int, padding: tuple[int, int, int, int]) -> Any:
        """Computes the outputs of a batch with given rows and columns of padding."""
        top, bottom, left, right = padding
        rows, columns = input.shape[2:]
        sizes = [
            (size + around - dilation * (kernel - 1) - 1) // stride + 1
            for size, around, kernel, stride, dilation in zip(
                (rows, columns), (top + bottom, left + right), self.kernel_size, self.stride, self.dilation, strict=True
            )
        ]
        if min(sizes) < 1:
            raise ValueError(
                f"{type(self).__name__}: images of {rows} x {columns} pixels with their padding are smaller than the kernel of "
                f"{tuple(self.kernel_size)} with dilation {tuple(self.dilation)}"
            )

        def run(x: Any, weight: Any, bias: Any) -> Any:
            if weight.numel() == 0 or x.numel() == 0:
                outputs = x.new_zeros((len(x), len(weight), *sizes), dtype=torch.float64)
            else:
                sums, scales = self._sums(x, weight, (*x.shape[1:], *padding), seed)
                outputs = sums * scales[:, None, None]
            if bias is not None:
                outputs = outputs + bias.to(torch.float64)[:, None, None]
            return outputs.to(dtype)

        options: dict[str, Any] = {"stride": self.stride, "padding": 0, "dilation": self.dilation, "groups": self.groups}
        padded = (*input.shape[:2], rows + top + bottom, columns + left + right)

        def by_input(g: Any, x: Any, weight: Any) -> Any:
            found = torch.nn.grad.conv2d_input(padded, weight, g, **options)
            return found[:, :, top : top + rows, left : left + columns]

        def by_weight(g: Any, x: Any, weight: Any) -> Any:
            around = torch.nn.functional.pad(x, (left, right, top, bottom))
            return torch.nn.grad.conv2d_weight(around, weight.shape, g, **options)

        inputs, weights = self._intervals()
        call = Call(type(self).__name__, inputs, weights, run, by_input, by_weight, -3)
        return Product.apply(input, self.weight, self.bias, call)

    def _create(self, weights: Any, shape: tuple[int, ...] | None, seed: int, device: DeviceNames) -> _core.StreamLayer:
        channels, rows, columns, top, bottom, left, right = shape or ()
        return _core.ConvLayer.from_weights(
            weights,
            (channels, rows, columns),
            self.length,
            seed,
            self.polarity,
            device,
            stride=self.stride,
            padding=[(top, bottom), (left, right)],
            dilation=self.dilation,
            groups=self.groups,
            generator=self.generator,
            width=self.width,
            sharing=self.sharing,
        )
