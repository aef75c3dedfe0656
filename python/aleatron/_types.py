"""Names for the types of arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, TypedDict, Union

import numpy as np
import numpy.typing as npt

Polarity: TypeAlias = Union[Literal["unipolar"], Literal["bipolar"], Literal["signed"]]
Sharing: TypeAlias = Union[Literal["all"], Literal["input"], Literal["stream"]]
Arithmetic: TypeAlias = Union[Literal["float"], Literal["integer"]]
Width: TypeAlias = Union[SupportsIndex, str]
DeviceNames: TypeAlias = Union[str, Sequence[str]]


class OnCuda(Protocol):
    """An array in the memory of a CUDA device."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The location of the array."""


class LayerSettings(TypedDict, total=False):
    """Settings of a single layer."""

    length: SupportsIndex
    generator: str
    width: Width
    sharing: Sharing


class LayerOutput(TypedDict):
    """The counts and outputs of one layer for some samples."""

    name: str
    counts: npt.NDArray[np.uint64]
    outputs: npt.NDArray[np.float64]


class StageTrace(TypedDict, total=False):
    """The integers of one stage of a circuit; only layers have counts."""

    name: str
    operation: str
    counts: npt.NDArray[np.uint64]
    values: npt.NDArray[np.int64]


class CircuitTrace(TypedDict):
    """The integers of samples in a circuit."""

    inputs: npt.NDArray[np.int64]
    stages: list[StageTrace]


class CircuitCost(TypedDict):
    """The cost of a circuit: cycles, gate equivalents and nanojoules."""

    cycles: int
    latency: int
    area: float
    energy: float
    area_parts: dict[str, float]
    energy_parts: dict[str, float]


class LayerIntegers(TypedDict):
    """The integer arithmetic around one layer."""

    name: str
    comparator_width: int
    accumulator_width: int
    fraction_bits: int
    bias: npt.NDArray[np.int64]
    units: npt.NDArray[np.float64]
    multipliers: npt.NDArray[np.int64]
    multiplier_widths: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
