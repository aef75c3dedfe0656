"""The compiled part of Aleatron; use the package `aleatron`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, SupportsIndex, TypeVar, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, TypeAlias, disjoint_base

from aleatron._cuda import CudaArray
from aleatron._graph import GraphLayer
from aleatron._network import Activation, Layer
from aleatron._types import (
    Arithmetic,
    DeviceNames,
    LayerIntegers,
    LayerOutput,
    LayerSettings,
    OnCuda,
    Polarity,
    ProductIntegers,
    Sharing,
    Width,
)

_Spikes: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]

_Out = TypeVar("_Out")

__all__ = [
    "ConvLayer",
    "DenseLayer",
    "FixedPointLif",
    "GraphNetwork",
    "Network",
    "SparseLayer",
    "StreamGraph",
    "StreamLayer",
    "StreamNetwork",
    "Tensor",
    "_CudaMemory",
    "_EvalProgram",
    "_Evaluation",
    "_GraphBuilder",
    "_Job",
    "_RegressionEvaluation",
    "Transformer",
    "_Generation",
    "__version__",
    "_after_fork",
    "_correlation",
    "_count_ones",
    "_digits",
    "_evaluate",
    "_evaluate_regression",
    "_find",
    "_gpus",
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
    def __new__(cls, place: int, len: int, dtype: str) -> Self: ...
    @property
    def address(self) -> int: ...
    def read(self) -> npt.NDArray[np.uint64]: ...

@disjoint_base
class StreamLayer:
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
    def counts(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: None = None) -> CudaArray: ...
    @overload
    def counts(
        self, x: npt.ArrayLike, seed: SupportsIndex = 44257, *, out: None = None
    ) -> npt.NDArray[np.uint64]: ...
    @overload
    def counts(self, x: OnCuda, seed: SupportsIndex = 44257, *, out: _Out) -> _Out: ...
    def forward_encoded(self, streams: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def counts_encoded(self, streams: npt.ArrayLike) -> npt.NDArray[np.uint64]: ...
    def device_for(self, n_samples: SupportsIndex = 1) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def n_inputs(self) -> int: ...
    @property
    def n_neurons(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def polarity(self) -> Polarity: ...
    @property
    def generator(self) -> str: ...
    @property
    def width(self) -> str: ...
    @property
    def sharing(self) -> Sharing: ...
    @property
    def device(self) -> str: ...
    @property
    def notes(self) -> list[str]: ...

@final
class DenseLayer(StreamLayer):
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
    ) -> Self: ...
    @staticmethod
    def _part(
        n_neurons: int,
        first: int,
        weights: npt.ArrayLike | tuple[int, int],
        length: SupportsIndex,
        seed: SupportsIndex,
        polarity: Polarity,
        device: DeviceNames,
        generator: str,
        width: Width,
        sharing: Sharing,
    ) -> DenseLayer: ...
    @property
    def weights(self) -> npt.NDArray[np.float64]: ...
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class SparseLayer(StreamLayer):
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
    ) -> Self: ...
    @property
    def weights(self) -> npt.NDArray[np.float64]: ...
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    @property
    def mask(self) -> npt.NDArray[np.bool_]: ...
    @property
    def n_connections(self) -> int: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class ConvLayer(StreamLayer):
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
    ) -> Self: ...
    @property
    def weights(self) -> npt.NDArray[np.float64]: ...
    @weights.setter
    def weights(self, value: npt.ArrayLike) -> None: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def output_shape(self) -> tuple[int, ...]: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class FixedPointLif:
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
    ) -> tuple[int, int]: ...
    def reset(self) -> None: ...
    @property
    def v(self) -> int: ...
    @property
    def refractory_counter(self) -> int: ...
    @staticmethod
    def _in_state(
        constants: tuple[int, int, int, int, int, int], v: int, refractory_counter: int
    ) -> FixedPointLif: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, _memo: object) -> Self: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class Network:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(
        cls, layers: Iterable[Layer], name: str = "network", offset: float = 0.0, scale: float = 1.0
    ) -> Self: ...
    @staticmethod
    def digits(kind: Literal["noise-aware", "plain", "cnn"] = "noise-aware") -> Network: ...
    @staticmethod
    def from_state_dict(
        state: Mapping[str, npt.ArrayLike] | object,
        hidden: Activation = "relu",
        name: str = "network",
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> Network: ...
    @staticmethod
    def from_sklearn(estimator: Any, name: str = "network", *, check: npt.ArrayLike | None = None) -> Network: ...
    @staticmethod
    def from_onnx(
        model: str | PathLike[str] | bytes | bytearray | memoryview,
        name: str | None = None,
        *,
        binary: str | Iterable[str] = (),
        polarity: Polarity | None = None,
    ) -> GraphNetwork: ...
    @staticmethod
    def from_torch(
        module: Any,
        example: npt.ArrayLike,
        name: str = "network",
        *,
        binary: str | Sequence[str] = (),
        polarity: Polarity = "signed",
    ) -> GraphNetwork: ...
    @overload
    def to_onnx(self, path: None = None) -> bytes: ...
    @overload
    def to_onnx(self, path: str | PathLike[str]) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Network: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike) -> float: ...
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
    ) -> StreamNetwork: ...
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
    ) -> npt.NDArray[np.float64]: ...
    def calibrated(self, x: npt.ArrayLike) -> Network: ...
    @property
    def layers(self) -> list[Layer]: ...
    @property
    def name(self) -> str: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    @property
    def offset(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def feature_interval(self) -> tuple[float, float]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...
    @staticmethod
    def _from_parts(description: str, tensors: bytes) -> Network: ...
    def _to_parts(self) -> tuple[str, bytes]: ...

@final
class StreamNetwork:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __call__(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.int64]: ...
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike, first_sample: SupportsIndex = 0) -> float: ...
    def layer_outputs(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> list[LayerOutput]: ...
    @property
    def lengths(self) -> list[int]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def integers(self) -> list[LayerIntegers]: ...

@final
class GraphNetwork:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __call__(self, x: npt.ArrayLike) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.int64]: ...
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike) -> float: ...
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
        device: DeviceNames = "auto",
    ) -> StreamGraph: ...
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
        first_sample: SupportsIndex = 0,
        device: DeviceNames = "auto",
    ) -> npt.NDArray[np.float64]: ...
    def calibrated(
        self, x: npt.ArrayLike, *, percentile: float = 1.0, weights: Literal["row", "tensor"] = "row"
    ) -> GraphNetwork: ...
    def with_binary(self, names: str | Iterable[str]) -> GraphNetwork: ...
    def with_polarity(self, polarity: Polarity) -> GraphNetwork: ...
    def inspect(self, length: SupportsIndex = 256) -> str: ...
    @overload
    def to_onnx(self, path: None = None) -> bytes: ...
    @overload
    def to_onnx(self, path: str | PathLike[str]) -> None: ...
    @property
    def layers(self) -> list[GraphLayer]: ...
    @property
    def layer_names(self) -> list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def input_shape(self) -> tuple[int, ...]: ...
    @property
    def n_features(self) -> int: ...
    @property
    def n_outputs(self) -> int: ...
    @property
    def n_classes(self) -> int: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class StreamGraph:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __call__(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.float64]: ...
    def predict(self, x: npt.ArrayLike, first_sample: SupportsIndex = 0) -> npt.NDArray[np.int64]: ...
    def score(self, x: npt.ArrayLike, y: npt.ArrayLike, first_sample: SupportsIndex = 0) -> float: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def integers(self) -> list[ProductIntegers]: ...

@final
class _GraphBuilder:
    def __new__(cls, name: str, shape: list[int]) -> Self: ...
    def linear(self, name: str, weight: npt.ArrayLike, bias: npt.ArrayLike | None) -> None: ...
    def conv(
        self,
        name: str,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike | None,
        stride: list[int],
        padding: list[int],
        dilation: list[int],
        groups: int,
    ) -> None: ...
    def batch_norm(
        self,
        name: str,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike,
        mean: npt.ArrayLike,
        variance: npt.ArrayLike,
        epsilon: float,
    ) -> None: ...
    def activation(self, name: str, function: str, alpha: float = 0.0) -> None: ...
    def clip(self, name: str, low: float, high: float) -> None: ...
    def max_pool(
        self, name: str, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil: bool
    ) -> None: ...
    def average_pool(
        self,
        name: str,
        kernel: list[int],
        stride: list[int],
        padding: list[int],
        ceil: bool,
        count_padding: bool,
    ) -> None: ...
    def global_average_pool(self, name: str, axes: int) -> None: ...
    def global_max_pool(self, name: str, axes: int) -> None: ...
    def flatten(self, name: str) -> None: ...
    def softmax(self, name: str, axis: int) -> None: ...
    def log_softmax(self, name: str, axis: int) -> None: ...
    @property
    def rank(self) -> int: ...
    def to_onnx(self) -> bytes: ...

@disjoint_base
class _Evaluation:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, text: str) -> Self: ...
    def to_json(self) -> str: ...
    def to_csv(self) -> str: ...
    def to_html(self) -> str: ...
    def shortest_within(self, generator: str, points: float = 1.0) -> int | None: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...
    @property
    def cells(self) -> list[dict[str, Any]]: ...
    @property
    def float_accuracy(self) -> float: ...
    @property
    def complete(self) -> bool: ...
    @property
    def warnings(self) -> list[str]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@disjoint_base
class _RegressionEvaluation:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, text: str) -> Self: ...
    def to_json(self) -> str: ...
    def to_csv(self) -> str: ...
    def to_html(self) -> str: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...
    @property
    def cells(self) -> list[dict[str, Any]]: ...
    @property
    def float_errors(self) -> dict[str, float]: ...
    @property
    def complete(self) -> bool: ...
    @property
    def warnings(self) -> list[str]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]: ...

@final
class _Job:
    def __new__(
        cls,
        network: Network | GraphNetwork,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        name: str,
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
        checkpoint: _Evaluation | None,
    ) -> Self: ...
    @staticmethod
    def from_bytes(bytes: bytes, on: str | None) -> _Job: ...
    def to_bytes(self) -> bytes: ...
    @property
    def device(self) -> str: ...
    def outline(self) -> str: ...
    def tasks(self, n: int) -> list[tuple[int, int, int]]: ...
    def label(self, of: tuple[int, int, int]) -> tuple[str, int, int]: ...
    def run(self, of: tuple[int, int, int]) -> str: ...
    def add(self, line: str) -> None: ...
    def add_file(self, text: str) -> list[str]: ...
    def finish(self) -> str: ...

@final
class _EvalProgram:
    @staticmethod
    def parse(arguments: Sequence[str]) -> _EvalProgram | int: ...
    @property
    def job(self) -> _Job: ...
    @property
    def tasks_file(self) -> Path | None: ...
    @property
    def resumed(self) -> bool: ...
    def finish(self, found: str, failure: str | None, seconds: float) -> int: ...

def _rounding_bound(model: bytes, x: npt.ArrayLike) -> npt.NDArray[np.float64] | None: ...
def encode(
    p: npt.ArrayLike,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    *,
    polarity: Polarity = "unipolar",
    generator: str = "bernoulli",
    width: Width = "auto",
    sharing: Sharing = "all",
) -> npt.NDArray[np.uint64]: ...
def pack(bits: npt.ArrayLike) -> npt.NDArray[np.uint64]: ...
def unpack(words: npt.ArrayLike, length: SupportsIndex) -> npt.NDArray[np.uint8]: ...
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
) -> _Spikes: ...
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
) -> _Spikes: ...
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
) -> _Spikes: ...
def simd_tier() -> str: ...
def set_num_threads(n: SupportsIndex) -> None: ...
def get_num_threads() -> int: ...
def set_draw_memory(n_bytes: SupportsIndex) -> None: ...
def get_draw_memory() -> int: ...
def _count_ones(words: npt.ArrayLike, per_stream: bool) -> int | npt.NDArray[np.uint64]: ...
def _gpus() -> list[list[str]]: ...
def _digits(part: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...
def _correlation(
    a: npt.ArrayLike, b: npt.ArrayLike, length: SupportsIndex, measure: str
) -> npt.NDArray[np.float64]: ...
def _evaluate(
    network: Network | GraphNetwork,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    name: str,
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
    checkpoint: _Evaluation | None,
    progress: Callable[[int, int, str, int, int], object] | None,
) -> tuple[str, BaseException | None]: ...
def _evaluate_regression(
    network: Network | GraphNetwork,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    name: str,
    lengths: list[int] | None,
    generators: list[str] | None,
    seeds: SupportsIndex,
    width: Width,
    sharing: Sharing,
    layers: dict[str, LayerSettings],
    arithmetic: Arithmetic,
    clip: bool,
    device: DeviceNames,
    checkpoint: _RegressionEvaluation | None,
    progress: Callable[[int, int, str, int, int], object] | None,
) -> tuple[str, BaseException | None]: ...
def _find(
    network: Network | GraphNetwork,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    name: str,
    loss: float,
    generator: str,
    longest: int,
    shortest: int,
    budget: int,
    seeds: SupportsIndex,
    width: Width,
    sharing: Sharing,
    layers: dict[str, LayerSettings],
    arithmetic: Arithmetic,
    clip: bool,
    device: DeviceNames,
    known: str | None,
    progress: Callable[[int, int, str, int, int], object] | None,
) -> tuple[str, BaseException | None]: ...
def _read_found(text: str) -> str: ...
def _after_fork() -> None: ...
def _run_program(arguments: Sequence[str], host: dict[str, str]) -> int: ...

@final
class Tensor:
    """A tensor of the engine; use `aleatron.tensor`."""

    @staticmethod
    def from_numpy(array: npt.NDArray[Any], device: str) -> Tensor: ...
    @staticmethod
    def full(shape: list[int], value: bool | int | float, dtype: str, device: str) -> Tensor: ...
    @staticmethod
    def arange(start: bool | int | float, stop: bool | int | float, step: bool | int | float, dtype: str, device: str) -> Tensor: ...
    @staticmethod
    def supports(dtype: str, device: str) -> bool: ...
    def to_numpy(self) -> npt.NDArray[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    def to_device(self, device: str) -> Tensor: ...
    def unary(self, name: str) -> Tensor: ...
    @staticmethod
    def binary(name: str, left: Tensor | bool | int | float, right: Tensor | bool | int | float) -> Tensor: ...
    def where(self, left: Tensor | bool | int | float, right: Tensor | bool | int | float) -> Tensor: ...
    def cast(self, dtype: str) -> Tensor: ...
    def slice(self, axis: int, start: int, end: int, step: int) -> Tensor: ...
    def select(self, axis: int, index: int) -> Tensor: ...
    def flip(self, axis: int) -> Tensor: ...
    def permute(self, order: list[int]) -> Tensor: ...
    def reshape(self, shape: list[int]) -> Tensor: ...
    def view(self, shape: list[int]) -> Tensor: ...
    def broadcast_to(self, shape: list[int]) -> Tensor: ...
    def squeeze(self, axis: int) -> Tensor: ...
    def unsqueeze(self, axis: int) -> Tensor: ...
    @staticmethod
    def rand(shape: list[int], seed: int, device: str) -> Tensor: ...
    @staticmethod
    def randn(shape: list[int], seed: int, device: str) -> Tensor: ...
    def reduce(self, name: str, axes: list[int], keep: bool) -> Tensor: ...
    def cumulative(self, name: str, axis: int) -> Tensor: ...
    @staticmethod
    def concat(tensors: list[Tensor], axis: int) -> Tensor: ...
    def pad(self, widths: list[tuple[int, int]], value: bool | int | float) -> Tensor: ...
    def index_select(self, axis: int, indices: Tensor) -> Tensor: ...
    def gather(self, axis: int, indices: Tensor) -> Tensor: ...
    def sort(self, axis: int, descending: bool) -> Tensor: ...
    def argsort(self, axis: int, descending: bool) -> Tensor: ...
    def topk(self, k: int, axis: int) -> tuple[Tensor, Tensor]: ...
    def matmul(self, other: Tensor) -> Tensor: ...
    def softmax(self, axis: int) -> Tensor: ...
    def log_softmax(self, axis: int) -> Tensor: ...
    def layer_norm(self, axes: list[int], weight: Tensor | None, bias: Tensor | None, epsilon: float) -> Tensor: ...
    def rms_norm(self, axes: list[int], weight: Tensor | None, epsilon: float) -> Tensor: ...
    def conv(self, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[tuple[int, int]], dilation: list[int], groups: int) -> Tensor: ...
    def pool(self, name: str, kernel: list[int], stride: list[int], padding: list[tuple[int, int]]) -> Tensor: ...
    def attention(self, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, scale: float | None) -> Tensor: ...

@final
class Transformer:
    @staticmethod
    def from_pretrained(
        folder: str | PathLike[str],
        *,
        device: str = "auto",
        precision: Literal["f32", "f16", "int8"] = "f16",
        merge: str | PathLike[str] | None = None,
    ) -> Transformer: ...
    def forward(self, tokens: Iterable[SupportsIndex], *, lora: str | PathLike[str] | None = None) -> npt.NDArray[np.float32]: ...
    def generate(
        self,
        tokens: Iterable[SupportsIndex],
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: SupportsIndex | None = None,
        lora: str | PathLike[str] | None = None,
    ) -> _Generation: ...
    def generate_text(
        self,
        text: str,
        *,
        max_tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: SupportsIndex | None = None,
        lora: str | PathLike[str] | None = None,
    ) -> str: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Iterable[SupportsIndex]) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def max_positions(self) -> int: ...

@final
class _Generation:
    def __iter__(self) -> _Generation: ...
    def __next__(self) -> int: ...
