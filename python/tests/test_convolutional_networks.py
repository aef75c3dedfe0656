"""Convolutional networks: shapes, settings, files, evaluation, integer arithmetic."""

from __future__ import annotations

import copy
import multiprocessing
import pathlib
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Literal

import numpy as np
import pytest

import aleatron as al

X, Y = al.load_digits()
TRAIN, _ = al.load_digits("train")
CNN = al.Network.digits("cnn")


def dense(weights: np.ndarray, bias: np.ndarray) -> al.Network:
    return al.Network([al.Layer(weights, bias, polarity="signed", name="only")])


def test_names_shapes_and_layers() -> None:
    assert (CNN.name, CNN.input_shape, CNN.n_features, CNN.n_outputs, CNN.n_classes) == ("cnn", (1, 8, 8), 64, 10, 10)
    assert CNN.layer_names == ["conv1", "conv2", "dense1"]
    assert [layer.kind for layer in CNN.layers] == ["convolution", "convolution", "dense"]
    assert [layer.weights.shape for layer in CNN.layers] == [(8, 1, 3, 3), (16, 8, 3, 3), (10, 64)]
    for layer in CNN.layers:
        assert layer.runs_as == "streams" and layer.polarity == "signed" and layer.bias.shape == layer.weights.shape[:1]
        for array in (layer.weights, layer.bias, layer.weight_scales):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0
    assert CNN.layers == al.Network.digits("cnn").layers != al.Network.digits().layers
    assert repr(CNN) == 'Network("cnn", input 1x8x8, 10 outputs, 3 of 3 layers as streams)'


def test_one_layer_counts_what_a_dense_layer_counts() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(-3, 3, (5, 12)).astype(np.float32).astype(np.float64)
    bias = rng.normal(size=5).astype(np.float32)
    x = rng.uniform(-2, 2, (7, 12)).astype(np.float32)
    network = dense(weights, bias).calibrated(x)
    (own,) = network.layers
    assert own.input_scale == np.abs(x).max()
    assert np.array_equal(own.weight_scales, np.abs(weights).max(axis=1))
    layer = al.DenseLayer.from_weights(weights / own.weight_scales[:, None], 200, 9, "signed", "cpu")
    sums = layer(x.astype(np.float64) / own.input_scale, seed=9)
    expected = sums * (own.input_scale * own.weight_scales) + bias
    assert np.array_equal(network.forward_streams(x, 200, seed=9), expected)


def test_arrays_of_any_kind_give_the_same() -> None:
    expected = CNN.forward_streams(X[:6], 64, "sobol")
    single = X[:6].astype(np.float32)
    for x in [single, np.asfortranarray(X[:6]), X[:6].astype(np.int16), X[:6].tolist(), X[:6].reshape(6, 1, 8, 8), X[:12:2][:0:-1][::-1]]:
        n = len(x)
        if n == 6:
            assert np.array_equal(CNN.forward_streams(x, 64, "sobol"), expected)
            assert np.array_equal(CNN(x), CNN(X[:6]))
    assert CNN(X[0]).shape == CNN(X[0].reshape(1, 8, 8)).shape == (10,)
    assert CNN(X[:0]).shape == (0, 10)
    assert CNN.forward_streams(X[:0], 64).shape == (0, 10)


@pytest.mark.parametrize("generator", ["bernoulli", "sobol", "bernoulli+sobol:2", "sobol:1+bernoulli"])
def test_a_batch_may_be_split(generator: str) -> None:
    whole = CNN.forward_streams(X[:9], 48, generator)
    parts = [CNN.forward_streams(X[:9][k : k + 4], 48, generator, first_sample=k) for k in range(0, 9, 4)]
    assert np.array_equal(whole, np.concatenate(parts))
    if generator.startswith("bernoulli"):
        assert not np.array_equal(whole[4:8], CNN.forward_streams(X[4:8], 48, generator))
    if generator != "sobol":
        assert not np.array_equal(whole, CNN.forward_streams(X[:9], 48, generator, seed=1))


