"""Layers of torch as streams, compared with the engine's layers and with torch's own gradients. These tests need torch, which is too large for the
test requirements: install it with `pip install torch`. What holds without it is in `test_torch.py`."""

from __future__ import annotations

import copy
import doctest
import io
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="aleatron.torch needs torch: pip install torch")

import aleatron as al  # noqa: E402
from aleatron.torch import StreamConv2d, StreamLinear, to_float, to_streams  # noqa: E402
from aleatron.torch import _convert, _engine, _modules  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
F = torch.nn.functional
POLARITIES = ["signed", "bipolar", "unipolar"]
# Torch's convolution warns that it copies.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def numbers(*shape: int, polarity: str = "signed", spread: float = 1.0, dtype: Any = torch.float32) -> Any:
    low = 0.0 if polarity == "unipolar" else -1.0
    return ((torch.rand(*shape, dtype=torch.float64) * (1 - low) + low) * spread).to(dtype)


def scaled(weight: Any, polarity: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights as they are encoded, and the scale of each row, in NumPy."""
    w = weight.detach().double().numpy()
    scales = np.abs(w.reshape(len(w), -1)).max(axis=1)
    ends = (0.0, 1.0) if polarity == "unipolar" else (-1.0, 1.0)
    return np.clip(w / scales.reshape(-1, *[1] * (w.ndim - 1)), *ends), scales


@pytest.mark.parametrize("generator", ["sobol", "bernoulli", "lfsr", "bernoulli+sobol:2", "halton"])
@pytest.mark.parametrize("polarity", POLARITIES)
def test_linear_has_the_values_of_the_dense_layer(polarity: Any, generator: str) -> None:
    layer = StreamLinear(9, 5, length=24, polarity=polarity, generator=generator, seed=7, input_scale=1.5).eval()
    # A quarter of the inputs saturates, and unipolar layers have negative weights, which are encoded as 0.
    x = numbers(4, 9, polarity=polarity, spread=2.0)
    w, scales = scaled(layer.weight, polarity)
    engine = al.DenseLayer.from_weights(w, 24, 7, polarity, "cpu", generator=generator)
    ends = (0.0, 1.0) if polarity == "unipolar" else (-1.0, 1.0)
    sums = engine(np.clip(x.double().numpy() / 1.5, *ends), 7)
    expected = sums * (1.5 * scales) + layer.bias.detach().double().numpy()
    assert np.array_equal(layer(x).detach().numpy(), expected.astype(np.float32))
    assert np.unique(sums).size > 5


@pytest.mark.parametrize("dtype", DTYPES)
def test_outputs_have_the_type_of_inputs(dtype: Any) -> None:
    layer = StreamLinear(6, 3, length=32, dtype=dtype)
    x = numbers(4, 6, dtype=dtype)
    w, scales = scaled(layer.weight, "signed")
    engine = al.DenseLayer.from_weights(w, 32, 44257, "signed", "cpu", generator="sobol")
    expected = engine(x.double().numpy(), 44257) * scales + layer.bias.detach().double().numpy()
    y = layer(x.requires_grad_())
    assert y.dtype == dtype and torch.equal(y, torch.from_numpy(expected).to(dtype))
    y.sum().backward()
    assert x.grad.dtype == dtype and layer.weight.grad.dtype == dtype and layer.bias.grad.dtype == dtype
    # Columns of sums of three weights: exact to one rounding of the type.
    error = (x.grad.double() - layer.weight.detach().double().sum(0)).abs().max()
    assert error <= 2 * torch.finfo(dtype).eps


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": 1},
    {"padding": (2, 0), "stride": (1, 2)},
    {"padding": "same"},
    {"padding": "same", "kernel_size": (2, 4)},
    {"padding": "valid", "dilation": (2, 1)},
    {"padding": 1, "groups": 2, "stride": 2, "bias": False},
    {"padding": (1, 2), "padding_mode": "reflect"},
    {"padding": 1, "padding_mode": "circular", "dilation": 2},
]


@pytest.mark.parametrize("polarity", POLARITIES)
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_convolution_has_the_values_of_the_engines(options: dict[str, Any], polarity: Any) -> None:
    kernel = options.get("kernel_size", 3)
    rest = {key: value for key, value in options.items() if key != "kernel_size"}
    layer = StreamConv2d(4, 6, kernel, length=20, polarity=polarity, generator="bernoulli", seed=3, **rest).eval()
    x = numbers(2, 4, 7, 8, polarity=polarity)
    w, scales = scaled(layer.weight, polarity)
    around = layer._reversed_padding_repeated_twice
    image, padding = x, [(around[2], around[3]), (around[0], around[1])]
    if layer.padding_mode != "zeros":
        image, padding = F.pad(x, around, mode=layer.padding_mode), [(0, 0), (0, 0)]
    engine = al.ConvLayer.from_weights(
        w, image.shape[1:], 20, 3, polarity, "cpu", generator="bernoulli",
        stride=layer.stride, padding=padding, dilation=layer.dilation, groups=layer.groups,
    )  # fmt: skip
    expected = engine(image.double().numpy(), 3) * scales[:, None, None]
    if layer.bias is not None:
        expected += layer.bias.detach().double().numpy()[:, None, None]
    y = layer(x)
    assert y.shape == torch.nn.Conv2d(4, 6, kernel, **rest)(x).shape
    assert np.array_equal(y.detach().numpy(), expected.astype(np.float32))
    assert torch.equal(layer(x[0]), y[0])


def inside(values: Any, low: float, high: float) -> Any:
    """Values moved into an interval, whose ends have a gradient; in some versions, those of torch.clamp lack it."""
    return torch.where(values < low, low, torch.where(values > high, high, values))


def clipped(layer: Any, x: Any, weight: Any, bias: Any) -> Any:
    """The product of the clipped operands in floating point, whose gradient torch computes."""
    low = 0.0 if layer.polarity == "unipolar" else -1.0
    x = inside(x, low * layer.input_scale, layer.input_scale)
    if layer.weight_scale is not None:
        weight = inside(weight, low * layer.weight_scale, layer.weight_scale)
    elif low == 0.0:
        weight = inside(weight, 0.0, np.inf)
    if isinstance(layer, torch.nn.Linear):
        return F.linear(x, weight, bias)
    return layer._conv_forward(x, weight, bias)


@pytest.mark.parametrize("weight_scale", [None, 0.125])
@pytest.mark.parametrize("polarity", POLARITIES)
@pytest.mark.parametrize("options", [None, *CONVOLUTIONS], ids=str)
def test_gradients_are_those_of_the_clipped_product(options: dict[str, Any] | None, polarity: Any, weight_scale: Any) -> None:
    settings: Any = {"length": 8, "polarity": polarity, "input_scale": 0.75, "weight_scale": weight_scale, "dtype": torch.float64}
    if options is None:
        layer: Any = StreamLinear(9, 5, **settings)
        x = numbers(2, 3, 9, dtype=torch.float64)
    else:
        layer = StreamConv2d(4, 6, **{"kernel_size": 3, **options}, **settings)
        x = numbers(2, 4, 7, 8, dtype=torch.float64)
    # Both ends of the interval are inside.
    x.view(-1)[:2] = torch.tensor([0.75, -0.75 if polarity != "unipolar" else 0.0])
    x.requires_grad_()
    y = layer(x)
    upstream = torch.randn_like(y)
    parameters = [x, layer.weight, *([] if layer.bias is None else [layer.bias])]
    found = torch.autograd.grad(y, parameters, upstream)
    expected = torch.autograd.grad(clipped(layer, x, layer.weight, layer.bias), parameters, upstream)
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, rtol=1e-12, atol=1e-12) and bool(other.abs().max() > 0)
    outside = x.abs() > 0.75 if polarity != "unipolar" else (x > 0.75) | (x < 0)
    assert 0 < int(outside.sum()) and not found[0][outside].any()


def test_random_streams_have_new_bits_in_each_training_step() -> None:
    layer, x = StreamLinear(16, 8, length=16, generator="bernoulli"), numbers(4, 16)
    torch.manual_seed(5)
    first, second = layer(x), layer(x)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(layer(x), first) and torch.equal(layer(x), second)
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    layer.train().generator = "lfsr"
    assert not all(torch.equal(layer(x), layer(x)) for _ in range(3))
    # Sequences without a seed draw nothing, so that they do not change other random numbers of a program.
    layer.generator = "sobol"
    state = torch.get_rng_state()
    assert torch.equal(layer(x), layer(x)) and torch.equal(torch.get_rng_state(), state)


def test_checkpointing_replays_the_bits() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = StreamLinear(8, 8, length=16, generator="bernoulli")
    x = numbers(3, 8).requires_grad_()
    torch.manual_seed(3)
    expected = torch.autograd.grad(layer(layer(x)).square().sum(), layer.weight)[0]
    torch.manual_seed(3)
    y = checkpoint(lambda x: layer(layer(x)), x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(y.square().sum(), layer.weight)[0], expected)


@pytest.mark.parametrize("plain", [torch.nn.Linear(6, 3), torch.nn.Conv2d(2, 3, 2)], ids=["linear", "conv"])
def test_state_dicts_are_interchangeable(plain: Any) -> None:
    streams = StreamLinear(6, 3, length=8) if isinstance(plain, torch.nn.Linear) else StreamConv2d(2, 3, 2, length=8)
    assert isinstance(streams, type(plain))
    streams.load_state_dict(plain.state_dict())
    other = copy.deepcopy(plain)
    torch.nn.init.zeros_(other.weight)
    other.load_state_dict(streams.state_dict())
    assert torch.equal(other.weight, plain.weight) and list(streams.state_dict()) == ["weight", "bias"]
    assert [name for name, _ in streams.named_parameters()] == ["weight", "bias"] and not list(streams.buffers())


def test_copies_and_files_compute_the_same() -> None:
    layer = StreamLinear(6, 3, length=8, generator="bernoulli", seed=9, input_scale=2.0).eval()
    x = numbers(4, 6)
    y = layer(x)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)):
        assert torch.equal(other(x), y) and repr(other) == repr(layer)


def test_every_change_of_weights_has_an_effect() -> None:
    layer, x = StreamLinear(6, 3, length=64, bias=False).eval(), numbers(4, 6)
    before = layer(x).detach()
    assert torch.equal(layer(x), before)
    # A change that torch's version counter does not see; a power of two changes scales alone.
    layer.weight.data.mul_(2)
    assert torch.equal(layer(x), 2 * before)
    layer.weight.data[0] = -layer.weight.data[0]
    assert torch.equal(layer(x)[:, 0], -2 * before[:, 0])
    layer.length = 8
    assert not torch.equal(layer(x)[:, 1:], 2 * before[:, 1:])


def test_rows_without_signal_have_the_scale_of_the_engine() -> None:
    weight = torch.tensor([[1.0, -0.5], [0.0, 0.0], [1e-12, 0.0], [0.25, 1e-30]], dtype=torch.float64)
    network = al.Network([al.Layer(weight.numpy())])
    assert _engine.weight_scales(weight).tolist() == network.layers[0].weight_scales.tolist() == [1.0, 1.0, 1.0, 0.25]
    assert _engine.weight_scales(torch.full((2, 2), 1e-30)).tolist() == [1.0, 1.0]


def test_shapes_strides_and_empty_batches() -> None:
    linear, conv = StreamLinear(6, 3, length=8), StreamConv2d(2, 3, 2, length=8)
    x = numbers(4, 5, 6)
    y = linear(x)
    assert y.shape == (4, 5, 3) and torch.equal(y.reshape(20, 3), linear(x.reshape(20, 6)))
    assert torch.equal(linear(x[0, 0]), y[0, 0])
    strided = x.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert not strided.is_contiguous() and torch.equal(linear(strided), y)
    image = numbers(2, 2, 5, 4)
    assert torch.equal(conv(image.to(memory_format=torch.channels_last)), conv(image))
    assert torch.equal(linear(x.expand(2, 4, 5, 6)[1]), y)
    for layer, empty, shape in [(linear, (0, 6), (0, 3)), (linear, (2, 0, 6), (2, 0, 3)), (conv, (0, 2, 5, 4), (0, 3, 4, 3))]:
        given = torch.zeros(empty, requires_grad=True)
        out = layer(given)
        assert out.shape == shape
        layer.zero_grad()
        out.sum().backward()
        assert given.grad.shape == empty and not layer.weight.grad.any() and not layer.bias.grad.any()


@pytest.mark.parametrize("needs", [(x, w, b) for x in (0, 1) for w in (0, 1) for b in (0, 1)])
def test_only_needed_gradients_are_computed(needs: tuple[int, int, int]) -> None:
    layer, x = StreamLinear(6, 3, length=8), numbers(4, 6)
    for tensor, need in zip((x, layer.weight, layer.bias), needs, strict=True):
        tensor.requires_grad_(bool(need))
    y = layer(x)
    assert y.requires_grad == any(needs)
    if any(needs):
        y.sum().backward()
    assert tuple(int(tensor.grad is not None) for tensor in (x, layer.weight, layer.bias)) == needs
    with torch.no_grad():
        assert not layer(x).requires_grad
    with torch.inference_mode():
        assert torch.equal(layer(x), y)


def test_second_derivatives_are_errors() -> None:
    for layer, x in [(StreamLinear(6, 3, length=8), numbers(4, 6)), (StreamConv2d(2, 3, 2, length=8), numbers(1, 2, 3, 3))]:
        x.requires_grad_()
        (first,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
        assert bool(first.abs().max() > 0)
        with pytest.raises(RuntimeError, match=f"{type(layer).__name__}: gradients through streams .*to_float"):
            first.sum().backward()


def test_compiled_modules_compute_the_same() -> None:
    model = torch.nn.Sequential(StreamConv2d(1, 2, 3, length=16), torch.nn.ReLU(), torch.nn.Flatten(), StreamLinear(8, 3, length=16))
    compiled = torch.compile(model, backend="eager")
    x = numbers(3, 1, 4, 4).requires_grad_()
    assert torch.equal(compiled(x), model(x))
    expected = torch.autograd.grad(model(x).square().sum(), x)[0]
    assert torch.equal(torch.autograd.grad(compiled(x).square().sum(), x)[0], expected)


def test_autocast() -> None:
    layer, x = StreamLinear(6, 3, length=16), numbers(4, 6).requires_grad_()
    expected = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        mixed = layer(x.to(torch.bfloat16))
    assert y.dtype == mixed.dtype == torch.bfloat16 and torch.equal(y, expected.to(torch.bfloat16))
    mixed.float().sum().backward()
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32


def bad_weight(value: float) -> Any:
    layer = StreamLinear(2, 2, length=8)
    with torch.no_grad():
        layer.weight[1, 0] = value
    return layer


BAD: list[tuple[Any, Any, str]] = [
    (lambda: StreamLinear(2, 2, length=8)(torch.tensor([[0.0, 1.0], [0.5, np.nan]])), ValueError, r"StreamLinear: the input at index \(1, 1\) is nan"),
    (lambda: bad_weight(np.nan)(torch.zeros(1, 2)), ValueError, r"the weight at index \(1, 0\) is nan"),
    (lambda: bad_weight(-np.inf)(torch.zeros(1, 2)), ValueError, r"the weight at index \(1, 0\) is -inf"),
    (lambda: StreamLinear(2, 2, length=8)(torch.zeros(3)), ValueError, r"has shape \(3,\); expected \(\*, 2\)"),
    (lambda: StreamLinear(2, 2, length=8)(torch.tensor(1.0)), ValueError, r"has shape \(\); expected"),
    (lambda: StreamLinear(2, 2, length=8)(torch.zeros(2, dtype=torch.int64)), TypeError, "the input is of type torch.int64"),
    (lambda: StreamLinear(2, 2, length=8)(torch.zeros(2, dtype=torch.float64)), TypeError, "torch.float64 and the weight of type torch.float32"),
    (lambda: StreamLinear(2, 2, length=8)(torch.zeros(2, device="meta")), ValueError, "input is on meta and the weight on cpu"),
    (lambda: StreamConv2d(2, 2, 3, length=8)(torch.zeros(2, 5)), ValueError, r"expected \(N, 2, rows, columns\)"),
    (lambda: StreamConv2d(2, 2, 3, length=8)(torch.zeros(1, 3, 5, 5)), ValueError, r"has shape \(1, 3, 5, 5\)"),
    (lambda: StreamConv2d(2, 2, 3, length=8)(torch.zeros(1, 2, 2, 5)), ValueError, r"2 x 5 pixels .* smaller than the kernel of \(3, 3\)"),
    (lambda: StreamLinear(2, 2, length=0), ValueError, "stream length must be at least 1"),
    (lambda: StreamLinear(2, 2, length=8, generator="nope"), ValueError, '"nope" is not a generator'),
    (lambda: StreamLinear(2, 2, length=8, polarity="x"), ValueError, "not a polarity"),  # type: ignore[arg-type]
    (lambda: StreamLinear(2, 2, length=8, seed=-1), ValueError, "seed is -1"),
    (lambda: StreamLinear(2, 2, length=8, input_scale=0.0), ValueError, "input_scale is 0.0; it must be positive"),
    (lambda: StreamLinear(2, 2, length=8, weight_scale=np.nan), ValueError, "weight_scale is nan"),
    (lambda: StreamLinear(2, 2, length=8, input_scale="1"), TypeError, "input_scale must be a number, not str"),  # type: ignore[arg-type]
    (lambda: StreamLinear(2, 2, length=8, stream_device="nope")(torch.zeros(2)), ValueError, 'there is no device "nope"'),
    (lambda: to_streams(5, length=8, calibration=None), TypeError, "module is a int"),
    (lambda: to_float(5), TypeError, "module is a int"),
    (lambda: to_streams(torch.nn.ReLU(), length=8, calibration=None), ValueError, "the ReLU has no Linear or Conv2d"),
    (lambda: to_streams(torch.nn.Linear(2, 2), length=0, calibration=None), ValueError, "stream length"),
    (lambda: to_streams(torch.nn.Linear(2, 2), length=8, calibration=None, percentile=0.0), ValueError, "percentile is 0.0"),
    (lambda: to_streams(torch.nn.Linear(2, 2), length=8, calibration=None, binary="x"), ValueError, "binary: there is no Linear or Conv2d 'x'"),
    (lambda: to_streams(small(), length=8, calibration=None, layers={"1": {}}), ValueError, "no Linear or Conv2d '1'; there are '0', '2'"),
    (lambda: to_streams(small(), length=8, calibration=None, layers={"0": {"lenght": 8}}), ValueError, "'0' has a setting 'lenght'"),  # type: ignore[typeddict-unknown-key]
    (lambda: to_streams(small(), length=8, calibration=None, layers={"0": {"length": 0}}), ValueError, "stream length"),
    (lambda: to_streams(small(), length=8, calibration=None, layers={"0": {}}, binary="0"), ValueError, "but binary names it"),
    (lambda: to_streams(small(), length=8, calibration=5), TypeError, "calibration is a int"),
    (lambda: to_streams(small(), length=8, calibration=["a"]), TypeError, "a batch of calibration is a str"),
    (lambda: to_streams(small(), length=8, calibration=[]), ValueError, "layer '0' got no input"),
    (lambda: to_streams(small(), length=8, calibration=torch.full((1, 4), np.inf)), ValueError, "input of layer '0' is infinite or NaN"),
]


def small() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))


@pytest.mark.parametrize(("call", "kind", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_converted_modules_change_only_the_product() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.Dropout(0.5), torch.nn.Flatten(), torch.nn.Linear(16, 3))
    model[4].requires_grad_(False)
    model[1].eval()
    calls: list[int] = []
    model[4].register_forward_hook(lambda *_: calls.append(1))
    before = copy.deepcopy(model.state_dict())
    streams = to_streams(model, length=32, calibration=numbers(6, 1, 4, 4))
    assert calls == [1], "the calibration runs a copy"
    assert [type(layer).__name__ for layer in streams] == ["StreamConv2d", "BatchNorm2d", "Dropout", "Flatten", "StreamLinear"]
    for state in (model.state_dict(), streams.state_dict(), to_float(streams).state_dict()):
        assert list(state) == list(before) and all(torch.equal(state[name], before[name]) for name in before)
    assert [layer.training for layer in streams] == [layer.training for layer in model] == [True, False, True, True, True]
    assert not streams[4].weight.requires_grad and streams[0].weight is not model[0].weight
    streams(numbers(2, 1, 4, 4))
    assert calls == [1, 1], "hooks stay"
    back = to_float(streams)
    assert [type(layer) for layer in back] == [type(layer) for layer in model] and "length" not in vars(back[4])
    x = numbers(2, 1, 4, 4)
    assert torch.equal(back.eval()(x), copy.deepcopy(model).eval()(x))


def test_settings_of_single_layers() -> None:
    streams = to_streams(small(), length=8, calibration=None, layers={"2": {"length": 64, "generator": "bernoulli"}}, seed=5, polarity="bipolar")
    assert (streams[0].length, streams[0].generator, streams[0].seed) == (8, "sobol", 5)
    assert (streams[2].length, streams[2].generator, streams[2].polarity) == (64, "bernoulli", "bipolar")
    assert streams[2].seed != 5 and streams[0].input_scale == 1.0
    partial = to_streams(small(), length=8, calibration=None, binary=["0"])
    assert [type(layer).__name__ for layer in partial] == ["Linear", "ReLU", "StreamLinear"]
    assert isinstance(to_streams(torch.nn.Linear(2, 2), length=8, calibration=None), StreamLinear)


def test_shared_layers_and_tied_weights_stay_so() -> None:
    one = torch.nn.Linear(4, 4)
    tied = torch.nn.Linear(4, 4)
    tied.weight = one.weight
    streams = to_streams(torch.nn.Sequential(one, one, tied), length=8, calibration=numbers(3, 4))
    assert streams[0] is streams[1] and streams[2].weight is streams[0].weight and isinstance(streams[1], StreamLinear)
    assert streams[2] is not streams[0]


@pytest.mark.parametrize("percentile", [1.0, 0.9, 0.5, 1e-9])
@pytest.mark.filterwarnings("ignore:.*inputs:UserWarning")
def test_scales_are_those_of_a_calibrated_network(percentile: float) -> None:
    model, x = small(), numbers(33, 4, spread=3.0)
    network = al.Network.from_torch(model, x)
    expected = [layer.input_scale for layer in network.calibrated(x.numpy(), percentile=percentile).layers]
    for samples in (x, [x[:10], (x[10:], None)], torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x), batch_size=7)):
        streams = to_streams(model, length=8, calibration=samples, percentile=percentile)
        found = [streams[0].input_scale, streams[2].input_scale]
        assert found[0] == expected[0]
        # The inputs of the second layer are outputs of two libraries, whose sums of four products round differently.
        assert np.isclose(found[1], expected[1], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_counts_are_those_of_a_stream_network() -> None:
    x, _ = al.load_digits()
    images = torch.from_numpy(x[:40]).float().reshape(-1, 1, 8, 8)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 10)
    )
    streams = to_streams(model, length=16, calibration=images).eval()
    network = al.Network.from_torch(model, images).calibrated(images.numpy())
    # Scales of layers within a network may differ in the last bit: take the network's.
    for layer, own in zip((streams[0], streams[4]), network.layers, strict=True):
        layer.input_scale = own.input_scale
    for generator in ("sobol", "halton"):
        streams[0].generator = streams[4].generator = generator
        with torch.no_grad():
            values = [images]
            for layer in streams:
                values.append(layer(values[-1]))
        first, second = network.streams(16, generator).layer_outputs(images.numpy())
        # The first layer of the network includes its ReLU.
        assert np.array_equal(values[2].numpy().reshape(40, -1), first["outputs"].astype(np.float32))
        assert np.array_equal(values[5].numpy(), second["outputs"].astype(np.float32))


def test_transformer_layers_call_their_linear_layers() -> None:
    encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = numbers(2, 5, 8)
    with pytest.warns(UserWarning, match=r"'self_attn.out_proj' \(NonDynamicallyQuantizableLinear\)") as caught:
        streams = to_streams(encoder, length=8, calibration=x)
    assert len(caught) == 1 and caught[0].filename == __file__
    silent = to_streams(encoder, length=8, calibration=x, binary="self_attn.out_proj")
    calls: list[int] = []
    original = StreamLinear._sums

    def counted(self: Any, *arguments: Any) -> Any:
        calls.append(self.in_features)
        return original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(_modules.StreamModule, "_sums", counted)
        for module in (streams, silent):
            y = module(x)
            assert calls == [8, 16] and not torch.allclose(y, encoder(x), atol=1e-4)
            calls.clear()
    back = to_float(streams)
    assert not back._forward_pre_hooks
    with torch.no_grad():
        assert torch.equal(back(x), encoder(x))


def test_fine_tuning_recovers_accuracy() -> None:
    x, y = (torch.from_numpy(array) for array in al.load_digits("train"))
    x_test, y_test = (torch.from_numpy(array) for array in al.load_digits())
    x, x_test = x.float().reshape(-1, 1, 8, 8), x_test.float().reshape(-1, 1, 8, 8)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 10)
    )

    def train(module: Any, epochs: int, rate: float) -> None:
        optimizer = torch.optim.Adam(module.parameters(), rate)
        for _ in range(epochs):
            for index in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                F.cross_entropy(module(x[index]), y[index]).backward()
                optimizer.step()

    def accuracy(module: Any) -> float:
        with torch.no_grad():
            return float((module.eval()(x_test).argmax(1) == y_test).float().mean())

    train(model, 10, 5e-3)
    streams = to_streams(model, length=4, calibration=x)
    before = accuracy(streams)
    train(streams.train(), 3, 2e-3)
    # 4 bits lose many classes; the noise of the test set itself is below 2 points at one standard deviation.
    assert accuracy(model) > 0.9 and accuracy(streams) > before + 0.05


def test_docstrings() -> None:
    import aleatron.torch

    for module in (aleatron.torch, _convert, _modules, _engine):
        found = doctest.testmod(module)
        assert found.failed == 0
    for name in aleatron.torch.__all__:
        assert ">>> " in getattr(aleatron.torch, name).__doc__


def test_the_guide_to_training_runs_as_it_stands(tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "training.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "import torch" in block]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
