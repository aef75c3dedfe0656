"""What each rank of the tests runs: every check is made on every rank, and a rank that fails ends all of them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from aleatron.cluster import SplitDenseLayer
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor

import aleatron as al

COMM = MPI.COMM_WORLD


def raised(kind: type[Exception], call: Any) -> str:
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def evaluations() -> None:
    options: dict[str, Any] = {"lengths": [16, 40], "generators": ["bernoulli", "sobol"], "seeds": 2, "device": "cpu"}
    whole = al.evaluate(**options)
    assert al.evaluate(**options, comm=COMM) == whole
    # Arguments of rank 0 count; other ranks may lack them.
    x, y = al.load_digits() if COMM.rank == 0 else (None, None)
    assert al.evaluate(x=x, y=y, **options, comm=COMM).cells[0]["confusion"] == whole.cells[0]["confusion"]
    assert "lengths" in raised(ValueError, lambda: al.evaluate(lengths=[], comm=COMM))
    with MPICommExecutor(COMM, root=0) as executor:
        if executor is not None:
            assert al.evaluate(**options, executor=executor) == whole


def layers() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((5, 33))
    for settings in [
        {"length": 100},
        {"length": 64, "polarity": "bipolar", "seed": 9},
        {"length": 128, "generator": "sobol"},
        {"length": 64, "generator": "lfsr", "sharing": "input"},
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = al.DenseLayer(33, 11, device="cpu", **settings)
            split = SplitDenseLayer(33, 11, device="cpu", comm=COMM, **settings)
            assert COMM.allreduce(split.local_neurons) == split.n_neurons == 11
            mine = x if COMM.rank == 0 else None
            assert np.array_equal(split.counts(mine, seed=4), whole.counts(x, seed=4)), settings
            assert np.array_equal(split(mine, seed=4), whole(x, seed=4)), settings
            assert np.array_equal(split.counts(x[0]), whole.counts(x[0])), settings
            bounds = np.array_split(np.arange(11), COMM.size)[COMM.rank]
            assert np.array_equal(split.local_weights, whole.weights[bounds])
            # Ranks need not have as many rows as others.
            rows = whole.weights[:3] if COMM.rank == 0 else whole.weights[3 + COMM.rank - 1 :: COMM.size - 1]
            order = [0, 1, 2] + [j for r in range(1, COMM.size) for j in range(3 + r - 1, 11, COMM.size - 1)]
            if COMM.size == 1:
                rows, order = whole.weights, list(range(11))
            given = SplitDenseLayer.from_weights(rows, device="cpu", comm=COMM, **settings)
            expected = al.DenseLayer.from_weights(whole.weights[order], device="cpu", **settings)
            assert np.array_equal(given.counts(x), expected.counts(x)), settings
    # What is wrong on one rank is an error on all.
    split = SplitDenseLayer(3, 8, length=16, comm=COMM)
    raised((ValueError, RuntimeError), lambda: split.counts([0.5, 2.0, 0.5]))  # type: ignore[arg-type]
    bad = [[float("nan")]] if COMM.rank == COMM.size - 1 else [[0.5]]
    raised((ValueError, RuntimeError), lambda: SplitDenseLayer.from_weights(bad, comm=COMM))  # type: ignore[arg-type]
    raised(ValueError, lambda: SplitDenseLayer.from_weights([[0.5] * (1 + COMM.rank)], comm=COMM)) if COMM.size > 1 else None
    raised((ValueError, RuntimeError), lambda: SplitDenseLayer(3, 0, comm=COMM))  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        evaluations()
        layers()
    except BaseException as error:
        print(f"rank {COMM.rank}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        import traceback

        traceback.print_exc()
        COMM.Abort(1)
    print(f"rank {COMM.rank} of {COMM.size} is done", flush=True)
