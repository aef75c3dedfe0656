"""A layer whose neurons are distributed over the ranks of MPI."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron import _core
from aleatron._arrays import as_float64

if TYPE_CHECKING:
    from typing_extensions import Self

    from aleatron._types import DeviceNames, Polarity, Sharing, Width

ROOT = 0


class SplitDenseLayer:
    """A dense layer that is too large for one machine: every rank holds some of the neurons.

    A neuron has the weights and bits that it has in the `DenseLayer` of all neurons, so counts are equal to those of the whole layer,
    for any number of ranks. All methods are collective: every rank calls them, in the same order. What is wrong on one rank
    raises an error on all of them.

    Parameters
    ----------
    n_inputs, n_neurons
        The size of the whole layer; there must be a neuron for each rank.
    length, seed, polarity, device, generator, width, sharing
        As for `DenseLayer`; each rank may have a different device.
    comm
        The communicator of mpi4py; without one, all neurons are here.

    Examples
    --------
    >>> import aleatron as al
    >>> from aleatron.cluster import SplitDenseLayer
    >>> layer = SplitDenseLayer(64, 32, length=256)
    >>> bool((layer([0.5] * 64) == al.DenseLayer(64, 32, length=256)([0.5] * 64)).all())
    True
    """

    def __init__(
        self,
        n_inputs: SupportsIndex,
        n_neurons: SupportsIndex,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
        comm: Any = None,
    ) -> None:
        self._comm = comm
        rank, size = _place(comm)

        def make() -> _core.DenseLayer:
            n, m = operator.index(n_inputs), operator.index(n_neurons)
            if m < size:
                raise ValueError(f"n_neurons is {m}, less than one for each of {size} ranks")
            each, more = divmod(m, size)
            first = rank * each + min(rank, more)
            rows = (each + (rank < more), n)
            return _core.DenseLayer._part(m, first, rows, length, seed, polarity, device, generator, width, sharing)

        self._hold(make, operator.index(n_neurons))

    @classmethod
    def from_weights(
        cls,
        rows: npt.ArrayLike,
        length: SupportsIndex = 1024,
        seed: SupportsIndex = 24301,
        polarity: Polarity = "unipolar",
        device: DeviceNames = "auto",
        *,
        generator: str = "bernoulli",
        width: Width = "auto",
        sharing: Sharing = "all",
        comm: Any = None,
    ) -> Self:
        """Creates a layer from the rows of each rank, at least one, in the order of the ranks: no rank needs all of them.

        Examples
        --------
        >>> from aleatron.cluster import SplitDenseLayer
        >>> SplitDenseLayer.from_weights([[0.5, 1.0], [0.0, 0.25]], length=64).n_neurons
        2
        """
        layer = cls.__new__(cls)
        layer._comm = comm
        rank, _ = _place(comm)

        def read() -> npt.NDArray[np.float64]:
            weights = as_float64(rows, "rows")
            if weights.ndim != 2 or 0 in weights.shape:
                raise ValueError(f"rows have shape {weights.shape}, not (n_neurons, n_inputs) with at least one of each")
            return weights

        weights = _together(comm, read)
        shapes = [weights.shape] if comm is None else comm.allgather(weights.shape)
        for other, (_, n) in enumerate(shapes):
            if n != shapes[0][1]:
                raise ValueError(f"rows differ: rank {other} has {n} inputs, rank 0 has {shapes[0][1]}")
        first, total = sum(n for n, _ in shapes[:rank]), sum(n for n, _ in shapes)
        layer._hold(
            lambda: _core.DenseLayer._part(
                total, first, weights, length, seed, polarity, device, generator, width, sharing
            ),
            total,
        )
        return layer

    _comm: Any
    _layer: _core.DenseLayer
    n_inputs: int
    n_neurons: int

    def _hold(self, make: Callable[[], _core.DenseLayer], n_neurons: int) -> None:
        self._layer = _together(self._comm, make)
        self.n_neurons = n_neurons
        self.n_inputs = self._layer.n_inputs

    @property
    def local_neurons(self) -> int:
        """The neurons that this rank holds."""
        return self._layer.n_neurons

    @property
    def local_weights(self) -> npt.NDArray[np.float64]:
        """The weights that this rank holds, a read-only array of shape (local_neurons, n_inputs)."""
        return self._layer.weights

    def counts(self, x: npt.ArrayLike | None, seed: SupportsIndex = 44257) -> npt.NDArray[np.uint64]:
        """Counts ones, as `DenseLayer.counts`, on every rank. `x` is that of rank 0; arguments of other ranks are ignored.

        Examples
        --------
        >>> from aleatron.cluster import SplitDenseLayer
        >>> SplitDenseLayer(3, 2, length=100).counts([0.2, 0.4, 0.6]).shape
        (2,)
        """
        counts: npt.NDArray[np.uint64] = self._gathered(x, lambda inputs: self._layer.counts(inputs, seed))
        return counts

    def __call__(self, x: npt.ArrayLike | None, seed: SupportsIndex = 44257) -> npt.NDArray[np.float64]:
        """Computes outputs, as a `DenseLayer`, on every rank. `x` is that of rank 0; arguments of other ranks are ignored."""
        outputs: npt.NDArray[np.float64] = self._gathered(x, lambda inputs: self._layer(inputs, seed))
        return outputs

    def _gathered(self, x: npt.ArrayLike | None, run: Callable[[Any], Any]) -> Any:
        if self._comm is None:
            return run(as_float64(x, "x"))
        is_root = self._comm.Get_rank() == ROOT
        inputs = _together(self._comm, lambda: as_float64(x, "x") if is_root else None)
        inputs = self._comm.bcast(inputs, root=ROOT)
        mine = _together(self._comm, lambda: run(inputs))
        return np.concatenate(self._comm.allgather(mine), axis=-1)

    def __repr__(self) -> str:
        rank, size = _place(self._comm)
        return (
            f"SplitDenseLayer(n_inputs={self.n_inputs}, n_neurons={self.n_neurons}, "
            f"{self.local_neurons} on rank {rank} of {size})"
        )


def _place(comm: Any) -> tuple[int, int]:
    """Returns the index of this rank and the number of ranks."""
    return (0, 1) if comm is None else (int(comm.Get_rank()), int(comm.Get_size()))


def _together(comm: Any, make: Callable[[], Any]) -> Any:
    """Returns the result of `make` on this rank; an exception on one rank is raised on all ranks, so that none is left waiting."""
    made, problem = None, None
    try:
        made = make()
    except Exception as error:
        if comm is None:
            raise
        problem = error
    if comm is None:
        return made
    for rank, other in enumerate(comm.allgather(problem)):
        if other is not None:
            if rank == comm.Get_rank():
                raise other
            raise RuntimeError(f"rank {rank}: {type(other).__name__}: {other}") from other
    return made
