"""Networks that are graphs."""

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
GRAPH = al.Network.from_onnx(CNN.to_onnx())


def dense(weights: np.ndarray, bias: np.ndarray) -> al.GraphNetwork:
    layer = al.Layer(weights, bias, polarity="signed", name="only")
    return al.Network.from_onnx(al.Network([layer]).to_onnx())


def test_floats_are_those_of_the_chain_within_the_bound() -> None:
    # The bound, for two dense layers, from first principles: u is half a unit of 32-bit floats, and a sum of n products of
    # rounded numbers is off by ((1 + u)^(n + 4) - 1) times the sum of magnitudes.
    network = al.Network.digits()
    hidden, last = network.layers
    # Limits make nothing larger.
    assert hidden.activation == (-1.0, 1.0)
    magnitudes = (np.abs(X) + abs(network.offset)) / network.scale
    roundings = 4
    for layer in (hidden, last):
        weights = np.abs(np.asarray(layer.weights))
        magnitudes = magnitudes @ weights.T + np.abs(np.asarray(layer.bias))
        roundings += weights.shape[1] + 4
    bound = ((1 + 2.0**-24) ** roundings - 1) * magnitudes
    difference = np.abs(al.Network.from_onnx(network.to_onnx())(X) - network(X))
    assert (difference <= bound).all()
    assert bound.max() < 1e-2, "a bound that says nothing"
    assert difference.max() > 0, "both cannot be the same to the last bit"
    assert np.array_equal(GRAPH.predict(X), CNN.predict(X))
    assert GRAPH.score(X, Y) == CNN.score(X, Y)


def test_names_shapes_and_layers() -> None:
    assert (GRAPH.name, GRAPH.input_shape, GRAPH.n_features, GRAPH.n_outputs, GRAPH.n_classes) == (CNN.name, (1, 8, 8), 64, 10, 10)
    chain = al.Network.digits()
    network = al.Network.from_onnx(chain.to_onnx())
    assert network.layer_names == [layer.name for layer in chain.layers] == ["hidden", "output"]
    for own, layer in zip(network.layers, chain.layers):
        assert own.runs_as == "streams" and own.polarity == layer.polarity and own.input_scale == layer.input_scale
        assert own.kind == "dense" and np.array_equal(own.weights, np.asarray(layer.weights, np.float32))
        assert np.array_equal(own.bias, np.asarray(layer.bias, np.float32))
        assert own.weight_scales.tolist() == [layer.weight_scale]
        with pytest.raises(ValueError, match="read-only"):
            own.weights[0] = 1.0
    assert repr(GRAPH) == f'GraphNetwork("{CNN.name}", input 1x8x8, 10 outputs, 3 of 3 layers as streams)'


def test_convolutions_of_a_chain_are_in_its_graph() -> None:
    with pytest.raises(TypeError, match='the layer "conv1" is a convolution, and a Layer is dense'):
        CNN.layers
    assert [layer.weights.shape for layer in GRAPH.layers] == [(8, 1, 3, 3), (16, 8, 3, 3), (10, 64)]


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
    expected = (sums * own.input_scale * own.weight_scales + bias).astype(np.float32)
    assert np.array_equal(network.forward_streams(x, 200, seed=9), expected)


def test_arrays_of_any_kind_give_the_same() -> None:
    expected = GRAPH.forward_streams(X[:6], 64, "sobol")
    single = X[:6].astype(np.float32)
    for x in [single, np.asfortranarray(X[:6]), X[:6].astype(np.int16), X[:6].tolist(), X[:6].reshape(6, 1, 8, 8), X[:12:2][:0:-1][::-1]]:
        n = len(x)
        if n == 6:
            assert np.array_equal(GRAPH.forward_streams(x, 64, "sobol"), expected)
            assert np.array_equal(GRAPH(x), GRAPH(X[:6]))
    assert GRAPH(X[0]).shape == GRAPH(X[0].reshape(1, 8, 8)).shape == (10,)
    assert GRAPH(X[:0]).shape == (0, 10)
    assert GRAPH.forward_streams(X[:0], 64).shape == (0, 10)


@pytest.mark.parametrize("generator", ["bernoulli", "sobol", "bernoulli+sobol:2", "sobol:1+bernoulli"])
def test_a_batch_may_be_split(generator: str) -> None:
    whole = GRAPH.forward_streams(X[:9], 48, generator)
    parts = [GRAPH.forward_streams(X[:9][k : k + 4], 48, generator, first_sample=k) for k in range(0, 9, 4)]
    assert np.array_equal(whole, np.concatenate(parts))
    if generator.startswith("bernoulli"):
        assert not np.array_equal(whole[4:8], GRAPH.forward_streams(X[4:8], 48, generator))
    if generator != "sobol":
        assert not np.array_equal(whole, GRAPH.forward_streams(X[:9], 48, generator, seed=1))


