"""The CuPy functions: the kernels compile, give the right bits on the CPU, and fall back to NumPy with one warning."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import subprocess
import sys
import types
from typing import Any

import aleatron as al
import numpy as np
import pytest
from aleatron import compat
from aleatron.accel import gpu_backend
from aleatron.accel import numpy_streams as ns

KERNELS = pathlib.Path(gpu_backend.__file__).with_name("stream_kernels.cu")


def test_kernels_compile() -> None:
    """With NVIDIA's own compiler, for the oldest and newest architectures in use; a warning counts."""
    package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    assert package is not None and package.submodule_search_locations
    folder = pathlib.Path(next(iter(package.submodule_search_locations)))
    (library,) = [*folder.glob("lib/libnvrtc.so.*"), *folder.glob("bin/nvrtc64_*_0.dll")]
    nvrtc = ctypes.CDLL(str(library))
    for architecture in [b"compute_75", b"compute_90"]:
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), KERNELS.read_bytes(), b"kernels", 0, None, None) == 0
        options = (ctypes.c_char_p * 2)(b"-std=c++17", b"--gpu-architecture=" + architecture)
        code = nvrtc.nvrtcCompileProgram(program, 2, options)
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        assert (code, log.value) == (0, b""), log.value.decode()
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def test_packing(cupy_module: types.ModuleType) -> None:
    rng = np.random.default_rng(0)
    for shape in [(1,), (64,), (70,), (3, 100), (2, 2, 65), (0,), (3, 0)]:
        bits = rng.integers(0, 2, shape, dtype=np.uint8)
        expected = al.pack(bits)
        for other in [bits, bits.astype(bool), bits.astype(np.int64), bits.astype(float), np.asfortranarray(bits)]:
            found = cupy_module.gpu_pack_bitstream(cupy_module.to_device(other))
            assert isinstance(found, cupy_module.xp.ndarray)
            assert np.array_equal(cupy_module.to_host(found), expected)
    for wrong, message in [
        ([0, 1, 2], "bits at index 2 is 2, neither 0 nor 1"),
        ([[0, 256], [1, 1]], r"bits at index \(0, 1\) is 256"),
        ([0.0, float("nan")], "bits at index 1 is nan"),
        (1, "at least one axis"),
    ]:
        with pytest.raises(ValueError, match=message):
            cupy_module.gpu_pack_bitstream(wrong)


def test_counting(cupy_module: types.ModuleType) -> None:
    rng = np.random.default_rng(1)
    # Even and odd numbers of words, full and partial tiles, several parts per tile.
    for n, m, samples, n_words in [(1, 1, 1, 1), (3, 5, 4, 2), (5, 6, 5, 1), (700, 3, 1, 1), (260, 5, 5, 2)]:
        w = rng.integers(0, 2**64, (m, n, n_words), np.uint64)
        x = rng.integers(0, 2**64, (samples, n, n_words), np.uint64)
        expected = [[sum(int(word).bit_count() for word in (row & sample).flat) for row in w] for sample in x]
        found = cupy_module.gpu_vec_mac(cupy_module.to_device(w), cupy_module.to_device(x))
        assert cupy_module.to_host(found).tolist() == expected
        assert cupy_module.to_host(cupy_module.gpu_vec_mac(w, x[-1])).tolist() == expected[-1]
        assert (
            cupy_module.to_host(cupy_module.gpu_vec_mac(np.asfortranarray(w), x[:, ::-1][:, ::-1])).tolist() == expected
        )
        # Rows that are not aligned to 16 bytes.
        shifted = np.empty(w.size + 1, np.uint64)[1:].reshape(w.shape)
        shifted[...] = w
        assert cupy_module.to_host(cupy_module.gpu_vec_mac(shifted, x)).tolist() == expected
        assert np.array_equal(cupy_module.to_host(cupy_module.gpu_popcount(w)), ns.count_ones(w))
        both = cupy_module.gpu_vec_and(w, x[0])
        assert np.array_equal(cupy_module.to_host(both), w & x[0])
    assert cupy_module.to_host(cupy_module.gpu_vec_mac(w, x[:0])).shape == (0, 5)
    assert cupy_module.to_host(cupy_module.gpu_popcount(w[:0])).shape == (0, 260, 2)
    with pytest.raises(ValueError, match="packed inputs have shape"):
        cupy_module.gpu_vec_mac(w, x[:, :5])
    with pytest.raises(ValueError, match="streams differ in words"):
        cupy_module.gpu_vec_and(w, x[..., :1])
    with pytest.raises(TypeError, match="packed words"):
        cupy_module.gpu_popcount(cupy_module.to_device(np.zeros(3)))


def test_more_samples_than_a_grid_has(cupy_module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy_module, "GRID_Y", 2)
    rng = np.random.default_rng(2)
    w, x = rng.integers(0, 2**64, (3, 4, 1), np.uint64), rng.integers(0, 2**64, (19, 4, 1), np.uint64)
    assert np.array_equal(cupy_module.to_host(cupy_module.gpu_vec_mac(w, x)), ns.and_counts(w, x))


def test_values_on_the_device_are_checked(cupy_module: types.ModuleType) -> None:
    p = np.array([[0.25, 0.5], [np.nan, 2.0]])
    with pytest.raises(ValueError, match=r"probability at index \(1, 0\) is nan, not in \[0, 1\]"):
        cupy_module.gpu_encode(cupy_module.to_device(p), 64)
    p = p[0].astype(np.float32)
    found = cupy_module.gpu_encode(cupy_module.to_device(p), 100, seed=3)
    assert np.array_equal(cupy_module.to_host(found), al.encode(p, 100, seed=3))


