"""The names of `sc_neurocore_engine` over Aleatron: change the import line, keep the program.

Signatures, defaults and shapes are those of `sc_neurocore_engine` 3.15.7 and of its `GpuDenseLayer`; the bits are Aleatron's.
All forward methods of a layer give the same bits for the same seed. Faults of that package are errors or right results
here; `docs/python/sc-neurocore.md` lists every difference. `VectorizedSCLayer` also runs without the compiled extension, on NumPy.

>>> from aleatron.compat import VectorizedSCLayer, batch_encode_numpy
>>> layer = VectorizedSCLayer(n_inputs=4, n_neurons=2, length=256)
>>> x = [0.1, 0.2, 0.3, 0.4]
>>> packed = batch_encode_numpy(x, length=256, seed=42)
>>> bool((layer.forward_prepacked_numpy(packed) == layer.forward_numpy(x, seed=42)).all())
True
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

import aleatron as al
from aleatron._arrays import as_words

if TYPE_CHECKING:
    from aleatron import set_num_threads, simd_tier
    from aleatron.accel.gpu_backend import GpuLayer
elif al._why_no_core is None:
    from aleatron import set_num_threads, simd_tier
else:

    def __getattr__(name: str) -> object:
        if name in ("set_num_threads", "simd_tier"):
            # Raises the error with the reason why the extension is missing.
            return getattr(al, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DenseLayer",
    "FixedPointLif",
    "GpuDenseLayer",
    "VectorizedSCLayer",
    "batch_encode",
    "batch_encode_numpy",
    "batch_lif_run",
    "batch_lif_run_multi",
    "batch_lif_run_varying",
    "pack_bitstream",
    "pack_bitstream_numpy",
    "popcount",
    "popcount_numpy",
    "set_num_threads",
    "simd_tier",
    "unpack_bitstream",
    "unpack_bitstream_numpy",
]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Trace = tuple[npt.NDArray[np.int32], npt.NDArray[np.int16]]


def _of_rank(array: Any, ndim: int, name: str) -> Any:
    """Checks the number of axes of an argument by that of its result."""
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {'one axis' if ndim == 1 else f'{ndim} axes'}")
    return array


class DenseLayer:
    """A dense layer on the CPU.

    Examples
    --------
    >>> from aleatron.compat import DenseLayer
    >>> layer = DenseLayer(3, 2, length=100)
    >>> layer.forward([0.2, 0.4, 0.6]) == layer.forward_fast([0.2, 0.4, 0.6])
    True
    """

    def __init__(
        self,
        n_inputs: SupportsIndex,
        n_neurons: SupportsIndex,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
    ) -> None:
        self._layer = al.DenseLayer(n_inputs, n_neurons, length, seed, device="cpu")

    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
        return self._layer.n_inputs

    @property
    def n_neurons(self) -> int:
        """The number of neurons."""
        return self._layer.n_neurons

    @property
    def length(self) -> int:
        """Bits per stream."""
        return self._layer.length

    def forward(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> list[float]:
        """Computes the outputs of one sample as a list."""
        return cast("list[float]", self.forward_numpy(input_values, seed).tolist())

    def forward_fast(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> list[float]:
        """Computes the outputs of one sample as a list."""
        return self.forward(input_values, seed)

    def forward_numpy(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of one sample."""
        return cast(Floats, _of_rank(self._layer(input_values, seed), 1, "input_values"))

    def forward_batch_numpy(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of a batch of shape (N, n_inputs)."""
        return cast(Floats, _of_rank(self._layer(input_values, seed), 2, "input_values"))

    def forward_prepacked(self, packed_inputs: npt.ArrayLike) -> list[float]:
        """Computes the outputs of streams of shape (n_inputs, words) as a list."""
        return cast("list[float]", self.forward_prepacked_numpy(packed_inputs).tolist())

    def forward_prepacked_numpy(self, packed_inputs: npt.ArrayLike) -> Floats:
        """Computes the outputs of streams of shape (n_inputs, words); bits past the length do not count."""
        return self._layer.forward_encoded(_prepacked(packed_inputs, self.length))

    def get_weights(self) -> list[list[float]]:
        """Returns the weights, a list for each neuron."""
        return cast("list[list[float]]", self._layer.weights.tolist())

    def set_weights(self, weights: npt.ArrayLike) -> None:
        """Replaces the weights, (n_neurons, n_inputs), and draws their streams."""
        self._layer.weights = weights

    def refresh_packed_weights(self) -> None:
        """Does nothing: the streams are always those of the weights."""

    def __repr__(self) -> str:
        layer = self._layer
        sizes = f"n_inputs={layer.n_inputs}, n_neurons={layer.n_neurons}, length={layer.length}"
        return f"DenseLayer({sizes}, seed={layer.seed})"


def _prepacked(packed: npt.ArrayLike, length: int) -> Words:
    """Reads streams of one sample and clears the bits past the length, in a copy if there are any."""
    exact = type(packed) is np.ndarray and packed.dtype == np.uint64
    words: Words = _of_rank(packed if exact else as_words(packed, "packed_inputs"), 2, "packed_inputs")
    if length % 64 == 0 or words.shape[-1] != -(-length // 64):
        return words
    mask = np.uint64((1 << length % 64) - 1)
    if (words[:, -1] & ~mask).any():
        words = words.copy()
        words[:, -1] &= mask
    return words


class _NumpyLayer:
    """The layer without the compiled extension: the same bits, on NumPy."""

    def __init__(self, weights: Floats, length: int, seed: int) -> None:
        self._length, self._seed = length, seed
        self.weights = weights

    @property
    def weights(self) -> Floats:
        return self._weights

    @weights.setter
    def weights(self, weights: npt.ArrayLike) -> None:
        from aleatron.accel import numpy_streams

        values = np.array(weights, np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"weights have shape {values.shape}, not (n_neurons, n_inputs)")
        self._streams = numpy_streams.encode(values, self._length, self._seed, domain=numpy_streams.Domain.WEIGHT)
        self._weights = values

    def __call__(self, x: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        from aleatron.accel.backend import NumpyBackend

        return NumpyBackend().sc_forward(self._streams, x, length=self._length, seed=seed)

    def forward_encoded(self, streams: Words) -> Floats:
        from aleatron.accel import numpy_streams

        counts = numpy_streams.layer_counts(self._streams, streams[None], self._length, "unipolar")
        outputs: Floats = counts[0] / float(self._length)
        return outputs


@dataclass
class VectorizedSCLayer:
    """A dense layer that takes and returns arrays.

    `seed` decides the weights: use different seeds for different weights. `use_gpu` runs the layer on a GPU, through CuPy
    if it is installed, or warns and uses the CPU without a GPU; the bits are the same. Without the compiled extension the layer
    runs on NumPy, with the same bits.

    Examples
    --------
    >>> from aleatron.compat import VectorizedSCLayer
    >>> layer = VectorizedSCLayer(n_inputs=64, n_neurons=32, length=2048)
    >>> layer.forward([0.5] * 64).shape
    (32,)
    >>> layer.forward_batch_numpy([[0.5] * 64] * 3, seed=42).shape
    (3, 32)
    """

    n_inputs: int
    n_neurons: int
    length: int = 1024
    use_gpu: bool = False
    seed: int = 24301
    packed_weights: None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._engine = self._make_engine()
        self._weights = np.array(self._engine.weights)

    def _make_engine(self) -> al.DenseLayer | GpuLayer | _NumpyLayer:
        """The layer itself: with CuPy if it is available, on another GPU, or on the CPU."""
        if self.use_gpu:
            # Not before it is needed: it imports CuPy.
            from aleatron.accel import gpu_backend, numpy_streams

            if gpu_backend.HAS_CUPY:
                weights = numpy_streams.random_weights(self.n_neurons, self.n_inputs, self.seed)
                return gpu_backend.GpuLayer(weights, self.length, self.seed)
        gpu = self.use_gpu and al._why_no_core is None and GpuDenseLayer.is_gpu_available()
        if self.use_gpu and not gpu:
            warnings.warn("there is no GPU: the layer runs on the CPU", UserWarning, stacklevel=4)
        if al._why_no_core is not None:
            from aleatron.accel import numpy_streams

            weights = numpy_streams.random_weights(self.n_neurons, self.n_inputs, self.seed)
            return _NumpyLayer(weights, self.length, self.seed)
        device: Literal["cpu", "gpu"] = "gpu" if gpu else "cpu"
        return al.DenseLayer(self.n_inputs, self.n_neurons, self.length, self.seed, device=device)

    @property
    def weights(self) -> Floats:
        """The weights, (n_neurons, n_inputs): assign to them, or change them in place and call
        `_refresh_packed_weights`.
        """
        return self._weights

    @weights.setter
    def weights(self, weights: npt.ArrayLike) -> None:
        self._engine.weights = weights
        self._weights = np.array(self._engine.weights)

    def _refresh_packed_weights(self) -> None:
        """Draws the streams of weights that were changed in place."""
        self._engine.weights = self._weights

    def forward(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of one sample."""
        return cast(Floats, _of_rank(self._engine(input_values, seed), 1, "input_values"))

    def forward_fast(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of one sample."""
        return self.forward(input_values, seed)

    def forward_numpy(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of one sample."""
        return self.forward(input_values, seed)

    def forward_batch_numpy(self, input_values: npt.ArrayLike, seed: SupportsIndex = 44257) -> Floats:
        """Computes the outputs of a batch of shape (N, n_inputs)."""
        return cast(Floats, _of_rank(self._engine(input_values, seed), 2, "input_values"))

    def forward_prepacked(self, packed_inputs: npt.ArrayLike) -> Floats:
        """Computes the outputs of streams of shape (n_inputs, words); bits past the length do not count."""
        return self._engine.forward_encoded(_prepacked(packed_inputs, self.length))

    def forward_prepacked_numpy(self, packed_inputs: npt.ArrayLike) -> Floats:
        """Computes the outputs of streams of shape (n_inputs, words); bits past the length do not count."""
        return self.forward_prepacked(packed_inputs)


class GpuDenseLayer:
    """A dense layer on a GPU; raises RuntimeError without one.

    `max_batch` is accepted and not needed: a batch of any size is computed.
    """

    def __init__(
        self,
        n_inputs: SupportsIndex,
        n_neurons: SupportsIndex,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        max_batch: SupportsIndex = 256,
    ) -> None:
        if operator.index(max_batch) < 1:
            raise ValueError(f"max_batch is {operator.index(max_batch)}; it must be at least 1")
        self._layer = al.DenseLayer(n_inputs, n_neurons, length, seed, device="gpu")

    @staticmethod
    def is_gpu_available() -> bool:
        """Says whether there is a GPU."""
        return bool(al.gpus())

    def gpu_name(self) -> str:
        """Returns the name of the GPU in use."""
        return al.gpus()[0].name

    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
        return self._layer.n_inputs

    @property
    def n_neurons(self) -> int:
        """The number of neurons."""
        return self._layer.n_neurons

    @property
    def length(self) -> int:
        """Bits per stream."""
        return self._layer.length

    def forward_fast(self, input_values: npt.ArrayLike, seed: SupportsIndex = 42) -> list[float]:
        """Computes the outputs of one sample as a list."""
        return cast("list[float]", _of_rank(self._layer(input_values, seed), 1, "input_values").tolist())

    def forward_batch(
        self, inputs_flat: npt.ArrayLike, n_samples: SupportsIndex, seed: SupportsIndex = 42
    ) -> list[float]:
        """Computes the outputs of `n_samples` samples, flat in and flat out, as a list."""
        flat = np.asarray(inputs_flat)
        n, expected = operator.index(n_samples), operator.index(n_samples) * self.n_inputs
        if flat.shape != (expected,):
            raise ValueError(f"inputs_flat has shape {flat.shape}; expected ({expected},) for {n} samples")
        return self._layer(flat.reshape(n, self.n_inputs), seed).ravel().tolist()


def batch_encode(
    probs: npt.ArrayLike, length: SupportsIndex = 1024, seed: SupportsIndex = 44257
) -> list[list[int]]:
    """Encodes probabilities as packed streams, a list of words for each; the bits of `batch_encode_numpy`."""
    return cast("list[list[int]]", batch_encode_numpy(probs, length, seed).tolist())


def batch_encode_numpy(
    probs: npt.ArrayLike, length: SupportsIndex = 1024, seed: SupportsIndex = 44257
) -> Words:
    """Encodes a vector of probabilities as packed streams of shape (n, words).

    Examples
    --------
    >>> from aleatron.compat import batch_encode_numpy
    >>> batch_encode_numpy([0.0, 1.0], length=70).tolist()
    [[0, 0], [18446744073709551615, 63]]
    """
    return cast(Words, _of_rank(al.encode(probs, length, seed), 2, "words of probs"))


def pack_bitstream(bits: npt.ArrayLike) -> list[Any]:
    """Packs bits, any value but zero being a one, to a list of words, or to one for each row.

    Examples
    --------
    >>> from aleatron.compat import pack_bitstream
    >>> pack_bitstream([1, 0, 1]), pack_bitstream([[1, 0, 1], [1, 1, 1]])
    ([5], [[5], [7]])
    """
    return cast("list[Any]", al.pack(bits).tolist())


def pack_bitstream_numpy(bits: npt.ArrayLike) -> Words:
    """Packs a vector of bits, any value but zero being a one."""
    return cast(Words, _of_rank(al.pack(bits), 1, "bits"))


def unpack_bitstream(
    packed: npt.ArrayLike, original_length: SupportsIndex, original_shape: Sequence[int] | None = None
) -> bytes | list[bytes]:
    """Unpacks words to bytes of zeros and ones, or rows of words to such bytes for each.

    For rows `original_length` is the bits of all of them together, unless `original_shape` defines the bits of each.

    Examples
    --------
    >>> from aleatron.compat import unpack_bitstream
    >>> list(unpack_bitstream([5], 4))
    [1, 0, 1, 0]
    >>> [list(row) for row in unpack_bitstream([[5], [7]], 6)]
    [[1, 0, 1], [1, 1, 1]]
    """
    words, length = as_words(packed, "packed"), operator.index(original_length)
    if words.ndim == 1:
        return al.unpack(words, length).tobytes()
    rows = _of_rank(words, 2, "packed").shape[0]
    if original_shape is not None:
        length = operator.index(original_shape[-1])
    elif rows:
        if length % rows:
            raise ValueError(f"original_length is {length}, not a multiple of the {rows} rows")
        length //= rows
    return [row.tobytes() for row in al.unpack(words, length)]


def unpack_bitstream_numpy(packed: npt.ArrayLike, original_length: SupportsIndex) -> npt.NDArray[np.uint8]:
    """Unpacks a vector of words to zeros and ones."""
    return cast("npt.NDArray[np.uint8]", _of_rank(al.unpack(packed, original_length), 1, "packed"))


def popcount(packed: npt.ArrayLike) -> int:
    """Counts the ones of all words."""
    return al.popcount(packed)


def popcount_numpy(packed: npt.ArrayLike) -> int:
    """Counts the ones of all words."""
    return al.popcount(packed)


def batch_lif_run(
    n_steps: SupportsIndex,
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    i_t: SupportsIndex,
    noise_in: SupportsIndex = 0,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> Trace:
    """Runs one neuron under a constant current; returns spikes (int32) and potentials (int16).

    Examples
    --------
    >>> from aleatron.compat import batch_lif_run
    >>> spikes, voltages = batch_lif_run(4, leak_k=20, gain_k=256, i_t=100)
    >>> spikes.tolist(), voltages.tolist()
    ([0, 0, 1, 0], [100, 192, 0, 0])
    """
    return _trace(
        al.lif_run(
            n_steps,
            leak_k,
            gain_k,
            i_t,
            noise_in,
            data_width=data_width,
            fraction=fraction,
            v_rest=v_rest,
            v_reset=v_reset,
            v_threshold=v_threshold,
            refractory_period=refractory_period,
        )
    )


def batch_lif_run_multi(
    n_neurons: SupportsIndex,
    n_steps: SupportsIndex,
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    currents: npt.ArrayLike,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> Trace:
    """Runs a neuron for each current; returns spikes (int32) and potentials (int16) of shape (n_neurons, n_steps)."""
    if np.shape(currents) != (operator.index(n_neurons),):
        n = operator.index(n_neurons)
        raise ValueError(f"currents has shape {np.shape(currents)}; expected ({n},) for {n} neurons")
    return _trace(
        al.lif_run_multi(
            n_steps,
            leak_k,
            gain_k,
            currents,
            data_width=data_width,
            fraction=fraction,
            v_rest=v_rest,
            v_reset=v_reset,
            v_threshold=v_threshold,
            refractory_period=refractory_period,
        )
    )


def batch_lif_run_varying(
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    currents: npt.ArrayLike,
    noises: npt.ArrayLike | None = None,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> Trace:
    """Runs one neuron with a current and perhaps a noise for each step; returns spikes (int32) and potentials (int16)."""
    return _trace(
        al.lif_run_varying(
            leak_k,
            gain_k,
            currents,
            noises,
            data_width=data_width,
            fraction=fraction,
            v_rest=v_rest,
            v_reset=v_reset,
            v_threshold=v_threshold,
            refractory_period=refractory_period,
        )
    )


def _trace(trace: tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]) -> Trace:
    return trace[0].astype(np.int32), trace[1]


class FixedPointLif:
    """One fixed-point neuron with its state.

    Examples
    --------
    >>> from aleatron.compat import FixedPointLif
    >>> neuron = FixedPointLif()
    >>> neuron.step(20, 256, 100), neuron.get_state()
    ((0, 100), {'v': 100, 'refractory_counter': 0})
    """

    def __init__(
        self,
        data_width: SupportsIndex = 16,
        fraction: SupportsIndex = 8,
        v_rest: SupportsIndex = 0,
        v_reset: SupportsIndex = 0,
        v_threshold: SupportsIndex = 256,
        refractory_period: SupportsIndex = 2,
    ) -> None:
        self._neuron = al.FixedPointLif(data_width, fraction, v_rest, v_reset, v_threshold, refractory_period)

    def step(
        self, leak_k: SupportsIndex, gain_k: SupportsIndex, i_t: SupportsIndex, noise_in: SupportsIndex = 0
    ) -> tuple[int, int]:
        """Steps once; returns whether it spiked (0 or 1) and the potential after the step."""
        return self._neuron.step(leak_k, gain_k, i_t, noise_in)

    def reset(self) -> None:
        """Puts the neuron back to rest."""
        self._neuron.reset()

    def reset_state(self) -> None:
        """Puts the neuron back to rest."""
        self._neuron.reset()

    def get_state(self) -> dict[str, int]:
        """Returns the potential `v` and the `refractory_counter`."""
        return {"v": self._neuron.v, "refractory_counter": self._neuron.refractory_counter}

    def __repr__(self) -> str:
        return repr(self._neuron)