def test_settings_of_layers() -> None:
    plain = GRAPH.streams(64, "sobol")
    assert plain == GRAPH.streams(64, "sobol") and plain != GRAPH.streams(65, "sobol")
    assert repr(plain) == f'StreamGraph("{CNN.name}")'
    own = GRAPH.streams(64, "sobol", layers={"dense1": {"length": 512, "generator": "bernoulli"}})
    assert not np.array_equal(plain(X[:3]), own(X[:3]))
    each = GRAPH.streams(64, ["sobol", "sobol", "bernoulli"], layers={"dense1": {"length": 512}})
    assert np.array_equal(own(X[:3]), each(X[:3]))
    assert np.array_equal(own.predict(X[:3]), own(X[:3]).argmax(axis=1))
    assert own.score(X[:3], own.predict(X[:3])) == 1.0
    shared = GRAPH.forward_streams(X[:3], 64, "sobol", sharing="input")
    assert not np.array_equal(shared, plain(X[:3])) and np.array_equal(GRAPH.forward_streams(X[:3], 64, "sobol", width="auto"), plain(X[:3]))
    assert not np.array_equal(GRAPH.forward_streams(X[:3], 64, "sobol", width=5), plain(X[:3]))


def test_layers_in_binary() -> None:
    all_binary = GRAPH.with_binary(GRAPH.layer_names)
    assert {layer.runs_as for layer in all_binary.layers} == {"binary"}
    assert np.array_equal(all_binary.forward_streams(X[:5], 16), GRAPH(X[:5]))
    first = al.Network.from_onnx(CNN.to_onnx(), binary=["conv1"])
    assert first == GRAPH.with_binary("conv1") != GRAPH
    assert first.with_binary([]) == GRAPH
    assert "1 of 3" not in first.inspect() and "2 of them can run as streams" in first.inspect()


def test_polarity() -> None:
    bipolar = al.Network.from_onnx(CNN.to_onnx(), polarity="bipolar")
    assert bipolar == GRAPH.with_polarity("bipolar")
    assert {layer.polarity for layer in bipolar.layers} == {"bipolar"}
    with pytest.raises(ValueError, match=r"layer .*weight at index \d+ is -"):
        GRAPH.with_polarity("unipolar")


def test_calibration() -> None:
    largest = GRAPH.calibrated(TRAIN)
    share = GRAPH.calibrated(TRAIN.reshape(-1, 1, 8, 8), percentile=0.9)
    for all_inputs, most in zip(largest.layers, share.layers):
        assert 0 < most.input_scale <= all_inputs.input_scale
    assert share.layers[1].input_scale < largest.layers[1].input_scale
    tensor = GRAPH.calibrated(TRAIN, weights="tensor")
    assert [layer.weight_scales.shape for layer in tensor.layers] == [(1,)] * 3
    assert [layer.weight_scales.shape for layer in largest.layers] == [(len(layer.weights),) for layer in largest.layers]
    for wrong in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="percentile is"):
            GRAPH.calibrated(TRAIN, percentile=wrong)
    with pytest.raises(ValueError, match='weights is "column"'):
        GRAPH.calibrated(TRAIN, weights="column")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no samples"):
        GRAPH.calibrated(TRAIN[:0])


def test_inspect_is_what_the_program_prints(tmp_path: pathlib.Path) -> None:
    CNN.to_onnx(tmp_path / "cnn.onnx")
    network = al.Network.from_onnx(tmp_path / "cnn.onnx")
    assert network.name == "cnn"
    for arguments, length in ([], 256), (["--length", "64"], 64):
        program = [sys.executable, "-m", "aleatron", "inspect", str(tmp_path / "cnn.onnx"), *arguments]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        assert done.stdout.rstrip("\n") == network.inspect(length)


def test_inspect_needs_a_length() -> None:
    for length in (0, -1, 2**64):
        with pytest.raises(ValueError):
            GRAPH.inspect(length)


def test_copies_are_equal() -> None:
    network = GRAPH.with_binary("conv2").calibrated(TRAIN, percentile=0.99)
    for made in (pickle.loads(pickle.dumps(network)), copy.copy(network), copy.deepcopy(network)):
        assert made == network
        assert repr(made) == repr(network)
        assert np.array_equal(made.forward_streams(X[:4], 32), network.forward_streams(X[:4], 32))
    assert network != GRAPH and network != "network"
    with pytest.raises(TypeError, match="unhashable"):
        hash(network)


