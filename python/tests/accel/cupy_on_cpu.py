"""A CuPy whose device is the CPU: NumPy's arrays, and raw kernels compiled by the C++ compiler and run thread by thread.

It lets the kernels and the code around them be tested with `==` without a GPU. It has the parts of CuPy that `gpu_backend` uses.
"""

from __future__ import annotations

import ctypes
import mmap
import pathlib
import re
import shutil
import subprocess
import tempfile
import types
from typing import Any

import numpy as np

HEADER = pathlib.Path(__file__).with_name("cuda_on_cpu.h")


class ndarray(np.ndarray):  # type: ignore[type-arg]
    """An array of the device."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.ctypes.data, False)}


class Function:
    """A kernel."""

    def __init__(self, launch: Any) -> None:
        self._launch = launch

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        dims = [*grid, *[1] * (3 - len(grid)), *block]
        values: list[Any] = []
        for argument in arguments:
            if isinstance(argument, ndarray):
                assert argument.flags.c_contiguous
                values.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                # CuPy passes NumPy scalars by their type.
                assert isinstance(argument, (np.uint64, np.uint32, np.int32)), type(argument)
                values.append((ctypes.c_char * argument.nbytes).from_buffer_copy(argument.tobytes()))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        sizes = (ctypes.c_uint * len(values))(*(ctypes.sizeof(value) for value in values))
        wrong = self._launch((ctypes.c_uint * 4)(*dims), pointers, sizes, len(values))
        assert wrong == -1, f"argument {wrong} does not fit the kernel"


class RawModule:
    """Kernels of one source."""

    def __init__(self, *, code: str, options: tuple[str, ...]) -> None:
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        assert compiler, "the kernels are tested on the CPU: install a C++ compiler (Debian's package g++)"
        folder = pathlib.Path(tempfile.mkdtemp(prefix="aleatron-kernels-"))
        names = re.findall(r'extern "C" __global__ void (\w+)\(', code)
        names = [n for n in names if n != "NAME"] + re.findall(r"^MULTIPLY_ACCUMULATE\((\w+)", code, re.MULTILINE)
        lines = [f'#include "{HEADER}"', code, *(f"ON_CPU_KERNEL({name})" for name in names)]
        (folder / "kernels.cpp").write_text("\n".join(lines))
        library = folder / "kernels.so"
        command = [compiler, *options, "-O1", "-shared", "-fPIC", "-pthread", "-Wno-unknown-pragmas"]
        done = subprocess.run(
            [*command, str(folder / "kernels.cpp"), "-o", str(library)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        self._library = ctypes.CDLL(str(library))
        shutil.rmtree(folder)

    def get_function(self, name: str) -> Function:
        return Function(getattr(self._library, f"launch_{name}"))


def device(array: Any) -> Any:
    return np.asarray(array).view(ndarray)


def guarded(array: Any) -> Any:
    """A copy at the end of its mapping: an access past it ends the process."""
    array = np.ascontiguousarray(array)
    page = mmap.PAGESIZE
    n_bytes = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, n_bytes + page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address + n_bytes), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(memory, np.uint8, array.nbytes, n_bytes - array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy.view(ndarray)


def module(device: Any = device) -> types.ModuleType:
    """A module that replaces `cupy`, with a function that creates its arrays."""
    cupy: Any = types.ModuleType("cupy")
    cupy.ndarray = ndarray
    cupy.RawModule = RawModule
    cupy.asarray = device
    cupy.asnumpy = lambda array: np.array(array, copy=True).view(np.ndarray)
    cupy.ascontiguousarray = lambda array: device(np.ascontiguousarray(array))
    cupy.bitwise_and = lambda a, b: device(np.bitwise_and(a, b))
    cupy.where = lambda *arguments: device(np.where(*arguments))
    # A fill pattern that makes unwritten elements visible.
    cupy.empty = lambda shape, dtype: device(np.full(shape, 0xA5, dtype))
    cupy.zeros = lambda shape, dtype: device(np.zeros(shape, dtype))
    cupy.cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDeviceCount=lambda: 1, getDevice=lambda: 0),
        # One multiprocessor still gives several parts for few tiles.
        Device=lambda number: types.SimpleNamespace(attributes={"MultiProcessorCount": 1}),
    )
    return cupy  # type: ignore[no-any-return]
