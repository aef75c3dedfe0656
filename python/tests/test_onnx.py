"""Networks written as ONNX files, checked by ONNX's own checker and by onnxruntime."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import aleatron as al
from aleatron import _core

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="onnx and onnxruntime have no wheels")

X, Y = al.load_digits()


def runtime(model: bytes, x: np.ndarray) -> np.ndarray:
    """What onnxruntime makes of a model that the checker accepts."""
    import onnx
    import onnxruntime

    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    scores = session.run(None, {given.name: x.astype(np.float32)})[0]
    return np.asarray(scores, np.float64).reshape(len(x), -1)


def compare(model: bytes, x: np.ndarray, expected: np.ndarray, most: float) -> None:
    """Checks that another program's outputs, and Aleatron's after reading, are within a meaningful bound."""
    bound = _core._rounding_bound(model, x)
    assert bound is not None
    bound = bound.reshape(expected.shape)
    assert 0 < bound.max() < most
    assert (np.abs(runtime(model, x) - expected) <= bound).all()
    network = al.Network.from_onnx(model)
    assert (np.abs(network(x) - expected) <= bound).all()
    assert al.Network.from_onnx(network.to_onnx()) == network
    assert np.array_equal(al.Network.from_onnx(network.to_onnx())(x), network(x))
    assert (np.abs(runtime(network.to_onnx(), x) - expected) <= bound).all()


@pytest.mark.parametrize("kind", ["noise-aware", "plain", "cnn"])
def test_embedded_networks(kind: Any) -> None:
    network = al.Network.digits(kind)
    x = X.reshape(-1, 1, 8, 8) if kind == "cnn" else X
    compare(network.to_onnx(), x, network(X), 0.1)


def test_a_chain_of_dense_layers() -> None:
    rng = np.random.default_rng(0)
    layers = [
        al.Layer(rng.normal(size=(9, 6)), rng.normal(size=9), (-0.5, 2.0), "signed", 3.0, name="first"),
        al.Layer(rng.normal(size=(4, 9)), activation="relu", name="second"),
        al.Layer(rng.normal(size=(1, 4)), [0.25], name="third"),
    ]
    network = al.Network(layers, "chain", offset=2.0, scale=0.5)
    x = rng.normal(size=(50, 6)).astype(np.float32).astype(np.float64)
    compare(network.to_onnx(), x, network(x), 0.01)
    read = al.Network.from_onnx(network.to_onnx())
    assert read.layer_names == ["first", "second", "third"] and read.n_classes == 2
    assert [layer.input_scale for layer in read.layers] == [3.0, 1.0, 1.0]
    assert [layer.polarity for layer in read.layers] == ["signed", "bipolar", "bipolar"]
    assert read.layers == network.layers and read == network


def test_numbers_too_large_for_32_bits() -> None:
    with pytest.raises(ValueError, match=r"huge.weight.*element 0 is 1.*, which is not a finite 32-bit number"):
        al.Network([al.Layer([[1e300, 1.0]], name="huge")])


def graph_of(nodes: list[Any], constants: dict[str, np.ndarray], sample: list[int], opset: int = 17, outputs: Any = ("n", "m")) -> bytes:
    """A model of nodes from x to y."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *sample])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return bytes(model.SerializeToString())


