"""Networks of torch's modules, with stand-ins: classes of the same names and attributes, whose arrays are NumPy's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aleatron as al
from aleatron import _core, _torch

RNG = np.random.default_rng(0)


class Tensor:
    """What torch's tensors have that is used here."""

    requires_grad = True

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, np.float32)
        self.dtype = "torch.float32"

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return self.values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.values.astype(dtype or np.float32)


class Module:
    training = True

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def modules(self) -> Iterator[Module]:
        yield self
        for child in self._modules.values():
            yield from child.modules()

    @property
    def _modules(self) -> dict[str, Module]:
        return {}

    def eval(self) -> None:
        for module in self.modules():
            module.training = False

    def __call__(self, x: Any) -> Any:
        return self.forward(np.asarray(x, np.float64))

    def forward(self, x: np.ndarray) -> Any:
        return x


def stand_in(name: str, forward: Any = None) -> type[Module]:
    return type(name, (Module,), {} if forward is None else {"forward": forward})


def array(tensor: Any) -> np.ndarray:
    return tensor.values.astype(np.float64)


class Sequential(Module):
    def __init__(self, *modules: Module) -> None:
        self.children = [(str(k), module) for k, module in enumerate(modules)]

    @property
    def _modules(self) -> dict[str, Module]:
        return dict(self.children)

    def forward(self, x: np.ndarray) -> np.ndarray:
        for _, module in self.children:
            # What only training does is not done.
            assert not module.training
            x = module(x)
        return x


def linear_forward(self: Any, x: np.ndarray) -> np.ndarray:
    return x @ array(self.weight).T + (0.0 if self.bias is None else array(self.bias))


Linear = stand_in("Linear", linear_forward)


def linear(n: int, m: int, bias: bool = True) -> Module:
    return Linear(weight=Tensor(RNG.normal(size=(m, n)) / n), bias=Tensor(RNG.normal(size=m)) if bias else None)


def windows(x: np.ndarray, kernel: Any, stride: Any, padding: Any, fill: float) -> np.ndarray:
    """All windows of the last axes: (..., positions, taps)."""
    axes = len(kernel)
    x = np.pad(x, [(0, 0)] * 2 + [(p, p) for p in padding], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(2, 2 + axes)))
    return seen[(slice(None), slice(None), *(slice(None, None, s) for s in stride))]


