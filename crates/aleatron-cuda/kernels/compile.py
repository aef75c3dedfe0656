"""Compiles a kernel source to PTX with NVRTC: python compile.py SOURCE ARCHITECTURE OUTPUT [OPTION...]

NVRTC is a library; this calls it where NVIDIA's package of PyPI has put it.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys
from importlib import metadata


def library() -> ctypes.CDLL:
    """NVRTC of the installed package."""
    for file in metadata.files("nvidia-cuda-nvrtc-cu12") or []:
        if file.name.startswith(("libnvrtc.so", "nvrtc64_")) and "alt" not in file.name:
            return ctypes.CDLL(str(file.locate()))
    raise SystemExit("the package nvidia-cuda-nvrtc-cu12 has no NVRTC for this system")


def compile_ptx(source: pathlib.Path, architecture: str, options: list[str]) -> str:
    """The PTX of a source; ends the program with the compiler's log where it does not compile."""
    nvrtc, program = library(), ctypes.c_void_p()

    def check(result: int) -> None:
        if result:
            nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
            raise SystemExit(f"NVRTC: {nvrtc.nvrtcGetErrorString(result).decode()}")

    def text(size_of: str, read: str) -> str:
        size = ctypes.c_size_t()
        check(getattr(nvrtc, size_of)(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        check(getattr(nvrtc, read)(program, buffer))
        return buffer.value.decode()

    name = source.name.encode()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), name, 0, None, None))
    # A relative folder: PTX must not depend on where the repository lies.
    flags = [f"--gpu-architecture=compute_{architecture}", "--std=c++17", "--fmad=false", *options]
    flags += [f"--include-path={source.parent}"]
    array = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
    failed = nvrtc.nvrtcCompileProgram(program, len(flags), array)
    log = text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
    if log.strip():
        print(log, file=sys.stderr)
    check(failed)
    # NVRTC's own headers leave constants that nothing uses, under names that change with the source.
    lines = text("nvrtcGetPTXSize", "nvrtcGetPTX").splitlines(keepends=True)
    return "".join(line for line in lines if "2nv6target" not in line)


def main() -> None:
    """Compiles what the arguments name."""
    source, architecture, output, *options = sys.argv[1:]
    pathlib.Path(output).write_text(compile_ptx(pathlib.Path(source), architecture, options))


if __name__ == "__main__":
    main()
