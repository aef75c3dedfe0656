"""`aleatron eval` on the ranks of MPI: rank 0 hands out tasks, the others run them."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time
from typing import Any, NoReturn

from aleatron import _core
from aleatron._journal import Journal
from aleatron._rank_executor import on_ranks
from aleatron._tasks import run_job
from aleatron.accel.mpi_driver import LAUNCHED

# Seconds between two lines of progress.
REPORT_EVERY = 10.0


class _Ended(BaseException):
    """This process was told to end."""


def is_one_of_several() -> bool:
    """Returns whether a launcher reports that it has started several processes."""
    return any(os.environ.get(name, "1") not in ("", "0", "1") for name in LAUNCHED)


def run_eval(arguments: list[str]) -> int:
    """Runs `aleatron eval` on all ranks and returns the exit code of this one."""
    if "--shard" in arguments or any(argument.startswith("--shard=") for argument in arguments):
        # Every process has a share of its own and needs no other.
        return _core._run_program(arguments, {})
    try:
        comm = importlib.import_module("mpi4py.MPI").COMM_WORLD
    except (ImportError, RuntimeError) as error:
        print(f"aleatron: ranks of MPI need mpi4py and its library: {error}", file=sys.stderr)
        return 1
    code, raised, is_lost = on_ranks(comm, lambda executor: _run_root(arguments, executor))
    if comm.Get_rank() != 0:
        # The root has printed the error and returns its exit code.
        code = 0
    elif raised is not None:
        print(f"aleatron: {type(raised).__name__}: {raised}", file=sys.stderr)
        code = 1
    if is_lost:
        # MPI would wait for lost ranks.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return int(code)


def _run_root(arguments: list[str], executor: Any) -> int:
    program = _core._EvalProgram.parse(arguments)
    if isinstance(program, int):
        return program

    def end(number: int, _: object) -> NoReturn:
        raise _Ended(f"ended by signal {number}")

    # A launcher that has lost a rank ends the others.
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    start = time.monotonic()
    said_at = start

    def progress(done: int, total: int, generator: str, length: int, seed: int) -> None:
        nonlocal said_at
        if time.monotonic() - said_at > REPORT_EVERY:
            said_at = time.monotonic()
            text = f"aleatron: {done} of {total} tasks in {said_at - start:.0f} s, last {generator}, {length} bits, seed {seed}"
            print(text, file=sys.stderr, flush=True)

    failure: str | None = None
    with Journal(program.tasks_file, program.job, program.resumed) as journal:
        try:
            run_job(program.job, executor, journal, progress)
        except (Exception, _Ended) as error:
            failure = str(error) or type(error).__name__
        code = program.finish(program.job.finish(), failure, time.monotonic() - start)
        if failure is None and code == 0:
            journal.remove()
    return code
