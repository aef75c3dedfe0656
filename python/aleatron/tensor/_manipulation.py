"""Other shapes and orders of the same elements."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

import numpy as np

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._tensor import Tensor, check_kind, check_tensor, normal_axes, normal_axis, whole, whole_numbers


def _same_device(arrays: Sequence[Tensor], function: str) -> None:
    """Checks a list of tensors on one device."""
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"{function} takes a list or tuple of tensors, not {type(arrays).__name__}")
    if not arrays:
        raise ValueError(f"{function} needs at least one tensor")
    places = {check_tensor(x, "an argument").device for x in arrays}
    if len(places) > 1:
        raise ValueError(f"{function}: tensors on {', '.join(sorted(places))}; move them with to_device")


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape that tensors of these shapes have together; ValueError if they cannot be broadcast."""
    return tuple(np.broadcast_shapes(*shapes))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Returns a view with axes of size 1, and missing ones in front, repeated."""
    sizes = whole_numbers(shape, "broadcast_to: a size")
    if builtins.any(n < 0 for n in sizes):
        raise ValueError(f"broadcast_to: a negative size in {shape}")
    return Tensor(check_tensor(x, "x")._core.broadcast_to(sizes))


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Returns views of all tensors with the shape they have together."""
    if not arrays:
        return ()
    _same_device(arrays, "broadcast_arrays")
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return tuple(broadcast_to(x, shape) for x in arrays)


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Returns tensors one after the other along an axis that they have; of all their elements in one axis for None."""
    _same_device(arrays, "concat")
    dtype = types.result_type(*arrays)
    parts = [reshape(x, (-1,)) for x in arrays] if axis is None else list(arrays)
    place = normal_axis(0 if axis is None else axis, parts[0].ndim, "concat")
    return Tensor(CoreTensor.concat([x._core.cast(dtype.core) for x in parts], place))


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Returns tensors of one shape along a new axis."""
    _same_device(arrays, "stack")
    if len({x.shape for x in arrays}) > 1:
        raise ValueError(f"stack: tensors of shapes {', '.join(str(x.shape) for x in arrays)}")
    place = normal_axis(axis, arrays[0].ndim + 1, "stack")
    return concat([expand_dims(x, axis=place) for x in arrays], axis=place)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns views of the parts of an axis, which is gone."""
    place = normal_axis(axis, check_tensor(x, "x").ndim, "unstack")
    return tuple(Tensor(x._core.select(place, i)) for i in range(x.shape[place]))


def split(x: Tensor, sizes: Sequence[int], /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns views of an axis in parts of these sizes, which are those of the whole axis together."""
    place = normal_axis(axis, check_tensor(x, "x").ndim, "split")
    if isinstance(sizes, int):
        raise TypeError("split takes the sizes of the parts, not how many there are")
    parts = whole_numbers(sizes, "split: a size")
    if builtins.sum(parts) != x.shape[place] or builtins.any(size < 0 for size in parts):
        raise ValueError(f"split: parts of sizes {parts} do not add up to the {x.shape[place]} elements of the axis")
    ends = np.cumsum([0, *parts])
    pairs = zip(ends[:-1], ends[1:], strict=True)
    return tuple(Tensor(x._core.slice(place, int(start), int(end), 1)) for start, end in pairs)


def expand_dims(x: Tensor, /, axis: int | tuple[int, ...] = 0) -> Tensor:
    """Returns a view with new axes of size 1 at these places of the result."""
    given = axis if isinstance(axis, tuple) else (axis,)
    rank = check_tensor(x, "x").ndim + len(given)
    places = [_new_axis(one, rank) for one in given]
    if len(set(places)) < len(places):
        raise ValueError(f"expand_dims: axes {axis} name one axis twice")
    core = x._core
    for place in sorted(places):
        core = core.unsqueeze(place)
    return Tensor(core)


