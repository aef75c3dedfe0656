"""The `aleatron` command: the same program as the one that `cargo install` gives, run by the extension."""

from __future__ import annotations

import signal
import sys

from aleatron import _core


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit code."""
    # The program runs outside the interpreter, which could not act on Ctrl-C before it has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core._run_program(["aleatron", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
