"""Networks and their evaluation."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import aleatron as al

RNG = np.random.default_rng(3)
W0, B0, W1 = RNG.normal(size=(6, 4)), RNG.normal(size=6), RNG.normal(size=(3, 6))


def small() -> al.Network:
    return al.Network(
        [al.Layer(W0, B0, "relu", name="first"), al.Layer(W1, activation=(-1.0, 1.0), input_scale=8.0)],
        name="small",
        offset=0.5,
        scale=2.0,
    )


def test_floating_point() -> None:
    x = RNG.normal(size=(5, 4))
    expected = np.clip(np.maximum((x - 0.5) / 2 @ W0.T + B0, 0) @ W1.T, -1, 1)
    assert np.allclose(small()(x), expected, rtol=1e-5, atol=1e-5)
    assert np.array_equal(small()(x[0].tolist()), small()(x)[0])
    assert small()(np.zeros((0, 4))).shape == (0, 3)


def test_attributes_and_layers() -> None:
    network = small()
    assert (network.name, network.n_features, network.n_classes, network.input_shape) == ("small", 4, 3, (4,))
    assert network.feature_interval == (-1.5, 2.5)
    assert repr(network) == 'Network("small", input 4, 3 outputs, 2 of 2 layers as streams)'
    first, last = network.layers
    assert np.array_equal(first.weights, np.float32(W0)) and np.array_equal(first.bias, np.float32(B0))
    assert (first.name, first.kind, first.runs_as, first.polarity) == ("first", "dense", "streams", "bipolar")
    assert (last.name, last.input_scale) == ("1", 8.0) and not np.any(last.bias)
    assert np.array_equal(last.weight_scales, np.abs(np.float32(W1)).max(axis=1))
    assert network == small() != al.Network.digits()
    assert pickle.loads(pickle.dumps(network)) == network


def test_features_have_offsets_and_scales_of_their_own() -> None:
    offset, scale = np.array([0.5, -1.0, 0.0, 2.0]), np.array([2.0, 4.0, 1.0, 0.5])
    weights = np.array([[1.0, 2.0, -1.0, 0.5]])
    network = al.Network([al.Layer(weights)], offset=offset, scale=scale)
    x = np.array([[1.5, 3.0, 0.25, 2.25], [0.5, -1.0, 0.0, 2.0]])
    assert network(x).tolist() == ((x - offset) / scale @ weights.T).tolist()
    for wrong in (offset[:3], offset[None, :]):
        with pytest.raises(ValueError, match="offset|inputs"):
            al.Network([al.Layer(weights)], offset=wrong)
    with pytest.raises(ValueError, match="0"):
        al.Network([al.Layer(weights)], scale=[1.0, 0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="offset at index 1 is NaN"):
        al.Network([al.Layer(weights)], offset=[0.0, np.nan, 0.0, 0.0])


def test_files(tmp_path: pathlib.Path) -> None:
    network = small()
    network.save(tmp_path / "small.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["small.onnx"]
    assert (tmp_path / "small.onnx").read_bytes() == network.to_onnx()
    assert al.Network.load(str(tmp_path / "small.onnx")) == network == al.Network.from_onnx(tmp_path / "small.onnx")
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        al.Network.load(tmp_path / "none.onnx")
    (tmp_path / "small.onnx").write_text("{}")
    with pytest.raises(ValueError, match="small.onnx|not an ONNX model"):
        al.Network.load(tmp_path / "small.onnx")
    with pytest.raises(TypeError, match="path must be a path"):
        al.Network.load(network.to_onnx)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        network.save(f"{tmp_path}/")


def test_state_dict() -> None:
    state = {"0.weight": W0.astype(np.float32), "0.bias": B0, "2.weight": W1.tolist()}
    network = al.Network.from_state_dict(state, hidden="relu", name="torch", scale=2.0)
    x = RNG.normal(size=(7, 4))
    assert np.allclose(network(x), np.maximum(x / 2 @ W0.T + B0, 0) @ W1.T, rtol=1e-5)
    assert [layer.name for layer in network.layers] == ["0", "2"]
    hidden = np.maximum(x / 2 @ W0.T + B0, 0)
    assert np.isclose(network.calibrated(x).layers[1].input_scale, hidden.max(), rtol=1e-5)
    clipped = al.Network.from_state_dict(state, (0, 1))
    assert np.allclose(clipped(x), np.clip(x @ W0.T + B0, 0, 1) @ W1.T, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:streams of 256 bits end before the period")
@pytest.mark.parametrize(
    "generator",
    ["bernoulli", "sobol", "lfsr", "halton:2+halton:3", ["sobol", "bernoulli"], ["bernoulli+sobol", "vdc+bernoulli"]],
)
def test_streams_approach_floating_point(generator: Any) -> None:
    network = small()
    x = RNG.uniform(-1.5, 2.5, (40, 4))

    def error(length: int) -> float:
        scores = network.forward_streams(x, length, generator, seed=3, width=16)
        assert scores.shape == (40, 3)
        return float(np.abs(scores - network(x)).mean())

    assert error(1 << 16) < error(256) / 4


def test_streams_of_a_sample_depend_on_its_index_alone() -> None:
    network, x = small(), RNG.uniform(-1.5, 2.5, (600, 4))
    whole = network.forward_streams(x, 64, seed=5)
    assert np.array_equal(whole[:300], network.forward_streams(x[:300], 64, seed=5))
    assert np.array_equal(whole[300:], network.forward_streams(x[300:], 64, seed=5, first_sample=300))
    assert np.array_equal(whole[0], network.forward_streams(x[0], 64, seed=5))
    assert np.array_equal(whole, network.forward_streams(x, 64, "bernoulli", seed=5, device="cpu"))
    assert not np.array_equal(whole, network.forward_streams(x, 64, seed=6))


def test_names_may_have_capital_letters() -> None:
    x, _ = al.load_digits("Test")
    network = al.Network.digits("Plain")
    assert network == al.Network.digits("plain")
    expected = network.forward_streams(x, 32, "sobol", device="cpu", arithmetic="integer", sharing="input")
    again = network.forward_streams(x, 32, "Sobol", device="CPU", arithmetic="Integer", sharing="Input")  # type: ignore[arg-type]
    assert np.array_equal(expected, again)
    assert np.array_equal(al.encode([0.5], 64, polarity="Bipolar", generator="LFSR"), al.encode([0.5], 64, polarity="bipolar", generator="lfsr"))  # type: ignore[arg-type]
    found = al.evaluate(network, x, al.load_digits()[1], lengths=16, generators="SOBOL", device="Cpu")
    assert found.cells[0]["generator"] == "sobol" and found.shortest_within("Sobol", 100.0) == 16
    assert al.Layer([[1.0]], activation="ReLU", polarity="Signed") is not None  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"Fibonacci"'):
        al.encode([0.5], 64, generator="Fibonacci")


def test_digits() -> None:
    x, y = al.load_digits("train")
    assert x.shape == (1437, 64) and y.dtype == np.int64 and set(y) == set(range(10))
    for kind in ["noise-aware", "plain"]:
        assert (al.Network.digits(kind)(x).argmax(axis=1) == y).mean() > 0.95


def test_evaluate_equals_forward_streams() -> None:
    x, y = al.load_digits()
    seen: list[tuple[int, int, str, int, int]] = []
    found = al.evaluate(
        lengths=[16, 64], generators=["bernoulli", "sobol"], seeds=2, progress=lambda *at: seen.append(at)
    )
    assert found.complete and found.float_accuracy == 0.975
    assert {(row["generator"], row["length"]) for row in found.rows} == {
        (generator, length) for generator in ["bernoulli", "sobol"] for length in [16, 64]
    }
    assert len(found.cells) == 6
    network = al.Network.digits()
    for cell in found.cells:
        scores = network.forward_streams(x, cell["length"], cell["generator"], cell["seed"])
        assert (scores.argmax(axis=1) == y).mean() == pytest.approx(cell["accuracy"], abs=1e-12)
    assert seen and all(total == 6 and length in (16, 64) for _, total, _, length, _ in seen)
    assert "sobol" in str(found) and repr(found).startswith("Evaluation(network=")
    assert found.to_html().startswith("<!doctype html>") or "<html" in found.to_html()
    again = pickle.loads(pickle.dumps(found))
    assert json.loads(again.to_json()) == json.loads(found.to_json())


def test_evaluate_own_data_and_checkpoint(tmp_path: pathlib.Path) -> None:
    network, x = small(), RNG.uniform(-1.5, 2.5, (50, 4))
    y = network(x).argmax(axis=1)
    file = tmp_path / "found.json"
    options: dict[str, Any] = {"generators": ["sobol"], "checkpoint": file}
    found = al.evaluate(network, x, y, lengths=[64], **options)
    assert found.float_accuracy == 1.0
    more = al.evaluate(network, x, y, lengths=[64, 256], **options)
    # Finished cells are retained unchanged, including their times.
    assert more.cells[0] == found.cells[0] and len(more.cells) == 2
    assert al.Evaluation.from_json(file.read_text()).complete

    def stop(*_: object) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        al.evaluate(network, x, y, lengths=[64, 256, 512], progress=stop, **options)
    assert len(al.Evaluation.from_json(file.read_text()).cells) == 2


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: al.Network([]), ValueError, "a network needs at least one layer"),
        (lambda: al.Network([al.Layer([[1.0]]), al.Layer([[1.0, 2.0]])]), ValueError, "layer 1 (1) has 2 inputs, but"),
        (lambda: al.Network([al.Layer([1.0])]), ValueError, "weights have shape (1,), not (n_neurons, n_inputs)"),
        (lambda: al.Network([al.Layer([[float("nan")]])]), ValueError, "element 0 is NaN, which is not a finite 32-bit number"),
        (lambda: al.Network([al.Layer([[1.0]], [1.0, 2.0])]), ValueError, "bias has shape (2,); expected (1,)"),
        (lambda: al.Network([al.Layer([[1.0]], activation="tanh")]), ValueError, "activation is 'tanh', not"),
        (lambda: al.Network([al.Layer([[1.0]], activation=3)]), TypeError, "activation must be"),
        (lambda: al.Network([al.Layer([[1.0]], input_scale=0)]), ValueError, "input_scale is 0"),
        (lambda: al.Network([object()]), TypeError, "layer 0 is a object, not an aleatron.Layer"),
        (lambda: al.Network.digits("x"), ValueError, 'kind is "x"'),
        (lambda: al.Network.from_state_dict({"0.bias": [1.0]}), ValueError, 'no layer uses "0.bias"'),
        (lambda: al.Network.from_state_dict({}), ValueError, "at least one layer"),
        (lambda: al.Network.from_state_dict([1.0]), TypeError, "state must be a dict of arrays by name"),
        (lambda: small()([0.0] * 3), ValueError, "x has shape (3,); expected (N, 4), or one sample"),
        (lambda: small()([0.0, float("nan"), 0.0, 0.0]), ValueError, "sample 0, feature 1 is NaN"),
        (lambda: small().forward_streams([9.0] * 4, 64), ValueError, "sample 0, feature 0 is 9, not in [-1.5, 2.5]"),
        (lambda: small().forward_streams([0.0] * 4, 0), ValueError, "stream length must be at least 1"),
        (lambda: small().forward_streams([0.0] * 4, 64, "fibonacci"), ValueError, "fibonacci"),
        (lambda: small().forward_streams([0.0] * 4, 64, ["sobol"]), ValueError, "generator must have one name for each of the 2 layers"),
        (lambda: small().forward_streams([0.0] * 4, 64, sharing="x"), ValueError, '"x" is not a sharing: use all, input or stream'),
        (lambda: al.evaluate(x=[[1.0]]), ValueError, "give both x and y"),
        (lambda: al.evaluate(small(), [[0.0] * 4], [7]), ValueError, "7"),
        (lambda: al.evaluate(small(), [[0.0] * 4], [-1]), ValueError, "the label of sample 0 is -1, not a class counted from 0"),
        (lambda: al.evaluate(small(), [[0.0] * 4], [0, 1]), ValueError, "y has shape (2,); expected (1,)"),
        (lambda: al.evaluate(small(), [0.0] * 4, [0]), ValueError, "x has shape (4,), not (samples, features)"),
        (lambda: al.evaluate(lengths=[]), ValueError, "lengths"),
        (lambda: al.evaluate(lengths=[0]), ValueError, "stream length"),
        (lambda: al.Evaluation.from_json("{}"), ValueError, "evaluation: missing field"),
        (lambda: al.load_digits("x"), ValueError, 'part is "x"'),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        call()


@pytest.mark.timeout(120)
def test_killed_process_leaves_finished_cells(tmp_path: pathlib.Path) -> None:
    program = """
