"""The namespace has the names of the standard, with its signatures."""

from __future__ import annotations

import copy
import inspect
import pickle

import array_api_strict as strict
import numpy as np
import pytest
from standard import DEVICES

import aleatron.tensor as at

COMPLEX = "there are no complex numbers"
OWN = "the reference implementation's own, not the standard's"
# Names of the reference implementation that are not here, with the reason.
MISSING = {
    "complex64": COMPLEX,
    "complex128": COMPLEX,
    "imag": COMPLEX,
    "int8": "an element type without a use in networks that uint8 does not have",
    "int16": "an element type without a use in networks",
    "uint16": "an element type without a use in networks",
    "uint32": "an element type without a use in networks",
    "uint64": "an element type without a use in networks",
    "fft": "an extension of the standard that is optional",
    "Device": OWN,
    "ArrayAPIStrictFlags": OWN,
    "set_array_api_strict_flags": OWN,
    "get_array_api_strict_flags": OWN,
    "reset_array_api_strict_flags": OWN,
    "__version__": OWN,
}
# Functions whose parameters differ from the reference implementation's, with the reason.
SIGNATURES = {
    "asarray": "device is typed as a name",
}


def test_every_name_of_the_standard_is_here_or_named_as_missing() -> None:
    assert set(strict.__all__) - set(at.__all__) == set(MISSING)


def test_everything_exported_is_there() -> None:
    for name in at.__all__:
        assert hasattr(at, name), name


FUNCTIONS = [name for name in strict.__all__ if name in at.__all__ and inspect.isfunction(getattr(strict, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_the_standards(name: str) -> None:
    if name == "__array_namespace_info__":
        return
    wanted = inspect.signature(getattr(strict, name)).parameters
    own = inspect.signature(getattr(at, name)).parameters
    for parameter in wanted.values():
        assert parameter.name in own, parameter
        assert own[parameter.name].kind == parameter.kind, parameter
        if isinstance(parameter.default, (bool, int, float, str, type(None))):
            assert own[parameter.name].default == parameter.default, parameter
    for parameter in own.values():
        assert parameter.name in wanted or parameter.default is not inspect.Parameter.empty


@pytest.mark.parametrize("name", at.__all__)
def test_functions_say_what_they_do(name: str) -> None:
    thing = getattr(at, name)
    if inspect.isfunction(thing) or inspect.isclass(thing):
        assert thing.__doc__ and len(thing.__doc__) > 10


def test_array_has_its_namespace() -> None:
    x = at.ones(3)
    assert x.__array_namespace__() is at
    assert x.__array_namespace__(api_version="2023.12") is at
    with pytest.raises(ValueError, match="api_version"):
        x.__array_namespace__(api_version="1999.01")


@pytest.mark.parametrize("device", DEVICES)
def test_info(device: str) -> None:
    info = at.__array_namespace_info__()
    assert info.default_device() == "cpu" and "cpu" in info.devices()
    assert info.default_dtypes(device=device)["real floating"] is at.float32
    floats = info.dtypes(device=device, kind="real floating")
    # Of the standard's types: float16 is not one of them.
    wide = {"float64": at.float64} if device == "cpu" else {}
    assert floats == {"float32": at.float32, **wide}
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}


@pytest.mark.parametrize("device", DEVICES)
def test_elements_leave_and_come_back(device: str) -> None:
    x = at.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device=device)
    back = np.asarray(x.mT)
    assert back.tolist() == [[0, 3], [1, 4], [2, 5]] and back.dtype == np.float32
    assert np.from_dlpack(x.to_device("cpu")).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert at.from_dlpack(np.ones(3, np.float32), device=device).tolist() == [1, 1, 1]
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.device == x.device and np.array_equal(np.asarray(other), np.asarray(x))


def test_unsupported_dlpack_requests_are_errors() -> None:
    x = at.ones(2)
    with pytest.raises(BufferError, match="copy"):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="copy=False"):
        at.from_dlpack(np.ones(2, np.float32), copy=False)
    # A tensor on its own device needs no copy.
    assert at.from_dlpack(x, copy=False) is x and at.from_dlpack(x, device="cpu", copy=False) is x
    with pytest.raises(BufferError, match="stream"):
        x.__dlpack__(stream=1)
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == [1, 1]


def test_dlpack_needs_no_new_numpy() -> None:
    class Old(np.ndarray):  # type: ignore[type-arg]
        def __dlpack__(self, *, stream: object = None) -> object:
            return np.asarray(self).__dlpack__()

    class Core:
        device = "cpu"

        def to_numpy(self) -> Old:
            return np.array([1.0, 2.0], np.float32).view(Old)

    x = at.ones(2)
    x._core = Core()  # type: ignore[assignment]
    assert np.from_dlpack(x).tolist() == [1, 2]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float64", "float64"), ("float16", "float16"), (">f4", "float32"), ("int8", "int32"), ("uint32", "int64"), ("?", "bool")],
)
def test_arrays_of_any_type_and_order_are_read(order: str, dtype: str, expected: str) -> None:
    array = np.asarray(np.arange(24).reshape(4, 6) % 7, dtype=dtype, order=order)[::2, ::-1]  # type: ignore[call-overload]
    x = at.asarray(array)
    assert x.dtype.name == expected and np.array_equal(np.asarray(x), array)


