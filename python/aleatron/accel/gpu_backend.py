"""Packed streams on an NVIDIA GPU through CuPy, or in NumPy without a GPU.

The kernels are in `stream_kernels.cu`; none allocates a temporary of the size of its products. Without CuPy or a device every
function computes the same in NumPy, and the first call warns with a UserWarning. `HAS_CUPY` is the choice, `WHY_NO_CUPY`
the reason, and `xp` is CuPy or NumPy.

>>> from aleatron.accel.gpu_backend import HAS_CUPY, to_device, to_host, xp
>>> HAS_CUPY or xp.__name__ == "numpy"
True
"""

from __future__ import annotations

import importlib
import importlib.resources
import threading
import warnings
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_words, read
from aleatron.accel import numpy_streams
from aleatron.accel._checks import (
    Floats,
    Words,
    as_length,
    as_seed,
    as_streams,
    as_values,
    check_layer,
    interval,
    words_of,
)
from aleatron.accel._optional import once
from aleatron.accel.numpy_streams import Domain
from aleatron.accel.vector_ops import pack_bitstream, vec_and

__all__ = [
    "HAS_CUPY",
    "WHY_NO_CUPY",
    "GpuLayer",
    "gpu_encode",
    "gpu_pack_bitstream",
    "gpu_popcount",
    "gpu_vec_and",
    "gpu_vec_mac",
    "to_device",
    "to_host",
    "xp",
]

THREADS = 256
# The tile of the mac kernels in stream_kernels.cu, and the number of blocks per multiprocessor that hides latency.
TILE_NEURONS, TILE_SAMPLES = 4, 4
BLOCKS_PER_PROCESSOR = 8
# Marks "no wrong bit".
NONE = 2**64 - 1
# The limit of CUDA for the second axis of a grid.
GRID_Y = 65535


def _load() -> tuple[Any, str | None]:
    """CuPy, or NumPy and the reason why not CuPy."""
    try:
        cupy = importlib.import_module("cupy")
        if cupy.cuda.runtime.getDeviceCount() < 1:
            return np, "CuPy finds no CUDA device"
    except ImportError as error:
        return np, f'{error}; pip install ".[cuda]" in a clone of aleatron'
    except Exception as error:  # CuPy and the driver raise errors of their own kinds.
        return np, f"CuPy cannot use a CUDA device: {error}"
    return cupy, None


xp: Any
"""CuPy if it is available, otherwise NumPy."""

xp, WHY_NO_CUPY = _load()
HAS_CUPY: bool = WHY_NO_CUPY is None

_warned = False
_warning_lock = threading.Lock()


def _on_device() -> bool:
    """Returns whether to use the GPU; warns once if there is none."""
    global _warned
    if HAS_CUPY:
        return True
    with _warning_lock:
        first, _warned = not _warned, True
    if first:
        warnings.warn(f"the GPU functions run in NumPy: {WHY_NO_CUPY}", UserWarning, stacklevel=3)
    return False


def to_device(arr: Any) -> Any:
    """Returns an array as one of `xp`: copied to the GPU, or unchanged without one.

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import to_device, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     int(to_host(to_device([1, 2, 3])).sum())
    6
    """
    return xp.asarray(arr) if _on_device() else np.asarray(arr)


def to_host(arr: Any) -> npt.NDArray[Any]:
    """Returns an array of `xp` as a NumPy array.

    Examples
    --------
    >>> from aleatron.accel.gpu_backend import to_host
    >>> to_host([1, 2]).tolist()
    [1, 2]
    """
    return np.asarray(xp.asnumpy(arr) if HAS_CUPY else arr)


def gpu_pack_bitstream(bits: Any) -> Any:
    """Packs zeros and ones of shape (N,) or (B, N) into uint64 words along the last axis.

    A value other than 0 and 1 is a ValueError with its index.

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import gpu_pack_bitstream, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     to_host(gpu_pack_bitstream([1, 0, 1, 1])).tolist()
    [13]
    """
    if not _on_device():
        return pack_bitstream(bits)
    array = _device_array(bits, "bits")
    if array.ndim == 0:
        raise ValueError("bits must have at least one axis")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"bits must hold numbers or booleans, not {array.dtype}")
    if array.dtype.kind in "fiu" and array.dtype != np.uint8:
        # Map every other value to 2, so that a cast to a byte cannot turn it into 0 or 1.
        array = xp.where(array == 1, 1, xp.where(array == 0, 0, 2))
    array = xp.ascontiguousarray(array.astype(np.uint8, copy=False))
    n_bits = array.shape[-1]
    words = xp.empty((*array.shape[:-1], words_of(n_bits)), np.uint64)
    if words.size:
        wrong = xp.asarray(np.array([NONE], np.uint64))
        n_halves = 2 * words.size
        n_streams = words.size // words.shape[-1]
        arguments = (array, words, _u64(n_streams), _u64(n_bits), _u64(2 * words.shape[-1]), wrong)
        _kernel("pack")((_blocks(32 * n_halves),), (THREADS,), arguments)
        first = int(to_host(wrong)[0])
        if first != NONE:
            index = tuple(int(i) for i in np.unravel_index(first, array.shape))
            place = index[0] if len(index) == 1 else index
            raise ValueError(f"bits at index {place} is {_device_array(bits, 'bits')[index]}, neither 0 nor 1")
    return words


