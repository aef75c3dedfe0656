"""Parts of tensors: `x[...]`, `take`, `take_along_axis`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axis


def item(x: Tensor, key: Any) -> Tensor:
    """Returns `x[key]`."""
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, Tensor) and part.ndim + (part.dtype is types.bool_) > 0 for part in parts):
        return _by_tensors(x, parts)
    core, axis = x._core, 0
    for part in _expanded(parts, x.ndim):
        if part is None:
            core = core.unsqueeze(axis)
            axis += 1
        elif isinstance(part, slice):
            core = _sliced(core, axis, part)
            axis += 1
        else:
            core = core.select(axis, _place(part, core.shape[axis], axis))
    return Tensor(core)


def with_item(x: Tensor, key: Any, value: Any) -> CoreTensor:
    """Returns the elements of `x` after `x[key] = value`, which are written on the host unless a gradient passes through them."""
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if isinstance(part, Tensor) and part.device != x.device:
            raise ValueError(f"an index on {part.device} for a tensor on {x.device}")
        if not (part is None or part is Ellipsis or isinstance(part, (slice, Tensor))) and not hasattr(part, "__index__"):
            raise IndexError(
                f"an index must be an integer, a slice, an ellipsis, None or a tensor, not {type(part).__name__}"
            )
    if isinstance(value, Tensor):
        if value.device != x.device:
            raise ValueError(f"a value on {value.device} for a tensor on {x.device}; move one with to_device")
        if types.promote(x.dtype, value.dtype) is not x.dtype:
            raise TypeError(f"{value.dtype.name} does not fit {x.dtype.name}; cast it with astype")
    else:
        types.scalar_type(value, x.dtype)
    where = tuple(part.numpy() if isinstance(part, Tensor) else part for part in parts)
    is_tracked = x.requires_grad or (isinstance(value, Tensor) and value.requires_grad)
    if is_tracked and CoreTensor.is_recording():
        return _assigned(x, where, value)
    array = x.numpy()
    array[where] = value.numpy() if isinstance(value, Tensor) else value
    return CoreTensor.from_numpy(array, x.device)


def _assigned(x: Tensor, where: tuple[Any, ...], value: Any) -> CoreTensor:
    """Returns the elements of `x` after an assignment, as a selection that is recorded: of the old elements and the new ones."""
    if isinstance(value, Tensor):
        new = value._core.cast(x._core.dtype)
    else:
        new = CoreTensor.full([], value, x._core.dtype, x.device)
    shape = list(x.shape)
    places = np.arange(x.size, dtype=np.int64).reshape(shape)
    places[where] = x.size + np.arange(math.prod(new.shape), dtype=np.int64).reshape(new.shape)
    flat = [core.reshape([math.prod(core.shape)]) for core in (x._core, new)]
    return CoreTensor.concat(flat, 0).index_select(0, _indices(places.reshape(-1), x.device)).reshape(shape)


def _expanded(parts: tuple[Any, ...], ndim: int) -> list[Any]:
    """Expands a key to one entry for each axis: an ellipsis, or the end, stands for the missing ones."""
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise IndexError("an index has at most one ellipsis")
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if named > ndim:
        raise IndexError(f"{named} indices for a tensor of {ndim} axes")
    full = [slice(None)] * (ndim - named)
    if not ellipses:
        return [*parts, *full]
    place = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return [*parts[:place], *full, *parts[place + 1 :]]


def _place(part: Any, length: int, axis: int) -> int:
    # An array of integers has `__index__`, too, but rejects it.
    if isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__") or np.ndim(part):
        raise IndexError(f"an index must be an integer, a slice, an ellipsis, None or a tensor, not {type(part).__name__}")
    place: int = part.__index__()
    if not -length <= place < length:
        raise IndexError(f"index {place} is outside axis {axis} of {length}")
    return place % length


def _sliced(core: CoreTensor, axis: int, part: slice) -> CoreTensor:
    if part.step == 0:
        raise ValueError("the step of a slice must not be 0")
    start, stop, step = part.indices(core.shape[axis])
    n = len(range(start, stop, step))
    if n == 0:
        return core.slice(axis, 0, 0, 1)
    if n == 1:
        return core.slice(axis, start, start + 1, 1)
    last = start + (n - 1) * step
    if step > 0:
        return core.slice(axis, start, last + 1, step)
    return core.slice(axis, last, start + 1, -step).flip(axis)


def _by_tensors(x: Tensor, parts: tuple[Any, ...]) -> Tensor:
    """Elements named by a mask, or by integers for each axis."""
    from aleatron.tensor._manipulation import reshape

    for part in parts:
        if isinstance(part, Tensor) and part.device != x.device:
            raise ValueError(f"an index on {part.device} for a tensor on {x.device}")
    if len(parts) == 1 and parts[0].dtype is types.bool_:
        return _by_mask(x, parts[0])
    if len(parts) != x.ndim or not all(
        (isinstance(part, Tensor) and part.dtype in types.INTEGERS) or (isinstance(part, int) and not isinstance(part, bool))
        for part in parts
    ):
        raise IndexError("an index with tensors is a mask alone, or integers and tensors of integers for each axis")
    lengths = x.shape
    # On the host, where an index that is outside can be named.
    places = []
    for axis, (part, length) in enumerate(zip(parts, lengths, strict=True)):
        numbers = part.numpy().astype(np.int64) if isinstance(part, Tensor) else np.asarray(_place(part, length, axis))
        wrong = (numbers < -length) | (numbers >= length)
        if wrong.any():
            raise IndexError(f"index {numbers[wrong].flat[0]} is outside axis {axis} of {length}")
        places.append(np.where(numbers < 0, numbers + length, numbers))
    flat = np.ravel_multi_index(np.broadcast_arrays(*places), lengths)
    chosen = reshape(x, (-1,))._core.index_select(0, _indices(np.ascontiguousarray(flat.reshape(-1)), x.device))
    return Tensor(chosen.reshape(list(flat.shape)))


def _by_mask(x: Tensor, mask: Tensor) -> Tensor:
    from aleatron.tensor._manipulation import reshape

    # The standard permits axes of size zero in a mask for any tensor: such a mask selects nothing.
    fits = all(own in (0, size) for own, size in zip(mask.shape, x.shape, strict=False))
    if mask.ndim > x.ndim or not fits:
        raise IndexError(
            f"a mask of shape {mask.shape} does not fit a tensor of shape {x.shape}: its axes must have the sizes of the first "
            "axes of the tensor, or 0"
        )
    # How many elements there are is known on the host only.
    places = np.flatnonzero(mask.numpy())
    rest = x.shape[mask.ndim :]
    rows = reshape(x, (math.prod(x.shape[: mask.ndim]), *rest))
    return Tensor(rows._core.index_select(0, _indices(places, x.device)))


def _indices(places: Any, device: str) -> CoreTensor:
    """Places as a tensor for the kernels, which count to 2^31 on a GPU."""
    dtype = np.int64 if device == "cpu" else np.int32
    return CoreTensor.from_numpy(np.ascontiguousarray(places, dtype=dtype), device)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns the elements at some places of an axis.

    Parameters
    ----------
    x
        The tensor.
    indices
        The indices, in one axis of integers; negative ones count from the end.
    axis
        The axis; optional for a tensor of one axis.

    Raises
    ------
    IndexError
        For an index out of range: immediately on the CPU, when a value is read on a GPU.
    """
    check_tensor(x, "x")
    check_kind(check_tensor(indices, "indices"), types.INTEGERS, "take")
    if indices.ndim != 1:
        raise ValueError(f"take: indices must have one axis, not {indices.ndim}")
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take: an axis is needed for a tensor of more than one")
        axis = 0
    place = normal_axis(axis, x.ndim, "take")
    return Tensor(x._core.index_select(place, indices._core))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns, for each position along the other axes, the elements at separate indices.

    Parameters
    ----------
    x
        The tensor.
    indices
        The indices, integers; its other axes are those of `x`, or of size 1.
    axis
        The axis.
    """
    check_tensor(x, "x")
    check_kind(check_tensor(indices, "indices"), types.INTEGERS, "take_along_axis")
    if indices.ndim != x.ndim:
        raise ValueError(f"take_along_axis: {indices.ndim} axes of indices for {x.ndim}")
    place = normal_axis(axis, x.ndim, "take_along_axis")
    from aleatron.tensor._manipulation import broadcast_shapes, broadcast_to

    others = broadcast_shapes(_without(x.shape, place), _without(indices.shape, place))
    wide = broadcast_to(x, (*others[:place], x.shape[place], *others[place:]))
    places = broadcast_to(indices, (*others[:place], indices.shape[place], *others[place:]))
    return Tensor(wide._core.gather(place, places._core))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
