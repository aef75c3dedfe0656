"""Arrays in the memory of CUDA devices: those of other libraries, taken as they are, and results that stay there.

Arrays come through DLPack, or through `__cuda_array_interface__` otherwise. The engine queries the driver what is at
an address before it is used.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from aleatron import _core

# Devices of DLPack: memory of a card, and memory that card and host share.
_CUDA, _CUDA_MANAGED = 2, 13
# The default stream by its name in DLPack: pending work of its owner is done before later work on it.
_DEFAULT_STREAM = 1
_READ_ONLY = 1
_KINDS = {0: "i", 1: "u", 2: "f", 4: "V", 5: "c", 6: "b"}


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes, _capsule_is.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes, _capsule_pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


class Described(NamedTuple):
    """An array on a CUDA device: its address and its owner."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    device: int | None
    is_read_only: bool
    stream: int | None
    owner: object


def is_on_card(obj: Any) -> bool:
    """Returns whether an object declares to be in the memory of a CUDA device."""
    if hasattr(obj, "__dlpack_device__"):
        return int(obj.__dlpack_device__()[0]) in (_CUDA, _CUDA_MANAGED)
    return hasattr(obj, "__cuda_array_interface__")


def describe(obj: Any, name: str) -> Described:
    """Returns the location of an array on a CUDA device; raises ValueError unless it is C-contiguous."""
    if hasattr(obj, "requires_grad") and hasattr(obj, "detach"):
        obj = obj.detach()
    described, strides, itemsize = _by_dlpack(obj) if hasattr(obj, "__dlpack__") else _by_interface(obj)
    expected = itemsize
    for size, stride in zip(reversed(described.shape), reversed(strides or ())):
        if size > 1 and stride != expected:
            raise ValueError(f"{name} is not in C order without gaps: make it contiguous first")
        expected *= size
    return described


def _by_dlpack(obj: Any) -> tuple[Described, tuple[int, ...] | None, int]:
    try:
        capsule = obj.__dlpack__(stream=_DEFAULT_STREAM, max_version=(1, 0))
    except TypeError:
        # From before there were versions.
        capsule = obj.__dlpack__(stream=_DEFAULT_STREAM)
    is_read_only = False
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        tensor, is_read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        tensor = _Managed.from_address(_capsule_pointer(capsule, b"dltensor")).tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    itemsize = tensor.dtype.bits * tensor.dtype.lanes // 8
    strides = tuple(itemsize * stride for stride in tensor.strides[: tensor.ndim]) if tensor.strides else None
    dtype = f"{_KINDS.get(tensor.dtype.code, 'V')}{itemsize}"
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule is the owner: the memory lives as long as the capsule.
    described = Described(address, shape, dtype, tensor.device_id, is_read_only, _DEFAULT_STREAM, (obj, capsule))
    return described, strides, itemsize


def _by_interface(obj: Any) -> tuple[Described, tuple[int, ...] | None, int]:
    facts = obj.__cuda_array_interface__
    address, is_read_only = facts["data"]
    dtype = np.dtype(facts["typestr"])
    shape, strides = tuple(facts["shape"]), facts.get("strides")
    stream = facts.get("stream")
    name = f"{dtype.kind}{dtype.itemsize}" if dtype.isnative else dtype.str
    described = Described(int(address), shape, name, None, bool(is_read_only), stream, obj)
    return described, strides, dtype.itemsize


class CudaArray:
    """Results in the memory of a CUDA device, as layers on one return them for inputs that are there.

    `torch.from_dlpack`, `cupy.asarray`, `jax.dlpack.from_dlpack` and `numba.cuda.as_cuda_array` take it without a copy; `numpy.asarray` copies it to
    the host. It lives as long as any of them.

    Attributes
    ----------
    shape, dtype
        As of an array of NumPy.
    device
        The device, such as "cuda:0".
    """

    def __init__(self, place: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        """Zeros of a shape, of type uint64 or float64."""
        self.shape = tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        self.device = f"cuda:{place}"
        self._place = place
        self._memory = _core._CudaMemory(place, int(np.prod(self.shape, dtype=object)), self.dtype.name)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array interface of Numba and CuPy."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address, False),
            "strides": None,
            "version": 3,
            # Calls end with all work done: there is nothing to wait for.
            "stream": None,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the kind and the number of the device, as defined by DLPack."""
        return (_CUDA, self._place)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Itself, in the way of DLPack; calls end with everything done, so no stream has anything to wait for."""
        if copy:
            raise BufferError("the array leaves through DLPack without a copy only; copy the result, or use numpy.asarray")
        if dl_device is not None and tuple(int(part) for part in dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array leaves through DLPack on {self.device} only; numpy.asarray copies it to the host")
        return _to_capsule(self)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Returns a copy on the host."""
        if copy is False:
            raise ValueError("an array on a CUDA device cannot be viewed by the host: it must be copied")
        array = self._memory.read().view(self.dtype).reshape(self.shape)
        return array if dtype is None else array.astype(dtype)

    def __repr__(self) -> str:
        """Returns the shape, type and device."""
        return f"CudaArray(shape={self.shape}, dtype={self.dtype}, device='{self.device}')"


# The memory exported by DLPack and not yet released, by its address.
_handed_out: dict[int, Any] = {}


def _give_back(address: int) -> None:
    _handed_out.pop(address, None)


# A function without the interpreter's lock takes it: the releasing thread may not hold it.
_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_give_back)
_is_unused = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _end_capsule(capsule: int) -> None:
    # A consumer that took it over has renamed it and releases it.
    if _is_unused(capsule, b"dltensor"):
        _give_back(_pointer_of(capsule, b"dltensor"))


_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_end_capsule)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes, _new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
_NAME = b"dltensor"


def _to_capsule(array: CudaArray) -> object:
    managed = _Managed()
    shape = (ctypes.c_int64 * max(len(array.shape), 1))(*array.shape)
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id = array._memory.address, _CUDA, array._place
    tensor.ndim, tensor.shape = len(array.shape), ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    tensor.dtype = _DataType(1 if array.dtype.kind == "u" else 2, 64, 1)
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
    address = ctypes.addressof(managed)
    _handed_out[address] = (managed, shape, array)
    return _new_capsule(address, _NAME, ctypes.cast(_destructor, ctypes.c_void_p))
