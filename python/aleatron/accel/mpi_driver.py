"""Arrays over MPI ranks: scattered from the root along the first axis, and gathered to it.

`mpirun -n 4 python program.py` runs a program on four ranks; without mpi4py, or started alone, a driver is rank 0 of 1.

>>> import numpy as np
>>> from aleatron.accel.mpi_driver import MPIDriver
>>> driver = MPIDriver()
>>> share = driver.scatter_workload(np.arange(10.0) if driver.rank == 0 else None)
>>> result = driver.gather_results(share * 2)
>>> driver.rank != 0 or result.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]
True
"""

from __future__ import annotations

import importlib
import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from aleatron._arrays import Array, read
from aleatron.accel._optional import once

__all__ = ["MPIDriver"]

ROOT = 0
# Bytes of one message: MPI counts them in 32 bits.
PIECE = 1 << 30

# Environment variables with which launchers announce the number of ranks.
LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")


class MPIDriver:
    """Splits arrays over the ranks of MPI and puts them together again.

    Every method is collective: all ranks call it, in the same order. What is wrong with the input of one rank raises the same
    error on all of them, so that none is left waiting.

    Attributes
    ----------
    comm
        The communicator, or None without MPI.
    rank, size
        The number of this process, and how many there are.

    Examples
    --------
    >>> from aleatron.accel.mpi_driver import MPIDriver
    >>> driver = MPIDriver()
    >>> driver.barrier()
    >>> driver.rank < driver.size
    True
    """

    comm: Any
    rank: int
    size: int

    def __init__(self) -> None:
        self.comm = _world()
        self.rank = 0 if self.comm is None else int(self.comm.Get_rank())
        self.size = 1 if self.comm is None else int(self.comm.Get_size())

    def scatter_workload(self, global_inputs: npt.ArrayLike | None) -> Array:
        """Splits an array along its first axis over the ranks.

        Shares are contiguous, in the order of the ranks, and their lengths differ by at most one: nothing is lost where the
        length is not a multiple of the ranks. With fewer elements than ranks, the last ranks get an empty array of the same
        type and trailing axes.

        Parameters
        ----------
        global_inputs
            The whole array on the root, of any type and at least one axis. Other ranks pass None; other arguments of theirs are ignored.

        Returns
        -------
        numpy.ndarray
            The share of this rank; the whole array if there is one rank.

        Examples
        --------
        >>> import numpy as np
        >>> from aleatron.accel.mpi_driver import MPIDriver
        >>> driver = MPIDriver()
        >>> share = driver.scatter_workload(np.zeros((100, 3)) if driver.rank == 0 else None)
        >>> share.shape[1]
        3
        """
        whole: Array | None = None
        problem: Exception | None = None
        plan: Any = None
        if self.rank == ROOT:
            whole, problem = _readable(global_inputs, "global_inputs of the root")
        if self.comm is not None and self.size > 1:
            facts = None if whole is None else (whole.shape, whole.dtype)
            plan, problem = _channel().bcast((facts, problem), root=ROOT)
        if problem is not None:
            raise problem
        if self.size == 1:
            assert whole is not None
            return whole
        shape, dtype = plan
        each, more = divmod(shape[0], self.size)
        bounds = [rank * each + min(rank, more) for rank in range(self.size + 1)]
        if self.rank == ROOT:
            assert whole is not None
            for rank in range(1, self.size):
                self._send(whole[bounds[rank] : bounds[rank + 1]], rank)
            return np.array(whole[: bounds[1]])
        share = np.empty((bounds[self.rank + 1] - bounds[self.rank], *shape[1:]), dtype)
        self._receive(share, ROOT)
        return share

    def gather_results(self, local_results: npt.ArrayLike) -> Array:
        """Puts the arrays of all ranks together on the root, along the first axis and in the order of the ranks.

        Parameters
        ----------
        local_results
            The array of this rank; ranks may differ in the first axis, not in the others nor in the type.

        Returns
        -------
        numpy.ndarray
            All arrays on the root; an empty one of the same type on other ranks.

        Examples
        --------
        >>> import numpy as np
        >>> from aleatron.accel.mpi_driver import MPIDriver
        >>> driver = MPIDriver()
        >>> gathered = driver.gather_results(np.array([driver.rank]))
        >>> driver.rank != 0 or gathered.tolist() == list(range(driver.size))
        True
        """
        local, problem = _readable(local_results, "local_results")
        if self.comm is None or self.size == 1:
            if problem is not None:
                raise problem
            assert local is not None
            return local
        facts = None if local is None else (local.shape, local.dtype)
        plans = _channel().allgather((facts, problem))
        _agree(plans)
        assert local is not None
        if self.rank != ROOT:
            self._send(local, ROOT)
            return np.empty((0, *local.shape[1:]), local.dtype)
        lengths = [shape[0] for (shape, _), _ in plans]
        whole = np.empty((sum(lengths), *local.shape[1:]), local.dtype)
        whole[: lengths[0]] = local
        start = lengths[0]
        for rank in range(1, self.size):
            self._receive(whole[start : start + lengths[rank]], rank)
            start += lengths[rank]
        return whole

    def barrier(self) -> None:
        """Waits until all ranks are here.

        Examples
        --------
        >>> from aleatron.accel.mpi_driver import MPIDriver
        >>> MPIDriver().barrier()
        """
        if self.comm is not None:
            self.comm.Barrier()

    def _send(self, part: Array, rank: int) -> None:
        if part.dtype.hasobject:
            _channel().send(part, dest=rank)
            return
        data = _bytes_of(np.ascontiguousarray(part))
        for start in range(0, len(data), PIECE):
            _channel().Send(data[start : start + PIECE], dest=rank)

    def _receive(self, part: Array, rank: int) -> None:
        """Fills an array in C order."""
        if part.dtype.hasobject:
            part[...] = _channel().recv(source=rank)
            return
        data = _bytes_of(part)
        for start in range(0, len(data), PIECE):
            _channel().Recv(data[start : start + PIECE], source=rank)


