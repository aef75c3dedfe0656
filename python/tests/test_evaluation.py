"""Evaluations: results, lossless files, and checked arguments."""

from __future__ import annotations

import copy
import json
import os
import pathlib
import pickle
import re
import sys
import types
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aleatron as al

RNG = np.random.default_rng(8)


@pytest.fixture(scope="module")
def found() -> al.Evaluation:
    return al.evaluate(lengths=[16, 64], generators=["bernoulli", "sobol"], seeds=2)


def test_results_are_values(found: al.Evaluation) -> None:
    assert isinstance(found, al.Evaluation)
    again = al.Evaluation.from_json(found.to_json())
    assert again == found and copy.deepcopy(found) == found and pickle.loads(pickle.dumps(found)) == found
    other = al.evaluate(lengths=16, generators="sobol")
    assert other != found and other != "found"
    assert found.to_dict() == json.loads(found.to_json())
    with pytest.raises(TypeError):
        hash(found)


def test_tables_of_values(found: al.Evaluation) -> None:
    frame = found.to_pandas()
    assert len(frame) == len(found.cells) == 6
    assert list(frame["accuracy"]) == [cell["accuracy"] for cell in found.cells]
    assert list(frame["generator"]) == [cell["generator"] for cell in found.cells]
    assert list(frame["hidden mean error"]) == [cell["layers"][0]["mean_value"] for cell in found.cells]
    lines = found.to_csv().splitlines()
    assert lines[0].split(",") == list(frame.columns) and len(lines) == 7


def test_plots(found: al.Evaluation) -> None:
    import matplotlib

    matplotlib.use("Agg")
    axes = found.plot()
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert {"bernoulli", "sobol", "floating point"} <= set(lines)
    means = [100 * row["accuracy"]["mean"] for row in found.rows if row["generator"] == "sobol"]
    assert list(lines["sobol"].get_ydata()) == means and list(lines["sobol"].get_xdata()) == [16, 64]
    # Two seeds of the generator that has them are points of their own, at two lengths.
    points = [line for line in axes.get_lines() if line.get_marker() == "."]
    assert sorted(len(line.get_xdata()) for line in points) == [2, 2]
    assert found.plot(ax=axes) is axes


def test_notebooks_show_a_table(found: al.Evaluation) -> None:
    table = found._repr_html_()
    assert table.count("<tr>") == 1 + len(found.rows) and "97.50 % in floating point" in table


def test_missing_packages_are_named(found: al.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, call in [("pandas", found.to_pandas), ("matplotlib.pyplot", found.plot)]:
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=f"pip install {module.partition('.')[0]}"):
            call()


def test_single_values_replace_lists() -> None:
    one = al.evaluate(lengths=16, generators="sobol", margins=2.0)
    several = al.evaluate(lengths=[np.int64(16)], generators=("sobol",), margins=[2])
    assert [cell["confusion"] for cell in one.cells] == [cell["confusion"] for cell in several.cells]
    assert [stop["margin"] for stop in one.cells[0]["early"]] == [2.0]


def test_checkpoints_keep_everything(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"
    first = al.evaluate(lengths=[8, 16], generators="sobol", checkpoint=file)
    second = al.evaluate(lengths=32, generators="bernoulli", seeds=1, checkpoint=file)
    keys = [(cell["generator"], cell["length"]) for cell in second.cells]
    assert sorted(keys) == [("bernoulli", 32), ("sobol", 8), ("sobol", 16)]
    assert all(cell in second.cells for cell in first.cells)

    def stop(*_: object) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError):
        al.evaluate(lengths=64, generators="halton", checkpoint=file, progress=stop)
    kept = al.Evaluation.from_json(file.read_text())
    assert kept.cells == second.cells and not kept.complete
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"], "no other files are left"


