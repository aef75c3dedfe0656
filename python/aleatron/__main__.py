"""The `aleatron` command: the same program as the one that `cargo install` gives, run by the extension."""

from __future__ import annotations

import platform
import signal
import sys

import numpy as np

from aleatron import _core


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit code."""
    # The program runs outside the interpreter, which could not act on Ctrl-C before it has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    versions = {"Python": platform.python_version(), "NumPy": np.__version__}
    return _core._run_program(["aleatron", *sys.argv[1:]], versions)


if __name__ == "__main__":
    sys.exit(main())
