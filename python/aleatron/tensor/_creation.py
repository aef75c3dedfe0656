"""Making tensors."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aleatron import _arrays
from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._dtypes import DType
from aleatron.tensor._tensor import Number, Tensor, check_tensor, whole, whole_numbers

# What NumPy's other types become: the smallest of ours that holds them, and 64-bit floats for longer ones.
_OTHERS = {
    "int8": types.int32,
    "int16": types.int32,
    "uint16": types.int32,
    "uint32": types.int64,
    "uint64": types.int64,
    **({} if np.dtype(np.longdouble) == np.dtype(np.float64) else {np.dtype(np.longdouble).name: types.float64}),
    "bfloat16": types.float32,
}


def default_integer(device: str) -> DType:
    """Returns the default type of integers."""
    return types.int64 if CoreTensor.supports("i64", device) else types.int32


def _placed(device: str | None) -> str:
    if device is None:
        return "cpu"
    if not isinstance(device, str):
        raise ValueError(f"device must be a name such as 'cpu' or 'gpu', not {device!r}")
    return device


def asarray(
    obj: Any, /, *, dtype: DType | None = None, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Converts `obj` to a tensor.

    Parameters
    ----------
    obj
        A tensor, a number, a nested list, or an array of any library (NumPy, torch, anything with the buffer protocol or DLPack).
    dtype
        The type of the elements. Without it, that of `obj`: 8- and 16-bit integers become int32, other integers int64; on GPUs, 64-bit floats become float32;
        Python's floats float32, integers int64 (int32 on GPUs without 64-bit integers).
    device
        "cpu", "gpu", "gpu:1", …; without it, that of `obj` if it is a tensor, otherwise the CPU.
    copy
        True returns a tensor that assignments to `obj` do not change; False is an error if a copy is needed.

    Raises
    ------
    OverflowError
        For an integer that the type cannot hold.
    """
    if dtype is not None:
        types.check(dtype)
    if isinstance(obj, Tensor):
        place = obj.device if device is None else _placed(device)
        changes = (dtype is not None and dtype is not obj.dtype) or place != obj.device
        if copy is False and changes:
            raise ValueError("copy=False, but another type or device takes a copy")
        result = obj if dtype is None or dtype is obj.dtype else astype(obj, dtype)
        # Another object over the same elements: an assignment replaces those of one object only.
        result = Tensor(result._core) if copy and result is obj else result
        return result if place == obj.device else result.to_device(place)
    if copy is False:
        raise ValueError("copy=False, but a tensor of another object's elements is always a copy")
    place = _placed(device)
    if isinstance(obj, (list, tuple)) and any(isinstance(part, Tensor) for part in obj):
        raise TypeError("a list of tensors is not an array; use stack")
    array = _read(obj)
    return Tensor(CoreTensor.from_numpy(_converted(array, dtype, not hasattr(obj, "dtype"), place), place))


def _read(obj: Any) -> npt.NDArray[Any]:
    if isinstance(obj, int) and not isinstance(obj, bool) and not -(2**63) <= obj < 2**63:
        raise OverflowError(f"{obj} is outside int64")
    array = _arrays.read(obj, "obj")
    if array.dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    if array.dtype.kind == "O" and array.size and builtins.all(isinstance(x, (int, np.integer)) for x in array.flat):
        for number in array.flat:
            if not -(2**63) <= number < 2**63:
                raise OverflowError(f"{number} is outside int64")
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"a tensor holds numbers, not {array.dtype.name}")
    return array


def _converted(array: npt.NDArray[Any], dtype: DType | None, is_python: bool, device: str) -> npt.NDArray[Any]:
    """The elements in C order, of a type that tensors support."""
    if dtype is None:
        if is_python and array.dtype.kind in "iu":
            dtype = default_integer(device)
        elif is_python and array.dtype.kind == "f":
            dtype = types.float32
        else:
            name = array.dtype.name
            dtype = types._BY_NAME.get(name) or _OTHERS.get(name)
            if dtype is None:
                raise TypeError(f"a tensor has no elements of type {name}")
            if dtype is types.float64 and not CoreTensor.supports("f64", device):
                dtype = types.float32
    if dtype in types.INTEGERS and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype.numpy)
        low, high = int(array.min()), int(array.max())
        if low < limits.min or high > limits.max:
            raise OverflowError(f"{low if low < limits.min else high} is outside {dtype.name}")
    return _cast(array, dtype)