def gpu_vec_and(a: Any, b: Any) -> Any:
    """Returns the bits that are one in both packed arrays: the product of independent unipolar streams.

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import gpu_vec_and, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     to_host(gpu_vec_and([12], [10])).tolist()
    [8]
    """
    if not _on_device():
        return vec_and(a, b)
    left, right = _device_words(a, "a"), _device_words(b, "b")
    if left.shape[-1:] != right.shape[-1:]:
        raise ValueError(f"streams differ in words: shapes are {left.shape} and {right.shape}")
    return xp.bitwise_and(left, right)


def gpu_popcount(packed: Any) -> Any:
    """Counts the ones of each word; the result has the shape of the words.

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import gpu_popcount, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     to_host(gpu_popcount([0, 7])).tolist()
    [0, 3]
    """
    if not _on_device():
        return numpy_streams.count_ones(as_words(packed, "packed")).astype(np.uint64)
    words = _device_words(packed, "packed")
    counts = xp.empty(words.shape, np.uint64)
    if words.size:
        _kernel("popcount")((_blocks(words.size),), (THREADS,), (words, counts, _u64(words.size)))
    return counts


def gpu_vec_mac(packed_weights: Any, packed_inputs: Any) -> Any:
    """Multiplies and accumulates a dense layer: the ones of weights AND inputs, summed for each neuron.

    Parameters
    ----------
    packed_weights
        uint64 streams of shape (n_neurons, n_inputs, words).
    packed_inputs
        uint64 streams of shape (n_inputs, words), or (N, n_inputs, words) for a batch.

    Returns
    -------
    array of xp
        uint64 counts of shape (n_neurons,) or (N, n_neurons).

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import gpu_vec_mac, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     to_host(gpu_vec_mac([[[7], [1]], [[3], [0]]], [[6], [1]])).tolist()
    [3, 1]
    """
    if not _on_device():
        w, x = as_words(packed_weights, "packed_weights"), as_words(packed_inputs, "packed_inputs")
        check_layer(w.shape, x.shape)
        return numpy_streams.and_counts(w, x)
    w, x = _device_words(packed_weights, "packed_weights"), _device_words(packed_inputs, "packed_inputs")
    check_layer(w.shape, x.shape)
    n_neurons, n_words = w.shape[0], w.shape[1] * w.shape[2]
    n_samples = x.shape[0] if x.ndim == 3 else 1
    counts = xp.zeros((n_samples, n_neurons), np.uint64)
    if counts.size and n_words:
        pairs = n_words % 2 == 0 and _address(w) % 16 == 0 and _address(x) % 16 == 0
        per_tile = 1 if n_samples == 1 else TILE_SAMPLES
        kernel = _kernel(("mac_sample" if n_samples == 1 else "mac_batch") + ("_pairs" if pairs else ""))
        units = n_words // 2 if pairs else n_words
        neurons = -(-n_neurons // TILE_NEURONS)
        # One launch for each GRID_Y tiles of samples.
        for start in range(0, n_samples, GRID_Y * per_tile):
            inputs, out = x.reshape(n_samples, n_words)[start : start + GRID_Y * per_tile], counts[start:]
            n = inputs.shape[0]
            tiles = neurons * -(-n // per_tile)
            # With few tiles, several blocks share the words of each tile.
            parts = max(1, min(BLOCKS_PER_PROCESSOR * _processors() // tiles, -(-units // THREADS)))
            arguments = (w, inputs, out, _u64(n_neurons), _u64(n), _u64(units))
            kernel((neurons, -(-n // per_tile), parts), (THREADS,), arguments)
    return counts[0] if x.ndim == 2 else counts


def gpu_encode(
    probs: Any,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    domain: Domain = Domain.INPUT,
    layer: SupportsIndex = 0,
    first_row: SupportsIndex = 0,
) -> Any:
    """Encodes values as packed streams on the device: the bits of `aleatron.encode`.

    Parameters
    ----------
    probs
        Values in [0, 1], or in [-1, 1] for bipolar streams, on the host or on the device.
    length, seed
        Bits per stream, and the key of the random words.
    domain, layer, first_row
        As for `aleatron.accel.numpy_streams.encode`.

    Returns
    -------
    array of xp
        uint64 of shape (\\*probs.shape, ceil(length / 64)).

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import gpu_encode, to_host
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     to_host(gpu_encode([0.0, 1.0], length=3)).tolist()
    [[0], [7]]
    """
    if not _on_device():
        return numpy_streams.encode(
            probs, length, seed, polarity=polarity, domain=domain, layer=layer, first_row=first_row
        )
    bits, key = as_length(length), as_seed(seed)
    values = _device_values(probs, polarity)
    n_units, row, c3 = numpy_streams.address(values.shape, domain, layer, first_row)
    words = xp.empty((*values.shape, words_of(bits)), np.uint64)
    if values.size:
        used = -(-bits // 32)
        arguments = (
            values,
            words,
            _u64(values.size),
            _u64(n_units),
            _u64(2 * words.shape[-1]),
            _u64(used),
            np.uint32(2**32 - 1 if bits % 32 == 0 else (1 << bits % 32) - 1),
            _u64(key),
            np.uint32(row),
            np.uint32(c3),
            np.int32(polarity == "bipolar"),
        )
        _kernel("encode")((_blocks(2 * words.size),), (THREADS,), arguments)
    return words


class GpuLayer:
    """A unipolar dense layer whose weight streams stay on the device: the bits of `aleatron.DenseLayer`.

    Examples
    --------
    >>> import warnings
    >>> from aleatron.accel.gpu_backend import GpuLayer
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # there may be no GPU
    ...     GpuLayer([[1.0, 0.0], [1.0, 1.0]], length=64)([1.0, 1.0])
    array([1., 2.])
    """

    def __init__(self, weights: Any, length: SupportsIndex = 1024, seed: SupportsIndex = 24301) -> None:
        self._length, self._seed = as_length(length), as_seed(seed)
        self.weights = weights

    @property
    def weights(self) -> Floats:
        """The weights, (n_neurons, n_inputs), in [0, 1]: assign to them to change them."""
        return self._weights

    @weights.setter
    def weights(self, weights: Any) -> None:
        values = as_values(weights, "weight")
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"weights have shape {values.shape}, not (n_neurons, n_inputs)")
        self._streams = gpu_encode(values, self._length, self._seed, domain=Domain.WEIGHT)
        self._weights = np.array(values)
        self._weights.flags.writeable = False

    def counts(self, x: Any, seed: SupportsIndex = 44257) -> Words:
        """Counts the products of a sample (n_inputs,) or a batch (N, n_inputs)."""
        n = self._weights.shape[1]
        values = as_values(x, "value")
        if values.ndim not in (1, 2) or values.shape[-1] != n:
            raise ValueError(f"x has shape {values.shape}; expected ({n},) for a sample or (N, {n}) for a batch")
        return to_host(gpu_vec_mac(self._streams, gpu_encode(values, self._length, seed)))

    def __call__(self, x: Any, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of a sample (n_inputs,) or a batch (N, n_inputs)."""
        return self.counts(x, seed) / np.float64(self._length)

    def forward_encoded(self, streams: Any) -> Floats:
        """Computes the outputs of packed streams, (n_inputs, words) or (N, n_inputs, words)."""
        words = as_streams(streams, "streams", self._length)
        return to_host(gpu_vec_mac(self._streams, words)) / np.float64(self._length)


def _device_array(obj: Any, name: str) -> Any:
    """An array on the device: a device array unchanged, any other argument converted by NumPy."""
    return obj if isinstance(obj, xp.ndarray) else xp.asarray(read(obj, name))


def _device_words(obj: Any, name: str) -> Any:
    """Packed words on the device, in C order."""
    if not isinstance(obj, xp.ndarray):
        return xp.asarray(as_words(obj, name))
    if obj.dtype != np.uint64:
        raise TypeError(f"{name} must hold packed words (uint64), not {obj.dtype}")
    return xp.ascontiguousarray(obj)


def _device_values(obj: Any, polarity: str) -> Any:
    """Values on the device as float64, checked."""
    if not isinstance(obj, xp.ndarray):
        return xp.asarray(as_values(obj, "probability", polarity))
    low, high = interval(polarity)
    if obj.dtype.kind not in "fiub":
        raise TypeError(f"probs must hold real numbers, not {obj.dtype}")
    values = xp.ascontiguousarray(obj.astype(np.float64, copy=False))
    right = (values >= low) & (values <= high)
    if not bool(right.all()):
        # Raises with index and value.
        as_values(to_host(values), "probability", polarity)
    return values


def _u64(value: int) -> np.uint64:
    """A kernel argument: CuPy passes NumPy scalars by their type."""
    return np.uint64(value)


def _address(array: Any) -> int:
    return int(array.__cuda_array_interface__["data"][0])


def _blocks(n_threads: int) -> int:
    """Returns the blocks of a kernel whose threads iterate if there are too few."""
    return max(1, min(-(-n_threads // THREADS), 16 * BLOCKS_PER_PROCESSOR * _processors()))


@once
def _module(device: int) -> Any:
    """The kernels, compiled once for each device of this process."""
    source = importlib.resources.files("aleatron.accel").joinpath("stream_kernels.cu").read_text(encoding="utf-8")
    return xp.RawModule(code=source, options=("-std=c++17",))


@once
def _processors_of(device: int) -> int:
    return int(xp.cuda.Device(device).attributes["MultiProcessorCount"])


def _processors() -> int:
    return _processors_of(int(xp.cuda.runtime.getDevice()))


def _kernel(name: str) -> Any:
    return _module(int(xp.cuda.runtime.getDevice())).get_function(name)
