"""Modules of torch with their layers as streams, and back."""

from __future__ import annotations

import copy
import math
import operator
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, SupportsIndex

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]

from aleatron._types import DeviceNames, LayerSettings, Polarity, Sharing, Width
from aleatron.torch import _engine
from aleatron.torch._modules import ATTRIBUTES, StreamConv2d, StreamLinear, StreamModule

KINDS: dict[Any, Any] = {torch.nn.Linear: StreamLinear, torch.nn.Conv2d: StreamConv2d}


def to_streams(
    module: Any,
    *,
    length: SupportsIndex,
    calibration: Any,
    generator: str = "sobol",
    polarity: Polarity = "signed",
    seed: SupportsIndex = 44257,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    binary: str | Iterable[str] = (),
    percentile: float = 1.0,
    stream_device: DeviceNames | None = None,
) -> Any:
    """Returns a copy of a module in which every Linear and Conv2d runs as streams; parameters, names and state dict stay as they are.

    Instances of subclasses, such as the output projection of `torch.nn.MultiheadAttention`, may compute anything: they stay in floating point, with a
    warning unless `binary` names them. A weight that is used without its layer, such as the input projection of attention, stays in floating point too.

    Parameters
    ----------
    module
        The module, which is left as it was.
    length, generator, polarity, width, sharing, stream_device
        As for `StreamLinear`, for all layers.
    calibration
        Training samples from which the scales of inputs are found, in floating point and evaluation mode: a tensor, or an iterable of batches such as a
        DataLoader, of tensors or of tuples that begin with one. None leaves all scales at 1: inputs outside [-1, 1] saturate.
    seed
        The seed of the first layer; every other layer has one that is derived from it and its index.
    layers
        Settings of single layers, by name: a dict of any of length, generator, width and sharing for each.
    binary
        The names of layers that stay in floating point: one, or several.
    percentile
        The fraction of a layer's inputs, in (0, 1], that its scale covers, as for `aleatron.Network.calibrated`.

    Raises
    ------
    ValueError
        If a name is unknown, the module has no layer to convert, or a layer has no input or one that is not finite in calibration.

    Examples
    --------
    >>> import torch
    >>> from aleatron.torch import to_streams
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    >>> streams = to_streams(model, length=16, calibration=4 * torch.ones(1, 1, 8, 8), layers={"2": {"length": 64}})
    >>> [(layer.length, layer.input_scale) for layer in (streams[0], streams[2])][0]
    (16, 4.0)
    >>> streams[2].length, list(streams.state_dict()) == list(model.state_dict())
    (64, True)
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module is a {type(module).__name__}, not a torch.nn.Module")
    share = _share(percentile)
    settings: dict[str, Any] = {
        "length": length,
        "generator": generator,
        "polarity": polarity,
        "seed": seed,
        "width": width,
        "sharing": sharing,
    }
    # Wrong settings are found before the calibration.
    first = _engine.check_settings(**settings).seed
    made = copy.deepcopy(module)
    found = _layers(made, {binary} if isinstance(binary, str) else set(binary), layers or {})
    chosen: list[dict[str, Any]] = []
    for index, name in enumerate(found):
        own = {**settings, **(layers or {}).get(name, {}), "seed": _seed_of(first, index)}
        try:
            _engine.check_settings(**own)
        except TypeError as error:
            raise TypeError(f"settings of layer {name!r}: {error}") from None
        chosen.append(own)
    scales = dict.fromkeys(found, 1.0) if calibration is None else _input_scales(made, found, calibration, share)
    for (name, layer), own in zip(found.items(), chosen, strict=True):
        # The copy becomes one of the other class: parameters, hooks and all names that refer to it stay valid.
        layer.__class__ = KINDS[type(layer)]
        layer.configure(**own, input_scale=scales[name], weight_scale=None, stream_device=stream_device)
    for inner in made.modules():
        if isinstance(inner, torch.nn.TransformerEncoderLayer):
            # Its fast path for inference computes with the weights and does not call the layers. It is not taken if there is a hook.
            inner.register_forward_pre_hook(_calls_layers)
    return made


def to_float(module: Any) -> Any:
    """Returns a copy of a module in which every `StreamLinear` and `StreamConv2d` is a Linear or Conv2d of torch again.

    Examples
    --------
    >>> import torch
    >>> from aleatron.torch import StreamLinear, to_float
    >>> to_float(torch.nn.Sequential(StreamLinear(3, 2, length=8)))
    Sequential(
      (0): Linear(in_features=3, out_features=2, bias=True)
    )
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module is a {type(module).__name__}, not a torch.nn.Module")
    made = copy.deepcopy(module)
    for inner in made.modules():
        if isinstance(inner, StreamModule):
            plain = [kind for kind, streams in KINDS.items() if type(inner) is streams]
            if not plain:
                raise TypeError(f"a {type(inner).__name__} is a custom class, which has no floating-point equivalent")
            inner.__class__ = plain[0]
            for attribute in (*ATTRIBUTES, "_prepared"):
                delattr(inner, attribute)
        for key in [key for key, hook in inner._forward_pre_hooks.items() if hook is _calls_layers]:
            del inner._forward_pre_hooks[key]
    return made