def _world() -> Any:
    """The communicator of all ranks, or None without MPI; warns if a launcher has started several processes."""
    try:
        return importlib.import_module("mpi4py.MPI").COMM_WORLD
    except (ImportError, RuntimeError) as error:
        # RuntimeError: mpi4py is installed but finds no MPI library.
        reason = str(error)
    started = [f"{name}={os.environ[name]}" for name in LAUNCHED if os.environ.get(name, "1") != "1"]
    if started:
        warnings.warn(
            f"this process was started as one of several ({started[0]}) but runs alone, as rank 0 of 1: {reason}",
            UserWarning,
            stacklevel=3,
        )
    return None


@once
def _channel() -> Any:
    """Returns a separate communicator, so that messages of the program do not interfere. The first use is collective."""
    return importlib.import_module("mpi4py.MPI").COMM_WORLD.Dup()


def _readable(obj: Any, name: str) -> tuple[Array | None, Exception | None]:
    """Returns the array, or the reason why it is invalid."""
    if obj is None:
        return None, ValueError(f"{name} is None; expected an array")
    try:
        array = read(obj, name)
    except (TypeError, ValueError) as error:
        return None, error
    if array.ndim == 0:
        return None, ValueError(f"{name} is a scalar; expected an array of at least one axis")
    return array, None


def _agree(plans: list[Any]) -> None:
    """Checks the descriptions of all ranks' arrays; the result is the same on every rank."""
    for rank, (_, problem) in enumerate(plans):
        if problem is not None:
            raise type(problem)(f"rank {rank}: {problem}")
    (first, kind), _ = plans[ROOT]
    for rank, ((shape, dtype), _) in enumerate(plans):
        if shape[1:] != first[1:] or dtype != kind:
            raise ValueError(
                f"local_results differ: rank {rank} has {dtype} of shape {shape}, rank {ROOT} has {kind} of shape {first}"
            )


def _bytes_of(array: Array) -> Array:
    """The memory of an array in C order, as bytes."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return array.reshape(-1).view(np.uint8)