def test_settings_of_layers() -> None:
    plain = CNN.streams(64, "sobol")
    assert plain == CNN.streams(64, "sobol") and plain != CNN.streams(65, "sobol")
    assert repr(plain) == 'StreamNetwork("cnn", lengths=[64, 64, 64])'
    own = CNN.streams(64, "sobol", layers={"dense1": {"length": 512, "generator": "bernoulli"}})
    assert not np.array_equal(plain(X[:3]), own(X[:3]))
    each = CNN.streams(64, ["sobol", "sobol", "bernoulli"], layers={"dense1": {"length": 512}})
    assert np.array_equal(own(X[:3]), each(X[:3]))
    assert np.array_equal(own.predict(X[:3]), own(X[:3]).argmax(axis=1))
    assert own.score(X[:3], own.predict(X[:3])) == 1.0
    shared = CNN.forward_streams(X[:3], 64, "sobol", sharing="input")
    assert not np.array_equal(shared, plain(X[:3])) and np.array_equal(CNN.forward_streams(X[:3], 64, "sobol", width="auto"), plain(X[:3]))
    assert not np.array_equal(CNN.forward_streams(X[:3], 64, "sobol", width=5), plain(X[:3]))


def test_layers_in_binary() -> None:
    all_binary = CNN.with_binary(CNN.layer_names)
    assert {layer.runs_as for layer in all_binary.layers} == {"binary"}
    assert np.array_equal(all_binary.forward_streams(X[:5], 16), CNN(X[:5]))
    first = al.Network.from_onnx(CNN.to_onnx(), binary=["conv1"])
    assert first == CNN.with_binary("conv1") != CNN
    assert first.streams(16, ["sobol", "bernoulli"]).lengths == [16, 16]
    assert first.with_binary([]) == CNN
    assert "1 of 3" not in first.inspect() and "2 of them can run as streams" in first.inspect()


def test_polarity() -> None:
    bipolar = al.Network.from_onnx(CNN.to_onnx(), polarity="bipolar")
    assert bipolar == CNN.with_polarity("bipolar")
    assert {layer.polarity for layer in bipolar.layers} == {"bipolar"}
    with pytest.raises(ValueError, match=r"layer .*weight at index \d+ is -"):
        CNN.with_polarity("unipolar")


def test_calibration() -> None:
    largest = CNN.calibrated(TRAIN)
    with pytest.warns(UserWarning, match="% of its inputs saturate") as caught:
        share = CNN.calibrated(TRAIN.reshape(-1, 1, 8, 8), percentile=0.9)
    assert [str(warning.message).split('"')[1] for warning in caught] == CNN.layer_names
    for all_inputs, most in zip(largest.layers, share.layers):
        assert 0 < most.input_scale <= all_inputs.input_scale
    assert share.layers[1].input_scale < largest.layers[1].input_scale
    tensor = CNN.calibrated(TRAIN, weights="tensor")
    assert [layer.weight_scales.shape for layer in tensor.layers] == [(1,)] * 3
    assert [layer.weight_scales.shape for layer in largest.layers] == [(len(layer.weights),) for layer in largest.layers]
    for wrong in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="percentile is"):
            CNN.calibrated(TRAIN, percentile=wrong)
    with pytest.raises(ValueError, match='weights is "column"'):
        CNN.calibrated(TRAIN, weights="column")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no samples"):
        CNN.calibrated(TRAIN[:0])


