"""The choice of the processor of the stochastic forward pass: `get_backend` returns the fastest one, or the requested one.

Every backend gives the same bits for a fixed seed. `NumpyBackend` is the specification in NumPy and always available; the others
are compared with it. `PRIORITY` has their names, the fastest first.

>>> from aleatron.accel.backend import get_backend, sc_forward
>>> from aleatron.accel.numpy_streams import encode
>>> weights = encode([[0.5, 0.25], [1.0, 0.0]], length=256, seed=1)
>>> sc_forward(weights, [1.0, 0.5], length=256) == get_backend("numpy").sc_forward(weights, [1.0, 0.5], length=256)
array([ True,  True])
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, ClassVar, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron.accel import numpy_streams
from aleatron.accel._checks import Floats, Words, as_length, as_seed, as_streams, as_values

__all__ = [
    "PRIORITY",
    "Backend",
    "CudaBackend",
    "CupyBackend",
    "GpuBackend",
    "JaxBackend",
    "NumbaBackend",
    "NumpyBackend",
    "RustBackend",
    "available_backends",
    "get_backend",
    "sc_forward",
]

# Words of AND products per block: small enough to stay in the cache between the AND and the count.
PRODUCT_BLOCK = 1 << 16
# Words per block for a device, where each call has a fixed cost.
DEVICE_BLOCK = 1 << 22


class Backend(ABC):
    """A processor that runs the stochastic forward pass.

    Examples
    --------
    >>> from aleatron.accel.backend import get_backend
    >>> get_backend("numpy").name
    'numpy'
    """

    name: ClassVar[str] = ""

    @abstractmethod
    def sc_forward(
        self,
        weights_packed: npt.ArrayLike,
        input_probs: npt.ArrayLike,
        *,
        length: SupportsIndex,
        seed: SupportsIndex = 44257,
    ) -> Floats:
        """Runs the forward pass; see `aleatron.accel.sc_forward`."""

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        return None


class _CountingBackend(Backend):
    """A backend by its counts: the checks before them and the division after them are the same for all."""

    def sc_forward(
        self,
        weights_packed: npt.ArrayLike,
        input_probs: npt.ArrayLike,
        *,
        length: SupportsIndex,
        seed: SupportsIndex = 44257,
    ) -> Floats:
        """Runs the forward pass; see `aleatron.accel.sc_forward`."""
        bits, key = as_length(length), as_seed(seed)
        weights = as_streams(weights_packed, "weights_packed", bits)
        if weights.ndim != 3 or 0 in weights.shape:
            raise ValueError(
                f"weights_packed has shape {weights.shape}; expected (n_neurons, n_inputs, words), none of them zero"
            )
        probs = as_values(input_probs, "input_probs")
        n_neurons, n_inputs = weights.shape[:2]
        if probs.ndim not in (1, 2) or probs.shape[-1] != n_inputs:
            raise ValueError(
                f"input_probs has shape {probs.shape}; expected ({n_inputs},) for a sample or (N, {n_inputs}) for a batch"
            )
        batch = probs.reshape(-1, n_inputs)
        counts = self._counts(weights, batch, bits, key) if len(batch) else np.zeros((0, n_neurons), np.uint64)
        values = np.asarray(counts, np.uint64).astype(np.float64) / bits
        return np.asarray(values[0] if probs.ndim == 1 else values)

    @abstractmethod
    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        """The counts, (N, n_neurons), of checked weights (n_neurons, n_inputs, words) and inputs (N, n_inputs)."""


class NumpyBackend(_CountingBackend):
    """NumPy alone: always available, and the reference for the others.

    Examples
    --------
    >>> from aleatron.accel.backend import NumpyBackend
    >>> NumpyBackend().sc_forward([[[2**64 - 1]]], [1.0], length=64)
    array([1.])
    """

    name = "numpy"

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        return numpy_streams.layer_counts(weights, numpy_streams.encode(probs, length, seed), length, "unipolar")


class RustBackend(_CountingBackend):
    """The engine on the CPU.

    Examples
    --------
    >>> from aleatron.accel.backend import RustBackend
    >>> RustBackend().sc_forward([[[2**64 - 1]]], [1.0], length=64)
    array([1.])
    """

    name = "rust"

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        return _why_no_engine()

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        from aleatron import _core

        streams = _core.encode(probs, length, seed)
        return _products_counted(
            weights,
            streams,
            PRODUCT_BLOCK,
            lambda products: _core._count_ones(products.reshape(len(products), -1), True),
        )


class _EngineDeviceBackend(_CountingBackend):
    """A device of the engine: the inputs are encoded by the CPU, and the products counted by the device.

    The engine has no layer whose weights are given as streams. A layer of one neuron whose weights are all one counts the
    ones of any streams, so the products go there as samples.
    """

    device: ClassVar[Any]

    def __init__(self) -> None:
        self._ones = functools.lru_cache(maxsize=8)(self._layer_of_ones)

    @classmethod
    def _layer_of_ones(cls, n_inputs: int, length: int) -> Any:
        from aleatron import _core

        return _core.DenseLayer.from_weights(np.ones((1, n_inputs)), length, device=cls.device)

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        missing = _why_no_engine()
        if missing is not None:
            return missing
        try:
            cls._layer_of_ones(1, 1)
        except (RuntimeError, ValueError) as error:
            # ValueError: this build of the engine does not know the device.
            return str(error)
        return None

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        from aleatron import _core

        layer = self._ones(weights.shape[1], length)
        streams = _core.encode(probs, length, seed)
        return _products_counted(weights, streams, DEVICE_BLOCK, lambda products: layer.counts_encoded(products)[:, 0])


class GpuBackend(_EngineDeviceBackend):
    """The engine on a GPU, through Vulkan, Metal or DirectX 12.

    Examples
    --------
    >>> from aleatron.accel.backend import GpuBackend, get_backend
    >>> GpuBackend.unavailable() is None or "GPU" in GpuBackend.unavailable()
    True
    """

    name = "gpu"
    device = "gpu"


class CudaBackend(_EngineDeviceBackend):
    """The engine on an NVIDIA GPU, if it was built with CUDA.

    Examples
    --------
    >>> from aleatron.accel.backend import CudaBackend
    >>> CudaBackend.name
    'cuda'
    """

    name = "cuda"
    device = "cuda"


class CupyBackend(_CountingBackend):
    """CuPy: encoding and counting on an NVIDIA GPU with the kernels of `aleatron.accel.gpu_backend`.

    Examples
    --------
    >>> from aleatron.accel.backend import CupyBackend
    >>> CupyBackend.name
    'cupy'
    """

    name = "cupy"

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        from aleatron.accel import gpu_backend

        return gpu_backend.WHY_NO_CUPY

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        from aleatron.accel import gpu_backend

        streams = gpu_backend.gpu_encode(probs, length, seed)
        return gpu_backend.to_host(gpu_backend.gpu_vec_mac(gpu_backend.to_device(weights), streams))


class JaxBackend(_CountingBackend):
    """JAX, on whatever device it uses.

    Examples
    --------
    >>> from aleatron.accel.backend import JaxBackend
    >>> JaxBackend.name
    'jax'
    """

    name = "jax"

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        from aleatron.accel import jax_backend

        return jax_backend.WHY_NO_JAX

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        from aleatron.accel import jax_backend

        streams = jax_backend.jax_encode(probs, length, seed)
        return jax_backend.to_host(jax_backend.jax_vec_mac(jax_backend.to_jax(weights), streams))


class NumbaBackend(_CountingBackend):
    """Numba: encoding and counting compiled at run time, on all cores.

    Examples
    --------
    >>> from aleatron.accel.backend import NumbaBackend
    >>> NumbaBackend.name
    'numba'
    """

    name = "numba"

    @classmethod
    def unavailable(cls) -> str | None:
        """Returns the reason why the backend is unavailable, or None if it is available."""
        from aleatron.accel import jit_kernels

        return jit_kernels.WHY_NO_NUMBA

    def _counts(self, weights: Words, probs: Floats, length: int, seed: int) -> npt.NDArray[Any]:
        from aleatron.accel import jit_kernels

        streams = jit_kernels.jit_encode(probs, length, seed)
        counts = np.empty((len(probs), len(weights)), np.uint64)
        for sample, out in zip(streams, counts):
            jit_kernels.jit_vec_mac(weights, sample, out)
        return counts


_BACKENDS: dict[str, type[Backend]] = {
    backend.name: backend
    for backend in (RustBackend, CudaBackend, CupyBackend, NumbaBackend, JaxBackend, GpuBackend, NumpyBackend)
}

PRIORITY: tuple[str, ...] = tuple(_BACKENDS)
"""The names of all backends, the fastest first. Weights come from memory with every call, so the CPU is before the GPUs."""


def available_backends() -> dict[str, bool]:
    """Returns the available backends, the fastest first. It imports the libraries of each.

    Examples
    --------
    >>> from aleatron.accel import available_backends
    >>> available_backends()["numpy"]
    True
    """
    return {name: backend.unavailable() is None for name, backend in _BACKENDS.items()}


def get_backend(name: str = "auto") -> Backend:
    """Returns a backend.

    Parameters
    ----------
    name
        "auto" for the first of `PRIORITY` that can run, or the name of one.

    Raises
    ------
    ValueError
        There is no backend of that name.
    RuntimeError
        The backend is unavailable; the message has the reason.

    Examples
    --------
    >>> from aleatron.accel import get_backend
    >>> get_backend("numpy").name
    'numpy'
    >>> get_backend("abacus")
    Traceback (most recent call last):
        ...
    ValueError: there is no backend 'abacus'; the backends are auto, rust, cuda, cupy, numba, jax, gpu, numpy
    """
    if name == "auto":
        return next(backend() for backend in _BACKENDS.values() if backend.unavailable() is None)
    if name not in _BACKENDS:
        raise ValueError(f"there is no backend {name!r}; the backends are {', '.join(('auto', *PRIORITY))}")
    reason = _BACKENDS[name].unavailable()
    if reason is not None:
        raise RuntimeError(f"the backend {name!r} cannot run here: {reason}")
    return _BACKENDS[name]()


def sc_forward(
    weights_packed: npt.ArrayLike,
    input_probs: npt.ArrayLike,
    *,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    backend: str | Backend = "auto",
) -> Floats:
    """Runs a layer whose weights are packed streams: encodes the inputs, ANDs, counts, divides by the length.

    Input i of sample s is drawn as unit i, row s of the seed, as `aleatron.encode` draws it. Weights encoded with the
    same function must have another seed, or the streams would coincide.

    Parameters
    ----------
    weights_packed
        uint64 streams of shape (n_neurons, n_inputs, words), ones past the length being an error.
    input_probs
        Probabilities of shape (n_inputs,), or (N, n_inputs) for a batch.
    length
        Bits per stream.
    seed
        The seed of the input streams.
    backend
        A name for `get_backend`, or its result.

    Returns
    -------
    numpy.ndarray
        float64 of shape (n_neurons,) or (N, n_neurons), in [0, n_inputs].

    Examples
    --------
    >>> from aleatron.accel import sc_forward
    >>> from aleatron.accel.numpy_streams import encode
    >>> weights = encode([[0.5, 0.5]], length=4096, seed=1)
    >>> bool(abs(sc_forward(weights, [0.4, 0.8], length=4096)[0] - 0.6) < 0.05)
    True
    """
    chosen = get_backend(backend) if isinstance(backend, str) else backend
    return chosen.sc_forward(weights_packed, input_probs, length=length, seed=seed)


def _why_no_engine() -> str | None:
    try:
        from aleatron import _core  # noqa: F401
    except ImportError as error:
        return str(error)
    return None


def _products_counted(weights: Words, streams: Words, block: int, count: Any) -> Words:
    """The counts of every sample: AND products of some neurons at a time, counted by `count`, a number for each."""
    n_neurons, n_inputs, n_words = weights.shape
    at_once = max(block // (n_inputs * n_words), 1)
    products = np.empty((min(at_once, n_neurons), n_inputs, n_words), np.uint64)
    counts = np.empty((len(streams), n_neurons), np.uint64)
    for start in range(0, n_neurons, at_once):
        part = weights[start : start + at_once]
        for s, sample in enumerate(streams):
            made = np.bitwise_and(part, sample, out=products[: len(part)])
            counts[s, start : start + at_once] = count(made)
    return counts
