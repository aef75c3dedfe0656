"""Makes cnn.onnx, a small network for the 8x8 digits, with the packages onnx and scikit-learn: python make_cnn.py cnn.onnx

Sixteen random kernels of 3x3 with batch normalisation, relu and pooling, and a logistic regression trained on their outputs.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

random = np.random.default_rng(0)
kernels = random.normal(size=(16, 1, 3, 3)).astype(np.float32) / 3
bias = (random.normal(size=16) / 10).astype(np.float32)


def features(x: np.ndarray) -> np.ndarray:
    image = np.pad(x.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    taps = [(i, j, image[:, i : i + 8, j : j + 8]) for i in range(3) for j in range(3)]
    maps = np.stack([sum(kernels[c, 0, i, j] * part for i, j, part in taps) + bias[c] for c in range(16)], 1)
    return np.maximum(maps, 0).reshape(-1, 16, 4, 2, 4, 2).max((3, 5)).reshape(len(x), -1)


digits = load_digits()
model = LogisticRegression(max_iter=500).fit(features(digits.data[:1437] / 16), digits.target[:1437])
ones = np.ones(16, np.float32)
constants = {
    # Twice as large, for a batch normalisation that halves them.
    "kernels": 2 * kernels,
    "kernel_bias": 2 * bias,
    "scale": ones / 2,
    "shift": 0 * ones,
    "mean": 0 * ones,
    "variance": ones,
    "weights": model.coef_.astype(np.float32),
    "bias": model.intercept_.astype(np.float32),
}
nodes = [
    helper.make_node("Conv", ["x", "kernels", "kernel_bias"], ["maps"], name="conv", pads=[1, 1, 1, 1]),
    helper.make_node("BatchNormalization", ["maps", "scale", "shift", "mean", "variance"], ["normal"], name="norm", epsilon=0.0),
    helper.make_node("Relu", ["normal"], ["positive"], name="relu"),
    helper.make_node("MaxPool", ["positive"], ["pooled"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
    helper.make_node("Flatten", ["pooled"], ["flat"], name="flatten"),
    helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], name="classes", transB=1),
]
graph = helper.make_graph(
    nodes,
    "cnn",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
    [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
    [numpy_helper.from_array(values, name) for name, values in constants.items()],
)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), sys.argv[1])
