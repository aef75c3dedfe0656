"""The compiled part of Aleatron; use the package `aleatron`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, SupportsIndex, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, TypeAlias, disjoint_base

from aleatron._cuda import CudaArray
from aleatron._network import Activation, Layer, NetworkLayer
from aleatron._types import (
    Arithmetic,
    CircuitCost,
    CircuitTrace,
    DeviceNames,
    LayerIntegers,
    LayerOutput,
    LayerSettings,
    OnCuda,
    Polarity,
    Sharing,
    Width,
)

_Spikes: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]

_Progress: TypeAlias = Callable[[int, int, str, int, int], object] | None

_Out = TypeVar("_Out")

__all__ = [
    "Circuit",
    "ConvLayer",
    "DenseLayer",
    "FixedPointLif",
    "Network",
    "SparseLayer",
    "StreamLayer",
    "StreamNetwork",
    "Tensor",
    "_CudaMemory",
    "_EvalProgram",
    "_Evaluation",
    "_Explorer",
    "_FileLock",
    "_Job",
    "_LanguageJob",
    "_NetworkBuilder",
    "_Plan",
    "Transformer",
    "_Generation",
    "__version__",
    "_after_fork",
    "_at_exit",
    "_correlation",
    "_count_ones",
    "_digits",
    "_evaluate",
    "_evaluate_language_model",
    "_find",
    "_train",
    "_gpus",
    "_read_exploration",
    "_read_found",
    "_rounding_bound",
    "_run_program",
    "encode",
    "get_draw_memory",
    "get_num_threads",
    "lif_run",
    "lif_run_multi",
    "lif_run_varying",
    "pack",
    "set_draw_memory",
    "set_num_threads",
    "simd_tier",
    "unpack",
]
__version__: str

@final
class _CudaMemory:
    """Memory of a CUDA device with 64-bit elements; `CudaArray` wraps it as an array."""

    def __new__(cls, place: int, len: int, dtype: str) -> Self: ...
    @property
    def address(self) -> int:
        """The address of the memory."""
    def read(self) -> npt.NDArray[np.uint64]:
        """A copy on the host, as uint64."""

@disjoint_base
class StreamLayer:
    """The base class of all layers of stochastic neurons; create a `DenseLayer`, a `SparseLayer` or a
    `ConvLayer`.

    A weight or an input is a stream of `length` bits whose share of ones is its value. AND
    multiplies two streams, counting ones adds the products: each output is a noisy dot product. The
    same seeds give the same bits on every machine and device, with any number of threads.

    Examples
    --------
    >>> import aleatron as al
    >>> layers = [al.DenseLayer(3, 2), al.SparseLayer([[True]])]
    >>> [isinstance(layer, al.StreamLayer) for layer in layers]
    [True, True]
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]
    @overload
    def __call__(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: None = None) -> CudaArray: ...
    @overload
    def __call__(
        self, x: npt.ArrayLike, seed: SupportsIndex = 44257, *, out: None = None
    ) -> npt.NDArray[np.float64]: ...
    @overload
    def __call__(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: _Out) -> _Out: ...
    @overload
    def counts(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: None = None) -> CudaArray:
        """Counts ones: the integers behind the outputs, as uint64 of the shape a call would return.

        Examples
        --------
        >>> import aleatron as al
        >>> layer = al.DenseLayer(3, 2, length=100)
        >>> bool((layer.counts([0.2, 0.4, 0.6]) / 100 == layer([0.2, 0.4, 0.6])).all())
        True
        """
    @overload
    def counts(
        self, x: npt.ArrayLike, seed: SupportsIndex = 44257, *, out: None = None
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    def counts(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: _Out) -> _Out: ...
    def forward_encoded(self, streams: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Computes outputs from packed streams, (n_inputs, words) or (N, n_inputs, words), as `encode`
        makes them.

        Encode once to use the same inputs with several layers.

        Examples
        --------
        >>> import aleatron as al
        >>> layer = al.DenseLayer(3, 2, length=100)
        >>> streams = al.encode([0.2, 0.4, 0.6], length=100, seed=7)
        >>> bool((layer.forward_encoded(streams) == layer([0.2, 0.4, 0.6], seed=7)).all())
        True
        """
    def counts_encoded(self, streams: npt.ArrayLike) -> npt.NDArray[np.uint64]:
        """Counts ones from packed streams; see `forward_encoded` and `counts`."""
    def device_for(self, n_samples: SupportsIndex = 1) -> str:
        """Returns the device of a batch of `n_samples`, such as "cpu" or "gpu:0", or "auto" if the
        first such call has yet to measure it.

        Examples
        --------
        >>> import aleatron as al
        >>> al.DenseLayer(3, 2, device="cpu").device_for(1)
        'cpu'
        """
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
    @property
    def n_neurons(self) -> int:
        """The number of neurons."""
    @property
    def length(self) -> int:
        """Bits per stream."""
    @property
    def seed(self) -> int:
        """The seed of the weights."""
    @property
    def polarity(self) -> Polarity:
        """"unipolar", "bipolar" or "signed"."""
    @property
    def generator(self) -> str:
        """The generator of the bits."""
    @property
    def width(self) -> str:
        """Bits of shared sequences, or "auto"."""
    @property
    def sharing(self) -> Sharing:
        """How many sequences streams share: "all", "input" or "stream"."""
    @property
    def device(self) -> str:
        """The requested device."""
    @property
    def notes(self) -> list[str]:
        """Notes on the execution of the layer, such as a device that "auto" could not use."""

@final
class DenseLayer(StreamLayer):
    """A dense layer of stochastic neurons: every neuron sees every input.

    A weight or an input is a stream of `length` bits whose share of ones is its value. AND
    multiplies two streams, counting ones adds the products: each output is a noisy dot product
    whose error falls with the square root of `length`. The same seeds give the same bits on every
    machine and device, with any number of threads.

    Parameters
    ----------
    n_inputs, n_neurons
        The size of the layer, each at least 1.
    length
        Bits per stream, at least 1; need not be a multiple of 64.
    seed
        Decides the random weights (uniform over the polarity's interval) and the bits of the weight
        streams.
    polarity
        "unipolar" for values in [0, 1], "bipolar" for values in [-1, 1].
    device
        "cpu"; "gpu" or "gpu:1", "cuda" or "cuda:1" (NVIDIA cards through CUDA), which raise
        RuntimeError where there is none; a list of such names, which work as one; or "auto" for
        wherever a batch of the size is faster, which its first call measures. The environment
        variable ALEATRON_DEVICE decides for "auto" where it is set, and ALEATRON_GPU or
        SC_GPU_ADAPTER names the GPU.
    generator, width, sharing
        Where the bits come from, as for `Network.forward_streams`.

    Examples
    --------
    >>> import aleatron as al
    >>> layer = al.DenseLayer(64, 32)
    >>> y = layer([0.5] * 64)
    >>> y.shape, y.dtype
    ((32,), dtype('float64'))
    >>> exact = layer.weights @ ([0.5] * 64)
    >>> bool(abs(y - exact).max() < 0.5)
    True

    One call for a whole batch; a sample's bits depend on its index, not on the batch's size:

    >>> layer([[0.1] * 64, [0.9] * 64]).shape
    (2, 32)
    """

    def __new__(
        cls,
        n_inputs: SupportsIndex,
        n_neurons: SupportsIndex,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self: ...
    @classmethod
    def from_weights(
        cls,
        weights: npt.ArrayLike,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self:
        """A layer with given weights of shape (n_neurons, n_inputs).

        Raises
        ------
        ValueError
            If the weights are not a matrix, or one is NaN or outside the polarity's interval.

        Examples
        --------
        >>> import aleatron as al
        >>> layer = al.DenseLayer.from_weights([[0.5, -1.0]], length=4096, polarity="bipolar")
        >>> bool(abs(layer([-0.5, 0.25])[0] - (0.5 * -0.5 + -1.0 * 0.25)) < 0.1)
        True
        >>> sobol = {"length": 256, "polarity": "bipolar", "generator": "sobol"}
        >>> exact = al.DenseLayer.from_weights([[0.5, -1.0]], **sobol)
        >>> exact([-0.5, 0.25])
        array([-0.5])
        >>> al.DenseLayer.from_weights([[0.5, 1.5]])
        Traceback (most recent call last):
            ...
        ValueError: weight at index (0, 1) is 1.5, not in [0, 1]
        """
    @staticmethod
    def _part(
        n_neurons: int, first: int, weights: npt.ArrayLike | tuple[int, int], length: SupportsIndex, seed: SupportsIndex,
        polarity: Polarity, device: DeviceNames, generator: str, width: Width, sharing: Sharing
    ) -> DenseLayer:
        """Creates some neurons of a layer of `n_neurons`, from `first` on: `weights` are their
        weights, or (n, n_inputs) for random ones. Pickling is not supported: a copy would be a
        separate layer with other bits.
        """
    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """The weights, a read-only array of shape (n_neurons, n_inputs).

        Assign a whole matrix to replace them; calls in flight in other threads finish with the old
        ones.
        """
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class SparseLayer(StreamLayer):
    """A sparse layer of stochastic neurons: a neuron sees the inputs it is connected to, and costs no
    more than that.

    A connection has the weight and the bits that the `DenseLayer` of the same seed has there.

    Parameters
    ----------
    mask
        Booleans of shape (n_neurons, n_inputs): who sees whom.
    length, seed, polarity, device, generator, width, sharing
        As for `DenseLayer`.

    Examples
    --------
    >>> import aleatron as al
    >>> layer = al.SparseLayer([[True, False, True], [False, True, False]], length=256)
    >>> layer.n_connections
    3
    >>> layer([0.5, 0.5, 0.5]).shape
    (2,)
    """

    def __new__(
        cls,
        mask: npt.ArrayLike,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self: ...
    @classmethod
    def from_weights(
        cls,
        weights: npt.ArrayLike,
        mask: npt.ArrayLike,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self:
        """A layer with given weights and mask, both of shape (n_neurons, n_inputs); weights outside
        the mask have no effect.

        Examples
        --------
        >>> import aleatron as al
        >>> layer = al.SparseLayer.from_weights([[1.0, 0.5]], mask=[[True, False]], length=64)
        >>> layer([1.0, 1.0])
        array([1.])
        """
    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """The weights, a read-only array of shape (n_neurons, n_inputs), 0 where there is no
        connection.

        Assign a whole matrix to replace them; calls in flight in other threads finish with the old
        ones.
        """
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """The connections, read-only booleans of shape (n_neurons, n_inputs)."""
    @property
    def n_connections(self) -> int:
        """The number of connections."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class ConvLayer(StreamLayer):
    """A convolution of stochastic neurons over images or sequences.

    A pixel has one stream in a sample, used at every position and channel, and a weight one in the
    layer, as hardware shares them. Taps in the padding are skipped. A sample is of shape (channels,
    rows, columns) or (channels, places), and outputs have the same axes.

    Parameters
    ----------
    input_shape
        The shape of a sample, (channels, rows, columns) or (channels, places).
    n_channels
        Output channels.
    kernel_size
        The size of a kernel: one number for all axes, or one each.
    length, seed, polarity, device, generator, width, sharing
        As for `DenseLayer`.
    stride, dilation
        Steps from one position to the next, and from one tap to the next: one number for all axes,
        or one each.
    padding
        What lies before the first and after the last place: a number, one for each axis, or a pair
        (before, after) for each.
    groups
        Groups of channels that do not see each other.

    Examples
    --------
    >>> import aleatron as al
    >>> layer = al.ConvLayer((3, 16, 16), n_channels=8, kernel_size=3, padding=1, length=256)
    >>> layer.weights.shape, layer.output_shape
    ((8, 3, 3, 3), (8, 16, 16))
    >>> import numpy as np
    >>> layer(np.full((5, 3, 16, 16), 0.5)).shape
    (5, 8, 16, 16)
    """

    def __new__(
        cls,
        input_shape: Sequence[int],
        n_channels: SupportsIndex,
        kernel_size: SupportsIndex | Sequence[int],
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        stride: SupportsIndex | Sequence[int] = 1,
        padding: SupportsIndex | Sequence[int] | Sequence[tuple[int, int]] = 0,
        dilation: SupportsIndex | Sequence[int] = 1,
        groups: SupportsIndex = 1,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self: ...
    @classmethod
    def from_weights(
        cls,
        weights: npt.ArrayLike,
        input_shape: Sequence[int],
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        stride: SupportsIndex | Sequence[int] = 1,
        padding: SupportsIndex | Sequence[int] | Sequence[tuple[int, int]] = 0,
        dilation: SupportsIndex | Sequence[int] = 1,
        groups: SupportsIndex = 1,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
    ) -> Self:
        """A layer with given kernels of shape (n_channels, channels of a group, rows, columns) or
        (n_channels, channels of a group, places).

        Raises
        ------
        ValueError
            Where shapes do not fit, or a weight is NaN or outside the polarity's interval.

        Examples
        --------
        >>> import aleatron as al
        >>> edges = al.ConvLayer.from_weights([[[-1.0, 1.0]]], (1, 4), length=64, polarity="signed")
        >>> edges([[0.0, 1.0, 1.0, 0.0]])
        array([[ 1.,  0., -1.]])
        """
    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """The kernels, a read-only array of shape (n_channels, channels of a group, rows, columns),
        without rows for sequences.

        Assign a whole array to replace them; calls in flight in other threads finish with the old
        ones.
        """
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a sample."""
    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output of a sample."""
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class FixedPointLif:
    """One fixed-point neuron with its state.

    While its refractory counter runs, a step counts down, holds the potential at rest and stays
    silent. Else

        leak = wrap((v_rest - v) * leak_k >> fraction)
        gain = wrap(current * gain_k >> fraction)
        v' = wrap(v + leak + gain + noise)

    in two's complement of `data_width` bits; at or above `v_threshold` the neuron spikes, its
    potential becomes `v_reset` and its counter `refractory_period`.

    Examples
    --------
    >>> import aleatron as al
    >>> neuron = al.FixedPointLif()
    >>> [neuron.step(leak_k=20, gain_k=256, current=100) for _ in range(4)]
    [(0, 100), (0, 192), (1, 0), (0, 0)]
    >>> neuron.v, neuron.refractory_counter
    (0, 1)
    """

    def __new__(
        cls,
        data_width: SupportsIndex = 16,
        fraction: SupportsIndex = 8,
        v_rest: SupportsIndex = 0,
        v_reset: SupportsIndex = 0,
        v_threshold: SupportsIndex = 256,
        refractory_period: SupportsIndex = 2,
    ) -> Self: ...
    def step(
        self,
        leak_k: SupportsIndex,
        gain_k: SupportsIndex,
        current: SupportsIndex,
        noise: SupportsIndex = 0,
    ) -> tuple[int, int]:
        """Steps once; returns whether it spiked (0 or 1) and the potential after the step."""
    def reset(self) -> None:
        """Puts the neuron back to rest."""
    @property
    def v(self) -> int:
        """The potential."""
    @property
    def refractory_counter(self) -> int:
        """The steps it stays silent."""
    @staticmethod
    def _in_state(
        constants: tuple[int, int, int, int, int, int], v: int, refractory_counter: int
    ) -> FixedPointLif: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Network:
    r"""A neural network, in floating point and as streams.

    A network is a graph of operations, read from an ONNX file, imported from torch or scikit-learn,
    or built of instances of `aleatron.Layer`. Its layers are its products with constant weights,
    dense layers and convolutions. Calling the network computes its scores in floating point with 32
    bits. `forward_streams` computes them as a circuit would: every layer encodes its inputs as
    streams, counts, and turns the counts back into numbers, on which all other operations work; the
    next layer's inputs saturate. A network with one score tells two classes apart: 1 if the score
    is positive.

    Samples are flat or have the shape of the network's input: x has shape (N, n_features) or (N,
    \*input_shape), or is one sample.

    Parameters
    ----------
    layers
        The layers, each an `aleatron.Layer`.
    name
        A name for reports.
    offset, scale
        Features become inputs as `(feature - offset) / scale`: one number for all features, or one
        for each.

    Examples
    --------
    >>> import aleatron as al
    >>> network = al.Network.digits()
    >>> x, y = al.load_digits()
    >>> network.score(x, y)
    0.975
    >>> scores = network.forward_streams(x, length=64, generator="sobol")
    >>> bool((scores.argmax(axis=1) == y).mean() > 0.93)
    True
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls, layers: Iterable[Layer], name: str = "network", offset: npt.ArrayLike = 0.0, scale: npt.ArrayLike = 1.0
    ) -> Self: ...
    @staticmethod
    def digits(kind: Literal["noise-aware", "plain", "cnn"] = "noise-aware") -> Network:
        """Returns one of the embedded networks for 8 x 8 digits: "noise-aware", trained with the noise
        of counting, "plain", or "cnn", a convolutional network.
        """
    @staticmethod
    def from_state_dict(
        state: Mapping[str, npt.ArrayLike] | object,
        hidden: Activation = "relu",
        name: str = "network",
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> Network:
        """Creates a network of dense layers from a torch-style state dict, or from a module that has
        one.

        Each PREFIX.weight of shape (neurons, inputs), with its PREFIX.bias if there is one, is a
        layer, in the order given; `hidden` is applied between layers. Call `calibrated` with
        training samples to set the scales of inputs.

        Examples
        --------
        >>> import aleatron as al, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> state = {"0.weight": rng.normal(size=(8, 4)), "0.bias": np.zeros(8)}
        >>> state["2.weight"] = rng.normal(size=(3, 8))
        >>> al.Network.from_state_dict(state)
        Network("network", input 4, 3 outputs, 2 of 2 layers as streams)
        """
    @staticmethod
    def from_sklearn(estimator: Any, name: str = "network", *, check: npt.ArrayLike | None = None) -> Network:
        """Creates a network from a fitted estimator of scikit-learn.

        The estimator is an MLPClassifier, an MLPRegressor, a LogisticRegression, or a pipeline of scalers that ends in one of
        them. The network computes the input of the estimator's softmax or logistic function, or, for a regressor, its
        predictions. A classifier of two classes has one score. Classes are indices into the estimator's `classes_`. The layers
        are named "hidden" ("hidden1" and so on if there are several) and "output".

        Scalers become the first operation of the network, computed in binary, so the network takes features as they are and its streams
        encode scaled ones. Call `calibrated` with training samples, not scaled, to set the scales of inputs.

        Parameters
        ----------
        estimator
            The fitted estimator.
        name
            A name for reports.
        check
            Samples on which the network must agree with the estimator, except for rounding to 32 bits.

        Raises
        ------
        TypeError
            If the estimator, or a step of the pipeline, is none of these.
        ValueError
            If the estimator is not fitted, has an unsupported activation (tanh, logistic), or has several labels for a
            sample; or if the network disagrees with it on `check`.

        Examples
        --------
        >>> import aleatron as al
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import StandardScaler
        >>> x, y = load_iris(return_X_y=True)
        >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
        >>> network = al.Network.from_sklearn(model, "iris", check=x)
        >>> network
        Network("iris", input 4, 3 outputs, 1 of 1 layers as streams)
        >>> network.score(x, y) == model.score(x, y)
        True
        """
    @staticmethod
    def from_onnx(
        model: str | PathLike[str] | bytes | bytearray | memoryview,
        name: str | None = None,
        *,
        binary: str | Iterable[str] = (),
        polarity: Polarity | None = None,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        sizes: Mapping[str, SupportsIndex] | None = None,
        output: str | None = None,
    ) -> Network:
        """Reads an ONNX network from a path or from the bytes of a file.

        Every product with constant weights is a layer that can run as streams, signed ones unless
        `polarity` or the file says otherwise; everything else is computed in binary. Call
        `calibrated` with training samples to set the scales of inputs.

        Parameters
        ----------
        model
            The path of an .onnx file, beside which its external data are, or its bytes.
        name
            A name for reports; that of the file or the graph if not given.
        binary
            Names of layers that run in binary, as the first and the last often do. `layer_names`
            has all names.
        polarity
            "signed", "bipolar" or "unipolar" streams. If not given, the polarity that `to_onnx` has
            written, otherwise "signed".
        inputs, sizes, output
            As for `load`.

        Raises
        ------
        OSError
            If the file cannot be read.
        ValueError
            If the bytes are not an ONNX file, or if operators are unknown; the message lists all of
            them.

        Examples
        --------
        >>> import aleatron as al
        >>> model = al.Network.digits("cnn").to_onnx()
        >>> network = al.Network.from_onnx(model, "digits", binary="conv1")
        >>> network
        Network("digits", input 1x8x8, 10 outputs, 2 of 3 layers as streams)
        >>> x, y = al.load_digits()
        >>> network.score(x, y) == al.Network.digits("cnn").score(x, y)
        True
        """
    @staticmethod
    def from_torch(
        module: Any,
        example: npt.ArrayLike,
        name: str = "network",
        *,
        binary: str | Sequence[str] = (),
        polarity: Polarity = "signed",
    ) -> Network:
        r"""Creates a network from a torch module.

        Plain modules are read as they are: `Sequential`, nested or not, of Linear, Conv1d, Conv2d, BatchNorm, pools,
        Flatten, Dropout, Identity, Softmax and activations. Any other module goes through torch's own exporter to ONNX, which needs the package onnx. Layers have
        the names that `named_modules` has. The module is read as it is after training, and is left as it was; one in half precision is
        taken, and compared, in 32 bits. The exporter follows the branches that `example` takes: torch's TracerWarning names the lines whose
        branches depend on values.

        The network's outputs on `example` must equal those of the module within the rounding of 32 bits: a bound is derived from the
        magnitudes of weights and values. Where the network has operators without such a bound (layer normalisation, attention), one
        thousandth of the largest output is allowed.

        Parameters
        ----------
        module
            The module.
        example
            Samples, of shape (N, \*sample): a tensor, or anything that becomes an array.
        name
            A name for reports.
        binary, polarity
            As for `Network.from_onnx`.

        Raises
        ------
        ValueError
            If the network's outputs differ from the module's, or if the module cannot be read and torch cannot export it.

        Examples
        --------
        >>> import aleatron as al
        >>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))  # doctest: +SKIP
        >>> al.Network.from_torch(model, torch.rand(4, 64), "digits")  # doctest: +SKIP
        Network("digits", input 64, 10 outputs, 2 of 2 layers as streams)
        """
    @overload
    def to_onnx(self, path: None = None) -> bytes:
        """Writes the network as an ONNX file, or returns its bytes if no path is given.

        The graph is written as it is after simplification: batch normalisations are part of the
        products before them. How layers run, their polarities and their scales are in the
        metadata; `from_onnx` reads them, and other programs ignore them.

        Examples
        --------
        >>> import aleatron as al
        >>> network = al.Network.digits().with_binary("hidden")
        >>> al.Network.from_onnx(network.to_onnx()) == network
        True
        """
    @overload
    def to_onnx(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(
        path: str | PathLike[str],
        *,
        inputs: Mapping[str, npt.ArrayLike] | None = None,
        sizes: Mapping[str, SupportsIndex] | None = None,
        output: str | None = None,
    ) -> Network:
        """Reads an ONNX file, such as one that `save` has written. The network has the name of the
        file.

        Parameters
        ----------
        path
            The path of the file.
        inputs
            Constants for inputs that are the same for all samples, by name: an array, or a number
            for all elements.
        sizes
            Numbers for symbolic sizes, by name, or by "INPUT.AXIS" for sizes without a name.
        output
            The name of the value that holds the scores; the first output of the graph if not given.

        Examples
        --------
        >>> import aleatron as al, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     al.Network.digits().save(f"{folder}/noise_aware.onnx")
        ...     al.Network.load(f"{folder}/noise_aware.onnx") == al.Network.digits()
        True
        """
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the network as an ONNX file that `load` reads. How layers run is in the metadata of
        the file, which other programs ignore.
        """
    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Returns the class of each sample in floating point: that of the best score, or, of a single
        score, whether it is positive.

        Examples
        --------
        >>> import aleatron as al
        >>> x, y = al.load_digits()
        >>> al.Network.digits().predict(x)[:5].tolist(), y[:5].tolist()
        ([1, 4, 8, 6, 5], [1, 4, 8, 6, 5])
        """
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike) -> float:
        """Returns the fraction of samples whose class is `y` in floating point."""
    def circuit(
        self,
        length: SupportsIndex,
        generator: str | Sequence[str] = "lfsr",
        seed: SupportsIndex = 44257,
        *,
        width: Width = "auto",
        sharing: Sharing = "all",
        layers: Mapping[str, LayerSettings] | None = None,
        clip: bool = False,
        lanes: SupportsIndex | None = None,
        pipeline: bool = False,
        output: Literal["scores", "class"] = "scores",
        non_negative: bool = False,
        early_margin: float | None = None,
    ) -> Circuit:
        """Describes the circuit of the network as streams, with integers between layers.

        Parameters
        ----------
        length, generator, seed, width, sharing, layers, clip
            As for `streams`. Bernoulli streams have no hardware: ValueError.
        lanes
            The neurons that a layer computes at a time; None for all of them.
        pipeline
            Whether registers are between comparators and counters.
        output
            What leaves the circuit: "scores", or "class" for the index of the greatest score.
        non_negative
            Whether features never become negative inputs, which saves area in layers of signed
            streams.
        early_margin
            The lead of the best score, in standard deviations of the counting noise, at which the
            last layer stops before its streams end; None for all cycles. It needs output="class".

        Examples
        --------
        >>> import aleatron as al
        >>> circuit = al.Network.digits().circuit(64, "sobol", lanes=8)
        >>> circuit.to_dict()["name"]
        'noise_aware'
        """
    def streams(
        self,
        length: SupportsIndex,
        generator: str | Sequence[str] = "bernoulli",
        seed: SupportsIndex = 44257,
        *,
        width: Width = "auto",
        sharing: Sharing = "all",
        layers: Mapping[str, LayerSettings] | None = None,
        arithmetic: Arithmetic = "float",
        clip: bool = False,
        device: DeviceNames = "auto",
    ) -> StreamNetwork:
        """Prepares the network to run as streams, bit for bit what a circuit with these generators
        would compute.

        Parameters
        ----------
        length
            Bits per stream.
        generator
            "bernoulli", "sobol", "lfsr", "halton", "vdc", "ramp", one for inputs and one for
            weights as in "sobol:1+lfsr:77" or "bernoulli+sobol:2", or a list of one for each layer
            that runs as streams.
        seed
            The seed of generators that have one.
        width, sharing
            Bits of shared sequences, or "auto" to fit them to the length if a generator needs its
            whole period; and how many there are: "all" for one pair, "input" for a pair per input,
            "stream" for one per stream.
        layers
            Settings of single layers, by name: a dict of any of length, generator, width and
            sharing for each.
        arithmetic
            How numbers are represented between layers: "float", or "integer" as in a circuit.
            ValueError lists the operations between two layers that integer arithmetic does not
            support.
        clip
            Whether features that a layer cannot encode saturate; otherwise they are errors.
        device
            As for `DenseLayer`.

        Examples
        --------
        >>> import aleatron as al
        >>> x, y = al.load_digits()
        >>> streams = al.Network.digits().streams(64, "sobol", layers={"output": {"length": 128}})
        >>> streams.lengths
        [64, 128]
        >>> bool(streams.score(x, y) > 0.95)
        True
        """
    def forward_streams(
        self,
        x: npt.ArrayLike,
        length: SupportsIndex,
        generator: str | Sequence[str] = "bernoulli",
        seed: SupportsIndex = 44257,
        *,
        width: Width = "auto",
        sharing: Sharing = "all",
        layers: Mapping[str, LayerSettings] | None = None,
        arithmetic: Arithmetic = "float",
        clip: bool = False,
        first_sample: SupportsIndex = 0,
        device: DeviceNames = "auto",
    ) -> npt.NDArray[np.float64]:
        """Computes scores as streams, bit for bit what a circuit with these generators would.

        The first call encodes the weights, and the next ones with the same settings reuse them. See
        `streams` for the other parameters.

        Parameters
        ----------
        x
            Features, a batch or one sample.
        first_sample
            The index of the first sample among all: a batch may be split.
        """
    def calibrated(
        self, x: npt.ArrayLike, *, percentile: float = 1.0, weights: Literal["row", "tensor"] = "row"
    ) -> Network:
        """Returns the network with scales found on `x`, which must be training samples, not test
        samples.

        Warns of layers whose inputs still saturate or use a small part of the interval of their
        streams.

        Parameters
        ----------
        x
            Features, a batch or one sample.
        percentile
            The fraction of a layer's inputs, in (0, 1], that its scale covers, such as 0.999: the
            others saturate, and the rest have finer steps. 1 for the largest input.
        weights
            What weights are divided by: the largest of each "row" (neuron or output channel), or of
            the whole "tensor".

        Examples
        --------
        >>> import aleatron as al
        >>> x, y = al.load_digits("train")
        >>> [layer.input_scale for layer in al.Network.digits("cnn").calibrated(x).layers][0]
        1.0
        """
    def with_binary(self, names: str | Iterable[str]) -> Network:
        """Returns the network with these layers, and no others, in binary: a name, or several.

        Examples
        --------
        >>> import aleatron as al
        >>> al.Network.digits().with_binary("hidden")
        Network("noise_aware", input 64, 10 outputs, 1 of 2 layers as streams)
        """
    def with_polarity(self, polarity: Polarity) -> Network:
        """Returns the network with "signed", "bipolar" or "unipolar" streams in every layer."""
    def inspect(self, length: SupportsIndex = 256) -> str:
        r"""Returns a table of the graph's nodes, as `aleatron inspect` prints it: operators, shapes,
        parameters, which nodes run as streams, and their products of bits at a length.

        Examples
        --------
        >>> import aleatron as al
        >>> print(*al.Network.digits().inspect(64).splitlines()[-1].split("; "), sep="\n")
        4736 products a sample, 303104 bit-MACs at 64 bits
        37888 bytes of weight streams
        the largest value has 256 bytes
        """
    @property
    def layers(self) -> list[NetworkLayer]:
        """The layers, each an `aleatron.NetworkLayer`, in the order in which they run. Their arrays
        are read-only.
        """
    @property
    def layer_names(self) -> list[str]:
        """The names of the layers, in the order in which they run."""
    @property
    def name(self) -> str:
        """The name."""
    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of a sample."""
    @property
    def n_features(self) -> int:
        """The number of features of a sample."""
    @property
    def n_outputs(self) -> int:
        """The number of scores of a sample."""
    @property
    def n_classes(self) -> int:
        """The number of classes: one per score, or two if there is one score."""
    @property
    def feature_interval(self) -> tuple[float, float] | None:
        """The least and the greatest feature that the layers can encode; None if features do not reach
        a layer one by one.
        """
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Circuit:
    """The circuit of a network in integers; `Network.circuit` creates it. It computes what the engine
    computes, count by count.

    Examples
    --------
    >>> import aleatron as al
    >>> x, y = al.load_digits()
    >>> circuit = al.Network.digits().circuit(64, "lfsr")
    >>> circuit.stages
    ['n_hidden', 'n_output_thresholds', 'n_output']
    >>> circuit.cycles
    193
    >>> trace = circuit.trace(x[:3])
    >>> [stage["values"].shape for stage in trace["stages"]]
    [(3, 64), (3, 64), (3, 10)]
    """

    @property
    def stages(self) -> list[str]:
        """The names of the stages, each behind those it reads."""
    @property
    def cycles(self) -> int:
        """The cycles from one sample to the next: those of the slowest stage."""
    def to_json(self) -> str:
        """Returns the description as JSON: thresholds, signs, sequences, widths, biases, multipliers,
        shifts and bounds, all in integers.
        """
    def to_dict(self) -> dict[str, Any]:
        """Returns the description as a dict, as in `to_json`."""
    def trace(self, x: npt.ArrayLike) -> CircuitTrace:
        """Computes the integers of samples with the engine, as the circuit has them.

        Parameters
        ----------
        x
            Features, a batch or one sample.

        Returns
        -------
        dict
            "inputs" has the thresholds that enter the circuit. "stages" has a dict for each stage:
            its name, its operation, its outputs ("values": accumulators of a layer, thresholds
            behind a requantizer, scores), and for layers the counts ("counts"). Words of signed
            inputs have the sign above the threshold. With early termination, "early" has the stream
            cycles of each sample in the last layer ("cycles") and its class ("classes"); the stages
            are those of all cycles.

        Examples
        --------
        >>> import aleatron as al
        >>> x, y = al.load_digits()
        >>> network = al.Network.digits()
        >>> trace = network.circuit(64, "sobol").trace(x[:2])
        >>> outputs = network.streams(64, "sobol", arithmetic="integer").layer_outputs(x[:2])
        >>> bool((trace["stages"][0]["counts"] == outputs[0]["counts"]).all())
        True
        """
    def write(self, folder: str | PathLike[str], x: npt.ArrayLike | None = None) -> list[str]:
        """Writes the Verilog of the circuit, its README, Makefile and description below a folder, and
        the test benches if samples are given.

        Parameters
        ----------
        folder
            The folder, which is created if it is missing.
        x
            Features whose integers the test bench compares, a batch or one sample; None for no test
            bench.

        Returns
        -------
        list of str
            The paths of the files below the folder.
        """
    def cost(
        self, x: npt.ArrayLike | None = None, *, technology: Literal["generic", "sky130"] = "generic"
    ) -> CircuitCost:
        """Returns the cost by a model that was fitted to synthesized circuits, without synthesis.

        Parameters
        ----------
        x
            Features, a batch or one sample, that the energy is for; None for inputs that take all
            values alike.
        technology
            "generic" or "sky130".

        Returns
        -------
        dict
            "cycles" from one sample to the next, "latency" of a sample in cycles, "area" in gate
            equivalents, "energy" of a sample in nanojoules, and both by part in "area_parts" and
            "energy_parts".

        Examples
        --------
        >>> import aleatron as al
        >>> cost = al.Network.digits().circuit(64, "lfsr", lanes=8).cost()
        >>> cost["cycles"], cost["area"] > 0, cost["energy"] > 0
        (648, True, True)
        """

@final
class StreamNetwork:
    """A network prepared to run as streams; `Network.streams` creates it. Its weights are encoded
    once.

    The first call warns of layers whose inputs saturate or use a small part of the interval of
    their streams.

    Examples
    --------
    >>> import aleatron as al
    >>> x, y = al.load_digits()
    >>> streams = al.Network.digits().streams(64, "sobol")
    >>> streams(x).shape, bool(streams.score(x, y) > 0.95)
    ((360, 10), True)
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __call__(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.int64]:
        """Returns the class of each sample."""
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike, first_sample: SupportsIndex = 0) -> float:
        """Returns the fraction of samples whose class is `y`."""
    def layer_outputs(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> list[LayerOutput]:
        """Returns, for each layer that runs as streams, a dict of its name, its counts (uint64) and
        its outputs (float64), of shape (n_neurons,) or (N, n_neurons). The outputs of a layer
        are those of the activation behind it.

        Examples
        --------
        >>> import aleatron as al
        >>> x, y = al.load_digits()
        >>> streams = al.Network.digits().streams(64)
        >>> [(layer["name"], layer["counts"].shape) for layer in streams.layer_outputs(x[:3])]
        [('hidden', (3, 64)), ('output', (3, 10))]
        """
    @property
    def lengths(self) -> list[int]:
        """The stream length of each layer that runs as streams."""
    @property
    def warnings(self) -> list[str]:
        """The known problems of the generators."""
    @property
    def integers(self) -> list[LayerIntegers]:
        """The integer arithmetic around each layer that runs as streams, for `arithmetic="integer"`:
        the widths of comparators and accumulators, the fraction bits of the latter, biases, the
        value that 1 stands for in each row ("units"), and the multipliers and right shifts
        before the comparators, one for each unit of the inputs. These are empty if the inputs are
        features. The list is empty for "float".

        Examples
        --------
        >>> import aleatron as al
        >>> hidden, last = al.Network.digits().streams(64, arithmetic="integer").integers
        >>> sorted(hidden)[:5]
        ['accumulator_width', 'bias', 'comparator_width', 'fraction_bits', 'multiplier_widths']
        >>> sorted(hidden)[5:]
        ['multipliers', 'name', 'shifts', 'units']
        >>> hidden["multipliers"].size, last["multipliers"].size
        (0, 1)
        """

@final
class _Explorer:
    """An exploration: networks, samples and the space of designs."""

    def __new__(
        cls, networks: Sequence[Network], x: npt.ArrayLike, y: npt.ArrayLike, labels: str, name: str, plan: _Plan,
        generators: Sequence[str], lengths: Sequence[int], sharings: Sequence[str], widths: Sequence[str], early: Sequence[str], lanes: Sequence[str],
        loss: float, budget: int
    ) -> Self: ...
    def explore(
        self, known: str | None, file: PathLike[str] | None, progress: _Progress
    ) -> tuple[str, BaseException | None]:
        """Explores designs. `progress` is called with (trials done, the most of them, "designs",
        longest length, 0) and ends the search by raising; `known` is the result of an earlier
        exploration, `file` the path to save the trials in. Returns the result as JSON, and the
        exception.
        """
    def advance(self, known: str | None, trials: Sequence[str]) -> tuple[str, list[str]]:
        """Adds trials to an exploration, and returns it and the next trials that workers can run, all
        as JSON.
        """
    def run(self, trial: str) -> str:
        """Runs one trial, and returns it with its scores, as JSON."""

@final
class _FileLock:
    """A lock that excludes other processes, and other calls, from a checkpoint until it is released."""

    def __new__(cls, path: str | PathLike[str]) -> Self: ...
    def after_fork(self) -> None:
        """Leaves the lock to the parent, in a forked child."""
    def release(self) -> None:
        """Releases the lock."""

@final
class _NetworkBuilder:
    """A network under construction: each node takes the output of the one before it. Samples have the
    given shape.
    """

    def __new__(cls, name: str, shape: list[int]) -> Self: ...
    def linear(self, name: str, weight: npt.ArrayLike, bias: npt.ArrayLike | None) -> None:
        """Weights of shape (outputs, inputs) for the last axis, and a bias if there is one."""
    def conv(
        self,
        name: str,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike | None,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        groups: int,
    ) -> None:
        """Kernels of shape (outputs, channels of a group, sizes); padding is all beginnings, then all
        ends.
        """
    def batch_norm(
        self,
        name: str,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike,
        mean: npt.ArrayLike,
        variance: npt.ArrayLike,
        epsilon: float,
    ) -> None:
        """A batch normalisation as it is after training."""
    def activation(self, name: str, function: str, alpha: float = 0.0) -> None:
        """A function of each element; `alpha` where it has a parameter."""
    def clip(self, name: str, low: float, high: float) -> None:
        """Limits elements to an interval."""
    def max_pool(
        self, name: str, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
    ) -> None:
        """The largest element of each window."""
    def average_pool(
        self,
        name: str,
        kernel: list[int],
        stride: list[int],
        padding: list[int],
        ceil: bool,
        count_padding: bool,
    ) -> None:
        """The mean of each window, with or without the padding."""
    def global_average_pool(self, name: str, axes: int) -> None:
        """Adds the mean of each channel, over this many axes."""
    def global_max_pool(self, name: str, axes: int) -> None:
        """Adds the maximum of each channel, over this many axes."""
    def flatten(self, name: str) -> None:
        """Joins all axes except that of samples."""
    def softmax(self, name: str, axis: int) -> None:
        """Shares that add up to 1 along an axis."""
    def log_softmax(self, name: str, axis: int) -> None:
        """The logarithms of such shares."""
    @property
    def rank(self) -> int:
        """The number of axes of the last node's output, that of samples included."""
    def to_onnx(self) -> bytes:
        """The graph as an ONNX file."""

@disjoint_base
class _Evaluation:
    """The result of an evaluation: accuracy or errors against length and generator. Print it for a
    table.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.evaluate(lengths=[16, 32], generators=["sobol"])
    >>> found.float_accuracy, found.complete
    (0.975, True)
    >>> [(row["generator"], row["length"]) for row in found.rows]
    [('sobol', 16), ('sobol', 32)]
    >>> found.shortest_within("sobol", points=1.0)
    16
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, text: str) -> Self: ...
    def to_json(self) -> str:
        """Returns everything as JSON."""
    def to_csv(self) -> str:
        """Returns one line of comma-separated values for each generator, length and seed, under a
        heading.
        """
    def to_html(self) -> str:
        """Returns a self-contained page with curves, tables and error maps."""
    def shortest_within(self, generator: str, points: float = 1.0) -> int | None:
        """Returns the shortest length from which on a generator stays within `points` percentage
        points of floating point, or None if even the longest does not.
        """
    @property
    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each generator and length, summed up over seeds: generator, length,
        layers, samples_per_second, bit_macs_per_second; for classes accuracy (with its
        interval), accuracies (of each seed), agreement, early, certain, confusion;
        cost (cycles, area and energy of the circuit, or the reason why there is none);
        for targets to_targets and to_float (each with mean_absolute, root_mean_square and
        r_squared, which have a mean and its interval).
        """
    @property
    def cells(self) -> list[dict[str, Any]]:
        """One dictionary for each generator, length and seed, as in `to_json`."""
    @property
    def float_accuracy(self) -> float:
        """The accuracy in floating point; AttributeError for a regression."""
    @property
    def float_errors(self) -> dict[str, float] | None:
        """The errors of floating point against the targets: mean_absolute, root_mean_square and
        r_squared; None for a classification.
        """
    @property
    def complete(self) -> bool:
        """Whether all of the plan was run."""
    @property
    def warnings(self) -> list[str]:
        """The known problems of the generators, and of the inputs of layers."""
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class _Plan:
    """The passes of an evaluation; lengths, generators and margins have defaults."""

    def __new__(
        cls,
        *,
        lengths: list[int] | None,
        generators: list[str] | None,
        seeds: SupportsIndex,
        width: Width,
        sharing: Sharing,
        layers: dict[str, LayerSettings],
        arithmetic: Arithmetic,
        clip: bool,
        margins: list[float] | None,
        device: DeviceNames,
        faults: list[float] | None = None,
        fault_site: list[str] | None = None,
        fault_kind: str | None = None,
        fault_layers: list[str] | None = None,
    ) -> Self: ...

@final
class _Job:
    """An evaluation to be run as tasks, and the results of finished tasks."""

    def __new__(
        cls, network: Network, x: npt.ArrayLike, y: npt.ArrayLike, labels: str, name: str, plan: _Plan, checkpoint: _Evaluation | None
    ) -> Self: ...
    @staticmethod
    def from_bytes(bytes: bytes, on: str | None) -> _Job:
        """Reads the output of `to_bytes`; if a device is given, tasks run there."""
    def to_bytes(self) -> bytes:
        """The network, the data and the plan, for workers."""
    @property
    def device(self) -> str:
        """The device of its tasks."""
    def schedule(self) -> str:
        """The line of text that files of finished tasks begin with."""
    def tasks(self, n: int) -> list[tuple[int, int, int]]:
        """Returns the unfinished work as about `n` tasks of the same cost, or more."""
    def label(self, of: tuple[int, int, int]) -> tuple[str, int, int]:
        """The generator, length and seed of a task."""
    def run(self, of: tuple[int, int, int]) -> str:
        """Runs a task and returns its result as a line of text."""
    def add(self, line: str) -> None:
        """Adds the result of a task."""
    def add_file(self, text: str) -> str:
        """Adds the results in a file of finished tasks, and returns its whole lines; ValueError if it
        is of another evaluation.
        """
    def finish(self) -> str:
        """Returns the evaluation as JSON, with all cells that are finished."""

@final
class _LanguageJob:
    """An evaluation of a language model to be run as tasks, and the results of finished tasks."""

    def __new__(
        cls, model: str | PathLike[str], text: str | PathLike[str] | None, plan: _Plan, context: int | None,
        calibration_tokens: int | None, max_tokens: int | None, quantile: float, sensitivity: bool, precision: str,
        lora: str | PathLike[str] | None, margins: Sequence[float]
    ) -> Self: ...
    @staticmethod
    def from_bytes(bytes: bytes, on: str | None) -> _LanguageJob:
        """Reads the output of `to_bytes`, and loads the model; if a device is given, tasks run there."""
    def to_bytes(self) -> bytes:
        """Returns the path of the model, the tokens and the plan, for workers."""
    @property
    def device(self) -> str:
        """The device of its tasks."""
    def schedule(self) -> str:
        """Returns the line of text that files of finished tasks begin with."""
    def tasks(self, n: int) -> list[tuple[int, int, int]]:
        """Returns the unfinished work, as about `n` tasks of the same cost, or more."""
    def label(self, of: tuple[int, int, int]) -> tuple[str, int, int]:
        """Returns the generator, length and seed of a task."""
    def run(self, of: tuple[int, int, int]) -> str:
        """Runs a task and returns its result as a line of text."""
    def add(self, line: str) -> None:
        """Adds the result of a task."""
    def add_file(self, text: str) -> str:
        """Adds the results in a file of finished tasks, and returns its whole lines; ValueError if it
        is of another evaluation.
        """
    def finish(self) -> str:
        """Returns the evaluation as JSON, with all runs that are finished."""

@final
class _EvalProgram:
    """`aleatron eval` with the arguments of the program, whose tasks are run by the caller."""

    @staticmethod
    def parse(arguments: Sequence[str]) -> _EvalProgram | int:
        """Reads the arguments, which start with the program's name; returns the exit code instead if
        there is nothing to run.
        """
    @property
    def job(self) -> _Job: ...
    @property
    def tasks_file(self) -> Path | None:
        """The file of finished tasks, if any."""
    @property
    def resumed(self) -> bool:
        """Whether finished tasks in that file are reused."""
    def finish(self, found: str, failure: str | None, seconds: float) -> int:
        """Writes and prints results and failures, and returns the exit code."""

def _rounding_bound(model: bytes, x: npt.ArrayLike) -> npt.NDArray[np.float64] | None:
    """Returns how far two programs that compute an ONNX network in 32-bit floats may differ on `x`,
    for each score; None if no bound is known.
    """
def encode(
    p: npt.ArrayLike,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    *,
    polarity: Polarity = "unipolar",
    generator: str = "bernoulli",
    width: Width = "auto",
    sharing: Sharing = "all",
) -> npt.NDArray[np.uint64]:
    r"""Encodes probabilities as packed streams of random bits.

    Stream bit k is bit k % 64 of word k // 64; bits past `length` are zero. A vector's element i is
    drawn as input i of sample 0, a matrix's row r as sample r, so the streams are those a layer
    draws for the same seed. Use different seeds for streams that must be independent of each other.

    Parameters
    ----------
    p
        Values in [0, 1], or in [-1, 1] for `polarity="bipolar"`; a scalar or an array of any shape.
    length
        Bits per stream, at least 1.
    seed
        The seed of Bernoulli streams and of LFSRs.
    polarity
        "unipolar" or "bipolar".
    generator, width, sharing
        Where the bits come from, as for `Network.forward_streams`: those of a layer's inputs,
        element i of a row being input i.

    Returns
    -------
    numpy.ndarray
        uint64 of shape (\*p.shape, ceil(length / 64)).

    Examples
    --------
    >>> import aleatron as al
    >>> streams = al.encode([0.0, 0.5, 1.0], length=100)
    >>> streams.shape, streams.dtype
    ((3, 2), dtype('uint64'))
    >>> al.popcount(streams, axis=-1).tolist()
    [0, 51, 100]
    >>> al.encode([0.5, float("nan")], length=100)
    Traceback (most recent call last):
        ...
    ValueError: probability at index 1 is nan, not in [0, 1]
    """
def pack(bits: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Packs bits along the last axis into uint64 words, least significant bit first.

    Any nonzero value is a one. The result equals `numpy.packbits(bits, axis=-1, bitorder="little")`
    viewed as little-endian uint64, the last word filled up with zeros.

    Examples
    --------
    >>> import aleatron as al
    >>> al.pack([1, 0, 1, 1])
    array([13], dtype=uint64)
    >>> al.pack([[True] * 65, [False] * 65]).shape
    (2, 2)
    """
def unpack(words: npt.ArrayLike, length: SupportsIndex) -> npt.NDArray[np.uint8]:
    """Unpacks the first `length` bits of each stream of words along the last axis, to uint8 zeros and
    ones.

    Examples
    --------
    >>> import aleatron as al
    >>> al.unpack([13], length=6)
    array([1, 0, 1, 1, 0, 0], dtype=uint8)
    """
def lif_run(
    n_steps: SupportsIndex,
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    current: SupportsIndex,
    noise: SupportsIndex = 0,
    *,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> _Spikes:
    """Runs one fixed-point neuron from rest under a constant current.

    Potentials are integers of `data_width` bits, `fraction` of them after the point; see
    `FixedPointLif` for the step.

    Returns
    -------
    spikes, voltages
        uint8 and int16 of shape (n_steps,): 1 where the neuron spiked, and the potential after each
        step.

    Examples
    --------
    >>> import aleatron as al
    >>> spikes, voltages = al.lif_run(4, leak_k=20, gain_k=256, current=100)
    >>> spikes.tolist(), voltages.tolist()
    ([0, 0, 1, 0], [100, 192, 0, 0])
    """
def lif_run_multi(
    n_steps: SupportsIndex,
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    currents: npt.ArrayLike,
    noise: SupportsIndex = 0,
    *,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> _Spikes:
    """Runs one fixed-point neuron from rest for each current, all for `n_steps`.

    Returns
    -------
    spikes, voltages
        uint8 and int16 of shape (len(currents), n_steps).

    Examples
    --------
    >>> import aleatron as al
    >>> spikes, voltages = al.lif_run_multi(1000, leak_k=20, gain_k=256, currents=[0, 50, 100])
    >>> spikes.sum(axis=1).tolist()
    [0, 111, 200]
    """
def lif_run_varying(
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    currents: npt.ArrayLike,
    noises: npt.ArrayLike | None = None,
    *,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> _Spikes:
    """Runs one fixed-point neuron from rest, with a current and perhaps a noise for each step.

    Returns
    -------
    spikes, voltages
        uint8 and int16 of shape (len(currents),).

    Examples
    --------
    >>> import aleatron as al
    >>> spikes, voltages = al.lif_run_varying(20, 256, currents=[100, 0, 300, 0, 0])
    >>> spikes.tolist(), voltages.tolist()
    ([0, 0, 1, 0, 0], [100, 92, 0, 0, 0])
    """
def simd_tier() -> str:
    """The name of the SIMD tier in use: the best of this machine, or the one the environment variable
    ALEATRON_TIER names.

    Examples
    --------
    >>> import aleatron as al
    >>> x86 = {"avx512-vpopcntdq", "avx512bw", "avx512f", "avx2", "popcnt"}
    >>> al.simd_tier() in x86 | {"neon", "portable"}
    True
    """
def set_num_threads(n: SupportsIndex) -> None:
    """Sets the number of threads; 0 means one per core. There can be eight for each core, and 64 on
    small machines.

    May be called at any time, from any thread: calls in flight finish on the threads they have.
    Results do not depend on it.

    Examples
    --------
    >>> import aleatron as al
    >>> al.set_num_threads(2)
    >>> al.get_num_threads()
    2
    >>> al.set_num_threads(0)
    """
def get_num_threads() -> int:
    """The number of threads in use, the calling one included."""
def set_draw_memory(n_bytes: SupportsIndex) -> None:
    """Sets the size of the cache of random draws in bytes; 0 disables it. The initial size is 64 MiB.

    A call with a seed that an earlier call of the same shape had draws the same random numbers
    again. From the second such call on they are cached, in 1.5 bytes for each stream bit of the
    inputs, and encoding takes a third of the time. Results do not depend on it.

    Examples
    --------
    >>> import aleatron as al
    >>> al.set_draw_memory(16 * 2**20)
    >>> al.get_draw_memory()
    16777216
    >>> al.set_draw_memory(64 * 2**20)
    """
def get_draw_memory() -> int:
    """Returns the size of the cache of random draws in bytes."""
def _count_ones(words: npt.ArrayLike, per_stream: bool) -> int | npt.NDArray[np.uint64]:
    """Counts the ones of all words, or of each stream along the last axis."""
def _gpus() -> list[list[str]]:
    """Device, name, kind, interface and driver of each GPU that layers can use, the one of
    `device="gpu"` first.
    """
def _digits(part: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The features and classes of the embedded digits."""
def _correlation(
    a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex, measure: str
) -> npt.NDArray[np.float64]:
    """Computes the SCC or ZCE of pairs of streams along the last axis; both arrays have one shape."""
def _evaluate(
    network: Network, x: npt.ArrayLike, y: npt.ArrayLike, labels: str, name: str, plan: _Plan, checkpoint: _Evaluation | None, file: PathLike[str] | None,
    progress: _Progress
) -> tuple[str, BaseException | None]:
    """Runs a plan. `checkpoint` is the state to resume from, `file` the path to save it in. `progress`
    is called with (done, total, generator, length, seed) and ends the run by raising. Returns the
    evaluation as JSON, and the exception.
    """
def _read_exploration(text: str) -> tuple[str, str, str]:
    """Checks that text is an exploration, and returns it, its table of comma-separated values, and its
    page.
    """
def _evaluate_language_model(
    model: str | PathLike[str], text: str | PathLike[str] | None, plan: _Plan, context: int | None, calibration_tokens: int | None,
    max_tokens: int | None, quantile: float, sensitivity: bool, precision: str, lora: str | PathLike[str] | None,
    margins: Sequence[float], progress: _Progress
) -> tuple[str, BaseException | None]:
    """Evaluates a language model on the text of a file, or the embedded one on its own text.
    `progress` is called with (done, total, generator, length, seed) and ends the run by raising.
    Returns the evaluation as JSON, and the exception.
    """
def _find(
    network: Network, x: npt.ArrayLike, y: npt.ArrayLike, labels: str, name: str, plan: _Plan,
    loss: float, generator: str, longest: int, shortest: int, budget: int, known: str | None,
    file: PathLike[str] | None, progress: _Progress
) -> tuple[str, BaseException | None]:
    """Searches. `progress` is called with (trials done, the most of them, generator, longest length,
    0) and ends the search by raising; `known` is the result of an earlier search, `file` the path
    to save the trials in. Returns the result as JSON, and the exception.
    """
def _train(
    network: Network, x: npt.ArrayLike, y: npt.ArrayLike, labels: str, name: str, plan: _Plan,
    through: str, epochs: int, batch: int, rate: float, optimizer: str, validation: float,
    patience: int | None, clip_norm: float | None, shift: int, flip: bool, seed: int,
    gradient_device: str, checkpoint: PathLike[str] | None, search: tuple[float, int] | None, progress: _Progress
) -> tuple[
    Network, tuple[float, float | None] | None,
    list[tuple[float, float, tuple[float, float | None] | None]], int, tuple[str, str] | None
]:
    """Trains. `plan` has the lengths and generators; `progress` is called with (steps done, all steps,
    "epoch", epoch, 0) and ends the training by raising. With `search`, the permitted loss and the
    budget of a search for the shortest streams of each layer, it is called with (trials done, the
    most of them, generator, longest length, 0).
    """
def _read_found(text: str) -> str:
    """Checks that text is the result of a search, and returns it."""
def _after_fork() -> None:
    """A forked child lacks its parent's threads and cannot use its drivers: it starts its
    own when it needs them.
    """
def _at_exit() -> None:
    """Records that the interpreter is about to end; Python's `atexit` calls it.

    It returns when every thread that was allowed to attach has done so, because Python ends next.
    """
def _run_program(arguments: Sequence[str], host: dict[str, str]) -> int:
    """Runs the `aleatron` program; `arguments` start with its name, `host` holds the versions it runs
    with. Returns the exit code.
    """

@final
class Tensor:
    """A tensor of the engine; use `aleatron.tensor`."""

    @staticmethod
    def from_numpy(array: npt.NDArray[Any], device: str) -> Tensor:
        """The elements of an array in C order, copied to a device."""
    @staticmethod
    def full(shape: list[int], value: bool | int | float, dtype: str, device: str) -> Tensor:
        """A tensor of one value."""
    @staticmethod
    def arange(start: bool | int | float, stop: bool | int | float, step: bool | int | float, dtype: str, device: str) -> Tensor:
        """Numbers in steps."""
    @staticmethod
    def supports(dtype: str, device: str) -> bool:
        """Whether a device has elements of a type."""
    def to_numpy(self) -> npt.NDArray[Any]:
        """The elements, copied to an array."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
    @property
    def dtype(self) -> str:
        """The name of the type."""
    @property
    def device(self) -> str:
        """The name of the device: what `to_device` takes, without the adapter's own name."""
    def to_device(self, device: str) -> Tensor:
        """The tensor on a device."""
    def requires_grad(self) -> Tensor:
        """Returns a new leaf over the same elements."""
    @property
    def is_tracked(self) -> bool:
        """Whether the tensor is a leaf or part of a recorded computation."""
    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf."""
    def detach(self) -> Tensor:
        """Returns the same elements without the recorded computation."""
    def backward(self, gradient: Tensor | None = None) -> None:
        """Adds the gradients of this tensor to its leaves."""
    def grad(self) -> Tensor | None:
        """Returns the accumulated gradient of a leaf."""
    def zero_grad(self) -> None:
        """Removes the accumulated gradient of a leaf."""
    def gradients_of(self, inputs: list[Tensor]) -> list[Tensor | None]:
        """Returns the gradients of this tensor with respect to others."""
    @staticmethod
    def set_recording(enabled: bool) -> bool:
        """Enables or disables recording in this thread, and returns whether it was enabled."""
    @staticmethod
    def is_recording() -> bool:
        """Whether operations on tracked tensors are recorded in this thread."""
    def unary(self, name: str) -> Tensor:
        """Applies an operation of one argument."""
    @staticmethod
    def binary(name: str, left: Tensor | bool | int | float, right: Tensor | bool | int | float) -> Tensor:
        """Applies an operation of two arguments, of which one may be a number."""
    def where(self, left: Tensor | bool | int | float, right: Tensor | bool | int | float) -> Tensor:
        """Selects elements by a condition."""
    def cast(self, dtype: str) -> Tensor:
        """The elements as another type."""
    def slice(self, axis: int, start: int, end: int, step: int) -> Tensor:
        """A part of an axis."""
    def select(self, axis: int, index: int) -> Tensor:
        """Returns the elements at one index of an axis."""
    def flip(self, axis: int) -> Tensor:
        """An axis in reverse order."""
    def permute(self, order: list[int]) -> Tensor:
        """The axes in another order."""
    def reshape(self, shape: list[int]) -> Tensor:
        """The elements in another shape."""
    def view(self, shape: list[int]) -> Tensor:
        """The elements in another shape, never a copy."""
    def broadcast_to(self, shape: list[int]) -> Tensor:
        """Axes of size 1 repeated."""
    def squeeze(self, axis: int) -> Tensor:
        """Removes an axis of size 1."""
    def unsqueeze(self, axis: int) -> Tensor:
        """Inserts an axis of size 1."""
    @staticmethod
    def manual_seed(seed: int) -> None:
        """Restarts the generator that random tensors without a seed draw from."""
    @staticmethod
    def rand(shape: list[int], seed: int | None, device: str) -> Tensor:
        """Draws random numbers in [0, 1), different ones on each call without a seed."""
    @staticmethod
    def randn(shape: list[int], seed: int | None, device: str) -> Tensor:
        """Draws normally distributed random numbers, different ones on each call without a seed."""
    def reduce(self, name: str, axes: list[int], keep: bool) -> Tensor:
        """Reduces some axes; all if none is given."""
    def cumulative(self, name: str, axis: int) -> Tensor:
        """Sums or products of all elements up to each."""
    @staticmethod
    def concat(tensors: list[Tensor], axis: int) -> Tensor:
        """Concatenates tensors."""
    def pad(self, widths: list[tuple[int, int]], value: bool | int | float) -> Tensor:
        """A number before and after each axis."""
    def index_select(self, axis: int, indices: Tensor) -> Tensor:
        """Selects elements at some indices of an axis."""
    def gather(self, axis: int, indices: Tensor) -> Tensor:
        """Gathers elements by indices along an axis."""
    def sort(self, axis: int, descending: bool) -> Tensor:
        """The elements along an axis in order."""
    def argsort(self, axis: int, descending: bool) -> Tensor:
        """Returns the indices that sort an axis."""
    def topk(self, k: int, axis: int) -> tuple[Tensor, Tensor]:
        """Returns the largest elements along an axis, and their indices."""
    def matmul(self, other: Tensor) -> Tensor:
        """The product of matrices."""
    def softmax(self, axis: int) -> Tensor:
        """Exponentials over their sum."""
    def log_softmax(self, axis: int) -> Tensor:
        """The logarithm of that."""
    def layer_norm(self, axes: list[int], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor:
        """Less the mean, over the deviation."""
    def rms_norm(self, axes: list[int], weight: Tensor | None, epsilon: float) -> Tensor:
        """Over the root of the mean square."""
    def conv(self, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[tuple[int, int]], dilation: list[int], groups: int) -> Tensor:
        """The convolution of sequences or images, as there are strides."""
    def pool(self, name: str, kernel: list[int], stride: list[int], padding: list[tuple[int, int]]) -> Tensor:
        """The largest element or the average of windows of images."""
    def attention(self, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor:
        """Computes scaled dot-product attention."""

@final
class Transformer:
    """A decoder-only transformer from a folder of Hugging Face files, on a GPU or on the CPU.

    Llama-like, Qwen2-like and GPT-2-like models are supported. Weights are stored as f32, f16 or
    int8 with a scale per row.

    Examples
    --------
    ::

        model = al.Transformer.from_pretrained("model", device="gpu", precision="f16")
        logits = model.forward([1, 15, 27])                    # (3, vocabulary)
        for token in model.generate([1, 15, 27], max_tokens=20):
            print(token)
        print(model.generate_text("Once upon a time", max_tokens=50))
    """

    @staticmethod
    def from_pretrained(
        folder: str | PathLike[str],
        *,
        device: str = "auto",
        precision: Literal["f32", "f16", "int8"] = "f16",
        merge: str | PathLike[str] | None = None,
    ) -> Transformer:
        """Loads a folder with config.json, .safetensors files and, for text, tokenizer.json, or the
        model in the package.

        Parameters
        ----------
        folder
            The folder, or "bytes", a small model in the package whose tokens are bytes.
        device
            "auto" (a hardware GPU where there is one, else the CPU), "cpu", "gpu" or "gpu:1".
        precision
            How weights are kept: "f32", "f16" or "int8".
        merge
            The folder of a LoRA adapter that is added to the weights for good.
        """
    def forward(self, tokens: Iterable[SupportsIndex], *, lora: str | PathLike[str] | None = None) -> npt.NDArray[np.float32]:
        """Returns the logits after each token, as an array of shape (tokens, vocabulary)."""
    def generate(
        self,
        tokens: Iterable[SupportsIndex],
        *,
        max_tokens: int = 128,
        temperature: float | None = None,
        top_k: SupportsIndex | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: SupportsIndex | None = None,
        lora: str | PathLike[str] | None = None,
    ) -> _Generation:
        """Continues a list of tokens: returns an iterator over the new ones.

        Options of sampling that are None are those of the model's generation_config.json, as in
        Hugging Face transformers; without the file, the choice is greedy.

        Parameters
        ----------
        tokens
            The prompt.
        max_tokens
            The largest number of new tokens.
        temperature
            Divides the logits; 0 for the token with the largest logit.
        top_k
            Keeps so many tokens with the largest logits; 0 for all.
        top_p
            Keeps the most probable tokens whose probabilities add up to this.
        repetition_penalty
            Divides positive logits of tokens that the text contains already and multiplies negative
            ones; 1 for none.
        seed
            The seed of random choices; None for a new one in each call.
        lora
            The folder of a LoRA adapter.
        """
    def generate_text(
        self,
        text: str,
        *,
        max_tokens: int = 128,
        temperature: float | None = None,
        top_k: SupportsIndex | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        seed: SupportsIndex | None = None,
        lora: str | PathLike[str] | None = None,
    ) -> str:
        """Continues a text as `generate` does: returns the new text."""
    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a text."""
    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        """Returns the text of tokens."""
    @property
    def generation_config(self) -> dict[str, Any]:
        """The defaults of `generate`: those of generation_config.json, or those of Hugging Face
        transformers.
        """
    @property
    def device(self) -> str:
        """The device."""
    @property
    def precision(self) -> str:
        """The precision of the weights."""
    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary."""
    @property
    def max_positions(self) -> int:
        """The largest number of positions of a text."""

@final
class _Generation:
    """An iterator over generated tokens."""

    def __iter__(self) -> _Generation: ...
    def __next__(self) -> int: ...
