"""Neural networks as streams of random bits, bit for bit the same on every processor.

A number in [0, 1] is a stream whose share of ones is the number. AND multiplies two streams and counting ones adds
products, so a layer is an AND and a count:

>>> import aleatron as al
>>> layer = al.DenseLayer(n_inputs=64, n_neurons=32, length=1024)
>>> layer([0.5] * 64).shape
(32,)

- `DenseLayer` and `SparseLayer`: layers over given or random weights;
- `encode`, `decode`, `pack`, `unpack`, `popcount` and the gates: streams as packed uint64 arrays;
- `lif_run` and its relatives, `FixedPointLif`: fixed-point neurons;
- `Network`, `Layer`, `evaluate`: networks, and how accurate they are as streams;
- `simd_tier`, `set_num_threads`, `get_num_threads`, `set_draw_memory`, `get_draw_memory`, `gpus`: how it runs, which never
  changes what it computes;
- `aleatron.compat`: the names of `sc_neurocore_engine`.
"""

import os as _os

from aleatron._core import (
    DenseLayer,
    Evaluation,
    FixedPointLif,
    Network,
    SparseLayer,
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
from aleatron._devices import Gpu, gpus
from aleatron._network import Layer, evaluate, load_digits
from aleatron._streams import (
    and_,
    decode,
    hamming_distance,
    mux,
    not_,
    or_,
    popcount,
    xnor,
    xor,
)

__all__ = [
    "DenseLayer",
    "Evaluation",
    "FixedPointLif",
    "Gpu",
    "Layer",
    "Network",
    "SparseLayer",
    "__version__",
    "and_",
    "decode",
    "encode",
    "evaluate",
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
    "set_draw_memory",
    "set_num_threads",
    "simd_tier",
    "unpack",
    "xnor",
    "xor",
]

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