def conv_forward(self: Any, x: np.ndarray) -> np.ndarray:
    weight = array(self.weight)
    out, channels = weight.shape[:2]
    axes = weight.ndim - 2
    sides = self.padding if isinstance(self.padding, tuple) else (weight.shape[-1] // 2,) * axes
    seen = windows(x, weight.shape[2:], self.stride, sides, 0.0)
    results = []
    for o in range(out):
        first = o // (out // self.groups) * channels
        taps = tuple(range(-axes, 0))
        product = (seen[:, first : first + channels] * weight[o].reshape(1, channels, *[1] * axes, *weight.shape[2:])).sum(axis=(1, *taps))
        results.append(product + array(self.bias)[o])
    return np.stack(results, axis=1)


def conv(kind: str, channels: int, out: int, kernel: tuple[int, ...], **settings: Any) -> Module:
    axes, groups = len(kernel), settings.get("groups", 1)
    attributes = {
        "weight": Tensor(RNG.normal(size=(out, channels // groups, *kernel)) / 9),
        "bias": Tensor(RNG.normal(size=out)),
        "stride": (1,) * axes,
        "padding": (0,) * axes,
        "dilation": (1,) * axes,
        "groups": 1,
        "padding_mode": "zeros",
    }
    return stand_in(kind, conv_forward)(**{**attributes, **settings})


def pool(kind: str, kernel: Any, stride: Any, padding: Any, **settings: Any) -> Module:
    def forward(self: Any, x: np.ndarray) -> np.ndarray:
        axes = x.ndim - 2
        pair = (lambda value: value if isinstance(value, tuple) else (value,) * axes)
        fill = -np.inf if "Max" in kind else 0.0
        seen = windows(x, pair(kernel), pair(kernel if stride is None else stride), pair(padding), fill)
        taps = tuple(range(-axes, 0))
        return seen.max(axis=taps) if "Max" in kind else seen.mean(axis=taps)

    common = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": False}
    own = {"dilation": 1, "return_indices": False} if "Max" in kind else {"count_include_pad": True, "divisor_override": None}
    return stand_in(kind, forward)(**{**common, **own, **settings})


def batch_norm_forward(self: Any, x: np.ndarray) -> np.ndarray:
    shape = (1, -1, *[1] * (x.ndim - 2))
    scale = 1.0 if self.weight is None else array(self.weight).reshape(shape)
    shift = 0.0 if self.bias is None else array(self.bias).reshape(shape)
    mean, variance = array(self.running_mean).reshape(shape), array(self.running_var).reshape(shape)
    return (x - mean) / np.sqrt(variance + self.eps) * scale + shift


def batch_norm(kind: str, n: int, affine: bool = True) -> Module:
    return stand_in(kind, batch_norm_forward)(
        weight=Tensor(RNG.normal(size=n)) if affine else None,
        bias=Tensor(RNG.normal(size=n)) if affine else None,
        running_mean=Tensor(RNG.normal(size=n)),
        running_var=Tensor(RNG.uniform(0.5, 2, n)),
        eps=1e-5,
    )


def softmax(self: Any, x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=self.dim, keepdims=True))
    return powers / powers.sum(axis=self.dim, keepdims=True)


def gelu(self: Any, x: np.ndarray) -> np.ndarray:
    if self.approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    from math import erf

    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


FUNCTIONS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ReLU": (lambda self, x: np.maximum(x, 0), {}),
    "LeakyReLU": (lambda self, x: np.where(x > 0, x, self.negative_slope * x), {"negative_slope": 0.2}),
    "Sigmoid": (lambda self, x: 1 / (1 + np.exp(-x)), {}),
    "Tanh": (lambda self, x: np.tanh(x), {}),
    "GELU": (gelu, {"approximate": "none"}),
    "ELU": (lambda self, x: np.where(x > 0, x, self.alpha * np.expm1(x)), {"alpha": 0.7}),
    "SiLU": (lambda self, x: x / (1 + np.exp(-x)), {}),
    "Mish": (lambda self, x: x * np.tanh(np.log1p(np.exp(x))), {}),
    "Softplus": (lambda self, x: np.log1p(np.exp(x)), {"beta": 1}),
    "Softsign": (lambda self, x: x / (1 + np.abs(x)), {}),
    "Hardswish": (lambda self, x: x * np.clip(x + 3, 0, 6) / 6, {}),
    "Hardsigmoid": (lambda self, x: np.clip(x / 6 + 0.5, 0, 1), {}),
    "ReLU6": (lambda self, x: np.clip(x, 0, 6), {}),
    "Hardtanh": (lambda self, x: np.clip(x, self.min_val, self.max_val), {"min_val": -0.5, "max_val": 0.75}),
    "SELU": (lambda self, x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), {}),
    "LogSoftmax": (lambda self, x: np.log(softmax(self, x)), {"dim": 1}),
    "Softmax": (softmax, {"dim": -1}),
}


def function(kind: str) -> Module:
    forward, attributes = FUNCTIONS[kind]
    return stand_in(kind, forward)(**attributes)


def adaptive(kind: str, size: Any) -> Module:
    def forward(self: Any, x: np.ndarray) -> np.ndarray:
        return x.mean(axis=tuple(range(2, x.ndim)), keepdims=True)

    return stand_in(kind, forward)(output_size=size)


def flatten(start: int = 1) -> Module:
    return stand_in("Flatten", lambda self, x: x.reshape(len(x), -1))(start_dim=start, end_dim=-1)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_activations(kind: str) -> None:
    module = Sequential(linear(6, 20), function(kind), linear(20, 3))
    # A stand-in computes in 64 bits: the check inside is the test.
    network = al.Network.from_torch(module, RNG.uniform(-2, 2, (30, 6)), "functions")
    assert network.layer_names == ["0", "2"] and network.name == "functions"
    assert network.n_outputs == 3


def test_both_gelus_differ() -> None:
    module = Sequential(linear(6, 20), function("GELU"))
    x = RNG.uniform(-2, 2, (5, 6))
    exact = al.Network.from_torch(module, x)(x)
    module.children[1][1].approximate = "tanh"  # type: ignore[attr-defined]
    assert 1e-6 < np.abs(exact - al.Network.from_torch(module, x)(x)).max() < 1e-2


def test_an_image_network() -> None:
    module = Sequential(
        conv("Conv2d", 2, 6, (3, 3), padding=(1, 1)),
        batch_norm("BatchNorm2d", 6),
        function("ReLU"),
        pool("MaxPool2d", 2, None, 0),
        Sequential(
            conv("Conv2d", 6, 8, (3, 3), padding="same", groups=2),
            stand_in("Dropout")(p=0.5),
            function("Tanh"),
            pool("AvgPool2d", (2, 2), (2, 2), 1),
        ),
        stand_in("Identity")(),
        flatten(),
        linear(8 * 9, 10, bias=False),
        batch_norm("BatchNorm1d", 10, affine=False),
        function("Softmax"),
    )
    x = RNG.uniform(-1, 1, (4, 2, 8, 8)).astype(np.float32)
    network = al.Network.from_torch(module, Tensor(x), binary="7", polarity="bipolar")
    assert network.layer_names == ["0", "4.0", "7"]
    assert [layer.runs_as for layer in network.layers] == ["streams", "streams", "binary"]
    assert {layer.polarity for layer in network.layers} == {"bipolar"}
    assert network.input_shape == (2, 8, 8)
    # Everything is as it was.
    assert all(inner.training for inner in module.modules())


def test_a_sequence_network() -> None:
    module = Sequential(
        conv("Conv1d", 3, 4, (5,), stride=(2,), padding=(2,)),
        function("LeakyReLU"),
        pool("MaxPool1d", 3, 2, 1),
        adaptive("AdaptiveAvgPool1d", 1),
        flatten(),
        linear(4, 2),
    )
    network = al.Network.from_torch(module, RNG.uniform(-1, 1, (3, 3, 40)))
    assert network.input_shape == (3, 40) and [layer.kind for layer in network.layers] == ["convolution", "dense"]


def test_module_may_occur_several_times() -> None:
    relu, twice = function("ReLU"), linear(6, 6)
    module = Sequential(twice, relu, twice, relu, linear(6, 2))
    network = al.Network.from_torch(module, RNG.uniform(-2, 2, (5, 6)))
    assert network.layer_names == ["0", "2", "4"]
    assert (network.layers[0].weights == network.layers[1].weights).all()


def test_rows_of_samples() -> None:
    network = al.Network.from_torch(Sequential(linear(6, 5), function("ReLU"), flatten(), linear(20, 2)), RNG.uniform(-1, 1, (3, 4, 6)))
    assert network.input_shape == (4, 6) and [layer.weights.shape for layer in network.layers] == [(5, 6), (2, 20)]


def test_a_module_alone() -> None:
    assert al.Network.from_torch(linear(4, 2), np.ones((1, 4))).layer_names == ["linear"]


def test_differences_are_errors() -> None:
    module = Sequential(linear(6, 20), function("ReLU"), linear(20, 3))

    class ReLU(Module):
        """A module that is not the ReLU of its name."""

        def forward(self, x: np.ndarray) -> np.ndarray:
            return np.maximum(x, 1e-3)

    module.children[1] = ("1", ReLU())
    with pytest.raises(ValueError, match=r"differs from the module by 0\.\d+ at sample \d, score [0-2] \(.* instead of .*\); rounding explains \d"):
        al.Network.from_torch(module, RNG.uniform(-2, 2, (5, 6)))
    module.children[1] = ("1", stand_in("ReLU", lambda self, x: x * np.nan)())
    with pytest.raises(ValueError, match="differs from the module by nan"):
        al.Network.from_torch(module, RNG.uniform(-2, 2, (5, 6)))
    module.children = [("0", linear(6, 3)), ("1", stand_in("Identity", lambda self, x: x[:, :2])())]
    with pytest.raises(ValueError, match="gives 3 scores a sample, the module 2"):
        al.Network.from_torch(module, RNG.uniform(-2, 2, (5, 6)))


def changed(module: Module, **attributes: Any) -> Module:
    module.__dict__.update(attributes)
    return module


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (stand_in("MultiheadAttention")(), "module '1' is a MultiheadAttention"),
        (pool("MaxPool1d", 2, 2, 0, return_indices=True), "returns indices"),
        (pool("AvgPool1d", 2, 2, 0, divisor_override=3), "divisor"),
        (changed(conv("Conv1d", 4, 4, (1,)), padding_mode="circular"), "circular"),
        (adaptive("AdaptiveAvgPool1d", 3), "pools to 3"),
        (flatten(2), "joins axes 2"),
        (changed(batch_norm("BatchNorm1d", 4), running_mean=None), "no mean"),
        (changed(function("ReLU"), _forward_hooks={0: print}), "has hooks"),
        (changed(function("GELU"), approximate="cubic"), "cubic"),
        (changed(function("Softplus"), beta=2), "beta 2"),
        (changed(function("Softmax"), dim=None), "says no axis"),
    ],
)
def test_modules_that_are_not_plain(step: Module, said: str) -> None:
    module = Sequential(conv("Conv1d", 2, 4, (1,)), step)
    with pytest.raises(_torch.NotPlain, match=said):
        _torch.walk(module, (2, 6))
    # Without torch there is no exporter.
    step.forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=f"{said}.*, and only modules of torch can be exported"):
        al.Network.from_torch(module, np.ones((1, 2, 6)))


