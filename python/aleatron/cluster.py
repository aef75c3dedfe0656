"""Evaluations and layers on more than one process or machine, through an engine that is there already.

`aleatron.evaluate` takes `executor=`, any `concurrent.futures.Executor`: a pool of processes, `mpi4py.futures.MPIPoolExecutor`, Dask's
`Client.get_executor()`. Or it takes `comm=`, an MPI communicator whose other ranks become workers. The result is equal to the one that
one process finds. `SplitDenseLayer` holds a layer that is too large for one machine.

>>> import aleatron as al
>>> from concurrent.futures import ThreadPoolExecutor
>>> with ThreadPoolExecutor(2) as executor:
...     found = al.evaluate(lengths=[16, 32], generators="sobol", executor=executor)
>>> found == al.evaluate(lengths=[16, 32], generators="sobol")
True
"""

from aleatron._split import SplitDenseLayer
from aleatron._tasks import WorkersLost

__all__ = ["SplitDenseLayer", "WorkersLost"]
