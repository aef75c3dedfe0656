"""Other ways to run the same bits: NumPy, CuPy, JAX, Numba, MPI, each an optional extra.

- `backend`: `get_backend`, `available_backends`, `sc_forward`: the forward pass on the fastest processor there is;
- `vector_ops`: packed streams in NumPy;
- `gpu_backend`: packed streams on an NVIDIA GPU through CuPy, or in NumPy without one;
- `jax_backend`: streams and spiking networks in JAX, with jit, vmap, grad and scan;
- `jit_kernels`: packing, encoding and counting with Numba;
- `mpi_driver`: arrays scattered over and gathered from MPI ranks;
- `numpy_streams`, `numpy_sequences`: the stream specification in NumPy alone.

Importing this package imports none of the optional libraries, and needs no compiled extension.

>>> from aleatron.accel import get_backend, pack_bitstream, vec_popcount
>>> vec_popcount(pack_bitstream([1, 0, 1, 1]))
3
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aleatron.accel.backend import (
    PRIORITY,
    Backend,
    GpuBackend,
    NumpyBackend,
    RustBackend,
    available_backends,
    get_backend,
    sc_forward,
)
from aleatron.accel.vector_ops import (
    pack_bitstream,
    unpack_bitstream,
    vec_and,
    vec_mux,
    vec_not,
    vec_popcount,
    vec_xnor,
)

if TYPE_CHECKING:
    from aleatron.accel.gpu_backend import HAS_CUPY, to_device, to_host, xp
else:

    def __getattr__(name: str) -> object:
        # Resolved on first use, because they import CuPy.
        if name in {"HAS_CUPY", "to_device", "to_host", "xp"}:
            from aleatron.accel import gpu_backend

            return getattr(gpu_backend, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "HAS_CUPY",
    "PRIORITY",
    "Backend",
    "GpuBackend",
    "NumpyBackend",
    "RustBackend",
    "available_backends",
    "get_backend",
    "pack_bitstream",
    "sc_forward",
    "to_device",
    "to_host",
    "unpack_bitstream",
    "vec_and",
    "vec_mux",
    "vec_not",
    "vec_popcount",
    "vec_xnor",
    "xp",
]