def test_wrong_arguments() -> None:
    module = Sequential(linear(4, 2))
    with pytest.raises(TypeError, match="module is a int"):
        al.Network.from_torch(5, np.ones((1, 4)))
    for x in (np.ones(4), np.ones((0, 4)), 1.0):
        with pytest.raises(ValueError, match="example has shape"):
            al.Network.from_torch(module, x)
    with pytest.raises(ValueError, match=r"example at index \(1, 2\) is nan"):
        al.Network.from_torch(module, np.where(np.arange(8).reshape(2, 4) == 6, np.nan, 1.0))
    with pytest.raises(TypeError, match="example must hold real numbers"):
        al.Network.from_torch(module, [["a"]])
    with pytest.raises(ValueError, match='no layer "9"'):
        al.Network.from_torch(module, np.ones((1, 4)), binary="9")
    weights = np.full((2, 4), np.inf)
    with pytest.raises(ValueError, match="0.weight at flat index 0 is inf"):
        al.Network.from_torch(Sequential(Linear(weight=Tensor(weights), bias=None)), np.ones((1, 4)))
    with pytest.raises(_torch.NotPlain, match="no layers"):
        _torch.walk(Sequential(), (4,))
    with pytest.raises(ValueError, match="takes 4 axes with that of samples, and gets 2"):
        _torch.walk(Sequential(conv("Conv2d", 1, 1, (1, 1))), (4,))


