"""Writes networks with random weights as cases, with onnxruntime's outputs and the error that rounding allows.

    python networks.py FOLDER

The bound is derived, not guessed. All layers here are linear, or do not increase an error (relu, max pooling), or average. With u = 2^-24, a
sum of n products of 32-bit floats in any order is off by at most ((1 + u)^n - 1) times the sum of the magnitudes of its products. Layer
after layer the exponents add up, so an output of the whole network is off by at most ((1 + u)^N - 1) M, where N adds up the roundings of each
layer along the longest path, and M is the output of the network of magnitudes: absolute weights, absolute inputs, every subtraction an
addition. Two programs differ by at most twice that.
"""

from __future__ import annotations

import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 21


class Builder:
    """A graph that grows by a layer at a time."""

    def __init__(self, seed: int, shape: list[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shape, self.last, self.roundings = shape, "x", 0

    def constant(self, values: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = values.astype(np.float32)
        return name

    def normal(self, *shape: int) -> np.ndarray:
        # Rows of magnitudes that add up to about 1 keep the network of magnitudes, and with it the bound, small.
        return self.random.normal(size=shape) / np.prod(shape[1:])

    def add(self, op: str, inputs: list[str], roundings: int, **attributes: object) -> str:
        self.last, self.roundings = f"v{len(self.nodes)}", self.roundings + roundings
        self.nodes.append(helper.make_node(op, inputs, [self.last], **attributes))
        return self.last

    def conv(self, channels: int, out: int, kernel: int, **attributes: object) -> str:
        groups = int(attributes.get("group", 1))
        w = self.constant(self.normal(out, channels // groups, kernel, kernel))
        b = self.constant(self.normal(out))
        return self.add("Conv", [self.last, w, b], channels // groups * kernel * kernel + 1, kernel_shape=[kernel, kernel], **attributes)

    def norm(self, channels: int) -> str:
        scale, shift, mean = (self.constant(self.normal(channels)) for _ in range(3))
        variance = self.constant(np.abs(self.normal(channels)) + 0.5)
        # A sum, a root, a division, a difference, a product and a sum; folded, a product and a sum per weight more.
        return self.add("BatchNormalization", [self.last, scale, shift, mean, variance], 8)

    def gemm(self, n: int, m: int) -> str:
        w, b = self.constant(self.normal(m, n)), self.constant(self.normal(m))
        return self.add("Gemm", [self.last, w, b], n + 1, transB=1)

    def model(self, dtype: int, magnitudes: bool) -> onnx.ModelProto:
        numpy_type = helper.tensor_dtype_to_np_dtype(dtype)
        constants = {name: values.astype(numpy_type) for name, values in self.constants.items()}
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        if magnitudes:
            for node in nodes:
                if node.op_type == "BatchNormalization":
                    # The variance is positive; a mean that is subtracted adds to magnitudes.
                    constants[node.input[3]] = -np.abs(constants[node.input[3]])
                    constants |= {name: np.abs(constants[name]) for name in node.input[1:3]}
                else:
                    constants |= {name: np.abs(constants[name]) for name in node.input if name in constants}
        graph = helper.make_graph(
            nodes,
            "network",
            [helper.make_tensor_value_info("x", dtype, ["n", *self.shape])],
            [helper.make_tensor_value_info(self.last, dtype, ["n", "classes"])],
            [numpy_helper.from_array(values, name) for name, values in constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def mlp() -> Builder:
    b = Builder(1, [40])
    for n, m in [(40, 64), (64, 32), (32, 10)]:
        b.gemm(n, m)
        b.add("Relu", [b.last], 0)
    return b


def lenet() -> Builder:
    b = Builder(2, [1, 28, 28])
    b.conv(1, 6, 5, pads=[2, 2, 2, 2])
    b.add("Relu", [b.last], 0)
    b.add("MaxPool", [b.last], 0, kernel_shape=[2, 2], strides=[2, 2])
    b.conv(6, 16, 5)
    b.add("Relu", [b.last], 0)
    b.add("AveragePool", [b.last], 5, kernel_shape=[2, 2], strides=[2, 2])
    b.add("Flatten", [b.last], 0)
    for n, m in [(400, 120), (120, 84), (84, 10)]:
        b.gemm(n, m)
    return b


def residual() -> Builder:
    b = Builder(3, [3, 16, 16])
    b.conv(3, 8, 3, pads=[1, 1, 1, 1])
    b.norm(8)
    b.add("Relu", [b.last], 0)
    for stride in (1, 2):
        before = b.last
        b.conv(8, 8, 3, pads=[1, 1, 1, 1], strides=[stride, stride])
        b.norm(8)
        b.add("Relu", [b.last], 0)
        b.conv(8, 8, 3, pads=[1, 1, 1, 1], group=4)
        b.norm(8)
        path = b.last
        b.last = before
        side = before if stride == 1 else b.conv(8, 8, 1, strides=[stride, stride])
        b.add("Add", [path, side], 1)
        b.add("Relu", [b.last], 0)
    b.add("GlobalAveragePool", [b.last], 65)
    b.add("Flatten", [b.last], 0)
    b.gemm(8, 10)
    return b


def main(target: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    for make in (mlp, lenet, residual):
        b = make()
        x = np.random.default_rng(4).normal(size=(3, *b.shape)).astype(np.float32)
        model = b.model(TensorProto.FLOAT, magnitudes=False)
        onnx.checker.check_model(model)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, {"x": x})[0]
        sizes = ReferenceEvaluator(b.model(TensorProto.DOUBLE, magnitudes=True)).run(None, {"x": np.abs(x).astype(np.float64)})[0]
        bound = 2 * ((1 + 2.0**-24) ** b.roundings - 1) * sizes
        folder = os.path.join(target, make.__name__)
        os.makedirs(folder)
        with open(os.path.join(folder, "model.onnx"), "wb") as file:
            file.write(model.SerializeToString())
        for name, values in {"input_0": x, "output_0": expected, "bound_0": bound.astype(np.float32)}.items():
            with open(os.path.join(folder, f"{name}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(values).SerializeToString())
        print(f"{make.__name__}: {b.roundings} roundings, outputs up to {np.abs(expected).max():.2g}, bound up to {bound.max():.2g}")


if __name__ == "__main__":
    main(sys.argv[1])
