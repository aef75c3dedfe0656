"""What each rank of the MPI tests runs: every check is made on every rank, and a rank that fails ends all of them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from aleatron.accel.mpi_driver import MPIDriver


def arrays() -> list[Any]:
    """Arrays of many types, ranks and lengths: fewer elements than ranks, none at all, lengths that do not divide."""
    rng = np.random.default_rng(0)
    return [
        np.arange(10),
        np.arange(1),
        np.zeros(0, np.int16),
        np.arange(24.0).reshape(8, 3),
        np.asfortranarray(rng.random((7, 3, 2))),
        rng.random((11, 5))[::2, ::-1],
        np.zeros((5, 0, 2), np.float32),
        np.zeros((0, 4), np.uint64),
        np.array([True, False, True]),
        np.arange(6).astype(">f4"),
        np.arange(5) * 1j,
        np.arange(9, dtype=np.float16),
        np.array([2**64 - 1, 0, 5], np.uint64),
        np.array(["ab", "", "cde"]),
        np.array([b"x", b"yz"]),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([(1, 2.5), (3, 4.5), (5, 6.5)], [("a", "i4"), ("b", "f8")]),
        np.array([1, "two", None, [3]], object),
        np.array([[1, "two"], [None, (3, 4)], [5, 6]], object),
    ]


def raises(call: Any, kind: type[Exception], text: str) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}: {text}")


def main(size: int) -> None:
    driver = MPIDriver()
    assert driver.size == size and 0 <= driver.rank < size and driver.comm.Get_size() == size
    root = driver.rank == 0
    for array in arrays():
        share = driver.scatter_workload(array if root else None)
        assert share.dtype == array.dtype and share.shape[1:] == array.shape[1:]
        expected = np.array_split(np.arange(len(array)), size)[driver.rank]
        assert len(share) == len(expected)
        assert share.tolist() == array[expected].tolist()
        whole = driver.gather_results(share)
        assert whole.dtype == array.dtype
        if root:
            assert whole.shape == array.shape and whole.tolist() == array.tolist()
        else:
            assert whole.shape == (0, *array.shape[1:])
    # Results may have other lengths than the shares.
    whole = driver.gather_results(np.full((driver.rank % 3, 2), driver.rank))
    assert not root or whole.tolist() == [[rank] * 2 for rank in range(size) for _ in range(rank % 3)]
    # Messages larger than one chunk.
    import aleatron.accel.mpi_driver as module

    module.PIECE = 1000
    large = np.arange(5003.0)
    assert driver.gather_results(driver.scatter_workload(large if root else None)).tolist() == (
        large.tolist() if root else []
    )
    # A fault of one rank is an error on all of them, and the next call works.
    raises(lambda: driver.scatter_workload(None), ValueError, "global_inputs of the root is None")
    raises(lambda: driver.scatter_workload(3.0 if root else None), ValueError, "a scalar")
    masked = np.ma.masked_array([1.0], [True])
    raises(lambda: driver.scatter_workload(masked if root else None), TypeError, "masked")
    last = driver.rank == size - 1
    raises(lambda: driver.gather_results(1.0 if last else np.zeros(2)), ValueError, "a scalar")
    if size > 1:
        raises(lambda: driver.gather_results(np.zeros((2, 3 if last else 2))), ValueError, "local_results differ")
        raises(lambda: driver.gather_results(np.zeros(2, int if last else float)), ValueError, "local_results differ")
    driver.barrier()
    assert driver.gather_results(driver.scatter_workload([1, 2, 3] if root else None)).tolist() == [1, 2, 3] * root
    # The driver does not receive messages of the program.
    if size > 1 and root:
        request = driver.comm.isend("mine", dest=1, tag=0)
    share = driver.scatter_workload(np.arange(size) if root else None)
    assert share.tolist() == [driver.rank]
    if size > 1 and root:
        request.wait()
    if driver.rank == 1:
        assert driver.comm.recv(source=0, tag=0) == "mine"
    print(f"rank {driver.rank} of {size} is done")


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except BaseException:
        import traceback

        traceback.print_exc()
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(1)