def test_walked_modules_are_files() -> None:
    model = _torch.walk(Sequential(linear(4, 2), function("Tanh")), (4,), "small")
    bound = _core._rounding_bound(model, np.ones((1, 4)))
    assert bound is not None and bound.shape == (2,) and (bound > 0).all()
    assert al.Network.from_onnx(model).name == "small"


def fake_torch(monkeypatch: pytest.MonkeyPatch, export: Any) -> Any:
    """A package torch whose exporter is this function."""
    torch: Any = types.ModuleType("torch")
    torch.nn = types.SimpleNamespace(Module=Module)
    torch.onnx = types.SimpleNamespace(export=export)
    torch.no_grad = contextlib.nullcontext
    torch.as_tensor = lambda example: example
    torch.float16, torch.bfloat16 = "torch.float16", "torch.bfloat16"
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(Module, "parameters", lambda self: iter(()), raising=False)
    monkeypatch.setattr(Module, "buffers", lambda self: iter(()), raising=False)
    return torch


def test_other_modules_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = al.Network([al.Layer(RNG.normal(size=(3, 4)), name="only")])
    own = stand_in("Own", lambda self, x: chain(x))
    calls: list[dict[str, Any]] = []

    def export(module: Any, arguments: Any, file: Any, dynamo: bool = True, **settings: Any) -> None:
        calls.append({"dynamo": dynamo, "training": module.training, **settings})
        file.write(chain.to_onnx())

    fake_torch(monkeypatch, export)
    x = RNG.uniform(-1, 1, (5, 4))
    network = al.Network.from_torch(own(), x, "exported")
    assert network.name == "exported" and network.layer_names == ["only"]
    (call,) = calls
    assert call["dynamo"] is False and call["training"] is False and call["dynamic_axes"]["input"] == {0: "samples"}

    def fail(module: Any, arguments: Any, file: Any, **settings: Any) -> None:
        raise RuntimeError("no way")

    fake_torch(monkeypatch, fail)
    with pytest.raises(ValueError, match="the module is a Own, which is not a plain module, and torch cannot export it: RuntimeError: no way"):
        al.Network.from_torch(own(), x)