def test_layer(with_cupy: types.ModuleType) -> None:
    x = np.random.default_rng(3).random((6, 20))
    layer = compat.VectorizedSCLayer(20, 7, length=100, use_gpu=True, seed=5)
    assert isinstance(layer._engine, with_cupy.GpuLayer)
    cpu = compat.VectorizedSCLayer(20, 7, length=100, seed=5)
    for _ in range(2):
        assert np.array_equal(layer.weights, cpu.weights)
        assert np.array_equal(layer.forward_batch_numpy(x, seed=9), cpu.forward_batch_numpy(x, seed=9))
        assert np.array_equal(layer.forward(x[0]), cpu.forward(x[0]))
        packed = compat.batch_encode_numpy(x[0], length=100)
        assert np.array_equal(layer.forward_prepacked(packed), cpu.forward_prepacked(packed))
        layer.weights = cpu.weights = cpu.weights[::-1]
    cpu.weights[0, 0] = layer.weights[0, 0] = 0.125
    cpu._refresh_packed_weights(), layer._refresh_packed_weights()
    assert np.array_equal(layer.forward(x[0]), cpu.forward(x[0]))
    for wrong in [x[0, :3], np.full(20, np.nan), x[None]]:
        with pytest.raises(ValueError):
            layer.forward(wrong)
    with pytest.raises(ValueError, match=r"weight at index \(0, 0\) is 2"):
        layer.weights = np.full((7, 20), 2.0)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


GUARDED = """
import sys
sys.path.insert(0, sys.argv[1])
import cupy_on_cpu
sys.modules["cupy"] = cupy_on_cpu.module(cupy_on_cpu.guarded)
import numpy as np
from aleatron.accel import gpu_backend as g, numpy_streams as ns
assert g.HAS_CUPY
rng = np.random.default_rng(0)
for n, m, samples, n_words in [(1, 1, 1, 1), (3, 5, 6, 1), (3, 5, 6, 2)]:
    w, x = (rng.integers(0, 2**64, (k, n, n_words), np.uint64) for k in (m, samples))
    for inputs in [x, x[0]]:
        assert np.array_equal(g.to_host(g.gpu_vec_mac(w, inputs)), ns.and_counts(w, inputs))
    assert np.array_equal(g.to_host(g.gpu_popcount(w)), ns.count_ones(w))
    assert np.array_equal(g.to_host(g.gpu_encode(rng.random((m, n)), 33)).shape, (m, n, 1))
    g.gpu_pack_bitstream(rng.integers(0, 2, (m, 70), dtype=np.uint8))
print("good")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is guarded with a call of Linux")
def test_kernels_stay_inside_their_operands() -> None:
    folder = str(pathlib.Path(__file__).parent)
    done = subprocess.run([sys.executable, "-c", GUARDED, folder], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("good\n", 0), done.stderr


FALLBACK = """
import sys, warnings
sys.modules["cupy"] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    from aleatron.accel import HAS_CUPY, to_device, to_host, xp
    assert not HAS_CUPY and xp is np and not caught
    from aleatron.accel import gpu_backend as g
    for _ in range(2):
        words = g.gpu_pack_bitstream(np.ones((2, 70), np.uint8))
        assert g.to_host(g.gpu_popcount(g.to_device(words))).tolist() == [[64, 6]] * 2
        assert g.gpu_vec_and(words, words).tolist() == words.tolist()
        assert g.gpu_vec_mac(words[None], words).tolist() == [140]
        assert g.gpu_encode([1.0], 3).tolist() == [[7]]
        assert g.gpu_vec_mac(words[None], words).dtype == g.gpu_popcount(words).dtype == np.uint64
(warning,) = caught
print(warning.category.__name__, warning.message, warning.filename)
"""


def test_fallback_warns_once() -> None:
    done = run(FALLBACK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("UserWarning the GPU functions run in NumPy: ")
    assert "pip install \".[cuda]\"" in done.stdout and done.stdout.endswith(" <string>\n")


BROKEN = """
import sys, types
cupy = types.ModuleType("cupy")
def count():
    raise OSError("no driver")
cupy.cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDeviceCount=count))
sys.modules["cupy"] = cupy
from aleatron.accel import available_backends, get_backend
assert not available_backends()["cupy"]
try:
    get_backend("cupy")
except RuntimeError as error:
    print(error)
"""


def test_a_cupy_without_a_driver() -> None:
    done = run(BROKEN)
    assert done.stdout == "the backend 'cupy' cannot run here: CuPy cannot use a CUDA device: no driver\n", done.stderr


def test_memory_of_a_mac(cupy_module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the counts are allocated on the device, not the products."""
    if gpu_backend.HAS_CUPY:
        pool = cupy_module.xp.get_default_memory_pool()
    made: list[int] = []
    for name in ["empty", "zeros"]:
        original = getattr(cupy_module.xp, name)

        def record(shape: Any, dtype: Any, original: Any = original) -> Any:
            array = original(shape, dtype)
            made.append(array.nbytes)
            return array

        monkeypatch.setattr(cupy_module.xp, name, record)
    w = cupy_module.to_device(np.ones((40, 30, 2), np.uint64))
    x = cupy_module.to_device(np.ones((3, 30, 2), np.uint64))
    if gpu_backend.HAS_CUPY:
        before = pool.total_bytes()
    assert (cupy_module.to_host(cupy_module.gpu_vec_mac(w, x)) == 60).all()
    assert made == [3 * 40 * 8]
    if gpu_backend.HAS_CUPY:
        assert pool.total_bytes() - before < w.nbytes
