"""The class of tensors."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from types import EllipsisType, ModuleType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._dtypes import DType

# The supported versions of the standard.
VERSIONS = ("2022.12", "2023.12", "2024.12", "2025.12")

# DLPack's numbers of kinds of devices.
_DLPACK_CPU = (1, 0)
_DLPACK_VULKAN = 7

Index = int | slice | EllipsisType | None
Number = bool | int | float


class Tensor:
    """An array on the CPU or a GPU; `aleatron.tensor.asarray` creates one.

    Operations follow the Python array API standard: types are promoted within their kind only, nothing moves from one device to another by
    itself, and the result is on the device of its arguments. Slices and transposes are views and copy nothing.

    Elements never change, so that views and results are safe to keep. An assignment `x[key] = value` gives the object `x` new elements; views that
    were taken before keep the old ones.
    """

    __slots__ = ("_core",)
    # NumPy's arrays leave `array + tensor` to the tensor, which rejects it: nothing is converted silently.
    __array_ufunc__ = None

    _core: CoreTensor

    def __init__(self, core: CoreTensor) -> None:
        if not isinstance(core, CoreTensor):
            raise TypeError("make tensors with aleatron.tensor.asarray")
        self._core = core

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return types.BY_CORE[self._core.dtype]

    @property
    def device(self) -> str:
        """The device: "cpu", or "gpu" with its index."""
        return self._core.device

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._core.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._core.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._core.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.size * self.dtype.numpy.itemsize

    @property
    def T(self) -> Tensor:
        """The transposed matrix; for two axes only."""
        if self.ndim != 2:
            raise ValueError(f"T is for two axes, not {self.ndim}; use mT or permute_dims")
        return self.mT

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT needs at least two axes, not {self.ndim}")
        order = list(range(self.ndim))
        order[-1], order[-2] = order[-2], order[-1]
        return Tensor(self._core.permute(order))

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The module with the functions of the standard."""
        import aleatron.tensor

        if api_version is not None and api_version not in VERSIONS:
            raise ValueError(f"api_version must be one of {', '.join(VERSIONS)}, not {api_version!r}")
        return aleatron.tensor

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        """Returns the tensor on a device: itself if it is there already, otherwise a copy.

        Parameters
        ----------
        device
            "cpu", "gpu", "gpu:1" or "gpu:NAME".
        stream
            None.
        """
        if stream is not None:
            raise ValueError("streams are not supported")
        return Tensor(self._core.to_device(device))

    # Gradients.

    @property
    def requires_grad(self) -> bool:
        """Whether the tensor is a leaf or part of a recorded computation."""
        return self._core.is_tracked

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor is a leaf, whose gradient `backward` accumulates."""
        return self._core.is_leaf

    def requires_grad_(self) -> Tensor:
        """Makes this tensor a new leaf without a gradient, and returns it.

        Raises
        ------
        TypeError
            For other elements than floats.
        """
        self._core = self._core.requires_grad()
        return self

    def detach(self) -> Tensor:
        """Returns the same elements without the recorded computation: no gradient passes through the result."""
        return Tensor(self._core.detach())

    def backward(self, gradient: Tensor | None = None) -> None:
        """Computes the gradients of this tensor and adds them to its leaves. The graph is freed.

        Parameters
        ----------
        gradient
            The gradient of the final result with respect to each element; optional for a tensor of one element.

        Raises
        ------
        RuntimeError
            For a tensor that is not part of a recorded computation, or whose graph was freed.
        """
        self._core.backward(None if gradient is None else check_tensor(gradient, "gradient")._core)

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf; assign None to remove it."""
        gradient = self._core.grad()
        return None if gradient is None else Tensor(gradient)

    @grad.setter
    def grad(self, value: None) -> None:
        if value is not None:
            raise TypeError("grad can only be set to None, which removes the gradient")
        self._core.zero_grad()

    # Leaving for other libraries.

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Returns a copy of the elements as a NumPy array."""
        if copy is False:
            raise ValueError("a NumPy array of a tensor is always a copy")
        array = self._core.to_numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def numpy(self) -> npt.NDArray[Any]:
        """Returns the elements as a NumPy array of its own."""
        return self._core.to_numpy()

    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python numbers."""
        return self._core.to_numpy().tolist()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind and number of the device, as DLPack counts them."""
        if self._core.device == "cpu":
            return _DLPACK_CPU
        return (_DLPACK_VULKAN, 0)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule with a copy of the elements in the memory of the host."""
        if copy is False:
            raise BufferError("elements leave through DLPack as a copy only")
        if stream is not None:
            raise BufferError("streams are not supported")
        target = self.__dlpack_device__() if dl_device is None else tuple(int(part) for part in dl_device)
        if target != _DLPACK_CPU:
            raise BufferError("elements leave through DLPack to the host only; pass dl_device=(1, 0), or copy with to_device('cpu')")
        array = self._core.to_numpy()
        try:
            return array.__dlpack__(max_version=max_version)
        except TypeError:
            # NumPy before 2.1 makes capsules of DLPack's first version only, which all libraries accept.
            return array.__dlpack__()

    # Single numbers.

    def _item(self) -> Any:
        if self.size != 1:
            raise TypeError(f"only a tensor of one element is a number, not one of shape {self.shape}")
        return self._core.to_numpy().reshape(()).item()

    def item(self) -> Any:
        """Returns the only element as a Python number."""
        return self._item()

    def __bool__(self) -> bool:
        return bool(self._item())

    def __int__(self) -> int:
        return int(self._item())

    def __float__(self) -> float:
        return float(self._item())

    def __complex__(self) -> complex:
        return complex(self._item())

    def __index__(self) -> int:
        if self.dtype not in types.INTEGERS:
            raise TypeError(f"only integers are an index, not {self.dtype.name}")
        return int(self._item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shape:
            raise TypeError("a tensor without axes cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __repr__(self) -> str:
        options = np.get_printoptions()
        shown, threshold = self, options["threshold"]
        if self.size > threshold:
            # Omitted elements are not read: a view may have more elements than memory holds.
            shown, threshold = _ends(self, options["edgeitems"]), 0
        text = np.array2string(shown.numpy(), separator=", ", prefix="Tensor(", threshold=threshold)
        shape = f", shape={self.shape}" if self.size == 0 and self.ndim > 1 else ""
        place = "" if self.device == "cpu" else f", device={self.device!r}"
        return f"Tensor({text}{shape}, dtype={self.dtype.name}{place})"

    def __format__(self, spec: str) -> str:
        # As NumPy's arrays without axes do, a tensor without axes formats as its number.
        return object.__format__(self, spec) if self.ndim or not spec else format(self._item(), spec)

    # Tensors compare element by element, so that they have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> Tensor:
        return Tensor(self._core)

    def __deepcopy__(self, memo: object) -> Tensor:
        return Tensor(self._core)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._core.to_numpy(), self.device))

    # Parts.

    def __getitem__(self, key: Any, /) -> Tensor:
        from aleatron.tensor._indexing import item

        return item(self, key)

    def __setitem__(self, key: Any, value: Any, /) -> None:
        from aleatron.tensor._indexing import with_item

        is_leaf = self.is_leaf
        if is_leaf and CoreTensor.is_recording():
            raise RuntimeError("elements of a leaf are assigned inside no_grad only; or assign to elements of a result")
        core = with_item(self, key, value)
        self._core = core.requires_grad() if is_leaf else core

    # Operators.

    def _binary(self, name: str, other: Any) -> Tensor:
        from aleatron.tensor import _elementwise

        if not isinstance(other, (Tensor, bool, int, float)):
            return cast("Tensor", NotImplemented)
        result: Tensor = getattr(_elementwise, name)(self, other)
        return result

    def _compared(self, name: str, other: Any) -> Tensor:
        # Python's default == would return False for all elements.
        if isinstance(other, (list, tuple)) or (hasattr(other, "__array__") and not isinstance(other, (Tensor, float))):
            raise TypeError(f"{name}: a tensor is compared with tensors and Python's numbers, not with {type(other).__name__}")
        return self._binary(name, other)

    def _reflected(self, name: str, other: Any) -> Tensor:
        from aleatron.tensor import _elementwise

        if not isinstance(other, (bool, int, float)):
            return cast("Tensor", NotImplemented)
        result: Tensor = getattr(_elementwise, name)(other, self)
        return result

    def __abs__(self) -> Tensor:
        from aleatron.tensor._elementwise import abs

        return abs(self)

    def __neg__(self) -> Tensor:
        from aleatron.tensor._elementwise import negative

        return negative(self)

    def __pos__(self) -> Tensor:
        from aleatron.tensor._elementwise import positive

        return positive(self)

    def __invert__(self) -> Tensor:
        from aleatron.tensor._elementwise import bitwise_invert

        return bitwise_invert(self)

    def __add__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: Number, /) -> Tensor:
        return self._reflected("add", other)

    def __sub__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: Number, /) -> Tensor:
        return self._reflected("subtract", other)

    def __mul__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("multiply", other)

    def __rmul__(self, other: Number, /) -> Tensor:
        return self._reflected("multiply", other)

    def __truediv__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: Number, /) -> Tensor:
        return self._reflected("divide", other)

    def __floordiv__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("floor_divide", other)

    def __rfloordiv__(self, other: Number, /) -> Tensor:
        return self._reflected("floor_divide", other)

    def __mod__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("remainder", other)

    def __rmod__(self, other: Number, /) -> Tensor:
        return self._reflected("remainder", other)

    def __pow__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("pow", other)

    def __rpow__(self, other: Number, /) -> Tensor:
        return self._reflected("pow", other)

    def __and__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("bitwise_and", other)

    def __rand__(self, other: Number, /) -> Tensor:
        return self._reflected("bitwise_and", other)

    def __or__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("bitwise_or", other)

    def __ror__(self, other: Number, /) -> Tensor:
        return self._reflected("bitwise_or", other)

    def __xor__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("bitwise_xor", other)

    def __rxor__(self, other: Number, /) -> Tensor:
        return self._reflected("bitwise_xor", other)

    def __lshift__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("bitwise_left_shift", other)

    def __rlshift__(self, other: Number, /) -> Tensor:
        return self._reflected("bitwise_left_shift", other)

    def __rshift__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("bitwise_right_shift", other)

    def __rrshift__(self, other: Number, /) -> Tensor:
        return self._reflected("bitwise_right_shift", other)

    def __matmul__(self, other: Tensor, /) -> Tensor:
        from aleatron.tensor._linalg import matmul

        return matmul(self, other) if isinstance(other, Tensor) else NotImplemented

    def __eq__(self, other: Tensor | Number, /) -> Tensor:  # type: ignore[override]
        return self._compared("equal", other)

    def __ne__(self, other: Tensor | Number, /) -> Tensor:  # type: ignore[override]
        return self._compared("not_equal", other)

    def __lt__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("less", other)

    def __le__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("less_equal", other)

    def __gt__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("greater", other)

    def __ge__(self, other: Tensor | Number, /) -> Tensor:
        return self._binary("greater_equal", other)


