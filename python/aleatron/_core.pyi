"""The compiled part of Aleatron; use the package `aleatron`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, Literal, SupportsIndex, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Self, TypeAlias, disjoint_base

from aleatron._network import Activation, Layer
from aleatron._types import (
    Arithmetic,
    DeviceNames,
    LayerIntegers,
    LayerOutput,
    LayerSettings,
    Polarity,
    Sharing,
    Width,
)

_Spikes: TypeAlias = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]

__all__ = [
    "DenseLayer",
    "FixedPointLif",
    "Network",
    "SparseLayer",
    "StreamLayer",
    "StreamNetwork",
    "Transformer",
    "_Evaluation",
    "_Generation",
    "__version__",
    "_after_fork",
    "_correlation",
    "_count_ones",
    "_digits",
    "_evaluate",
    "_gpus",
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

@disjoint_base
class StreamLayer:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __call__(self, x: npt.ArrayLike, seed: SupportsIndex = 44257) -> npt.NDArray[np.float64]: ...
    def counts(self, x: npt.ArrayLike, seed: SupportsIndex = 44257) -> npt.NDArray[np.uint64]: ...
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
    def digits(kind: Literal["noise-aware", "plain"] = "noise-aware") -> Network: ...
    @staticmethod
    def from_state_dict(
        state: Mapping[str, npt.ArrayLike] | object,
        hidden: Activation = "relu",
        name: str = "network",
        offset: float = 0.0,
        scale: float = 1.0,
    ) -> Network: ...
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
    network: Network,
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
def _after_fork() -> None: ...
def _run_program(arguments: Sequence[str], host: dict[str, str]) -> int: ...

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