def _cast(array: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """The elements in C order as another type, by the rules of `astype`."""
    if dtype in types.INTEGERS and array.dtype.kind not in "biu":
        array = array.astype(np.result_type(array, np.float64), copy=False)
        limits = np.iinfo(dtype.numpy)
        # Floats next to the limits of 64 bits are not representable as integers.
        inside = np.where(np.isnan(array), 0, np.clip(array, float(limits.min), float(limits.max)))
        top = inside >= float(limits.max)
        array = np.where(top, limits.max, np.where(top, 0, inside).astype(dtype.numpy))
    # Rounding to a smaller type overflows to infinity, as every cast does.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.require(array, dtype.numpy, ["C", "A"])


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """Returns a tensor of the elements of another library's array, through DLPack.

    Parameters
    ----------
    x
        An object with `__dlpack__`, whose memory is accessible to the host.
    device
        Where the tensor shall be; the CPU without it.
    copy
        The elements of another library's array are always copied, so that False is an error, unless `x` is a tensor on the device.
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack takes an object with __dlpack__, not {type(x).__name__}")
    if isinstance(x, Tensor):
        moved = x if device is None else x.to_device(device)
        if moved.device == x.device:
            return x
        if copy is False:
            raise BufferError(f"copy=False, but the elements are on {x.device}, and moving them to {device} takes a copy")
        return moved
    if copy is False:
        raise BufferError("copy=False, but elements are copied: the memory of other arrays may change")
    return asarray(np.from_dlpack(x), device=device)


def astype(x: Tensor, dtype: DType, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Returns the elements as another type.

    Floats are truncated to integers and saturate, NaN becomes 0; wide integers keep their
    low bits; every value except zero becomes true.

    Parameters
    ----------
    x
        The tensor.
    dtype
        The type.
    copy
        Whether the result is a new object even if `x` has the type already.
    device
        The device of the result; that of `x` by default.
    """
    is_same = check_tensor(x, "x").dtype is types.check(dtype) and not copy
    result = x if is_same else Tensor(x._core.cast(dtype.core))
    return result if device is None else result.to_device(device)


def _shape(shape: int | Sequence[int]) -> list[int]:
    sizes = whole_numbers(shape, "a size of a shape")
    for size in sizes:
        if size < 0:
            raise ValueError(f"a shape with {size}, which is negative")
    return sizes


def full(
    shape: int | tuple[int, ...], fill_value: Number, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Returns a tensor of one value.

    Parameters
    ----------
    shape
        The sizes of its axes.
    fill_value
        The value.
    dtype
        The type of the elements; without it, bool, int64 or float32 as the value is.
    device
        Where it shall be; the CPU without it.
    """
    place = _placed(device)
    if not isinstance(fill_value, (bool, int, float)):
        raise TypeError(f"fill_value must be a number, not {type(fill_value).__name__}")
    if dtype is None:
        if isinstance(fill_value, bool):
            dtype = types.bool_
        else:
            dtype = default_integer(place) if isinstance(fill_value, int) else types.float32
    value: Number = fill_value
    if types.check(dtype) is types.bool_:
        value = bool(fill_value)
    elif isinstance(fill_value, bool):
        value = int(fill_value)
    types.scalar_type(value, dtype)
    return Tensor(CoreTensor.full(_shape(shape), value, dtype.core, place))


def zeros(shape: int | tuple[int, ...], *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns a tensor of zeros, of type float32 unless `dtype` says otherwise."""
    return full(shape, 0, dtype=types.float32 if dtype is None else dtype, device=device)


def ones(shape: int | tuple[int, ...], *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns a tensor of ones, of type float32 unless `dtype` says otherwise."""
    return full(shape, 1, dtype=types.float32 if dtype is None else dtype, device=device)


def empty(shape: int | tuple[int, ...], *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns a tensor of zeros: tensors never change, so that memory without a value would be of no use."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Number, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Returns a tensor of one value, with the shape, type and device of `x` unless others are given."""
    check_tensor(x, "x")
    return full(
        x.shape,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=x.device if device is None else device,
    )


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns a tensor of zeros, with the shape, type and device of `x` unless others are given."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns a tensor of ones, with the shape, type and device of `x` unless others are given."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Returns an uninitialised tensor like `zeros_like`."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Returns the numbers from `start` on in steps of `step`, up to but excluding `stop`; from 0 up to `start` without `stop`.

    Parameters
    ----------
    start, stop, step
        The numbers.
    dtype
        The type of the elements; without it float32 if one of the numbers is a float, otherwise int64.
    device
        Where the tensor shall be; the CPU without it.
    """
    place = _placed(device)
    if stop is None:
        start, stop = 0, start
    numbers = (start, stop, step)
    if step == 0:
        raise ValueError("arange: the step must not be 0")
    if dtype is None:
        dtype = types.float32 if any(isinstance(x, float) for x in numbers) else default_integer(place)
    check = types.check(dtype)
    if check in types.INTEGERS and builtins.any(isinstance(x, float) for x in numbers):
        return Tensor(CoreTensor.from_numpy(_cast(np.arange(*numbers), check), place))
    if check in types.INTEGERS:
        values = range(start, stop, step)  # type: ignore[arg-type]
        for number in (values[0], values[-1]) if values else ():
            types.scalar_type(number, check)
    return Tensor(CoreTensor.arange(start, stop, step, check.core, place))


def linspace(
    start: int | float,
    stop: int | float,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """Returns `num` numbers at equal distances from `start` to `stop`, which is included if `endpoint` is true."""
    check = types.check(types.float32 if dtype is None else dtype)
    if num < 0:
        raise ValueError(f"linspace: num is {num}, which is negative")
    values = np.linspace(start, stop, num, endpoint=endpoint, dtype=np.float64)
    return Tensor(CoreTensor.from_numpy(_cast(values, check), _placed(device)))


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Returns a matrix of zeros with ones on the diagonal, or on the one `k` places above it."""
    check = types.check(types.float32 if dtype is None else dtype)
    rows, columns = _shape((n_rows, n_rows if n_cols is None else n_cols))
    return Tensor(CoreTensor.from_numpy(np.eye(rows, columns, k=k, dtype=check.numpy), _placed(device)))


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid, one tensor for each of the tensors of one axis given.

    Parameters
    ----------
    *arrays
        The coordinates along each axis, of one type.
    indexing
        "xy" for the first two axes exchanged, as on a plane; "ij" for axes in order, as of a matrix.
    """
    from aleatron.tensor._manipulation import broadcast_to, reshape

    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', not {indexing!r}")
    for x in arrays:
        if check_tensor(x, "an argument").ndim > 1:
            raise ValueError(f"meshgrid takes tensors of one axis, not of shape {x.shape}")
    if len({x.dtype for x in arrays}) > 1:
        raise ValueError("meshgrid: all tensors must have one type")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = tuple(arrays[i].size for i in order)
    along = {i: axis for axis, i in enumerate(order)}
    result = []
    for i, x in enumerate(arrays):
        sizes = [1] * len(arrays)
        sizes[along[i]] = x.size
        result.append(broadcast_to(reshape(x, tuple(sizes)), shape))
    return tuple(result)


def _triangle(x: Tensor, k: int, lower: bool, name: str) -> Tensor:
    from aleatron.tensor._searching import where

    if check_tensor(x, "x").ndim < 2:
        raise ValueError(f"{name} needs at least two axes, not {x.ndim}")
    rows, columns = x.shape[-2:]
    k = whole(k, f"{name}: k")
    mask = np.tri(rows, columns, k=k if lower else k - 1, dtype=np.bool_)
    kept = Tensor(CoreTensor.from_numpy(mask if lower else ~mask, x.device))
    return where(kept, x, zeros_like(x))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns matrices with zeros above the diagonal that is `k` places above the main one."""
    return _triangle(x, k, True, "tril")


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns matrices with zeros below the diagonal that is `k` places above the main one."""
    return _triangle(x, k, False, "triu")


def manual_seed(seed: int, /) -> None:
    """Restarts the generator that `rand` and `randn` draw from when they are called without a seed."""
    CoreTensor.manual_seed(seed)


def rand(
    shape: int | tuple[int, ...],
    /,
    *,
    seed: int | None = None,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Returns random numbers in [0, 1): the same for a seed on every device, other ones on each call without one."""
    check = types.check(types.float32 if dtype is None else dtype)
    if check not in types.FLOATS:
        raise TypeError(f"rand makes floats, not {check.name}")
    return astype(Tensor(CoreTensor.rand(_shape(shape), seed, _placed(device))), check)


def randn(
    shape: int | tuple[int, ...],
    /,
    *,
    seed: int | None = None,
    dtype: DType | None = None,
    device: str | None = None,
) -> Tensor:
    """Returns random numbers of the normal distribution with mean 0 and deviation 1, drawn as by `rand`."""
    check = types.check(types.float32 if dtype is None else dtype)
    if check not in types.FLOATS:
        raise TypeError(f"randn makes floats, not {check.name}")
    return astype(Tensor(CoreTensor.randn(_shape(shape), seed, _placed(device))), check)