def test_files(tmp_path: pathlib.Path) -> None:
    network = GRAPH.calibrated(TRAIN)
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
    with pytest.raises(IsADirectoryError):
        al.Network.from_onnx(tmp_path)


def test_what_is_no_network() -> None:
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
        # Whatever is cut off, an error says so.
        with pytest.raises(ValueError):
            al.Network.from_onnx(content[:k])


def test_settings_in_files_are_checked() -> None:
    content = dense(np.array([[1.0, -0.5]]), np.zeros(1)).to_onnx()
    for old, new, said in [
        (b'"input_scale":1.0', b'"input_scale":0.0', "scale 0 is not positive"),
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
        for call in (GRAPH, GRAPH.predict, GRAPH.calibrated, GRAPH.streams(16)):
            with pytest.raises(ValueError, match=r"x has shape .*; expected \(N, 64\) or \(N, 1, 8, 8\), or one sample"):
                call(x)
    for value in (np.nan, np.inf, -np.inf):
        x = X[:3].copy()
        x[1, 7] = value
        for call in (GRAPH, GRAPH.calibrated, GRAPH.streams(16)):
            with pytest.raises(ValueError, match="sample 1, feature 7 is"):
                call(x)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        GRAPH(X[:2] * 1j)
    with pytest.raises(TypeError, match="x must hold real numbers"):
        GRAPH([["a"] * 64])
    with pytest.raises(ValueError, match="y has shape"):
        GRAPH.score(X, Y[:-1])


def test_wrong_settings() -> None:
    for length in (0, -1, 2**70):
        with pytest.raises(ValueError):
            GRAPH.forward_streams(X[:1], length)
    with pytest.raises(ValueError, match="nothing"):
        GRAPH.streams(16, "nothing")
    with pytest.raises(ValueError, match="one name for each of the 3 layers"):
        GRAPH.streams(16, ["sobol"])
    with pytest.raises(ValueError, match='there is no layer "last"'):
        GRAPH.streams(16, layers={"last": {"length": 8}})
    with pytest.raises(ValueError, match='no setting "size"'):
        GRAPH.streams(16, layers={"dense1": {"size": 8}})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(ValueError, match="length"):
        GRAPH.streams(16, layers={"dense1": {"length": 0}})
    with pytest.raises(RuntimeError, match="(?i)gpu"):
        GRAPH.forward_streams(X[:1], 16, device="gpu:77")
    with pytest.raises(ValueError, match="first_sample"):
        GRAPH.forward_streams(X[:1], 16, first_sample=2**32)


def test_warnings_of_generators() -> None:
    with pytest.warns(UserWarning, match="."):
        streams = GRAPH.streams(16, "sobol:1+sobol:1")
        streams(X[:1])
    assert streams.warnings


def test_evaluation() -> None:
    network = GRAPH.calibrated(TRAIN)
    found = al.evaluate(network, X, Y, lengths=[16, 128], generators=["sobol", "bernoulli"], seeds=2)
    assert isinstance(found, al.Evaluation) and found.complete
    assert found.float_accuracy == network.score(X, Y)
    assert [(row["generator"], row["length"]) for row in found.rows] == [("sobol", 16), ("sobol", 128), ("bernoulli", 16), ("bernoulli", 128)]
    (cell,) = [cell for cell in found.cells if (cell["generator"], cell["length"]) == ("sobol", 128)]
    assert cell["accuracy"] == network.streams(128, "sobol", cell["seed"]).score(X, Y) > 0.9
    assert found == al.evaluate(network, X.reshape(-1, 1, 8, 8), Y, lengths=[16, 128], generators=["sobol", "bernoulli"], seeds=2)
    assert al.Evaluation.from_json(found.to_json()) == found
    assert "conv1" in str(found.to_dict()["network"]["layers"]) and found.to_html().startswith("<!")


def test_evaluation_goes_on_and_reports(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"
    asked = {"lengths": [16, 32], "generators": "sobol", "checkpoint": file}
    calls: list[tuple[int, int, str, int, int]] = []

    def stop(*at: int) -> None:
        calls.append(at)  # type: ignore[arg-type]
        if at[3] == 32:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        al.evaluate(GRAPH, X, Y, progress=stop, **asked)  # type: ignore[arg-type]
    assert calls[0][:4] == (0, 2, "sobol", 16)
    assert len(al.Evaluation.from_json(file.read_text()).cells) == 1
    found = al.evaluate(GRAPH, X, Y, **asked)  # type: ignore[arg-type]
    assert found.complete and found == al.evaluate(GRAPH, X, Y, lengths=[16, 32], generators="sobol")


def test_samples_stop_early() -> None:
    network = GRAPH.calibrated(TRAIN)
    found = al.evaluate(network, X, Y, lengths=256, generators="sobol", margins=[2.0])
    (stop,) = found.rows[0]["early"]
    assert stop["margin"] == 2.0
    # Scores that are computed in binary cannot be watched.
    binary = al.evaluate(network.with_binary("dense1"), X, Y, lengths=256, generators="sobol", margins=[2.0])
    assert binary.rows[0]["early"] == []


def test_evaluation_refuses_what_graphs_lack() -> None:
    for asked, said in [
        ({"layers": {"last": {"length": 8}}}, 'no layer "last"'),
    ]:
        with pytest.raises(ValueError, match=said):
            al.evaluate(GRAPH, X, Y, lengths=16, generators="sobol", **asked)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="layers that run as streams"):
        al.evaluate(GRAPH.with_binary(GRAPH.layer_names), X, Y, lengths=16, generators="sobol")
    with pytest.raises(ValueError, match="63 features"):
        al.evaluate(GRAPH, X[:, :63], Y, lengths=16, generators="sobol")
    with pytest.raises(ValueError, match="not \\(samples, features\\)"):
        al.evaluate(GRAPH, X.reshape(-1, 8, 8), Y, lengths=16, generators="sobol")
    with pytest.raises(TypeError, match="not a Network or a GraphNetwork"):
        al.evaluate("network", X, Y)  # type: ignore[arg-type]


def test_integers_are_those_of_the_chain() -> None:
    for generator in ["bernoulli", "sobol"]:
        chain = CNN.forward_streams(X[:20], 64, generator, arithmetic="integer")
        assert np.array_equal(GRAPH.forward_streams(X[:20], 64, generator, arithmetic="integer"), chain)
        assert not np.array_equal(GRAPH.forward_streams(X[:20], 64, generator), chain)
    streams = GRAPH.streams(64, "sobol", arithmetic="integer")
    assert streams != GRAPH.streams(64, "sobol") and GRAPH.streams(64, "sobol").integers == []
    first, second, last = streams.integers
    assert [layer["name"] for layer in (first, second, last)] == GRAPH.layer_names
    for own, layer in zip([first, second, last], GRAPH.layers):
        scales = np.broadcast_to(layer.weight_scales, len(layer.bias))
        assert own["fraction_bits"] == 8
        assert np.array_equal(own["units"], layer.input_scale * scales / 64 / 256)
        assert np.array_equal(own["bias"], np.floor(layer.bias * (64 / (layer.input_scale * scales)) * 256 + 0.5))
    assert first["multipliers"].size == 0 and second["multipliers"].shape == second["shifts"].shape != (0,)
    with pytest.raises(ValueError, match="arithmetic"):
        GRAPH.streams(64, arithmetic="fixed")  # type: ignore[arg-type]


def test_integers_cost_little() -> None:
    network = GRAPH.calibrated(TRAIN)
    asked = {"lengths": [32, 128], "generators": ["sobol", "bernoulli"]}
    found = al.evaluate(network, X, Y, arithmetic="integer", **asked)  # type: ignore[arg-type]
    floats = al.evaluate(network, X, Y, **asked)  # type: ignore[arg-type]
    for integer, row in zip(found.rows, floats.rows):
        assert row["accuracy"]["mean"] - integer["accuracy"]["mean"] <= 0.003
    # A layer in binary between two others would need floats.
    with pytest.raises(ValueError, match=r'no form in integers has "conv2" \(Conv\), for it runs in binary'):
        al.evaluate(network.with_binary("conv2"), X, Y, arithmetic="integer", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("arithmetic", ["float", "integer"])
def test_executors_find_the_same(arithmetic: Literal["float", "integer"]) -> None:
    network = GRAPH.calibrated(TRAIN)
    asked = {"lengths": [8, 20], "generators": ["sobol", "bernoulli"], "seeds": 2, "arithmetic": arithmetic, "margins": [1.0, 2.0]}
    whole = al.evaluate(network, X, Y, **asked)  # type: ignore[arg-type]
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as executor:
        found = al.evaluate(network, X.reshape(-1, 1, 8, 8), Y, executor=executor, **asked)  # type: ignore[arg-type]
    assert found == whole and found.complete
    assert [row["layers"] for row in found.rows] == [row["layers"] for row in whole.rows], "errors to the last bit"
    with pytest.raises(TypeError, match="executor must be"):
        al.evaluate(network, X, Y, executor=object(), **asked)  # type: ignore[arg-type]
