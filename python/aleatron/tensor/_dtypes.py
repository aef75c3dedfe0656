"""Element types: which there are and how they combine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from aleatron.tensor._tensor import Tensor


class DType:
    """The type of a tensor's elements; one of `bool`, `uint8`, `int32`, `int64`, `float16`, `float32`, `float64`."""

    __slots__ = {
        "core": "The name of the type in the extension module.",
        "kind": "The kind of `isdtype` that the type is of.",
        "name": "The name in the standard and in NumPy.",
        "numpy": "The type in NumPy.",
    }

    def __init__(self, name: str, core: str, kind: str) -> None:
        self.name = name
        self.core = core
        self.kind = kind
        self.numpy: np.dtype[Any] = np.dtype(name)

    def __repr__(self) -> str:
        return f"aleatron.tensor.{self.name}"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (_of_name, (self.name,))


bool_ = DType("bool", "bool", "bool")
uint8 = DType("uint8", "u8", "unsigned integer")
int32 = DType("int32", "i32", "signed integer")
int64 = DType("int64", "i64", "signed integer")
float16 = DType("float16", "f16", "real floating")
float32 = DType("float32", "f32", "real floating")
float64 = DType("float64", "f64", "real floating")

# In this order, each type of a kind holds every value of those before it.
ALL = (bool_, uint8, int32, int64, float16, float32, float64)
INTEGERS = (uint8, int32, int64)
FLOATS = (float16, float32, float64)
NUMERIC = INTEGERS + FLOATS

_BY_NAME = {dtype.name: dtype for dtype in ALL}
BY_CORE = {dtype.core: dtype for dtype in ALL}

_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool_,),
    "signed integer": (int32, int64),
    "unsigned integer": (uint8,),
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": (),
    "numeric": NUMERIC,
}


def _of_name(name: str) -> DType:
    return _BY_NAME[name]


def check(dtype: object) -> DType:
    """Returns `dtype`, which must be one of ours."""
    if isinstance(dtype, DType):
        return dtype
    names = ", ".join(_BY_NAME)
    raise TypeError(f"dtype must be one of aleatron.tensor's ({names}), not {dtype!r}")


def promote(left: DType, right: DType) -> DType:
    """Returns the promoted type of two types; TypeError for types of different kinds."""
    for kind in ((bool_,), INTEGERS, FLOATS):
        if left in kind and right in kind:
            return kind[max(kind.index(left), kind.index(right))]
    raise TypeError(f"{left.name} and {right.name} cannot be combined; cast one of them with astype")


def scalar_type(value: object, dtype: DType) -> DType:
    """Returns the type of a Python number combined with a tensor of `dtype`; TypeError if it is not representable."""
    if isinstance(value, bool):
        fits = dtype is bool_
    elif isinstance(value, int):
        fits = dtype in NUMERIC
        if dtype in INTEGERS:
            limits = np.iinfo(dtype.numpy)
            if not limits.min <= value <= limits.max:
                raise OverflowError(f"{value} is outside {dtype.name}, which ends at {limits.min} and {limits.max}")
    elif isinstance(value, float):
        fits = dtype in FLOATS
    else:
        raise TypeError(f"a number or a tensor is needed, not {type(value).__name__}")
    if not fits:
        raise TypeError(f"{type(value).__name__} {value!r} does not combine with {dtype.name}")
    return dtype


def result_type(*arrays_and_dtypes: Tensor | DType | bool | int | float) -> DType:
    """Returns the type that these combine to.

    Parameters
    ----------
    *arrays_and_dtypes
        Tensors, types and Python numbers; at least one tensor or type.

    Raises
    ------
    TypeError
        For types of different kinds, such as an integer and a float.
    """
    from aleatron.tensor._tensor import Tensor

    dtypes, numbers = [], []
    for item in arrays_and_dtypes:
        if isinstance(item, Tensor):
            dtypes.append(item.dtype)
        elif isinstance(item, DType):
            dtypes.append(item)
        elif isinstance(item, (bool, int, float)):
            numbers.append(item)
        else:
            raise TypeError(f"result_type takes tensors, types and numbers, not {type(item).__name__}")
    if not dtypes:
        raise ValueError("result_type needs at least one tensor or type")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = promote(result, dtype)
    for number in numbers:
        scalar_type(number, result)
    return result


def can_cast(from_: Tensor | DType, to: DType, /) -> bool:
    """Returns whether `from_` becomes `to` by the rules of promotion, without losing anything."""
    from aleatron.tensor._tensor import Tensor

    source = from_.dtype if isinstance(from_, Tensor) else check(from_)
    try:
        return promote(source, check(to)) is to
    except TypeError:
        if isinstance(to, DType):
            return False
        raise


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Returns whether a type is of a kind.

    Parameters
    ----------
    dtype
        The type.
    kind
        A type, one of "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" and "numeric",
        or a tuple of these, of which one must fit.
    """
    check(dtype)
    if isinstance(kind, tuple):
        if any(isinstance(one, tuple) for one in kind):
            raise TypeError("kind must not be a tuple of tuples")
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, not {kind!r}")
        return dtype in _KINDS[kind]
    return dtype is check(kind)


@dataclass(frozen=True)
class finfo_object:
    """The limits of a float type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class iinfo_object:
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def _type_of(type: object) -> DType:
    from aleatron.tensor._tensor import Tensor

    return type.dtype if isinstance(type, Tensor) else check(type)


def finfo(type: DType | Tensor, /) -> finfo_object:
    """Returns the limits of a float type; `type` may be a tensor of it."""
    dtype = _type_of(type)
    if dtype not in FLOATS:
        raise ValueError(f"finfo is for float types, not {dtype.name}")
    info = np.finfo(dtype.numpy)
    return finfo_object(
        info.bits, float(info.eps), float(info.max), float(info.min), float(info.smallest_normal), dtype
    )


def iinfo(type: DType | Tensor, /) -> iinfo_object:
    """Returns the limits of an integer type; `type` may be a tensor of it."""
    dtype = _type_of(type)
    if dtype not in INTEGERS:
        raise ValueError(f"iinfo is for integer types, not {dtype.name}")
    info = np.iinfo(dtype.numpy)
    return iinfo_object(info.bits, int(info.max), int(info.min), dtype)
