"""The inspection API of the standard."""

from __future__ import annotations

from typing import Any

from aleatron._core import Tensor as CoreTensor
from aleatron._devices import gpus
from aleatron.tensor import _dtypes as types
from aleatron.tensor._creation import default_integer
from aleatron.tensor._dtypes import DType, isdtype


class Info:
    """Devices, types and abilities of `aleatron.tensor`."""

    def capabilities(self) -> dict[str, Any]:
        """Returns the capabilities of the namespace."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> str:
        """Returns the default device of tensors."""
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        """Returns the names of all devices."""
        return ("cpu", *(f"gpu:{i}" for i in range(len(gpus()))))

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Returns the default types of tensors."""
        integer = default_integer("cpu" if device is None else device)
        return {"real floating": types.float32, "integral": integer, "indexing": integer}

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Returns the types of the standard that a device has, of one or several kinds: float16, which the standard lacks, is left out."""
        place = "cpu" if device is None else device
        found = [dtype for dtype in types.ALL if dtype is not types.float16 and CoreTensor.supports(dtype.core, place)]
        return {dtype.name: dtype for dtype in found if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """Returns the inspection interface of the namespace."""
    return Info()
