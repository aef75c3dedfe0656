"""Networks from torch modules. Plain modules are read by the names of their classes and attributes; torch itself is never imported here."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import inspect
import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aleatron import _core
from aleatron._arrays import as_float64
from aleatron._types import Polarity

# Outputs must agree to this share of the largest one where no bound of their rounding is known.
UNBOUNDED_SHARE = 1e-3


class NotPlain(Exception):
    """A module that is not converted by its attributes, with the reason."""


def from_torch(
    module: Any,
    example: npt.ArrayLike,
    name: str = "network",
    *,
    binary: str | Sequence[str] = (),
    polarity: Polarity = "signed",
) -> _core.Network:
    """Creates a network from a torch module.

    Plain modules are read as they are: `Sequential`, nested or not, of Linear, Conv1d, Conv2d, BatchNorm, pools,
    Flatten, Dropout, Identity, Softmax and activations. Any other module goes through torch's own exporter to ONNX, which needs the package onnx. Layers have
    the names that `named_modules` has. The module is read as it is after training, and is left as it was; one in half precision is
    taken, and compared, in 32 bits. The exporter follows the branches that `example` takes: torch's TracerWarning names the lines whose
    branches depend on values.

    The network's outputs on `example` must equal those of the module within the rounding of 32 bits: a bound is derived from the
    magnitudes of weights and values. Where the network has operators without such a bound (layer normalisation, attention), one
    thousandth of the largest output is allowed.

    Parameters
    ----------
    module
        The module.
    example
        Samples, of shape (N, \\*sample): a tensor, or anything that becomes an array.
    name
        A name for reports.
    binary, polarity
        As for `Network.from_onnx`.

    Raises
    ------
    ValueError
        If the network's outputs differ from the module's, or if the module cannot be read and torch cannot export it.

    Examples
    --------
    >>> import aleatron as al
    >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))  # doctest: +SKIP
    >>> al.Network.from_torch(model, torch.rand(4, 64), "digits")  # doctest: +SKIP
    Network("digits", input 64, 10 outputs, 2 of 2 layers as streams)
    """
    if not callable(module):
        raise TypeError(f"module is a {type(module).__name__}, which cannot be called")
    x = as_float64(example, "example")
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(f"example has shape {x.shape}, not (N, *sample) with at least one sample")
    if not np.isfinite(x).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"example at index {index} is {x[index]}, not finite")
    module = _in_32_bits(module)
    with _as_after_training(module):
        given = _as_tensor(module, example)
        expected = _read_output(module(given), len(x))
        try:
            model = walk(module, x.shape[1:], name)
        except NotPlain as reason:
            model = _export(module, given, str(reason))
    network = _core.Network.from_onnx(model, name, binary=binary, polarity=polarity)
    _check(network, model, x, expected)
    return network


def walk(module: Any, shape: tuple[int, ...], name: str = "network") -> bytes:
    """Converts a plain module to an ONNX file; NotPlain for other modules."""
    builder = _core._NetworkBuilder(name, list(shape))
    steps = list(_steps(module, ""))
    if not any(type(step).__name__ not in NOTHING for _, step in steps):
        raise NotPlain(f"{type(module).__name__} has no layers")
    for path, step in steps:
        kind = type(step).__name__
        for hooks in ("_forward_hooks", "_forward_pre_hooks"):
            if getattr(step, hooks, None):
                raise NotPlain(f"{_place(path)} ({kind}) has hooks")
        if kind in NOTHING:
            continue
        read = READERS.get(kind)
        if read is None:
            raise NotPlain(f"{_place(path)} is a {kind}, which is not a plain module")
        # A module alone has no name of its own.
        read(builder, path or kind.lower(), step)
    return builder.to_onnx()


def _steps(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Returns the modules that compute something, in order."""
    if type(module).__name__ != "Sequential":
        yield path, module
        return
    for hooks in ("_forward_hooks", "_forward_pre_hooks"):
        if getattr(module, hooks, None):
            raise NotPlain(f"{_place(path)} (Sequential) has hooks")
    # A module may occur several times, such as one ReLU for all layers; `named_children` would show the first alone.
    for name, child in module._modules.items():
        yield from _steps(child, f"{path}.{name}" if path else str(name))


