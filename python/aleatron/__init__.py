"""Neural networks as streams of random bits, bit for bit the same on every processor.

A number in [0, 1] is a stream whose share of ones is the number. AND multiplies two streams and counting ones adds
products, so a layer is an AND and a count:

>>> import aleatron as al
>>> layer = al.DenseLayer(n_inputs=64, n_neurons=32, length=1024)
>>> layer([0.5] * 64).shape
(32,)

- `DenseLayer`, `SparseLayer` and `ConvLayer`: layers over given or random weights; `CudaArray`: their results on a CUDA device;
- `encode`, `decode`, `pack`, `unpack`, `popcount`, the gates, `scc` and `zce`: streams as packed uint64 arrays;
- `lif_run` and its relatives, `FixedPointLif`: fixed-point neurons;
- `Network`, `Layer`, `NetworkLayer`, `StreamNetwork`, `evaluate`, `find`, `explore`: networks of layers, ONNX files, torch and scikit-learn, how
  accurate they are as streams, and how short the streams may be; `train`: fine-tuning for short streams;
- `Circuit`: the circuit of a network, its integers, its Verilog and its cost;
- `Transformer`: language models from Hugging Face files; `evaluate_language_model`: their loss as streams;
- `StreamClassifier`: a scikit-learn classifier whose network runs as streams;
- `simd_tier`, `set_num_threads`, `get_num_threads`, `set_draw_memory`, `get_draw_memory`, `gpus`: how it runs, which never
  changes what it computes;
- `aleatron.tensor`: float tensors on the CPU and on GPUs, by the Python array API standard;
- `aleatron.compat`: the names of `sc_neurocore_engine`;
- `aleatron.cluster`: evaluations and layers on several processes and machines;
- `aleatron.accel`: the same bits in NumPy, CuPy, JAX and Numba, and over MPI;
- `aleatron.torch`: layers of torch as streams, with gradients; it needs torch.
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

if "MESA_VK_DEVICE_SELECT" not in _os.environ:
    # Keeps a layer of Mesa's from complaining, on standard error, that a headless machine has no desktop.
    _os.environ.setdefault("NODEVICE_SELECT", "1")

try:
    from aleatron._core import (
        Circuit,
        ConvLayer,
        DenseLayer,
        FixedPointLif,
        Network,
        SparseLayer,
        StreamLayer,
        StreamNetwork,
        Transformer,
        __version__,
        _after_fork,
        encode,
        get_draw_memory,
        get_num_threads,
        lif_run,
        lif_run_multi,
        lif_run_varying,
        pack,
        set_draw_memory,
        set_num_threads,
        simd_tier,
        unpack,
    )
except ImportError as _error:
    # `aleatron.accel` and one layer of `aleatron.compat` run on NumPy without the extension; everything else raises an error when it is used.
    _why_no_core: str | None = str(_error)
else:
    _why_no_core = None
    from aleatron import cluster as cluster
    from aleatron._cuda import CudaArray
    from aleatron._devices import Gpu, gpus
    from aleatron._evaluation import Evaluation, evaluate, evaluate_regression, load_digits
    from aleatron._explore import Design, Exploration, explore
    from aleatron._find import Found, Trial, find
    from aleatron._language import HeadStop, LanguageEvaluation, LanguageRow, evaluate_language_model
    from aleatron._network import Layer, NetworkLayer
    from aleatron._sklearn import from_sklearn as _from_sklearn
    from aleatron._streams import (
        and_,
        decode,
        hamming_distance,
        mux,
        not_,
        or_,
        popcount,
        scc,
        xnor,
        xor,
        zce,
    )
    from aleatron._torch import from_torch as _from_torch
    from aleatron._train import Epoch, Score, Trained, train

    # Objects of scikit-learn and torch are read in Python, so these methods of the extension's class are.
    setattr(Network, "from_sklearn", staticmethod(_from_sklearn))
    setattr(Network, "from_torch", staticmethod(_from_torch))

    if hasattr(_os, "register_at_fork"):
        _os.register_at_fork(after_in_child=_after_fork)

# Imported at their first use.
_SUBMODULES = ("accel", "cluster", "compat", "tensor")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})


if _TYPE_CHECKING:
    from aleatron._stream_classifier import StreamClassifier
elif _why_no_core is None:

    def __getattr__(name: str) -> object:
        # Not in `__dir__`: without torch, tools that access every name would fail.
        if name in _SUBMODULES or name == "torch":
            return _importlib.import_module(f"{__name__}.{name}")
        if name != "StreamClassifier":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # scikit-learn is optional, and takes long to import.
        from aleatron._sklearn import stream_classifier

        globals()[name] = found = stream_classifier()
        return found

else:
    from importlib import metadata as _metadata

    try:
        __version__ = _metadata.version("aleatron")
    except _metadata.PackageNotFoundError:
        __version__ = "unknown"

    def __getattr__(name: str) -> object:
        if name in ("accel", "compat"):
            return _importlib.import_module(f"{__name__}.{name}")
        if name in __all__ or name in _SUBMODULES or name in ("_core", "torch"):
            raise ImportError(
                f"aleatron.{name} needs the compiled extension aleatron._core, which cannot be imported: {_why_no_core}. "
                "Only aleatron.accel, on NumPy and what else it finds, and aleatron.compat.VectorizedSCLayer run without it"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Circuit",
    "ConvLayer",
    "CudaArray",
    "DenseLayer",
    "Design",
    "Epoch",
    "Evaluation",
    "Exploration",
    "FixedPointLif",
    "Found",
    "Gpu",
    "HeadStop",
    "LanguageEvaluation",
    "LanguageRow",
    "Layer",
    "Network",
    "NetworkLayer",
    "Score",
    "SparseLayer",
    "StreamClassifier",
    "StreamLayer",
    "StreamNetwork",
    "Trained",
    "Transformer",
    "Trial",
    "__version__",
    "and_",
    "decode",
    "encode",
    "evaluate",
    "evaluate_language_model",
    "evaluate_regression",
    "explore",
    "find",
    "get_draw_memory",
    "get_num_threads",
    "gpus",
    "hamming_distance",
    "lif_run",
    "lif_run_multi",
    "lif_run_varying",
    "load_digits",
    "mux",
    "not_",
    "or_",
    "pack",
    "popcount",
    "scc",
    "set_draw_memory",
    "set_num_threads",
    "simd_tier",
    "train",
    "unpack",
    "xnor",
    "xor",
    "zce",
]
