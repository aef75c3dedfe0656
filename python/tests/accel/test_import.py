"""Imports: the package imports no optional library, and works without the extension."""

from __future__ import annotations

import subprocess
import sys

import aleatron as al
import pytest


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


def test_the_package_imports_no_library() -> None:
    program = """
import sys
import aleatron.accel
from aleatron.accel import get_backend, pack_bitstream, sc_forward, mpi_driver, numpy_streams, numpy_sequences
get_backend().sc_forward([[[1]]], [0.5], length=64)
print([name for name in ["jax", "numba", "cupy", "mpi4py", "dask"] if name in sys.modules])
"""
    done = run(program)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_documented_imports() -> None:
    program = """
from aleatron.accel import to_device, to_host, HAS_CUPY, xp
from aleatron.accel.jax_backend import jnp, HAS_JAX, to_jax, to_host
from aleatron.accel.jax_backend import jax_pack_bitstream, jax_vec_mac
import jax
before = jax.config.jax_enable_x64
bits = jnp.array([1, 0, 1, 1], dtype=jnp.uint8)
packed = jax_pack_bitstream(bits)
assert HAS_JAX and to_host(packed).tolist() == [13]
print(before, jax.config.jax_enable_x64, HAS_CUPY in (True, False))
"""
    done = run(program)
    assert done.stdout == "False False True\n", done.stderr


def test_jax_is_left_as_it_is() -> None:
    program = """
import jax
def settings():
    return {name: value for name, value in jax.config.values.items()}
before = settings()
from aleatron.accel import jax_backend as j
j.to_host(j.jax_encode([0.5], 64)), j.jax_dense([0.5], [[0.5]], 64)
print(before == settings(), jax.numpy.zeros(1).dtype)
"""
    done = run(program)
    assert done.stdout == "True float32\n", done.stderr


def test_without_jax() -> None:
    program = """
import sys
sys.modules["jax"] = None
from aleatron.accel.jax_backend import HAS_JAX, jnp, jax_encode, to_jax
from aleatron.accel import available_backends, jax_backend
assert not HAS_JAX and not available_backends()["jax"]
weights = [[[0.5]]]
for call in [
    lambda: jnp.array([1]),
    lambda: jax_encode([0.5], 64),
    lambda: to_jax([1]),
    lambda: jax_backend.jax_lif_step(0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0),
    lambda: jax_backend.jax_surrogate_loss(weights, [[1.0]], [0]),
    lambda: jax_backend.jax_vec_mac([[[1]]], [[1]]),
    lambda: jax_backend.jax_dense([0.5], [[0.5]], 64),
]:
    try:
        call()
    except ImportError as error:
        assert "pip install" in str(error) and "[jax]" in str(error), error
        continue
    raise SystemExit("no ImportError")
print("good")
"""
    done = run(program)
    assert done.stdout == "good\n", done.stderr


BLOCKED = 'import sys\nsys.modules["aleatron._core"] = None\n'


def test_numpy_without_the_extension() -> None:
    program = """
import aleatron, numpy as np
from aleatron.accel import available_backends, get_backend, numpy_streams, pack_bitstream, sc_forward, vec_popcount
from aleatron import accel
assert accel.vec_popcount is vec_popcount
found = available_backends()
assert found["numpy"] and not found["rust"] and not found["gpu"] and not found["cuda"]
try:
    get_backend("rust")
except RuntimeError as error:
    assert "_core" in str(error), error
weights = numpy_streams.encode(numpy_streams.random_weights(3, 5), 64, seed=24301, domain=numpy_streams.Domain.WEIGHT)
for backend in ["numpy", "auto", "numba", "jax"]:
    print((64 * sc_forward(weights, [0.3, 1.0, 0.6, 0.2, 0.9], length=64, backend=backend)).tolist())
print(aleatron.__version__, vec_popcount(pack_bitstream([1, 1])))
"""
    done = run(BLOCKED + program)
    # The known answer, from golden/streams.kat.
    assert done.stdout == "[91.0, 73.0, 96.0]\n" * 4 + f"{al.__version__} 2\n", done.stderr


def test_vectorized_layer_without_the_extension() -> None:
    program = """
import numpy as np
from aleatron import compat
from aleatron.accel import numpy_streams
layer = compat.VectorizedSCLayer(n_inputs=5, n_neurons=3, length=64)
x = [0.3, 1.0, 0.6, 0.2, 0.9]
packed = numpy_streams.encode(np.array(x), 64, 44257)
for y in [layer.forward(x), layer.forward_fast(x), layer.forward_numpy(x), layer.forward_batch_numpy([x])[0],
          layer.forward_prepacked(packed), layer.forward_prepacked_numpy(packed)]:
    print((64 * y).tolist())
layer.weights = np.ones((3, 5))
print(layer.forward([1.0] * 5).tolist())
"""
    done = run(BLOCKED + program)
    # The known answer, from golden/streams.kat.
    assert done.stdout == "[91.0, 73.0, 96.0]\n" * 6 + "[5.0, 5.0, 5.0]\n", done.stderr


def test_missing_libraries_are_named() -> None:
    program = """
import aleatron
for name in [*aleatron.__all__, "_core"]:
    if name == "__version__":
        continue
    try:
        getattr(aleatron, name)
    except ImportError as error:
        assert str(error).startswith(f"aleatron.{name} needs the compiled extension aleatron._core"), error
        continue
    raise SystemExit(f"{name}: no ImportError")
for statement in ["from aleatron import DenseLayer", "from aleatron.compat import simd_tier", "from aleatron import tensor"]:
    try:
        exec(statement)
    except ImportError as error:
        assert "needs the compiled extension" in str(error), error
        continue
    raise SystemExit(f"{statement}: no ImportError")
try:
    aleatron.no_such_name
except AttributeError:
    print("good")
"""
    done = run(BLOCKED + program)
    assert done.stdout == "good\n", done.stderr


@pytest.mark.parametrize("module", ["backend", "vector_ops", "gpu_backend", "jax_backend", "jit_kernels", "mpi_driver"])
def test_modules_without_anything(module: str) -> None:
    block = "".join(f'sys.modules["{name}"] = None\n' for name in ["jax", "numba", "cupy", "mpi4py"])
    done = run(f"{BLOCKED}{block}import aleatron.accel.{module} as m\nprint(len(m.__all__) > 0)")
    assert done.stdout == "True\n", done.stderr
