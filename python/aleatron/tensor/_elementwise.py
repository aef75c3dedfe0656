"""Functions of single elements. All broadcast; one of two arguments may be a Python number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from aleatron._core import Tensor as CoreTensor
from aleatron.tensor import _dtypes as types
from aleatron.tensor._dtypes import ALL, FLOATS, INTEGERS, NUMERIC, DType, bool_
from aleatron.tensor._tensor import Number, Tensor, check_kind, check_tensor

LOGICAL = (bool_,)
BITWISE = (bool_, *INTEGERS)


class UnaryFunction(Protocol):
    """A function of one tensor."""

    def __call__(self, x: Tensor, /) -> Tensor: ...


class BinaryFunction(Protocol):
    """A function of two tensors, or of one and a number."""

    def __call__(self, x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor: ...


def _unary(name: str, core: str, allowed: tuple[DType, ...], text: str) -> UnaryFunction:
    def function(x: Tensor, /) -> Tensor:
        check_kind(check_tensor(x, "x"), allowed, name)
        return Tensor(x._core.unary(core))

    return _named(function, name, text, allowed)


def _question(name: str, core: str, of_integers: bool, text: str) -> UnaryFunction:
    """A predicate of floats with a constant result for integers."""

    def function(x: Tensor, /) -> Tensor:
        check_kind(check_tensor(x, "x"), NUMERIC, name)
        if x.dtype in FLOATS:
            return Tensor(x._core.unary(core))
        return Tensor(CoreTensor.full(list(x.shape), of_integers, "bool", x.device))

    return _named(function, name, text, NUMERIC)


def _binary(name: str, core: str, allowed: tuple[DType, ...], text: str) -> BinaryFunction:
    def function(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:
        left, right = _pair(x1, x2, allowed, name)
        return Tensor(CoreTensor.binary(core, left, right))

    return _named(function, name, text, allowed)


def _pair(
    x1: Tensor | Number, x2: Tensor | Number, allowed: tuple[DType, ...], name: str
) -> tuple[CoreTensor | Number, CoreTensor | Number]:
    """Checks arguments: compatible types that the function supports."""
    if isinstance(x1, Tensor) and isinstance(x2, Tensor):
        if x1.device != x2.device:
            raise ValueError(f"{name}: one tensor is on {x1.device}, another on {x2.device}; move one with to_device")
        check_kind(x1, allowed, name)
        check_kind(x2, allowed, name)
        types.promote(x1.dtype, x2.dtype)
        return x1._core, x2._core
    if isinstance(x1, Tensor):
        check_kind(x1, allowed, name)
        types.scalar_type(x2, x1.dtype)
        return x1._core, x2  # type: ignore[return-value]
    if isinstance(x2, Tensor):
        check_kind(x2, allowed, name)
        types.scalar_type(x1, x2.dtype)
        return x1, x2._core
    raise TypeError(f"{name}: at least one argument must be a tensor")


F = TypeVar("F", bound=Callable[..., Any])


def _named(function: F, name: str, text: str, allowed: tuple[DType, ...]) -> F:
    function.__name__ = function.__qualname__ = name
    taken = ", ".join(dtype.name for dtype in allowed)
    function.__doc__ = f"{text}\n\nTakes {taken}."
    return function


abs = _unary("abs", "abs", NUMERIC, "Returns the distance of each element from 0.")
acos = _unary("acos", "acos", FLOATS, "Returns the inverse cosine, in [0, pi].")
acosh = _unary("acosh", "acosh", FLOATS, "Returns the inverse hyperbolic cosine.")
asin = _unary("asin", "asin", FLOATS, "Returns the inverse sine, in [-pi/2, pi/2].")
asinh = _unary("asinh", "asinh", FLOATS, "Returns the inverse hyperbolic sine.")
atan = _unary("atan", "atan", FLOATS, "Returns the inverse tangent, in [-pi/2, pi/2].")
atanh = _unary("atanh", "atanh", FLOATS, "Returns the inverse hyperbolic tangent.")
bitwise_invert = _unary("bitwise_invert", "not", BITWISE, "Returns each element with every bit turned over.")
ceil = _unary("ceil", "ceil", NUMERIC, "Returns the smallest integer that is not smaller.")
cos = _unary("cos", "cos", FLOATS, "Returns the cosine.")
cosh = _unary("cosh", "cosh", FLOATS, "Returns the hyperbolic cosine.")
exp = _unary("exp", "exp", FLOATS, "Returns e to the power of each element.")
expm1 = _unary("expm1", "expm1", FLOATS, "Returns e to the power of each element, less 1, accurate near 0.")
floor = _unary("floor", "floor", NUMERIC, "Returns the largest integer that is not larger.")
isfinite = _question("isfinite", "isfinite", True, "Returns whether each element is neither NaN nor infinite.")
isinf = _question("isinf", "isinf", False, "Returns whether each element is infinite.")
isnan = _question("isnan", "isnan", False, "Returns whether each element is NaN.")
log = _unary("log", "log", FLOATS, "Returns the natural logarithm; NaN for negative elements.")
log10 = _unary("log10", "log10", FLOATS, "Returns the logarithm to base 10.")
log1p = _unary("log1p", "log1p", FLOATS, "Returns the natural logarithm of 1 and each element, accurate near 0.")
log2 = _unary("log2", "log2", FLOATS, "Returns the logarithm to base 2.")
logical_not = _unary("logical_not", "not", LOGICAL, "Returns the other boolean.")
negative = _unary("negative", "neg", NUMERIC, "Returns the negative of each element.")
reciprocal = _unary("reciprocal", "reciprocal", FLOATS, "Returns 1 divided by each element.")
round = _unary("round", "round", NUMERIC, "Returns the nearest integer, the even one of two.")
sign = _unary("sign", "sign", NUMERIC, "Returns -1, 0 or 1; NaN for NaN, and 0 for -0.")
signbit = _unary("signbit", "signbit", FLOATS, "Returns whether the bit of the sign is set, as it is for -0.0.")
sin = _unary("sin", "sin", FLOATS, "Returns the sine.")
sinh = _unary("sinh", "sinh", FLOATS, "Returns the hyperbolic sine.")
sqrt = _unary("sqrt", "sqrt", FLOATS, "Returns the square root; NaN for negative elements.")
square = _unary("square", "square", NUMERIC, "Returns each element times itself.")
tan = _unary("tan", "tan", FLOATS, "Returns the tangent.")
tanh = _unary("tanh", "tanh", FLOATS, "Returns the hyperbolic tangent, accurate near 0.")
trunc = _unary("trunc", "trunc", NUMERIC, "Returns each element without its fraction.")

add = _binary("add", "add", NUMERIC, "Returns the sum.")
atan2 = _binary("atan2", "atan2", FLOATS, "Returns the angle of the point (x2, x1), in [-pi, pi].")
bitwise_and = _binary("bitwise_and", "and", BITWISE, "Returns the bits that both have.")
bitwise_left_shift = _binary("bitwise_left_shift", "shift_left", INTEGERS, "Returns the bits of x1 moved up by x2; 0 if x2 is at least the number of bits.")
bitwise_or = _binary("bitwise_or", "or", BITWISE, "Returns the bits that one or both have.")
bitwise_right_shift = _binary(
    "bitwise_right_shift", "shift_right", INTEGERS, "Returns the bits of x1 moved down by x2, with copies of the sign moving in."
)
bitwise_xor = _binary("bitwise_xor", "xor", BITWISE, "Returns the bits that one has but not both.")
copysign = _binary("copysign", "copysign", FLOATS, "Returns x1 with the sign of x2.")
divide = _binary("divide", "div", FLOATS, "Returns x1 divided by x2.")
equal = _binary("equal", "equal", ALL, "Returns whether both are equal; NaN is equal to nothing.")
floor_divide = _binary("floor_divide", "floor_divide", NUMERIC, "Returns x1 divided by x2, rounded down.")
greater = _binary("greater", "greater", NUMERIC, "Returns whether x1 is larger.")
greater_equal = _binary("greater_equal", "greater_equal", NUMERIC, "Returns whether x1 is not smaller.")
hypot = _binary("hypot", "hypot", FLOATS, "Returns the length of (x1, x2), without overflow on the way.")
less = _binary("less", "less", NUMERIC, "Returns whether x1 is smaller.")
less_equal = _binary("less_equal", "less_equal", NUMERIC, "Returns whether x1 is not larger.")
logaddexp = _binary("logaddexp", "logaddexp", FLOATS, "Returns log(exp(x1) + exp(x2)), without overflow on the way.")
logical_and = _binary("logical_and", "and", LOGICAL, "Returns whether both are true.")
logical_or = _binary("logical_or", "or", LOGICAL, "Returns whether one or both are true.")
logical_xor = _binary("logical_xor", "xor", LOGICAL, "Returns whether one is true but not both.")
maximum = _binary("maximum", "max", NUMERIC, "Returns the larger one; NaN where one is.")
minimum = _binary("minimum", "min", NUMERIC, "Returns the smaller one; NaN where one is.")
multiply = _binary("multiply", "mul", NUMERIC, "Returns the product.")
nextafter = _binary("nextafter", "nextafter", (types.float32, types.float64), "Returns the float next to x1 in the direction of x2.")
not_equal = _binary("not_equal", "not_equal", ALL, "Returns whether both differ.")
pow = _binary("pow", "pow", NUMERIC, "Returns x1 to the power of x2.")
remainder = _binary(
    "remainder", "remainder", NUMERIC, "Returns what a division that rounds down leaves; it has the sign of x2."
)
subtract = _binary("subtract", "sub", NUMERIC, "Returns the difference.")


def positive(x: Tensor, /) -> Tensor:
    """Returns each element as it is."""
    check_kind(check_tensor(x, "x"), NUMERIC, "positive")
    return Tensor(x._core)


def conj(x: Tensor, /) -> Tensor:
    """Returns each element as it is: there are no complex numbers."""
    check_kind(check_tensor(x, "x"), NUMERIC, "conj")
    return Tensor(x._core)


def real(x: Tensor, /) -> Tensor:
    """Returns each element as it is: there are no complex numbers."""
    check_kind(check_tensor(x, "x"), NUMERIC, "real")
    return Tensor(x._core)


def clip(x: Tensor, /, min: Tensor | int | float | None = None, max: Tensor | int | float | None = None) -> Tensor:
    """Returns each element, but not below `min` nor above `max`; NaN stays.

    Parameters
    ----------
    x
        The tensor.
    min, max
        The limits: numbers or tensors, which are broadcast; None for no limit.
    """
    check_kind(check_tensor(x, "x"), NUMERIC, "clip")
    for name, limit in (("min", min), ("max", max)):
        if isinstance(limit, bool) or not isinstance(limit, (Tensor, int, float, type(None))):
            raise TypeError(f"clip: {name} must be a number or a tensor, not {type(limit).__name__}")
        if isinstance(limit, float) and x.dtype in INTEGERS:
            raise TypeError(f"clip: {name} is a float, x holds {x.dtype.name}")
    result = x
    if min is not None:
        result = maximum(result, min)
    if max is not None:
        result = minimum(result, max)
    return result