def test_unsupported_arrays_are_errors() -> None:
    for wrong in (["a"], [1 + 2j], object(), np.array(["x"])):
        with pytest.raises(TypeError):
            at.asarray(wrong)
    for large in (2**63, [2**70], np.array([2**63], np.uint64)):
        with pytest.raises(OverflowError):
            at.asarray(large)
    with pytest.raises(OverflowError):
        at.asarray([300], dtype=at.uint8)
    with pytest.raises(TypeError, match="stack"):
        at.asarray([at.ones(2), at.ones(2)])
    with pytest.raises(ValueError, match="ragged|inhomogeneous"):
        at.asarray([[1.0], [1.0, 2.0]])
    with pytest.raises(ValueError, match="device"):
        at.asarray([1.0], device="tpu")


def test_parameters_out_of_range_are_named() -> None:
    x, weight = at.ones((1, 2, 5, 5)), at.ones((3, 2, 3, 3))
    for message, call in [
        ("seed is -1", lambda: at.rand((2,), seed=-1)),
        ("seed is -1", lambda: at.randn((2,), seed=-1)),
        ("stride is 0", lambda: at.conv2d(x, weight, stride=0)),
        ("stride: 2 numbers", lambda: at.conv2d(x, weight, stride=[1, 1, 1])),
        ("dilation is -1", lambda: at.conv2d(x, weight, dilation=(1, -1))),
        ("groups is 0", lambda: at.conv2d(x, weight, groups=0)),
        ("negative", lambda: at.conv2d(x, weight, padding=-1)),
        ("kernel is 0", lambda: at.max_pool2d(x, 0)),
        ("stride is -2", lambda: at.avg_pool2d(x, 2, stride=-2)),
        ("dilation is 0", lambda: at.conv1d(at.ones((1, 2, 5)), at.ones((3, 2, 3)), dilation=0)),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("device", DEVICES)
def test_assignments_give_an_object_new_elements(device: str) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = at.asarray(array, device=device)
    view, same, copied = x[0], at.asarray(x), at.asarray(x, copy=True)
    for key, value in [
        ((0, 1), 5.0),
        ((slice(None), 2), -1),
        ((slice(None, None, 2), slice(3, 0, -1)), np.arange(6, dtype=np.float32).reshape(2, 3)),
        (Ellipsis, np.float32(2.5) * np.ones(4, np.float32)),
        (array > 5, 7.0),
        ((np.array([0, 2]), np.array([1, 3])), np.array([8.0, 9.0], np.float32)),
        ((None, 1), np.zeros(4, np.float32)),
    ]:
        array[key] = value
        parts = key if isinstance(key, tuple) else (key,)
        ours = tuple(at.asarray(part, device=device) if isinstance(part, np.ndarray) else part for part in parts)
        x[ours] = at.asarray(value, device=device) if isinstance(value, np.ndarray) else value
        assert np.array_equal(x.numpy(), array), key
    assert x.device == view.device
    # Views keep the old elements; the same object has the new ones.
    assert view.tolist() == [0, 1, 2, 3] and copied[2, 3].item() == 11 and same is x
    for key, value, error in [
        ((3, 0), 1.0, IndexError),
        (1.5, 1.0, IndexError),
        (0, at.ones(3, device=device), ValueError),
        (0, at.ones(4, dtype=at.int32, device=device), TypeError),
        (0, True, TypeError),
        (0, "1", TypeError),
    ]:
        with pytest.raises(error):
            x[key] = value
    assert np.array_equal(x.numpy(), array)
    y = x
    y += 1
    assert x is not y and np.array_equal(x.numpy(), array)


def test_single_numbers() -> None:
    assert (bool(at.ones(())), int(at.asarray(3)), float(at.asarray([2.5])), complex(at.asarray(1.0))) == (True, 3, 2.5, 1 + 0j)
    assert [10, 11, 12][at.asarray(1)] == 11
    with pytest.raises(TypeError):
        float(at.ones(2))
    with pytest.raises(TypeError):
        [1][at.asarray(0.0)]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        hash(at.ones(2))


def test_mixed_devices_are_an_error() -> None:
    if len(DEVICES) == 1:
        return
    with pytest.raises(ValueError, match="to_device"):
        at.ones(2) + at.ones(2, device="gpu")
    with pytest.raises(ValueError, match="move"):
        at.concat([at.ones(2), at.ones(2, device="gpu")])


def test_numpy_arrays_do_not_mix_by_themselves() -> None:
    with pytest.raises(TypeError):
        at.ones(2) + np.ones(2)
    with pytest.raises(TypeError):
        np.ones(2) + at.ones(2)