def test_warnings_of_the_tracer_are_repeated_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = al.Network([al.Layer(RNG.normal(size=(3, 4)), name="only")])
    own = stand_in("Own", lambda self, x: chain(x))

    class TracerWarning(Warning):
        """As torch.jit has it."""

    def export(module: Any, arguments: Any, file: Any, **settings: Any) -> None:
        warnings.warn("Converting a tensor to a Python boolean might cause the trace to be incorrect", TracerWarning)
        warnings.warn("the exporter will change", DeprecationWarning)
        file.write(chain.to_onnx())

    fake_torch(monkeypatch, export).jit = types.SimpleNamespace(TracerWarning=TracerWarning)
    with pytest.warns(TracerWarning, match="Python boolean") as caught:
        al.Network.from_torch(own(), RNG.uniform(-1, 1, (5, 4)))
    assert [warning.category for warning in caught] == [TracerWarning]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", ["torch.float16", "torch.bfloat16"])
def test_half_precision_is_compared_in_32_bits(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    class Half(Sequential):
        dtype = ""

        def parameters(self) -> Iterator[Any]:
            # The example becomes a tensor of this type.
            return iter([types.SimpleNamespace(dtype=self.dtype, device="cpu")])

        def float(self) -> Half:
            self.dtype = "torch.float32"
            return self

        def forward(self, x: np.ndarray) -> np.ndarray:
            scores = super().forward(x)
            return scores if self.dtype == "torch.float32" else scores.astype(np.float16).astype(np.float64)

    Half.__name__ = "Sequential"
    torch = fake_torch(monkeypatch, None)
    torch.as_tensor = lambda example: types.SimpleNamespace(to=lambda device, dtype: example)
    module = changed(Half(linear(6, 3)), dtype=dtype)
    assert al.Network.from_torch(module, RNG.uniform(-2, 2, (5, 6))).n_outputs == 3
    assert module.__dict__["dtype"] == dtype, "the module stays as it was"


def test_attention_is_exported_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = al.Network([al.Layer(RNG.normal(size=(3, 4)), name="only")])
    own = stand_in("Own", lambda self, x: chain(x))
    enabled = [True]

    def export(module: Any, arguments: Any, file: Any, **settings: Any) -> None:
        if enabled[-1]:
            raise RuntimeError("the operator 'aten::_native_multi_head_attention' is not supported")
        file.write(chain.to_onnx())

    torch = fake_torch(monkeypatch, export)
    torch.backends = types.SimpleNamespace(
        mha=types.SimpleNamespace(get_fastpath_enabled=lambda: enabled[-1], set_fastpath_enabled=enabled.append)
    )
    assert al.Network.from_torch(own(), RNG.uniform(-1, 1, (5, 4))).layer_names == ["only"]
    assert enabled == [True, False, True]


def test_newer_exporter_is_tried_if_the_other_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = al.Network([al.Layer(RNG.normal(size=(3, 4)), name="only")])
    own = stand_in("Own", lambda self, x: chain(x))

    def export(module: Any, arguments: Any, file: Any = None, *, dynamo: bool, **settings: Any) -> Any:
        if not dynamo:
            raise RuntimeError("aten::rms_norm is not supported")
        assert settings["dynamic_shapes"] == ({0: "samples"},)
        return types.SimpleNamespace(model_proto=types.SimpleNamespace(SerializeToString=chain.to_onnx))

    torch = fake_torch(monkeypatch, export)
    torch.export = types.SimpleNamespace(Dim=lambda name: name)
    x = RNG.uniform(-1, 1, (5, 4))
    for package, is_read in [(None, False), (object(), True)]:
        monkeypatch.setattr("importlib.util.find_spec", lambda name, package=package: package)
        if is_read:
            assert al.Network.from_torch(own(), x).layer_names == ["only"]
        else:
            with pytest.raises(ValueError, match="torch cannot export it: RuntimeError: aten::rms_norm"):
                al.Network.from_torch(own(), x)


MISSING = """
import sys
sys.modules["torch"] = None
import aleatron as al
assert "torch" not in dir(al) and al.Network.digits().n_classes == 10
for access in (lambda: al.torch, lambda: __import__("aleatron.torch")):
    try:
        access()
    except ImportError as error:
        print(error)
"""


def test_stream_layers_without_torch_say_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("aleatron.torch needs PyTorch, which cannot be imported: ") and line.endswith("Install it with: pip install torch")


def test_the_package_never_imports_torch() -> None:
    program = "import sys, aleatron, aleatron.accel, aleatron.tensor, aleatron.compat, aleatron.cluster; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout == "False\n", done.stderr
