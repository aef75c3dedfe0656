"""Conversion of array arguments to what the engine reads: native, aligned, C-contiguous NumPy arrays.

The extension calls these for everything but an exact ndarray of the right type in C order. Nothing is copied that NumPy
can view as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def read(obj: object, name: str) -> Array:
    """Converts `obj` to an ndarray of its own type."""
    if isinstance(obj, np.ma.MaskedArray) and np.ma.is_masked(obj):
        raise TypeError(f"{name} is a masked array with masked elements; fill them first")
    if isinstance(obj, (bytes, bytearray)):
        obj = memoryview(obj)
    # Tensors of aleatron.tensor have gradients as well, and are arrays.
    if hasattr(obj, "requires_grad") and hasattr(obj, "detach") and hasattr(obj, "cpu"):
        obj = _from_torch(obj)
    if hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
        return np.from_dlpack(obj)
    return np.asarray(obj)


def _from_torch(tensor: Any) -> Any:
    """Returns a tensor of torch without its gradient, in host memory, of a type that NumPy supports."""
    tensor = tensor.detach().cpu()
    # NumPy has no bfloat16, and f32 holds each of its values.
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def as_float64(obj: object, name: str) -> npt.NDArray[np.float64]:
    """Reads real numbers of any type."""
    array = read(obj, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, not {_described(obj, array)}")
    return np.asarray(np.require(array, np.float64, ["C", "A"]))


def as_words(obj: object, name: str) -> npt.NDArray[np.uint64]:
    """Reads packed words: integers in [0, 2**64) of any type."""
    if type(obj) is np.ndarray and obj.dtype == np.uint64 and obj.flags.c_contiguous and obj.flags.aligned:
        return obj
    array = read(obj, name)
    if array.size == 0 and not isinstance(obj, np.ndarray):
        array = array.astype(np.uint64)
    if array.dtype.kind in "fO" and not hasattr(obj, "dtype"):
        # NumPy has no type for a list of both large and small integers but float64: read it again, exactly.
        array = np.asarray(obj, dtype=object)
        if not all(isinstance(word, (int, np.integer)) for word in array.flat):
            raise TypeError(f"{name} must hold integers")
        _check_range(array, name, 0, 2**64 - 1)
        return array.astype(np.uint64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold packed words (integers), not {_described(obj, array)}")
    if array.dtype.kind == "i":
        _check_range(array, name, 0, 2**64 - 1)
    return np.asarray(np.require(array, np.uint64, ["C", "A"]))


def as_classes(obj: object, name: str) -> npt.NDArray[np.int64]:
    """Reads classes: whole numbers of any type."""
    array = read(obj, name)
    if array.size == 0 and not isinstance(obj, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold classes (whole numbers), not {_described(obj, array)}")
    if array.dtype.kind == "f":
        numbers = array.astype(np.float64, copy=False)
        # In this form, NaN is an error, too.
        wrong = ~((numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53))
        if wrong.any():
            index = first_index(wrong)
            place = f" at index {index}" if array.ndim else ""
            raise ValueError(f"{name}{place} is {array[index]}, not a whole number")
    elif array.dtype.kind == "u":
        _check_range(array, name, 0, 2**63 - 1)
    return np.asarray(np.require(array.astype(np.int64, copy=False), requirements=["C", "A"]))


def as_bits(obj: object, name: str) -> npt.NDArray[np.uint8]:
    """Reads bits: any nonzero value is a one."""
    if type(obj) is list:
        # Python's own conversion is several times as fast as NumPy's, which handles the values that it rejects.
        try:
            return np.frombuffer(bytes(obj), np.uint8)
        except (TypeError, ValueError):
            pass
    array = read(obj, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers or booleans, not {_described(obj, array)}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} at index {first_index(np.isnan(array))} is nan, neither zero nor one")
    if array.dtype not in (np.uint8, np.bool_):
        array = array != 0
    array = np.require(array, requirements=["C", "A"])
    return np.asarray(array).view(np.uint8)


def as_int16(obj: object, name: str) -> npt.NDArray[np.int16]:
    """Reads 16-bit registers: integers in [-32768, 32767] of any type."""
    array = read(obj, name)
    if array.size == 0 and not isinstance(obj, np.ndarray):
        array = array.astype(np.int16)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {_described(obj, array)}")
    _check_range(array, name, -(2**15), 2**15 - 1)
    return np.asarray(np.require(array, np.int16, ["C", "A"]))


def as_mask(obj: object, name: str) -> npt.NDArray[np.bool_]:
    """Reads booleans."""
    array = read(obj, name)
    if array.dtype != np.bool_:
        raise TypeError(f"{name} must hold booleans, not {_described(obj, array)}")
    return np.asarray(np.require(array, requirements=["C", "A"]))


def as_constant(obj: object, name: str) -> Array:
    """Reads the value of an input: integers and booleans as int64, other real numbers as float32."""
    array = read(obj, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, not {_described(obj, array)}")
    if array.dtype.kind == "u":
        _check_range(array, name, 0, 2**63 - 1)
    dtype = np.float32 if array.dtype.kind == "f" else np.int64
    return np.asarray(np.require(array, dtype, ["C", "A"]))


def _described(obj: object, array: Array) -> str:
    return f"{array.dtype}" if hasattr(obj, "dtype") or array.ndim else f"{type(obj).__name__}"


def _check_range(array: Array, name: str, low: int, high: int) -> None:
    # Comparing with Python integers is exact for every integer type, but raises an error for integers that the type cannot represent.
    wrong = np.zeros(array.shape, dtype=bool)
    info = None if array.dtype.kind == "O" else np.iinfo(array.dtype)
    if info is None or info.min < low:
        wrong |= array < low
    if info is None or info.max > high:
        wrong |= array > high
    if wrong.any():
        index = first_index(wrong)
        place = f" at index {index}" if array.ndim else ""
        raise ValueError(f"{name}{place} is {array[index]}, not in [{low}, {high}]")


def first_index(wrong: Array) -> Any:
    """Returns the index of the first true element: an integer, or a tuple for more than one axis."""
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    return index[0] if len(index) == 1 else index