def _place(path: str) -> str:
    return f"module {path!r}" if path else "the module"


def _numbers(value: Any, axes: int, what: str) -> list[int]:
    """One integer for each axis."""
    items = list(value) if isinstance(value, (tuple, list)) else [value] * axes
    if len(items) != axes or not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise NotPlain(f"{what} is {value!r}")
    return items


def _array(value: Any, name: str) -> npt.NDArray[np.float64] | None:
    return None if value is None else as_float64(value, name)


def _linear(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    builder.linear(name, as_float64(module.weight, f"{name}.weight"), _array(module.bias, f"{name}.bias"))


def _conv(axes: int) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        if getattr(module, "padding_mode", "zeros") != "zeros":
            raise NotPlain(f"module {name!r} pads with {module.padding_mode!r}")
        weight = as_float64(module.weight, f"{name}.weight")
        stride = _numbers(module.stride, axes, f"the stride of module {name!r}")
        dilation = _numbers(module.dilation, axes, f"the dilation of module {name!r}")
        if module.padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:])]
            begin = [n // 2 for n in total]
            padding = begin + [n - b for n, b in zip(total, begin)]
        elif module.padding == "valid":
            padding = [0] * 2 * axes
        else:
            padding = _numbers(module.padding, axes, f"the padding of module {name!r}") * 2
        bias = _array(module.bias, f"{name}.bias")
        builder.conv(name, weight, bias, stride, padding, dilation, int(module.groups))

    return read


def _batch_norm(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    if module.running_mean is None or module.running_var is None:
        raise NotPlain(f"module {name!r} keeps no mean and variance")
    mean = as_float64(module.running_mean, f"{name}.running_mean")
    variance = as_float64(module.running_var, f"{name}.running_var")
    weight, bias = _array(module.weight, f"{name}.weight"), _array(module.bias, f"{name}.bias")
    builder.batch_norm(
        name,
        np.ones_like(mean) if weight is None else weight,
        np.zeros_like(mean) if bias is None else bias,
        mean,
        variance,
        float(module.eps),
    )


def _max_pool(axes: int) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        if getattr(module, "return_indices", False):
            raise NotPlain(f"module {name!r} returns indices")
        kernel = _numbers(module.kernel_size, axes, f"the kernel of module {name!r}")
        stride = kernel if module.stride is None else _numbers(module.stride, axes, f"the stride of module {name!r}")
        padding = _numbers(module.padding, axes, f"the padding of module {name!r}") * 2
        dilation = _numbers(module.dilation, axes, f"the dilation of module {name!r}")
        builder.max_pool(name, kernel, stride, padding, dilation, bool(module.ceil_mode))

    return read


def _average_pool(axes: int) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        if getattr(module, "divisor_override", None) is not None:
            raise NotPlain(f"module {name!r} has a divisor of its own")
        kernel = _numbers(module.kernel_size, axes, f"the kernel of module {name!r}")
        stride = kernel if module.stride is None else _numbers(module.stride, axes, f"the stride of module {name!r}")
        padding = _numbers(module.padding, axes, f"the padding of module {name!r}") * 2
        builder.average_pool(name, kernel, stride, padding, bool(module.ceil_mode), bool(module.count_include_pad))

    return read


def _global_pool(axes: int, method: str) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        size = module.output_size
        sizes = list(size) if isinstance(size, (tuple, list)) else [size] * axes
        if sizes != [1] * axes or getattr(module, "return_indices", False):
            raise NotPlain(f"module {name!r} pools to {size}")
        getattr(builder, method)(name, axes)

    return read


def _flatten(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    if module.start_dim != 1 or module.end_dim not in (-1, builder.rank - 1):
        raise NotPlain(f"module {name!r} joins axes {module.start_dim} to {module.end_dim}")
    builder.flatten(name)


def _softmax(method: str) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        if module.dim is None:
            raise NotPlain(f"module {name!r} says no axis")
        getattr(builder, method)(name, int(module.dim))

    return read


def _function(function: str, alpha: str | None = None) -> Callable[[_core._NetworkBuilder, str, Any], None]:
    def read(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
        builder.activation(name, function, 0.0 if alpha is None else float(getattr(module, alpha)))

    return read


def _gelu(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    kinds = {"none": "gelu", "tanh": "gelu_tanh"}
    if module.approximate not in kinds:
        raise NotPlain(f"module {name!r} approximates by {module.approximate!r}")
    builder.activation(name, kinds[module.approximate])


def _softplus(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    if module.beta != 1:
        raise NotPlain(f"module {name!r} has beta {module.beta}")
    builder.activation(name, "softplus")


def _relu6(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    builder.clip(name, 0.0, 6.0)


def _hard_tanh(builder: _core._NetworkBuilder, name: str, module: Any) -> None:
    builder.clip(name, float(module.min_val), float(module.max_val))


# Modules that do nothing after training.
NOTHING = frozenset({"AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "FeatureAlphaDropout", "Identity"})

READERS: dict[str, Callable[[_core._NetworkBuilder, str, Any], None]] = {
    "AdaptiveAvgPool1d": _global_pool(1, "global_average_pool"),
    "AdaptiveAvgPool2d": _global_pool(2, "global_average_pool"),
    "AdaptiveMaxPool1d": _global_pool(1, "global_max_pool"),
    "AdaptiveMaxPool2d": _global_pool(2, "global_max_pool"),
    "AvgPool1d": _average_pool(1),
    "AvgPool2d": _average_pool(2),
    "BatchNorm1d": _batch_norm,
    "BatchNorm2d": _batch_norm,
    "Conv1d": _conv(1),
    "Conv2d": _conv(2),
    "ELU": _function("elu", "alpha"),
    "Flatten": _flatten,
    "GELU": _gelu,
    "Hardsigmoid": _function("hard_sigmoid"),
    "Hardswish": _function("hard_swish"),
    "Hardtanh": _hard_tanh,
    "LeakyReLU": _function("leaky_relu", "negative_slope"),
    "Linear": _linear,
    "LogSoftmax": _softmax("log_softmax"),
    "MaxPool1d": _max_pool(1),
    "MaxPool2d": _max_pool(2),
    "Mish": _function("mish"),
    "ReLU": _function("relu"),
    "ReLU6": _relu6,
    "SELU": _function("selu"),
    "SiLU": _function("silu"),
    "Sigmoid": _function("sigmoid"),
    "Softmax": _softmax("softmax"),
    "Softplus": _softplus,
    "Softsign": _function("softsign"),
    "Tanh": _function("tanh"),
}


@contextlib.contextmanager
def _as_after_training(module: Any) -> Iterator[None]:
    """Puts the module and those inside it into the mode for use, and back as each was."""
    if not hasattr(module, "eval") or not hasattr(module, "modules"):
        yield
        return
    modes = [(inner, inner.training) for inner in module.modules()]
    module.eval()
    try:
        torch = sys.modules.get("torch")
        with torch.no_grad() if torch is not None else contextlib.nullcontext():
            yield
    finally:
        for inner, training in modes:
            inner.training = training


def _in_32_bits(module: Any) -> Any:
    """Returns the module, or a copy in 32 bits if its parameters have half precision: networks compute with 32 bits."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        return module
    halves = (torch.float16, torch.bfloat16)
    tensors = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module).float() if any(tensor.dtype in halves for tensor in tensors) else module


def _as_tensor(module: Any, example: Any) -> Any:
    """Converts the example to a tensor of the type and on the device of the module's parameters."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        return example
    parameter = next(iter(module.parameters()), None)
    if parameter is None:
        return torch.as_tensor(example)
    return torch.as_tensor(example).to(device=parameter.device, dtype=parameter.dtype)


def _read_output(output: Any, n_samples: int) -> npt.NDArray[np.float64]:
    if isinstance(output, (tuple, list)) and output:
        output = output[0]
    scores = as_float64(output, "the module's output")
    if scores.ndim == 0 or scores.shape[0] != n_samples:
        raise ValueError(f"the module's output has shape {scores.shape}, not one row for each of {n_samples} samples")
    return scores.reshape(n_samples, -1)


def _export(module: Any, example: Any, reason: str) -> bytes:
    """Exports the module with torch's exporter."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise ValueError(f"{reason}, and only modules of torch can be exported")
    with _without_fast_path(torch):
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = _trace(torch, module, example)
        except Exception as error:
            failure = error
        else:
            _warn_of_tracing(torch, caught)
            return model
        if importlib.util.find_spec("onnxscript") is not None:
            # The newer exporter knows some modules that the other one does not.
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _export_program(torch, module, example)
    raise ValueError(f"{reason}, and torch cannot export it: {type(failure).__name__}: {failure}") from failure


def _warn_of_tracing(torch: Any, caught: list[warnings.WarningMessage]) -> None:
    """Repeats the warnings that a trace holds for the example alone, such as one of a branch that depends on values."""
    tracer = getattr(getattr(torch, "jit", None), "TracerWarning", None)
    for warning in caught:
        if tracer is not None and issubclass(warning.category, tracer):
            # At the line of the caller of `from_torch`.
            warnings.warn(str(warning.message), warning.category, stacklevel=4)


def _trace(torch: Any, module: Any, example: Any) -> bytes:
    """Exports with the exporter that needs only onnx."""
    file = io.BytesIO()
    arguments: dict[str, Any] = {
        "input_names": ["input"],
        "output_names": ["output"],
        "dynamic_axes": {"input": {0: "samples"}, "output": {0: "samples"}},
    }
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        arguments["dynamo"] = False
    torch.onnx.export(module, (example,), file, **arguments)
    return file.getvalue()


def _export_program(torch: Any, module: Any, example: Any) -> bytes:
    """Exports with the exporter that needs onnxscript."""
    shapes = ({0: torch.export.Dim("samples")},)
    program = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False)
    model: bytes = program.model_proto.SerializeToString()
    return model


@contextlib.contextmanager
def _without_fast_path(torch: Any) -> Iterator[None]:
    """Computes attention step by step: the fused operator cannot be exported to ONNX."""
    mha = getattr(getattr(torch, "backends", None), "mha", None)
    if mha is None:
        yield
        return
    enabled = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(enabled)


def _check(
    network: _core.Network, model: bytes, x: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]
) -> None:
    """Compares the network with the module."""
    scores = network(x.reshape(len(x), -1))
    if scores.shape != expected.shape:
        raise ValueError(f"the network gives {scores.shape[1]} scores a sample, the module {expected.shape[1]}")
    bound = _core._rounding_bound(model, x)
    if bound is None:
        allowed = np.full(scores.shape, UNBOUNDED_SHARE * max(float(np.abs(expected).max()), 1e-30))
    else:
        allowed = bound.reshape(scores.shape)
    # In this form, NaN is an error, too.
    difference = np.abs(scores - expected)
    wrong = ~(difference <= allowed)
    if wrong.any():
        excess = np.where(wrong, np.nan_to_num(difference, nan=np.inf), -1.0)
        sample, score = (int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
        raise ValueError(
            f"the network differs from the module by {difference[sample, score]:.3g} at sample {sample}, score {score} "
            f"({scores[sample, score]:.6g} instead of {expected[sample, score]:.6g}); rounding explains {allowed[sample, score]:.3g}"
        )