def test_a_graph_with_branches() -> None:
    from onnx import helper

    rng = np.random.default_rng(1)
    floats = {
        "w1": rng.normal(size=(6, 3, 3, 3)) / 27,
        "gamma": rng.normal(size=6),
        "beta": rng.normal(size=6),
        "mean": rng.normal(size=6),
        "variance": rng.uniform(0.5, 1, 6),
        "w2": rng.normal(size=(6, 3, 3, 3)) / 27,
        "b2": rng.normal(size=6),
        "w3": rng.normal(size=(6, 5)) / 6,
        "half": np.array(0.5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="one", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c1", "gamma", "beta", "mean", "variance"], ["n1"]),
        helper.make_node("LeakyRelu", ["n1"], ["r1"], alpha=0.125),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="two", group=2, pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["r1", "c2"], ["s"]),
        helper.make_node("Tanh", ["s"], ["t"]),
        helper.make_node("AveragePool", ["t"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMean", ["p"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("Dropout", ["m", "half"], ["d"]),
        helper.make_node("MatMul", ["d", "w3"], ["z"], name="three"),
        helper.make_node("Clip", ["z", "", "half"], ["q"]),
        helper.make_node("Softmax", ["q"], ["y"], axis=-1),
    ]
    constants = {name: values.astype(np.float32) for name, values in floats.items()}
    model = graph_of(nodes, constants, [3, 8, 8])
    x = rng.uniform(-1, 1, (5, 3, 8, 8)).astype(np.float32)
    compare(model, x, runtime_unchecked(model, x), 0.1)
    network = al.Network.from_onnx(model, "branches")
    assert network.layer_names == ["one", "two", "three"] and network.name == "branches"
    scores = network.calibrated(x).forward_streams(x, 2048, "sobol")
    assert np.abs(scores - network(x)).max() < 0.05


def runtime_unchecked(model: bytes, x: np.ndarray) -> np.ndarray:
    """As `runtime`, of a model whose output has no shape."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0], np.float64).reshape(len(x), -1)


def test_old_forms_are_written_as_new_ones() -> None:
    from onnx import helper

    weights = np.random.default_rng(2).normal(size=(12, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Pad", ["x"], ["a"], pads=[0, 1, 0, 0, 0, 0], value=0.5),
        helper.make_node("Slice", ["a"], ["b"], starts=[0], ends=[4], axes=[1]),
        helper.make_node("Unsqueeze", ["b"], ["c"], axes=[1]),
        helper.make_node("Clip", ["c"], ["d"], min=-1.0, max=1.0),
        helper.make_node("Squeeze", ["d"], ["e"], axes=[1]),
        helper.make_node("ReduceMax", ["e"], ["f"], axes=[2], keepdims=1),
        helper.make_node("Sub", ["e", "f"], ["g"]),
        helper.make_node("Softmax", ["g"], ["h"], axis=1),
        helper.make_node("Flatten", ["h"], ["i"]),
        helper.make_node("MatMul", ["i", "w"], ["y"], name="product"),
    ]
    x = np.random.default_rng(3).normal(size=(6, 5, 3)).astype(np.float32)
    # An unknown shape is determined when the graph is written.
    model = graph_of(nodes, {"w": weights}, [5, 3], opset=9, outputs=None)
    expected = runtime_unchecked(model, x)
    network = al.Network.from_onnx(model)
    assert np.abs(network(x) - expected).max() < 1e-6
    written = network.to_onnx()
    assert np.abs(runtime(written, x) - expected).max() < 1e-6
    assert np.array_equal(al.Network.from_onnx(written)(x), network(x))
    # What is written once is written the same again.
    assert al.Network.from_onnx(written).to_onnx() == written


def test_operators_that_are_not_known_are_listed() -> None:
    from onnx import helper

    nodes = [
        helper.make_node("Scan2", ["x"], ["a"], domain="some.where"),
        helper.make_node("StringNormalizer", ["a"], ["y"]),
    ]
    with pytest.raises(ValueError, match="2 operators.*StringNormalizer.*Scan2|2 operators.*Scan2.*StringNormalizer"):
        al.Network.from_onnx(graph_of(nodes, {}, [4]))


def two_inputs() -> bytes:
    """A model that computes x * z + shift, with a symbolic size and two outputs."""
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "width"]) for name in ("x", "z")]
    inputs.append(helper.make_tensor_value_info("shift", TensorProto.FLOAT, []))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", "width"]) for name in ("y", "product")]
    nodes = [helper.make_node("Mul", ["x", "z"], ["product"]), helper.make_node("Add", ["product", "shift"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "two", inputs, outputs), ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    return bytes(model.SerializeToString())


def test_constants_of_inputs_and_symbolic_sizes(tmp_path: Any) -> None:
    (tmp_path / "two.onnx").write_bytes(two_inputs())
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    z = np.array([2.0, 0.5, -1.0])
    for read in (al.Network.load, al.Network.from_onnx):
        network = read(tmp_path / "two.onnx", inputs={"z": z, "shift": 0.25}, sizes={"width": 3})
        assert network.input_shape == (3,) and np.array_equal(network(x), x * z + 0.25)
        product = read(tmp_path / "two.onnx", inputs={"z": z}, sizes={"width": 3}, output="product")
        assert np.array_equal(product(x), x * z)
        both = read(tmp_path / "two.onnx", inputs={"shift": 1}, sizes={"width": 3})
        assert both.n_features == 6 and np.array_equal(both(np.hstack([x, x])), x * x + 1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"inputs": {"shift": 0.25}}, "size of axis 1"),
        ({"inputs": {"shift": 0.25, "none": 1.0}, "sizes": {"width": 3}}, "none"),
        ({"inputs": {"shift": 0.25, "z": np.ones(4)}, "sizes": {"width": 3}}, "shape"),
        ({"inputs": {"shift": 0.25}, "sizes": {"height": 3}}, "height"),
        ({"inputs": {"shift": 0.25}, "sizes": {"width": -1}}, "not in"),
        ({"inputs": {"shift": 0.25}, "sizes": {"width": 3}, "output": "w"}, "w"),
        ({"sizes": {"width": 3}}, "shift"),
    ]
    for asked, said in cases:
        with pytest.raises(ValueError, match=said):
            al.Network.load(tmp_path / "two.onnx", **asked)
    with pytest.raises(TypeError, match="must hold real numbers"):
        al.Network.load(tmp_path / "two.onnx", inputs={"z": ["a"]}, sizes={"width": 3})


def test_external_data_are_beside_the_file(tmp_path: Any) -> None:
    import onnx

    model = onnx.load_from_string(al.Network.digits().to_onnx())
    onnx.save_model(model, tmp_path / "model.onnx", save_as_external_data=True, size_threshold=16, location="weights.bin")
    network = al.Network.from_onnx(tmp_path / "model.onnx")
    assert np.array_equal(network(X), al.Network.from_onnx(al.Network.digits().to_onnx())(X))
    with pytest.raises(ValueError, match="read the model from its file"):
        al.Network.from_onnx((tmp_path / "model.onnx").read_bytes())


@pytest.mark.parametrize("broken", ["no bound", "bound"])
def test_bounds_of_rounding(broken: str) -> None:
    from onnx import helper

    ones = np.ones(4, np.float32)
    if broken == "no bound":
        nodes = [helper.make_node("LayerNormalization", ["x", "w"], ["y"])]
        assert _core._rounding_bound(graph_of(nodes, {"w": ones}, [4]), np.ones((2, 4))) is None
    else:
        # A sum that cancels: the bound is that of its magnitudes, not of its value.
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        weights = np.array([[1.0], [-1.0], [1.0], [-1.0]], np.float32)
        bound = _core._rounding_bound(graph_of(nodes, {"w": weights}, [4]), np.full((1, 4), 3.0))
        assert bound is not None
        unit = 2.0**-24
        assert 2 * 4 * unit * 12 <= bound[0] <= 2 * 10 * unit * 12