@pytest.mark.skipif(os.name == "nt", reason="files have no such permissions there")
def test_checkpoints_are_files_as_any_other(tmp_path: pathlib.Path) -> None:
    file, other = tmp_path / "found.json", tmp_path / "other"
    al.evaluate(lengths=8, generators="sobol", checkpoint=file)
    other.touch()
    assert file.stat().st_mode == other.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["found.json", "other"]


def test_checkpoints_are_read_and_checked_before_the_work(tmp_path: pathlib.Path) -> None:
    def never(*_: object) -> None:
        pytest.fail("work was begun")

    options: dict[str, Any] = {"lengths": 8, "generators": "sobol", "progress": never}
    with pytest.raises(FileNotFoundError, match=r"found.json': there is no folder '.*none'"):
        al.evaluate(checkpoint=tmp_path / "none" / "found.json", **options)
    with pytest.raises(IsADirectoryError):
        al.evaluate(checkpoint=tmp_path, **options)
    if hasattr(os, "mkfifo"):
        # Reading a pipe that has no writer blocks without end.
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(OSError, match="pipe' is not a regular file"):
            al.evaluate(checkpoint=tmp_path / "pipe", **options)
    file = tmp_path / "found.json"
    whole = al.evaluate(lengths=8, generators="sobol").to_dict()
    whole["cells"][0]["accuracy"] = 17
    file.write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=r"found.json': .*accuracy is 17.*remove the file"):
        al.evaluate(checkpoint=file, **options)
    assert json.loads(file.read_text()) == whole
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"found.json': .*remove the file"):
        al.evaluate(checkpoint=file, **options)
    # A generator that has too few sequences is known before the others are run.
    with pytest.raises(ValueError, match="sequence|ramp"):
        al.evaluate(lengths=8, generators=["bernoulli", "ramp"], sharing="input", progress=never)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"lengths": []}, ValueError, "lengths"),
        ({"lengths": 0}, ValueError, "stream length must be at least 1"),
        ({"lengths": -5}, ValueError, "lengths at index 0 is -5, not in [0, 2**63)"),
        ({"lengths": [8, 10**400]}, ValueError, "lengths at index 1 is too large"),
        ({"lengths": 2**34 + 1}, ValueError, "17179869184"),
        ({"lengths": "64"}, TypeError, "lengths must be an integer or several, not str"),
        ({"lengths": [1.5]}, TypeError, "'float' object cannot be interpreted as an integer"),
        ({"generators": [7]}, TypeError, "generators must be names, not int"),
        ({"generators": "foo"}, ValueError, "foo"),
        ({"generators": []}, ValueError, "generators"),
        ({"seeds": 0}, ValueError, "seeds"),
        ({"seeds": -1}, ValueError, "seeds is -1"),
        ({"margins": [float("inf")]}, ValueError, "inf"),
        ({"margins": [-1.0]}, ValueError, "-1"),
        ({"margins": ["x"]}, TypeError, "margins must be a number or several"),
        ({"width": 99}, ValueError, "99"),
        ({"sharing": "foo"}, ValueError, "foo"),
        ({"arithmetic": "foo"}, ValueError, "foo"),
        ({"layers": {"foo": {"length": 3}}}, ValueError, 'no layer "foo"; the layers are hidden, output'),
        ({"layers": {"hidden": {"foo": 3}}}, ValueError, 'no setting "foo"'),
        ({"layers": {"hidden": 3}}, TypeError, "the settings of a layer must be a dict"),
        ({"device": "foo"}, ValueError, 'no device "foo"'),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        al.evaluate(**{"lengths": 8, "generators": "sobol", **arguments})


def test_generators_that_were_not_evaluated_are_errors(found: al.Evaluation) -> None:
    with pytest.raises(ValueError, match='"foo"'):
        found.shortest_within("foo")


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float64])
def test_classes_of_any_type(dtype: type) -> None:
    x, y = al.load_digits()
    expected = al.evaluate(x=x, y=y, lengths=8, generators="sobol").cells[0]["accuracy"]
    assert al.evaluate(x=x, y=y.astype(dtype), lengths=8, generators="sobol").cells[0]["accuracy"] == expected
    assert al.Network.digits().score(x, y.astype(dtype)) == 0.975