def _calls_layers(module: Any, arguments: Any) -> None:
    """Does nothing: a hook by which a module knows that it must call its layers."""


def _share(percentile: float) -> float:
    if not 0 < percentile <= 1:
        raise ValueError(f"percentile is {percentile}; a share of the inputs is more than 0 and at most 1")
    return float(percentile)


def _seed_of(seed: int, index: int) -> int:
    """Returns the seed of a layer: streams of two layers with one seed would be correlated."""
    return seed if index == 0 else int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])


def _layers(module: Any, binary: set[str], settings: Mapping[str, LayerSettings]) -> dict[str, Any]:
    """Returns the layers to convert, by name."""
    names = dict(module.named_modules())
    for what, given in (("binary", binary), ("layers", settings)):
        for name in given:
            if not isinstance(names.get(name), tuple(KINDS)):
                known = ", ".join(repr(known) for known, inner in names.items() if isinstance(inner, tuple(KINDS)))
                raise ValueError(f"{what}: there is no Linear or Conv2d {name!r}; there are {known or 'none'}")
    for name in settings:
        if unknown := set(settings[name]) - {"length", "generator", "width", "sharing"}:
            raise ValueError(f"layers: {name!r} has a setting {min(unknown)!r}; use length, generator, width and sharing")
        if name in binary:
            raise ValueError(f"layers: {name!r} has settings of streams, but binary names it")
    others = [name for name, inner in names.items() if isinstance(inner, tuple(KINDS)) and type(inner) not in KINDS and name not in binary]
    others = [name for name in others if not isinstance(names[name], StreamModule)]
    if others:
        listed = ", ".join(f"{name!r} ({type(names[name]).__name__})" for name in others)
        warnings.warn(
            f"these are subclasses of Linear or Conv2d and stay in floating point: {listed}; name them in binary to say so",
            UserWarning,
            stacklevel=3,
        )
    found = {name: inner for name, inner in names.items() if type(inner) in KINDS and name not in binary}
    for name in settings:
        if name not in found:
            raise ValueError(f"layers: {name!r} is a {type(names[name]).__name__}, which is not converted")
    if not found:
        raise ValueError(f"the {type(module).__name__} has no Linear or Conv2d to convert")
    return found


def _batches(calibration: Any) -> Iterator[Any]:
    if isinstance(calibration, torch.Tensor):
        yield calibration
        return
    if isinstance(calibration, (str, bytes)) or not isinstance(calibration, Iterable):
        raise TypeError(f"calibration is a {type(calibration).__name__}; give a tensor or an iterable of batches")
    for batch in calibration:
        x = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"a batch of calibration is a {type(x).__name__}; give tensors, or tuples that begin with one")
        yield x


def _input_scales(module: Any, layers: dict[str, Any], calibration: Any, share: float) -> dict[str, float]:
    """Runs a module in floating point and returns the scale of the inputs of each layer, by the rule of `Network.calibrated`."""
    seen: dict[str, list[Any]] = {name: [] for name in layers}

    def record(name: str) -> Any:
        def hook(_: Any, arguments: Any, keywords: Any) -> None:
            x = arguments[0] if arguments else keywords["input"]
            magnitudes = x.detach().abs().flatten()
            if not bool(torch.isfinite(magnitudes).all()):
                raise ValueError(f"calibration: an input of layer {name!r} is infinite or NaN")
            # Without a percentile the largest is enough.
            if magnitudes.numel():
                seen[name].append(magnitudes.amax().reshape(1) if share == 1.0 else magnitudes)

        return hook

    hooks = [layer.register_forward_pre_hook(record(name), with_kwargs=True) for name, layer in layers.items()]
    modes = [(inner, inner.training) for inner in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            for x in _batches(calibration):
                module(x)
    finally:
        for inner, training in modes:
            inner.training = training
        for hook in hooks:
            hook.remove()
    scales = {}
    for name, magnitudes in seen.items():
        if not magnitudes:
            raise ValueError(
                f"calibration: layer {name!r} got no input; give samples that reach it, or name it in binary"
            )
        values = torch.cat(magnitudes).to(torch.float64)
        rank = min(max(math.ceil(values.numel() * share), 1), values.numel())
        scale = float(values.kthvalue(operator.index(rank)).values)
        # Inputs without signal, such as those of a dead layer, need no scale.
        scales[name] = scale if scale > _engine.SIGNAL_LIMIT else 1.0
    return scales