def _new_axis(axis: int, rank: int) -> int:
    try:
        return normal_axis(axis, rank, "expand_dims")
    except ValueError as error:
        raise IndexError(str(error)) from None


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Returns a view without these axes of size 1."""
    core = check_tensor(x, "x")._core
    for place in sorted(normal_axes(axis, x.ndim, "squeeze"), reverse=True):
        if x.shape[place] != 1:
            raise ValueError(f"squeeze: axis {place} has {x.shape[place]} elements, not 1")
        core = core.squeeze(place)
    return Tensor(core)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Returns a view with these axes, or all, in reverse order."""
    core = check_tensor(x, "x")._core
    for place in normal_axes(axis, x.ndim, "flip"):
        core = core.flip(place)
    return Tensor(core)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Returns a view with the axes in another order."""
    order = normal_axes(tuple(axes), check_tensor(x, "x").ndim, "permute_dims")
    if len(order) != x.ndim:
        raise ValueError(f"permute_dims: {len(order)} axes named of {x.ndim}")
    return Tensor(x._core.permute(order))


def moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """Returns a view with some axes at other places, the others in their order."""
    ndim = check_tensor(x, "x").ndim
    froms, tos = normal_axes(source, ndim, "moveaxis"), normal_axes(destination, ndim, "moveaxis")
    if len(froms) != len(tos):
        raise ValueError(f"moveaxis: {len(froms)} axes to {len(tos)} places")
    order = [axis for axis in range(ndim) if axis not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return Tensor(x._core.permute(order))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Returns the same elements in another shape: a view if possible, otherwise a copy.

    Parameters
    ----------
    x
        The tensor.
    shape
        The sizes; one may be -1 and is then inferred.
    copy
        False raises ValueError if a copy is needed.
    """
    size = check_tensor(x, "x").size
    sizes = whole_numbers(shape, "reshape: a size")
    if sizes.count(-1) > 1:
        raise ValueError(f"reshape: more than one size of -1 in {shape}")
    if builtins.any(n < -1 for n in sizes):
        raise ValueError(f"reshape: a negative size in {shape}")
    if -1 in sizes:
        known = math.prod(n for n in sizes if n != -1)
        if known == 0 or size % known:
            raise ValueError(f"reshape: cannot reshape {x.shape} into {shape}")
        sizes[sizes.index(-1)] = size // known
    if math.prod(sizes) != size:
        raise ValueError(f"reshape: cannot reshape {x.shape} into {shape}")
    return Tensor(x._core.view(sizes) if copy is False else x._core.reshape(sizes))


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Returns the elements moved along axes, those that leave at the end coming back at the front."""
    check_tensor(x, "x")
    if axis is None:
        if isinstance(shift, tuple):
            raise ValueError("roll: several shifts need an axis each")
        return reshape(roll(reshape(x, (-1,)), shift, axis=0), x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    result = x
    for one, by in zip(axes, shifts, strict=True):
        place = normal_axis(one, x.ndim, "roll")
        length = x.shape[place]
        cut = -whole(by, "roll: a shift") % length if length else 0
        if cut:
            front, back = split(result, (cut, length - cut), axis=place)
            result = concat([back, front], axis=place)
    return result


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Returns the tensor repeated along its axes; missing axes, or repetitions, count as 1."""
    check_tensor(x, "x")
    given = whole_numbers(repetitions, "tile: a number of repetitions")
    rank = builtins.max(x.ndim, len(given))
    sizes = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(given)) + tuple(given)
    if builtins.any(count < 0 for count in counts):
        raise ValueError(f"tile: a negative number of repetitions in {repetitions}")
    paired = [part for pair in zip(counts, sizes, strict=True) for part in pair]
    single = [part for size in sizes for part in (1, size)]
    wide = broadcast_to(reshape(x, tuple(single)), tuple(paired))
    return reshape(wide, tuple(count * size for count, size in zip(counts, sizes, strict=True)))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns each element of an axis several times, one after the other.

    Parameters
    ----------
    x
        The tensor.
    repeats
        How often: a number, or a tensor of integers with one for each element of the axis.
    axis
        The axis; all elements in one axis without it.
    """
    check_tensor(x, "x")
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, axis=0)
    place = normal_axis(axis, x.ndim, "repeat")
    length = x.shape[place]
    if isinstance(repeats, Tensor):
        check_kind(repeats, types.INTEGERS, "repeat")
        _same_device((x, repeats), "repeat")
        if repeats.ndim > 1 or repeats.size not in (1, length):
            raise ValueError(f"repeat: {repeats.shape} numbers for an axis of {length}")
        counts = np.broadcast_to(repeats.numpy().reshape(-1), (length,))
        if (counts < 0).any():
            raise ValueError("repeat: a negative number of repetitions")
        from aleatron.tensor._indexing import _indices

        return Tensor(x._core.index_select(place, _indices(np.repeat(np.arange(length), counts), x.device)))
    repeats = whole(repeats, "repeat: a number of repetitions")
    if repeats < 0:
        raise ValueError(f"repeat: {repeats} repetitions")
    shape = list(x.shape)
    wide = broadcast_to(expand_dims(x, axis=place + 1), (*shape[: place + 1], repeats, *shape[place + 1 :]))
    return reshape(wide, (*shape[:place], length * repeats, *shape[place + 1 :]))


def pad(x: Tensor, widths: Sequence[tuple[int, int]], /, *, value: bool | int | float = 0) -> Tensor:
    """Returns the tensor with elements added before and after each axis.

    Parameters
    ----------
    x
        The tensor.
    widths
        For each axis, how many before and how many after.
    value
        What they are.
    """
    check_tensor(x, "x")
    pairs = [(whole(before, "pad: a width"), whole(after, "pad: a width")) for before, after in widths]
    if len(pairs) != x.ndim or builtins.any(n < 0 for pair in pairs for n in pair):
        raise ValueError(f"pad: widths {pairs} for a tensor of shape {x.shape}")
    fill = bool(value) if x.dtype is types.bool_ else value
    types.scalar_type(fill, x.dtype)
    return Tensor(x._core.pad(pairs, fill))
