"""Errors are Python's built-in exceptions, with the value and its index."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aleatron as al

LAYER = al.DenseLayer(3, 2, length=64)
NAN, INF = float("nan"), float("inf")

CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: LAYER([0.1, NAN, 0.2]), ValueError, "value at index 1 is nan, not in [0, 1]"),
    (lambda: LAYER([0.1, 0.1, -0.2]), ValueError, "value at index 2 is -0.2, not in [0, 1]"),
    (lambda: LAYER([[0.1, 0.2, 0.3], [0.1, INF, 0.2]]), ValueError, "value at index (1, 1) is inf, not in [0, 1]"),
    (lambda: LAYER([0.1, 0.2]), ValueError, "x has shape (2,); expected (3,) for a sample or (N, 3) for a batch"),
    (lambda: LAYER(0.5), ValueError, "x has shape (); expected (3,)"),
    (lambda: LAYER(np.zeros((2, 2, 3))), ValueError, "x has shape (2, 2, 3); expected (3,)"),
    (lambda: LAYER([]), ValueError, "x has shape (0,); expected (3,)"),
    (lambda: LAYER([0, 0, 0], seed=-1), ValueError, "seed is -1, not in [0, 2**64)"),
    (lambda: LAYER([0, 0, 0], seed=2**64), ValueError, "seed is 18446744073709551616, not in [0, 2**64)"),
    (lambda: LAYER([0, 0, 0], seed=1.5), TypeError, "'float' object"),
    (lambda: LAYER([0, 0, 0], seed=None), TypeError, "'NoneType' object"),
    (lambda: al.DenseLayer(0, 2), ValueError, "number of inputs must be at least 1"),
    (lambda: al.DenseLayer(2, 0), ValueError, "number of neurons must be at least 1"),
    (lambda: al.DenseLayer(2, 2, length=0), ValueError, "stream length must be at least 1"),
    (lambda: al.DenseLayer(2, 2, length=2**35), ValueError, "stream length is 34359738368, the maximum is 17179869184"),
    (lambda: al.DenseLayer(-1, 2), ValueError, "n_inputs is -1, not in [0, 2**63)"),
    (lambda: al.DenseLayer(2**70, 2), ValueError, "n_inputs is 1180591620717411303424"),
    (lambda: al.DenseLayer(2**31, 2**31), MemoryError, "weights would take"),
    (lambda: al.DenseLayer(10**6, 10**6, length=1), MemoryError, "weights would take 16000000000000 bytes"),
    (lambda: al.DenseLayer(2.0, 2), TypeError, "'float' object"),
    (lambda: al.DenseLayer(2, 2, polarity="x"), ValueError, '"x" is not a polarity: use unipolar, bipolar or signed'),
    (lambda: al.DenseLayer(2, 2, device="x"), ValueError, 'there is no device "x"; devices are auto, cpu, gpu'),
    (lambda: al.DenseLayer(2, 2, device=["cpu", "x"]), ValueError, 'there is no device "x"'),
    (lambda: al.DenseLayer(2, 2, device=7), TypeError, "device must be a name or a list of names"),
    (lambda: al.DenseLayer(2, 2, generator="x"), ValueError, '"x"'),
    (lambda: al.DenseLayer(2, 2, generator="sobol", width=99), ValueError, "99"),
    (lambda: al.DenseLayer(2, 2, generator="sobol", sharing="x"), ValueError, '"x" is not a sharing'),
    (lambda: al.DenseLayer(2, 2, generator=7.5), TypeError, "generator must be a str, not float"),
    (lambda: al.DenseLayer.from_weights([0.5]), ValueError, "weights have shape (1,), not (n_neurons, n_inputs)"),
    (lambda: al.DenseLayer.from_weights(np.zeros((0, 3))), ValueError, "number of neurons must be at least 1"),
    (lambda: al.DenseLayer.from_weights([[NAN]]), ValueError, "weight at index (0, 0) is nan, not in [0, 1]"),
    (lambda: al.DenseLayer.from_weights([[-2]], polarity="bipolar"), ValueError, "is -2, not in [-1, 1]"),
    (lambda: LAYER.counts_encoded([[1], [2], [3], [4]]), ValueError, "streams has shape (4, 1); expected (3, 1)"),
    (lambda: LAYER.counts_encoded(np.zeros((3, 2), np.uint64)), ValueError, "streams has shape (3, 2)"),
    (lambda: al.DenseLayer(1, 1, 60).counts_encoded([[2**63]]), ValueError, "stream 0 has ones past its length of 60"),
    (lambda: al.SparseLayer([[1, 0]]), TypeError, "mask must hold booleans, not int64"),
    (lambda: al.SparseLayer([True]), ValueError, "mask has shape (1,), not (n_neurons, n_inputs)"),
    (lambda: al.encode([0.5, 1.5], 64), ValueError, "probability at index 1 is 1.5, not in [0, 1]"),
    (lambda: al.encode(NAN, 64), ValueError, "probability is nan, not in [0, 1]"),
    (lambda: al.encode(0.5, 64, polarity="signed"), ValueError, "a stream alone holds no sign"),
    (lambda: al.encode(0.5, 0), ValueError, "stream length must be at least 1"),
    (lambda: al.encode(0.5, -5), ValueError, "length is -5, not in [0, 2**63)"),
    (lambda: al.encode(np.full(10**5, 0.5), 2**34), MemoryError, "number of streams would take"),
    (lambda: al.unpack([1], 65), ValueError, "length is 65, but streams of 1 words have 64 bits"),
    (lambda: al.unpack(1, 5), ValueError, "words must have at least one axis"),
    (lambda: al.pack(1), ValueError, "bits must have at least one axis"),
    (lambda: al.decode([255], 3), ValueError, "stream has ones past its 3 bits"),
    (lambda: al.decode([[1], [8]], 3), ValueError, "stream at index 1 has ones past its 3 bits"),
    (lambda: al.scc([7], [8], 3), ValueError, "stream has ones past its 3 bits"),
    (lambda: al.ConvLayer((1, 4, 4), -1, 3), ValueError, "n_channels is -1"),
    (lambda: al.ConvLayer((1, 4, 4), 2, 3, groups=2**70), ValueError, "groups is "),
    (lambda: al.ConvLayer((1, -4, 4), 2, 3), ValueError, "input_shape is -4"),
    (lambda: al.not_([[1], [8]], 3), ValueError, "stream at index 1 has ones past its 3 bits"),
    (lambda: al.xnor([7], [8], 3), ValueError, "stream has ones past its 3 bits"),
    (lambda: al.scc([7], [7], 65), ValueError, "streams of 65 bits have shape (..., 2), not (1,)"),
    (lambda: al.popcount(np.zeros((2**40, 0), np.uint64), axis=-1), MemoryError, "would take 8796093022208 bytes"),
    (lambda: al.hamming_distance(*[np.zeros((2**40, 0), np.uint64)] * 2), MemoryError, "would take"),
    (lambda: al.encode([0.5], 2**34 + 1), ValueError, "stream length is 17179869185, the maximum is 17179869184"),
    (lambda: al.DenseLayer(10**400, 2), ValueError, "n_inputs is too large, not in [0, 2**63)"),
    (lambda: al.DenseLayer.from_weights([[1e308]]), ValueError, "weight at index (0, 0) is 1e308, not in [0, 1]"),
    (lambda: al.set_num_threads(-1), ValueError, "n is -1, not in [0, 2**63)"),
    (lambda: al.set_num_threads(2**40), ValueError, "number of threads is 1099511627776, the maximum is "),
    (lambda: al.FixedPointLif(data_width=0), ValueError, "data width is 0, the minimum is 1"),
    (lambda: al.FixedPointLif(data_width=17), ValueError, "data width is 17, the maximum is 16"),
    (lambda: al.FixedPointLif(v_rest=2**15), ValueError, "is 32768, not in [-32768, 32767]"),
    (lambda: al.FixedPointLif().step(1, 1, 10**6), ValueError, "is 1000000, not in [-32768, 32767]"),
    (lambda: al.lif_run(10**13, 1, 1, 1), MemoryError, "trace would take"),
    (lambda: al.lif_run_multi(5, 1, 1, [1, 40000]), ValueError, "currents at index 1 is 40000, not in [-32768, 32767]"),
    (lambda: al.lif_run_multi(5, 1, 1, [0.5]), TypeError, "currents must hold integers, not float64"),
    (lambda: al.lif_run_multi(5, 1, 1, [[1]]), ValueError, "currents has shape (1, 1), not (n,)"),
    (lambda: al.lif_run_varying(1, 1, [1, 2], [1]), ValueError, "number of noise values: expected 2, got 1"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_error(case: int) -> None:
    call, kind, text = CASES[case]
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert type(caught.value) is kind
