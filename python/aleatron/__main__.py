"""The `aleatron` command: the program that `cargo install` installs, run by the extension.

Started as several ranks of MPI, as in `mpirun -n 8 python -m aleatron eval`, `eval` runs on all of them.
"""

from __future__ import annotations

import platform
import signal
import sys

import numpy as np

from aleatron import _core, _ranks


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit code."""
    arguments = ["aleatron", *sys.argv[1:]]
    if _ranks.is_one_of_several() and sys.argv[1:2] == ["eval"]:
        return _ranks.run_eval(arguments)
    # The program runs outside the interpreter, which could not act on Ctrl-C before it has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    versions = {"Python": platform.python_version(), "NumPy": np.__version__}
    return _core._run_program(arguments, versions)


if __name__ == "__main__":
    sys.exit(main())