import os, signal, sys
import aleatron as al
def progress(done, *_):
    if done == 5:
        os.kill(os.getpid(), signal.SIGKILL)
CALL
"""
    x = "al.load_digits()[0]"
    for name, call in [
        ("classes", "al.evaluate(ASKED)"),
        ("targets", f"al.evaluate_regression(al.Network.digits(), {x}, al.Network.digits()({x}), ASKED)"),
    ]:
        file = tmp_path / f"{name}.json"
        asked = "generators='bernoulli', lengths=[8, 16, 32], seeds=3, checkpoint=sys.argv[1], progress=progress, device='cpu'"
        text = program.replace("CALL", call.replace("ASKED", asked))
        done = subprocess.run([sys.executable, "-c", text, file], capture_output=True, timeout=60)
        assert done.returncode == -signal.SIGKILL, done.stderr
        found = al.Evaluation.from_json(file.read_text())
        # Writing takes at most a twentieth of the time, so the last ones may be missing.
        assert 1 <= len(found.cells) <= 5 and not found.complete


@pytest.mark.timeout(120)
def test_second_call_cannot_write_a_checkpoint(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"
    call = "import sys, aleatron as al; al.evaluate(lengths=8, generators='sobol', checkpoint=sys.argv[1], device='cpu')"
    refused: list[str] = []

    def progress(*_: object) -> None:
        if not refused:
            done = subprocess.run([sys.executable, "-c", call, file], capture_output=True, text=True, timeout=60)
            refused.append(done.stderr)
            with pytest.raises(BlockingIOError):
                al.evaluate(lengths=8, generators="sobol", checkpoint=file, device="cpu")

    al.evaluate(lengths=[8, 16], generators="sobol", checkpoint=file, progress=progress, device="cpu")
    assert "BlockingIOError" in refused[0] and f"process {os.getpid()} is writing" in refused[0]
    # The lock ends with the call, also one that fails, and leaves no file.
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    with pytest.raises(ValueError):
        al.evaluate(lengths=8, generators="sobol", checkpoint=file, network=al.Network.digits("cnn"), device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]
    al.evaluate(lengths=32, generators="sobol", checkpoint=file, device="cpu")


@pytest.mark.timeout(120)
def test_ctrl_c_saves_finished_cells(tmp_path: pathlib.Path) -> None:
    program = """
import sys
import aleatron as al
def progress(done, *_):
    print(done, flush=True)
try:
    al.evaluate(generators=["bernoulli"], lengths=[2**n for n in range(3, 20)], seeds=50, checkpoint=sys.argv[1],
                progress=progress, device="cpu")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    file = tmp_path / "found.json"
    child = subprocess.Popen([sys.executable, "-c", program, file], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        while int(child.stdout.readline()) < 3:
            pass
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        lines = child.stdout.read().split()
        assert lines[-1] == "interrupted" and time.monotonic() - start < 30
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    found = al.Evaluation.from_json(file.read_text())
    assert not found.complete and len(found.cells) >= 3