def test_inspect_is_what_the_program_prints(tmp_path: pathlib.Path) -> None:
    CNN.save(tmp_path / "cnn.onnx")
    network = al.Network.load(tmp_path / "cnn.onnx")
    assert network.name == "cnn"
    for arguments, length in ([], 256), (["--length", "64"], 64):
        program = [sys.executable, "-m", "aleatron", "inspect", str(tmp_path / "cnn.onnx"), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        # The program adds the shapes of inputs in the file.
        assert done.stdout.startswith(network.inspect(length) + "\n")


def test_inspect_needs_a_length() -> None:
    for length in (0, -1, 2**64):
        with pytest.raises(ValueError):
            CNN.inspect(length)


def test_copies_are_equal() -> None:
    network = CNN.with_binary("conv2").calibrated(TRAIN, percentile=0.99)
    for made in (pickle.loads(pickle.dumps(network)), copy.copy(network), copy.deepcopy(network)):
        assert made == network
        assert repr(made) == repr(network)
        assert np.array_equal(made.forward_streams(X[:4], 32), network.forward_streams(X[:4], 32))
    assert network != CNN and network != "network"
    with pytest.raises(TypeError, match="unhashable"):
        hash(network)


def test_files(tmp_path: pathlib.Path) -> None:
    network = CNN.calibrated(TRAIN)
    assert network.to_onnx(tmp_path / "network.onnx") is None
    content = (tmp_path / "network.onnx").read_bytes()
    assert content == network.to_onnx() == bytes(al.Network.from_onnx(memoryview(content)).to_onnx())
    for path in (tmp_path / "network.onnx", str(tmp_path / "network.onnx")):
        assert al.Network.from_onnx(path, network.name) == network
    assert al.Network.from_onnx(bytearray(content), "other").name == "other"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        al.Network.from_onnx(tmp_path / "nowhere.onnx")
    with pytest.raises(FileNotFoundError):
        network.to_onnx(tmp_path / "no folder" / "network.onnx")
    with pytest.raises(OSError, match="not a regular file"):
        al.Network.from_onnx(tmp_path)


def test_invalid_network_files_are_errors() -> None:
    with pytest.raises(ValueError, match="not an ONNX model"):
        al.Network.from_onnx(b"no protobuf at all")
    with pytest.raises(ValueError, match="there is no graph"):
        al.Network.from_onnx(b"")
    with pytest.raises(TypeError, match="model must be a path or bytes, not int"):
        al.Network.from_onnx(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='there is no layer "conv9"; the layers are conv1, conv2, dense1'):
        al.Network.from_onnx(CNN.to_onnx(), binary="conv9")
    with pytest.raises(TypeError, match="binary must be"):
        al.Network.from_onnx(CNN.to_onnx(), binary=[1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="polarity"):
        al.Network.from_onnx(CNN.to_onnx(), polarity="neutral")  # type: ignore[arg-type]
    content = CNN.to_onnx()
    for k in range(0, len(content), 997):
        # A file truncated at any point is an error.
        with pytest.raises(ValueError):
            al.Network.from_onnx(content[:k])


def test_settings_in_files_are_checked() -> None:
    content = dense(np.array([[1.0, -0.5]]), np.zeros(1)).to_onnx()
    for old, new, said in [
        (b'"input_scale":1.0', b'"input_scale":0.0', "input scale is 0, not positive"),
        (b'"polarity":"signed"', b'"polarity":"sighed"', "sighed"),
        (b'"runs_as":"streams"', b'"runs_as":"strains"', "strains"),
        (b'"name":"only"', b'"name":"lone"', 'no layer "lone"'),
        (b'"weight_scales":[1.0]', b'"weight_scales":[-1.]', "metadata"),
    ]:
        assert content.count(old) == 1, old
        with pytest.raises(ValueError, match=said):
            al.Network.from_onnx(content.replace(old, new))


def test_wrong_samples() -> None:
    for x in (X[:, :63], X[:2].reshape(2, 8, 8), np.zeros((2, 2, 8, 8)), 3.0):
        for call in (CNN, CNN.predict, CNN.calibrated, CNN.streams(16)):
            with pytest.raises(ValueError, match=r"x has shape .*; expected \(N, 64\) or \(N, 1, 8, 8\), or one sample"):
                call(x)
    for value in (np.nan, np.inf, -np.inf):
        x = X[:3].copy()
        x[1, 7] = value
        for call in (CNN, CNN.calibrated, CNN.streams(16)):
            with pytest.raises(ValueError, match="sample 1, feature 7 is"):
                call(x)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        CNN(X[:2] * 1j)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        CNN([["a"] * 64])
    with pytest.raises(ValueError, match="y has shape"):
        CNN.score(X, Y[:-1])


def test_wrong_settings() -> None:
    for length in (0, -1, 2**70):
        with pytest.raises(ValueError):
            CNN.forward_streams(X[:1], length)
    with pytest.raises(ValueError, match="nothing"):
        CNN.streams(16, "nothing")
    with pytest.raises(ValueError, match="one name for each of the 3 layers that run as streams"):
        CNN.streams(16, ["sobol"])
    with pytest.raises(ValueError, match='there is no layer "last"'):
        CNN.streams(16, layers={"last": {"length": 8}})
    with pytest.raises(ValueError, match='no setting "size"'):
        CNN.streams(16, layers={"dense1": {"size": 8}})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ValueError, match="length"):
        CNN.streams(16, layers={"dense1": {"length": 0}})
    with pytest.raises(RuntimeError, match="(?i)gpu"):
        CNN.forward_streams(X[:1], 16, device="gpu:77")
    with pytest.raises(ValueError, match="first_sample"):
        CNN.forward_streams(X[:1], 16, first_sample=2**32)


def test_warnings_of_generators() -> None:
    with pytest.warns(UserWarning, match="."):
        streams = CNN.streams(16, "sobol:1+sobol:1")
        streams(X[:1])
    assert streams.warnings


def test_evaluation() -> None:
    network = CNN.calibrated(TRAIN)
    found = al.evaluate(network, X, Y, lengths=[16, 128], generators=["sobol", "bernoulli"], seeds=2)
    assert isinstance(found, al.Evaluation) and found.complete
    assert found.float_accuracy == network.score(X, Y)
    assert [(row["generator"], row["length"]) for row in found.rows] == [("sobol", 16), ("sobol", 128), ("bernoulli", 16), ("bernoulli", 128)]
    (cell,) = [cell for cell in found.cells if (cell["generator"], cell["length"]) == ("sobol", 128)]
    assert cell["accuracy"] == network.streams(128, "sobol", cell["seed"]).score(X, Y) > 0.9
    assert found == al.evaluate(network, X.reshape(-1, 1, 8, 8), Y, lengths=[16, 128], generators=["sobol", "bernoulli"], seeds=2)
    assert al.Evaluation.from_json(found.to_json()) == found
    assert "conv1" in str(found.to_dict()["network"]["layers"]) and found.to_html().startswith("<!")


def test_evaluation_resumes_and_reports(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"
    asked = {"lengths": [16, 32], "generators": "sobol", "checkpoint": file}
    calls: list[tuple[int, int, str, int, int]] = []

    def stop(*at: int) -> None:
        calls.append(at)  # type: ignore[arg-type]
        if at[3] == 32:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        al.evaluate(CNN, X, Y, progress=stop, **asked)  # type: ignore[arg-type]
    assert calls[0][:4] == (0, 2, "sobol", 16)
    assert len(al.Evaluation.from_json(file.read_text()).cells) == 1
    found = al.evaluate(CNN, X, Y, **asked)  # type: ignore[arg-type]
    assert found.complete and found == al.evaluate(CNN, X, Y, lengths=[16, 32], generators="sobol")


def test_samples_stop_early() -> None:
    network = CNN.calibrated(TRAIN)
    found = al.evaluate(network, X, Y, lengths=256, generators="sobol", margins=[2.0])
    (stop,) = found.rows[0]["early"]
    assert stop["margin"] == 2.0
    # Scores that are computed in binary cannot be watched.
    binary = al.evaluate(network.with_binary("dense1"), X, Y, lengths=256, generators="sobol", margins=[2.0])
    assert binary.rows[0]["early"] == []


def test_evaluation_with_mismatched_data_is_an_error() -> None:
    for asked, said in [
        ({"layers": {"last": {"length": 8}}}, 'no layer "last"'),
    ]:
        with pytest.raises(ValueError, match=said):
            al.evaluate(CNN, X, Y, lengths=16, generators="sobol", **asked)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layers that run as streams"):
        al.evaluate(CNN.with_binary(CNN.layer_names), X, Y, lengths=16, generators="sobol")
    with pytest.raises(ValueError, match="63 features"):
        al.evaluate(CNN, X[:, :63], Y, lengths=16, generators="sobol")
    with pytest.raises(ValueError, match="not \\(samples, features\\)"):
        al.evaluate(CNN, X.reshape(-1, 8, 8), Y, lengths=16, generators="sobol")
    with pytest.raises(TypeError, match="network is a str, not an aleatron.Network"):
        al.evaluate("network", X, Y)  # type: ignore[arg-type]


def test_integers_around_layers() -> None:
    streams = CNN.streams(64, "sobol", arithmetic="integer")
    assert not np.array_equal(streams(X[:20]), CNN.forward_streams(X[:20], 64, "sobol"))
    assert streams != CNN.streams(64, "sobol") and CNN.streams(64, "sobol").integers == []
    first, second, last = streams.integers
    assert [layer["name"] for layer in (first, second, last)] == CNN.layer_names
    for own, layer in zip([first, second, last], CNN.layers):
        scales = np.broadcast_to(layer.weight_scales, len(layer.bias))
        assert own["fraction_bits"] == 8
        assert np.array_equal(own["units"], layer.input_scale * scales / 64 / 256)
        bias = np.floor(layer.bias * (64 / (layer.input_scale * scales)) * 256 + 0.5)
        assert set(own["bias"]) == set(bias)
    assert first["multipliers"].size == 0 and second["multipliers"].shape == second["shifts"].shape != (0,)
    assert (second["multipliers"] < 2 ** second["multiplier_widths"]).all()
    with pytest.raises(ValueError, match="arithmetic"):
        CNN.streams(64, arithmetic="fixed")  # type: ignore[arg-type]


def test_integer_arithmetic_loses_little_accuracy() -> None:
    network = CNN.calibrated(TRAIN)
    asked = {"lengths": [32, 128], "generators": ["sobol", "bernoulli"]}
    found = al.evaluate(network, X, Y, arithmetic="integer", **asked)  # type: ignore[arg-type]
    floats = al.evaluate(network, X, Y, **asked)  # type: ignore[arg-type]
    for integer, row in zip(found.rows, floats.rows):
        assert row["accuracy"]["mean"] - integer["accuracy"]["mean"] <= 0.003
    # A layer in binary between two others would need floats.
    with pytest.raises(ValueError, match=r'integer arithmetic does not support node "conv2" \(Conv\): it runs in binary'):
        al.evaluate(network.with_binary("conv2"), X, Y, arithmetic="integer", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("arithmetic", ["float", "integer"])
def test_executors_equal_one_process(arithmetic: Literal["float", "integer"]) -> None:
    network = CNN.calibrated(TRAIN)
    asked = {"lengths": [8, 20], "generators": ["sobol", "bernoulli"], "seeds": 2, "arithmetic": arithmetic, "margins": [1.0, 2.0]}
    whole = al.evaluate(network, X, Y, **asked)  # type: ignore[arg-type]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        found = al.evaluate(network, X.reshape(-1, 1, 8, 8), Y, executor=executor, **asked)  # type: ignore[arg-type]
    assert found == whole and found.complete
    assert [row["layers"] for row in found.rows] == [row["layers"] for row in whole.rows], "errors to the last bit"
    with pytest.raises(TypeError, match="executor must be"):
        al.evaluate(network, X, Y, executor=object(), **asked)  # type: ignore[arg-type]