def _ends(x: Tensor, n: int) -> Tensor:
    """A tensor with the first and last `n` elements of each longer axis, and one between them."""
    from aleatron.tensor._manipulation import concat

    for axis, length in enumerate(x.shape):
        if length > 2 * n + 1:
            parts = [x._core.slice(axis, 0, n + 1, 1), x._core.slice(axis, length - n, length, 1)]
            x = concat([Tensor(part) for part in parts], axis=axis)
    return x


def _restore(array: npt.NDArray[Any], device: str) -> Tensor:
    """A pickled tensor, on the device it was on."""
    return Tensor(CoreTensor.from_numpy(array, device))


def check_tensor(value: object, name: str) -> Tensor:
    """Returns `value`, which must be a tensor."""
    if isinstance(value, Tensor):
        return value
    raise TypeError(f"{name} must be a tensor, not {type(value).__name__}; make one with asarray")


def check_kind(tensor: Tensor, allowed: tuple[DType, ...], function: str) -> None:
    """Checks that a function takes elements of this type."""
    if tensor.dtype not in allowed:
        names = ", ".join(dtype.name for dtype in allowed)
        raise TypeError(f"{function} takes {names}, not {tensor.dtype.name}")


def whole(value: object, what: str) -> int:
    """Returns a number that must be an integer, of any library."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}")
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{what} must be an integer, not {type(value).__name__}") from None


def whole_numbers(values: object, what: str) -> list[int]:
    """Returns integers; one of them may stand alone."""
    try:
        parts: list[object] = list(values)  # type: ignore[call-overload]
    except TypeError:
        parts = [values]
    return [whole(part, what) for part in parts]


def normal_axis(axis: object, ndim: int, function: str) -> int:
    """An axis counted from the front."""
    place = whole(axis, f"{function}: an axis")
    if not -ndim <= place < ndim:
        raise ValueError(f"{function}: axis {place} is out of range for a tensor of {ndim} axes")
    return place % ndim if ndim else 0


def normal_axes(axis: int | tuple[int, ...] | None, ndim: int, function: str) -> list[int]:
    """Axes counted from the front, each once; all for None."""
    if axis is None:
        return list(range(ndim))
    axes = [normal_axis(one, ndim, function) for one in (axis if isinstance(axis, tuple) else (axis,))]
    if len(set(axes)) < len(axes):
        raise ValueError(f"{function}: axes {axis} name one axis twice")
    return axes
