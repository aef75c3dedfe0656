"""Writes the test cases that come with the package `onnx` into a folder, one folder per case.

    python export.py FOLDER

A case is `model.onnx`, `input_K.pb`, `output_K.pb` and `tolerance.json`. Node cases are those that are not "expanded" and whose
graphs take and give tensors of float32, bool and integers of 8 to 64 bits alone; model cases are the ones that the package has on disk.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import warnings

warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto, numpy_helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

TYPES = {
    TensorProto.FLOAT,
    TensorProto.BOOL,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
    TensorProto.UINT64,
}
DOMAINS = {"", "ai.onnx", "ai.onnx.ml"}


def is_plain(model: onnx.ModelProto) -> bool:
    """Returns whether inputs and outputs of a graph are tensors of these types only, with operators of ONNX itself and of classical machine learning."""
    values = [*model.graph.input, *model.graph.output]
    return all(
        value.type.HasField("tensor_type") and value.type.tensor_type.elem_type in TYPES for value in values
    ) and all(node.domain in DOMAINS for node in model.graph.node)


def atol(case: object) -> float:
    """Returns the absolute tolerance of a result. The expected values of transforms were computed in 32 bits: they are off by units of
    the largest one."""
    is_transform = any(node.op_type in ("DFT", "STFT") for node in case.model.graph.node)
    if not is_transform:
        return case.atol
    largest = max(float(np.abs(value).max()) for inputs, outputs in case.data_sets for value in (inputs[0], *outputs))
    return case.atol + 4 * largest * 2.0**-23


def write(folder: str, model: bytes, inputs: list[bytes], outputs: list[bytes], rtol: float, absolute: float) -> None:
    os.makedirs(folder)
    files = {"model.onnx": model, "tolerance.json": json.dumps({"rtol": rtol, "atol": absolute}).encode()}
    files |= {f"input_{k}.pb": data for k, data in enumerate(inputs)}
    files |= {f"output_{k}.pb": data for k, data in enumerate(outputs)}
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def tensor(value: np.ndarray | TensorProto) -> bytes:
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    return numpy_helper.from_array(np.asarray(value)).SerializeToString()


def main(target: str) -> None:
    shutil.rmtree(target, ignore_errors=True)
    nodes = 0
    for case in collect_testcases(None):
        if "expanded" in case.name or not is_plain(case.model):
            continue
        for k, (inputs, outputs) in enumerate(case.data_sets):
            # An input that a graph leaves out has no tensor.
            given = [value for value in inputs if value is not None]
            folder = os.path.join(target, "node", case.name if k == 0 else f"{case.name}_{k}")
            write(
                folder,
                case.model.SerializeToString(),
                [tensor(value) for value in given],
                [tensor(value) for value in outputs],
                case.rtol,
                atol(case),
            )
        nodes += 1
    models = 0
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for path in sorted(glob.glob(os.path.join(data, "*", "test_*", "model.onnx"))):
        source = os.path.dirname(path)
        read = lambda pattern: [open(name, "rb").read() for name in sorted(glob.glob(os.path.join(source, pattern)))]  # noqa: E731
        sets = sorted(glob.glob(os.path.join(source, "test_data_set_*")))
        first = os.path.basename(sets[0]) if sets else "test_data_set_0"
        write(
            os.path.join(target, "model", os.path.basename(source)),
            open(path, "rb").read(),
            read(os.path.join(first, "input_*.pb")),
            read(os.path.join(first, "output_*.pb")),
            1e-3,
            1e-7,
        )
        models += 1
    print(f"onnx {onnx.__version__}: {nodes} node cases, {models} model cases in {target}")


if __name__ == "__main__":
    main(sys.argv[1])
