"""Numba's kernels, and the fallbacks without Numba."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from typing import Any

import aleatron as al
import numpy as np
import pytest
from aleatron.accel import jit_kernels as k
from aleatron.accel import numpy_streams as ns


@pytest.fixture(params=["numba", "numpy"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Numba, which continuous integration has, and without."""
    assert k.HAS_NUMBA
    if request.param == "numpy":
        monkeypatch.setattr(k, "HAS_NUMBA", False)


@pytest.mark.usefixtures("either")
def test_pack() -> None:
    rng = np.random.default_rng(0)
    for n in [0, 1, 63, 64, 70, 128, 1000, 64 * 40_000 + 5]:
        bits = rng.integers(0, 2, n, dtype=np.uint8)
        packed = np.full(-(-n // 64), 0xA5, np.uint64)
        assert k.jit_pack_bits(bits, packed) is None  # type: ignore[func-returns-value]
        assert np.array_equal(packed, al.pack(bits))
    bits = rng.integers(0, 2, 205, dtype=np.uint8)
    for other in [bits.astype(bool), bits.astype(np.int64), bits.tolist(), np.repeat(bits, 2)[::2], bits.astype(float)]:
        for words in [np.zeros(4, np.uint64), np.zeros(8, np.uint64)[::2]]:
            k.jit_pack_bits(other, words)
            assert np.array_equal(words, al.pack(bits))


@pytest.mark.usefixtures("either")
def test_pack_of_whole_words_only() -> None:
    bits = np.random.default_rng(1).integers(0, 2, 200, dtype=np.uint8)
    for n in [0, 5, 64, 130, 200]:
        packed = np.zeros(n // 64, np.uint64)
        k.jit_pack_bits(bits[:n], packed)
        assert np.array_equal(packed, al.pack(bits[: n // 64 * 64]))


@pytest.mark.usefixtures("either")
def test_pack_rejects_invalid_arguments() -> None:
    one = np.zeros(1, np.uint64)
    two = np.zeros(2, np.uint64)
    big = np.zeros(64 * 40_000, np.uint8)
    big[-1] = 255
    fixed = np.zeros(1, np.uint64)
    fixed.flags.writeable = False
    cases: list[tuple[Any, Any, str]] = [
        (np.array([0, 2], np.uint8), one, "bitstream at index 1 is 2, neither 0 nor 1"),
        (np.array([0, 1, 256]), one, "bitstream at index 2 is 256"),
        (big, np.zeros(40_000, np.uint64), "bitstream at index 2559999 is 255"),
        (np.array([1] * 64 + [3], np.uint8), two, "bitstream at index 64 is 3"),
        (np.ones(70, np.uint8), np.zeros(3, np.uint64), r"packed_arr has shape \(3,\); expected \(2,\)"),
        (np.ones(64, np.uint8), two, r"packed_arr has shape \(2,\); expected \(1,\)"),
        (np.ones((2, 2), np.uint8), one, r"bitstream has shape \(2, 2\)"),
        (np.ones(3, np.uint8), fixed, "packed_arr is read-only"),
    ]
    for bits, packed, message in cases:
        with pytest.raises(ValueError, match=message):
            k.jit_pack_bits(bits, packed)
    for packed in [[0], np.zeros(1), np.zeros(1, np.int64)]:
        with pytest.raises(TypeError, match="packed_arr must be"):
            k.jit_pack_bits(np.ones(3, np.uint8), packed)


@pytest.mark.usefixtures("either")
def test_mac() -> None:
    rng = np.random.default_rng(1)
    for n, m, n_words in [(1, 1, 1), (3, 5, 2), (300, 70, 16), (4, 3, 0), (0, 2, 1), (3, 0, 2)]:
        w, x = rng.integers(0, 2**64, (m, n, n_words), np.uint64), rng.integers(0, 2**64, (n, n_words), np.uint64)
        expected = [sum(int(word).bit_count() for word in (row & x).flat) for row in w]
        for out in [np.full(m, 7, np.uint64), np.zeros(m, np.int32), np.zeros(m), np.zeros(2 * m, np.uint64)[::2]]:
            assert k.jit_vec_mac(w, x, out) is None  # type: ignore[func-returns-value]
            assert out.tolist() == expected
        out = np.zeros(m)
        k.jit_vec_mac(np.asfortranarray(w), x.tolist() if x.size else x, out)
        assert out.tolist() == expected


@pytest.mark.usefixtures("either")
def test_mac_rejects_invalid_arguments() -> None:
    w, x = np.full((2, 5, 1), 2**64 - 1, np.uint64), np.full((5, 1), 2**64 - 1, np.uint64)
    cases: list[tuple[Any, Any, Any, str]] = [
        (w, x[:4], np.zeros(2), r"packed inputs have shape \(4, 1\)"),
        (w, x[None], np.zeros(2), r"packed_inputs has shape \(1, 5, 1\)"),
        (w, x, np.zeros(3), r"outputs has shape \(3,\); expected \(2,\)"),
        (w, x, np.zeros(2, np.uint8), "outputs at index 0 would be 320, which uint8 cannot hold"),
    ]
    for weights, inputs, outputs, message in cases:
        with pytest.raises(ValueError, match=message):
            k.jit_vec_mac(weights, inputs, outputs)
    with pytest.raises(TypeError, match="outputs must hold numbers"):
        k.jit_vec_mac(w, x, np.zeros(2, bool))
    # A float that would round a count is refused.
    with pytest.raises(ValueError, match="which float16 cannot hold"):
        k.jit_vec_mac(
            np.full((1, 33, 1), 2**64 - 1, np.uint64), np.full((33, 1), 2**64 - 1, np.uint64), np.zeros(1, np.float16)
        )


def test_threads_at_once() -> None:
    rng = np.random.default_rng(2)
    w, x = rng.integers(0, 2**64, (64, 300, 16), np.uint64), rng.integers(0, 2**64, (8, 300, 16), np.uint64)
    outputs = np.zeros((8, 64), np.uint64)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: k.jit_vec_mac(w, x[i], outputs[i]), range(8)))
    assert np.array_equal(outputs, ns.and_counts(w, x))


FORK = """
import os, warnings
import numpy as np
from aleatron.accel import jit_kernels as k
warnings.simplefilter("ignore", DeprecationWarning)
w, x, out = np.ones((64, 4096, 4), np.uint64), np.ones((4096, 4), np.uint64), np.zeros(64)
k.jit_vec_mac(w, x, out)
if os.fork() == 0:
    out[:] = 0
    k.jit_vec_mac(w, x, out)
    os._exit(0 if (out == 4096 * 4).all() else 3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_children() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_without_numba() -> None:
    program = """
import sys
sys.modules["numba"] = None
from aleatron.accel import jit_kernels as k, available_backends, get_backend
import numpy as np
assert not k.HAS_NUMBA and not available_backends()["numba"]
words = np.zeros(2, np.uint64)
k.jit_pack_bits(np.ones(70, np.uint8), words)
assert words.tolist() == [2**64 - 1, 63] and k.jit_encode([1.0], 3).tolist() == [[7]]
try:
    get_backend("numba")
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "cannot run here" in done.stdout and "pip install \".[numba]\"" in done.stdout, done.stderr