@pytest.mark.parametrize(
    ("y", "kind", "text"),
    [
        ([0.0, 1.5], ValueError, "y at index 1 is 1.5, not a whole number"),
        ([0.0, float("nan")], ValueError, "y at index 1 is nan, not a whole number"),
        ([0, -1], ValueError, "the label of sample 1 is -1"),
        (["a", "b"], TypeError, "y must hold classes (whole numbers)"),
        ([0, 10], ValueError, "10"),
        (np.array([0, 2**64 - 1], np.uint64), ValueError, "y at index 1 is 18446744073709551615"),
    ],
)
def test_invalid_classes_are_errors(y: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        al.evaluate(x=np.zeros((2, 64)), y=y, lengths=8, generators="sobol")
    assert al.evaluate(x=np.zeros((2, 64)), y=[False, True], lengths=8, generators="sobol").complete


def test_layers_of_their_own_settings() -> None:
    x, y = al.load_digits()
    network = al.Network.digits()
    layers: Any = {"output": {"length": 128, "generator": "bernoulli"}}
    streams = network.streams(64, "sobol", seed=0, layers=layers)
    assert streams.lengths == [64, 128]
    cell = al.evaluate(lengths=64, generators="sobol", layers=layers, seeds=1).cells[0]
    assert streams.score(x, y) == pytest.approx(cell["accuracy"], abs=1e-12)


def test_integers_between_layers() -> None:
    x, y = al.load_digits()
    network = al.Network.digits()
    for generator in ["bernoulli", "sobol"]:
        floats, integers = (
            network.streams(64, generator, arithmetic=kind).score(x, y) for kind in ("float", "integer")
        )
        assert abs(floats - integers) <= 0.003 + 1e-12
    hidden, last = network.streams(64, arithmetic="integer").integers
    assert (hidden["name"], last["name"], hidden["shifts"].size, last["shifts"].size) == ("hidden", "output", 0, 1)
    assert hidden["fraction_bits"] == last["fraction_bits"] == 8
    assert hidden["bias"].dtype == np.int64 and not hidden["bias"].flags.writeable
    assert (last["multipliers"] < 2 ** last["multiplier_widths"]).all()


def test_layer_outputs_lead_to_the_scores() -> None:
    x, _ = al.load_digits()
    network = al.Network.digits()
    streams = network.streams(64)
    hidden, last = streams.layer_outputs(x[:5])
    assert np.array_equal(last["outputs"], streams(x[:5]))
    first = network.layers[0]
    assert first.polarity == "bipolar"
    scale = first.input_scale * first.weight_scales
    sums = (2.0 * hidden["counts"] - 64 * 64) / 64 * scale + first.bias
    # The activation of the embedded network is a clip.
    assert np.allclose(hidden["outputs"], np.clip(sums, -1.0, 1.0), rtol=1e-12)
    assert streams.layer_outputs(x[0])[0]["counts"].shape == (64,)


def test_features_outside_are_errors_with_a_remedy_or_clipped() -> None:
    network = al.Network.digits()
    x = np.full((2, 64), 8.0)
    x[1, 3] = 17.5
    with pytest.raises(ValueError, match=r"sample 1, feature 3 is 17.5, not in \[0, 16\]: calibrate .*clip"):
        network.forward_streams(x, 64)
    clipped = network.forward_streams(x, 64, clip=True)
    x[1, 3] = 16.0
    assert np.array_equal(clipped, network.forward_streams(x, 64))
    # A round trip through text of six digits rounds.
    x[1, 3] = 16.0 * (1 + 1e-6)
    network.forward_streams(x, 64)
    # Calibrated with such features, they are inside.
    x[1, 3] = 17.5
    assert network.calibrated(x).forward_streams(x, 64).shape == (2, 10)
    y = [0, 1]
    assert al.evaluate(x=x, y=y, lengths=8, generators="sobol", clip=True).cells[0]["clipped"] == 1


def test_samples_past_the_last_index_are_errors() -> None:
    network, x = al.Network.digits(), al.load_digits()[0][:3]
    with pytest.raises(ValueError, match=r"first_sample is 4294967296, not in \[0, 2\*\*32\)"):
        network.forward_streams(x, 64, first_sample=2**32)
    with pytest.raises(ValueError, match="4294967296"):
        network.forward_streams(x, 64, first_sample=2**32 - 2)
    last = network.forward_streams(x[:1], 64, first_sample=2**32 - 1)
    assert not np.array_equal(last, network.forward_streams(x[:1], 64, first_sample=2**32 - 2))


def test_correlated_generators_warn() -> None:
    network, x = al.Network.digits(), al.load_digits()[0][:2]
    for call in [
        lambda: network.forward_streams(x, 64, "sobol:1+sobol:1"),
        lambda: al.evaluate(lengths=64, generators="sobol:1+sobol:1"),
        lambda: al.DenseLayer(2, 2, generator="sobol:1+sobol:1"),
    ]:
        with pytest.warns(UserWarning, match="correlated|one sequence|same"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network.forward_streams(x, 64, "sobol:1+sobol:2")


def test_widths_fit_the_length() -> None:
    x, y = al.load_digits()
    network = al.Network.digits()
    fitted = network.streams(16, "lfsr").score(x, y)
    with pytest.warns(UserWarning, match="period"):
        cut = network.streams(16, "lfsr", width=8).score(x, y)
    assert fitted > 0.8 > cut


def test_one_score_is_two_classes() -> None:
    x = RNG.uniform(-1, 1, (200, 5))
    weights = RNG.normal(size=(1, 5))
    network = al.Network([al.Layer(weights)])
    y = (x @ weights[0] > 0).astype(int)
    assert (network.n_outputs, network.n_classes) == (1, 2)
    assert np.array_equal(network.predict(x), y) and network.score(x, y) == 1.0
    assert int(network.predict(x[0])) == y[0]
    found = al.evaluate(network, x, y, lengths=256, generators="sobol")
    assert found.float_accuracy == 1.0 and found.cells[0]["accuracy"] > 0.9
    assert np.array(found.cells[0]["confusion"]).shape == (2, 2)


def test_stream_networks_are_cached_between_calls() -> None:
    network = al.Network.digits()
    first = network.streams(64, "sobol", layers={"output": {"length": 32}})
    assert first == network.streams(64, "sobol", layers={"output": {"length": 32}})
    assert first != network.streams(64, "sobol") and first != al.Network.digits().streams(64, "sobol") and first != 3
    # Only the last few are cached.
    for length in range(8, 16):
        network.streams(length)
    assert first != network.streams(64, "sobol", layers={"output": {"length": 32}})


def test_arrays_of_layers_cannot_be_written() -> None:
    network = al.Network.digits()
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(network.layers[0].weights)[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(network.layers[0].bias)[:] = 0


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"activation": (0, float("inf"))}, ValueError, "finite"),
        ({"activation": (1, 0)}, ValueError, "in order"),
        ({"activation": "tanh"}, ValueError, "'tanh'"),
        ({"activation": 7}, TypeError, "activation must be"),
        ({"activation": (1, 2, 3)}, TypeError, "activation must be"),
        ({"polarity": "x"}, ValueError, "'x'"),
        ({"input_scale": float("nan")}, ValueError, "input_scale is nan"),
        ({"input_scale": -1}, ValueError, "input_scale is -1"),
        ({"input_scale": "x"}, TypeError, "input_scale must be a number, not str"),
        ({"weight_scale": 0.0}, ValueError, "weight_scale is 0.0"),
        ({"weights": [1.0]}, ValueError, "weights have shape (1,)"),
        ({"weights": [["a"]]}, TypeError, "weights must hold real numbers"),
        ({"bias": [1.0, 2.0]}, ValueError, "bias has shape (2,); expected (1,)"),
        ({"name": 7}, TypeError, "name must be a str, not int"),
    ],
)
def test_layers_check_their_arguments(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        al.Layer(**{"weights": [[1.0]], **arguments})


def test_layers_are_equal_by_value() -> None:
    layer = al.Layer([[0.5, 2.0]], bias=[0.0])
    assert layer == al.Layer(np.array([[0.5, 2.0]])) and layer != al.Layer([[0.5, 1.0]])
    assert layer != al.Layer([[0.5, 2.0]], weight_scale=3.0)
    assert layer != "layer" and al.Network.digits().layers == al.Network.digits().layers


def test_scales_whose_product_overflows_are_errors() -> None:
    with pytest.raises(ValueError, match="inf"):
        al.Network([al.Layer([[1e30]], input_scale=1e300)])


class Tensor:
    """The parts of a torch tensor that reading needs: it rejects NumPy while it has a gradient."""

    def __init__(self, values: Any, dtype: str = "torch.float32", grad: bool = False) -> None:
        self.values, self.dtype, self.requires_grad = np.asarray(values, np.float32), dtype, grad

    def detach(self) -> Tensor:
        return Tensor(self.values, self.dtype)

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return Tensor(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values.astype(np.float16 if self.dtype == "torch.float16" else np.float32)


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16", "torch.float16"])
def test_state_dicts_of_torch(dtype: str) -> None:
    weights, bias = RNG.integers(-8, 8, (3, 4)) / 8, np.array([0.5, 0.25, -1.0])
    state = {"fc.weight": Tensor(weights, dtype, grad=True), "fc.bias": Tensor(bias, dtype, grad=True)}
    network = al.Network.from_state_dict(state)
    assert np.array_equal(network.layers[0].weights, weights) and np.array_equal(network.layers[0].bias, bias)
    module = types.SimpleNamespace(state_dict=lambda: state)
    assert al.Network.from_state_dict(module) == network
    state["bn.running_mean"] = Tensor(bias)
    with pytest.raises(ValueError, match="no layer uses .*bn.running_mean"):
        al.Network.from_state_dict(state)


def test_neurons_can_be_copied_and_pickled() -> None:
    neuron = al.FixedPointLif(data_width=12, v_threshold=200, refractory_period=5)
    for _ in range(3):
        neuron.step(leak_k=20, gain_k=256, current=100)
    copies = [copy.copy(neuron), copy.deepcopy(neuron), pickle.loads(pickle.dumps(neuron))]
    states = [(n.v, n.refractory_counter, repr(n)) for n in copies]
    assert states == [(neuron.v, neuron.refractory_counter, repr(neuron))] * 3
    assert neuron.refractory_counter > 0
    following = [[n.step(20, 256, 100) for _ in range(12)] for n in [neuron, *copies]]
    assert following[1:] == [following[0]] * 3


def test_file_names_are_not_changed(tmp_path: pathlib.Path) -> None:
    first, second = al.Network([al.Layer([[1.0]])]), al.Network([al.Layer([[2.0]])])
    first.save(tmp_path / "model.v1")
    second.save(tmp_path / "model.v2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.v1", "model.v2"]
    for path, network in [("model.v1", first), ("model.v2", second)]:
        assert np.array_equal(al.Network.load(tmp_path / path)([[0.5]]), network([[0.5]]))
    with pytest.raises(FileNotFoundError):
        al.Network.load(tmp_path / "model.onnx")


def test_encode_with_any_generator() -> None:
    x = RNG.uniform(-1, 1, (4, 6))
    for generator in ["sobol", "lfsr", "halton:3+halton:2", "sobol:2+lfsr:9", "bernoulli", "bernoulli+sobol:2", "sobol:2+bernoulli"]:
        weights = RNG.uniform(-1, 1, (3, 6))
        options: Any = {"polarity": "bipolar", "generator": generator, "sharing": "input"}
        # One seed for both: the registers of an LFSR start at the seed.
        layer = al.DenseLayer.from_weights(weights, 100, seed=44257, **options)
        streams = al.encode(x, 100, **options)
        assert streams.shape == (4, 6, 2)
        assert np.array_equal(layer.counts_encoded(streams), layer.counts(x)), generator
    even = al.encode(np.arange(257) / 256, 256, generator="sobol")
    assert al.popcount(even, axis=-1).tolist() == list(range(257))


def test_mixed_operands() -> None:
    weights, x = RNG.uniform(-1, 1, (3, 6)), RNG.uniform(-1, 1, (4, 6))

    def layer(generator: str) -> al.DenseLayer:
        return al.DenseLayer.from_weights(weights, 100, 5, "bipolar", "cpu", generator=generator)

    drawn, kept = layer("bernoulli+sobol:2"), layer("sobol:1+bernoulli")
    # Each operand has the streams of a layer where both are of its kind.
    streams = al.encode(x, 100, seed=7, polarity="bipolar")
    assert np.array_equal(drawn.counts(x, seed=7), layer("sobol").counts_encoded(streams))
    streams = al.encode(x, 100, polarity="bipolar", generator="sobol")
    assert np.array_equal(kept.counts(x), layer("bernoulli").counts_encoded(streams))
    assert np.array_equal(kept.counts(x, seed=7), kept.counts(x, seed=8))
    assert not np.array_equal(drawn.counts(x, seed=7), drawn.counts(x, seed=8))
    assert "generator='bernoulli+sobol:2'" in repr(drawn)
    for one in (drawn, kept):
        again = pickle.loads(pickle.dumps(one))
        assert again == one and np.array_equal(again.counts(x), one.counts(x))
    assert drawn != kept
    generators = ["bernoulli+sobol:2", "sobol:1+bernoulli", "sobol"]
    found = al.evaluate(lengths=32, generators=generators, seeds=2, device="cpu")
    # Random bits of either operand have seeds.
    assert [[cell["generator"] for cell in found.cells].count(name) for name in generators] == [2, 2, 1]
    with pytest.raises(ValueError, match="bernoulli takes no parameter"):
        layer("bernoulli:5+sobol")


def test_correlation_of_streams() -> None:
    a, b = al.encode([0.3, 0.5], 4096, seed=1), al.encode([0.3, 0.5], 4096, seed=2)
    assert np.abs(al.scc(a, b, 4096)).max() < 0.1 and np.array_equal(al.scc(a, a, 4096), [1.0, 1.0])
    assert np.array_equal(al.scc(a, al.not_(a, 4096), 4096), [-1.0, -1.0])
    bits_a, bits_b = (al.unpack(words, 4096).astype(bool) for words in (a, b))
    both, ones = (bits_a & bits_b).sum(axis=1), (bits_a.sum(axis=1), bits_b.sum(axis=1))
    excess = both / 4096 - ones[0] * ones[1] / 4096**2
    assert np.all(np.abs(al.zce(a, b, 4096)) <= np.abs(excess) + 1e-12)
    assert al.scc(a[0], b, 4096).shape == (2,), "operands broadcast"


class Liar(list):  # type: ignore[type-arg]
    """A sequence that claims to be longer than any memory."""

    def __len__(self) -> int:
        return 2**62


def test_sequences_with_a_false_length() -> None:
    network, x = al.Network.digits(), al.load_digits()[0][:1]
    names = Liar(["sobol", "bernoulli"])
    assert network.forward_streams(x, 16, names).shape == (1, 10)
    with pytest.raises((ValueError, TypeError, MemoryError, OverflowError)):
        network.forward_streams(x, 16, Liar(["sobol"]))


def test_regression_networks_have_errors_instead_of_accuracy(tmp_path: pathlib.Path) -> None:
    network = al.Network.digits()
    x = al.load_digits()[0][:50]
    exact = network(x)
    found = al.evaluate_regression(network, x, exact + 0.5, lengths=[32, 512], generators=["sobol", "bernoulli"], seeds=2)
    assert found.complete and found.float_errors is not None
    variance = ((exact - exact.mean(axis=0)) ** 2).sum()
    expected = {"mean_absolute": 0.5, "root_mean_square": 0.5, "r_squared": 1 - 0.25 * exact.size / variance}
    assert found.float_errors == pytest.approx(expected)
    with pytest.raises(AttributeError, match="a regression has no accuracy"):
        _ = found.float_accuracy
    assert [(row["generator"], row["length"]) for row in found.rows] == [(g, n) for g in ("sobol", "bernoulli") for n in (32, 512)]
    outputs = network.forward_streams(x, 32, generator="sobol", seed=0)
    to_float = found.rows[0]["to_float"]["root_mean_square"]["mean"]
    assert to_float == pytest.approx(float(np.sqrt(np.mean((outputs - exact) ** 2))), rel=1e-12)
    assert len(found.to_csv().splitlines()) == 1 + len(found.cells) == len(found.to_pandas()) + 1
    assert al.Evaluation.from_json(found.to_json()) == found == pickle.loads(pickle.dumps(found))
    assert "rms" in str(found) and "<svg" in found.to_html() and found.to_dict()["float"] == found.float_errors
    path = tmp_path / "found.json"
    calls: list[int] = []

    def stop(done: int, *_: object) -> None:
        calls.append(done)
        if done == 2:
            raise RuntimeError("enough")

    settings: dict[str, Any] = {"lengths": [16, 32], "generators": "bernoulli", "seeds": 2, "checkpoint": path}
    with pytest.raises(RuntimeError, match="enough"):
        al.evaluate_regression(network, x, exact, progress=stop, **settings)
    kept = al.Evaluation.from_json(path.read_text())
    assert 0 < len(kept.cells) < 4 and not kept.complete
    whole = al.evaluate_regression(network, x, exact, **settings)
    assert whole.complete and whole.cells[0] == kept.cells[0]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(49), r"y has shape \(49,\); expected \(50,\) or \(50, outputs\)"),
        (np.zeros((50, 9)), "10 .*9|9 .*10"),
        (np.zeros((50, 0)), "expected"),
        (np.full((50, 10), np.nan), "the target of sample 0 is NaN, not a number from -1e100 to 1e100"),
    ],
)
def test_mismatched_targets_are_errors(y: npt.NDArray[np.float64], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        al.evaluate_regression(al.Network.digits(), al.load_digits()[0][:50], y, lengths=16, generators="sobol")


def test_evaluation_with_faults_has_a_row_for_each_site_and_rate() -> None:
    found = al.evaluate(lengths=32, generators="sobol", seeds=2, faults=[0, 0.01], fault_site=["streams", "counters"])
    faults = [row.get("faults") for row in found.rows]
    assert faults == [None, {"sites": "inputs+weights", "rate": 0.01}, {"sites": "counters", "rate": 0.01}]
    # Without faults, a Sobol sequence has no seed.
    assert len(found.cells) == 1 + 2 + 2
    assert al.Evaluation.from_json(found.to_json()) == found
    assert "fault rate" in found._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"faults": 0.7}, "use 0 or a number from 1e-9 to 0.5"),
        ({"faults": float("nan")}, "use 0 or a number from 1e-9 to 0.5"),
        ({"faults": [0.1, 0.1]}, "the fault rate 0.1 is given twice"),
        ({"faults": 0.1, "fault_site": "memory", "fault_kind": "transient"}, "use permanent"),
        ({"faults": 0.1, "fault_site": "wires"}, "use streams"),
        ({"fault_site": "memory"}, "give faults"),
    ],
)
def test_impossible_faults_are_value_errors(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        al.evaluate(lengths=16, generators="sobol", **arguments)
