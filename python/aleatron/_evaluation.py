"""Evaluation of networks as streams: accuracy or errors against length and generator."""

from __future__ import annotations

import contextlib
import csv
import html
import importlib
import io
import json
import operator
import os
import pathlib
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt

from aleatron import _core
from aleatron._journal import Journal, replace_file
from aleatron._rank_executor import on_ranks
from aleatron._tasks import Executors, WorkersLost, run_job

if TYPE_CHECKING:
    from typing_extensions import Self

    from aleatron._types import Arithmetic, DeviceNames, LayerSettings, Sharing, Width

Progress = Callable[[int, int, str, int, int], object]

# Rates, sites, the kind and the layers of faults.
_Faults = tuple["float | Sequence[float] | None", "str | Sequence[str] | None", "str | None", "str | Sequence[str] | None"]

# Seeds up to which each one's accuracy is drawn as a point of its own.
_FEW_SEEDS = 10


class Evaluation(_core._Evaluation):
    """The result of `evaluate` or `evaluate_regression`: accuracy or errors against length and generator.

    Print it for a table; a notebook shows one by itself.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.evaluate(lengths=[16, 32], generators="sobol")
    >>> found.float_accuracy, found.complete
    (0.975, True)
    >>> [(row["generator"], row["length"]) for row in found.rows]
    [('sobol', 16), ('sobol', 32)]
    >>> found.shortest_within("sobol", points=1.0)
    16
    >>> al.Evaluation.from_json(found.to_json()) == found
    True
    """

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads the text that `to_json` wrote; ValueError if it is not an evaluation, or an inconsistent one."""
        return cls(text)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as dictionaries, lists, numbers and text.

        Examples
        --------
        >>> import aleatron as al
        >>> sorted(al.evaluate(lengths=16, generators="sobol").to_dict())[:4]
        ['cells', 'costs', 'data', 'float']
        """
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_pandas(self) -> Any:
        """Returns a flat pandas.DataFrame, a line for each generator, length and seed, with the columns of `to_csv`.

        Examples
        --------
        >>> import aleatron as al
        >>> frame = al.evaluate(lengths=[16, 32], generators="sobol").to_pandas()  # doctest: +SKIP
        >>> frame[["generator", "length", "accuracy"]]  # doctest: +SKIP
        """
        return frame(self.to_csv(), "Evaluation.to_pandas")

    def plot(self, ax: Any = None) -> Any:
        """Draws accuracy, or the root mean square error, against length, a line for each generator, and returns the matplotlib axes.

        Bands are 95 % intervals over seeds; with few seeds each accuracy is a point. If there are faults, the axis is the fault rate, with
        a line for each generator, site and length. Integers, which have no length, are a horizontal line. `ax` is the axes to draw on, a new figure if not given.
        """
        pyplot = optional("matplotlib.pyplot", "Evaluation.plot")
        if ax is None:
            _, ax = pyplot.subplots()
        rows, errors = self.rows, self.float_errors
        factor, label = (100.0, "accuracy (%)") if errors is None else (1.0, "root mean square error")
        has_faults = any("faults" in row for row in rows)
        if has_faults:
            rows = [row for row in rows if "faults" in row]

        def is_integer(row: dict[str, Any]) -> bool:
            return str(row["generator"]).startswith("int")

        def name(row: dict[str, Any]) -> str:
            if not has_faults:
                return str(row["generator"])
            length = "" if is_integer(row) else f", {row['length']} bits"
            return f"{row['generator']}, {row['faults']['sites']}{length}"

        def place(row: dict[str, Any]) -> float:
            return float(row["faults"]["rate"] if has_faults else row["length"])

        for generator in dict.fromkeys(map(name, rows)):
            of_generator = [row for row in rows if name(row) == generator]
            if not has_faults and is_integer(of_generator[0]):
                value = of_generator[0]["accuracy"] if errors is None else of_generator[0]["to_targets"]["root_mean_square"]
                ax.axhline(factor * value["mean"], linestyle=":", label=generator)
                continue
            lengths = [place(row) for row in of_generator]
            figures = [row["accuracy"] if errors is None else row["to_targets"]["root_mean_square"] for row in of_generator]
            (line,) = ax.plot(lengths, [factor * f["mean"] for f in figures], marker="o", label=generator)
            low, high = ([factor * f[end] for f in figures] for end in ("low", "high"))
            if low != high:
                ax.fill_between(lengths, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
            for row in of_generator:
                seeds = row.get("accuracies", [])
                if 1 < len(seeds) <= _FEW_SEEDS:
                    points = [factor * seed for seed in seeds]
                    ax.plot([place(row)] * len(seeds), points, ".", color=line.get_color(), alpha=0.6)
        level = factor * (self.float_accuracy if errors is None else errors["root_mean_square"])
        ax.axhline(level, color="gray", linestyle="--", label="floating point")
        ax.set_xscale("log", base=10 if has_faults else 2)
        ax.set_xlabel("fault rate" if has_faults else "stream length (bits)")
        ax.set_ylabel(label)
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        errors, cells, rows = self.float_errors, [], self.rows
        has_faults = any("faults" in row for row in rows)
        for row in rows:
            figure, factor = (row["accuracy"], 100) if errors is None else (row["to_targets"]["root_mean_square"], 1)
            low, mean, high = (factor * figure[name] for name in ("low", "mean", "high"))
            interval = f"{low:.4g} to {high:.4g}" if low != high else ""
            close = f"{100 * row['agreement']:.1f}" if errors is None else f"{row['to_targets']['r_squared']['mean']:.4f}"
            faults = row.get("faults", {"sites": "-", "rate": 0})
            of_faults = [faults["sites"], faults["rate"]] if has_faults else []
            values = [row["generator"], row["length"], *of_faults, f"{mean:.2f}" if errors is None else f"{mean:.4g}", interval, close]
            cells.append("<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in values) + "</tr>")
        names = ["accuracy (%)", "95 % interval", "agreement (%)"] if errors is None else ["rms error", "95 % interval", "R²"]
        head = "".join(f"<th>{name}</th>" for name in ["generator", "length", *(["fault site", "fault rate"] if has_faults else []), *names])
        network = html.escape(str(self.to_dict()["network"]["name"]))
        float_figure = f"{100 * self.float_accuracy:.2f} %" if errors is None else f"rms error {errors['root_mean_square']:.4g}"
        caption = f"{network}: {float_figure} in floating point"
        rest = "" if self.complete else "<p>Not all of the plan was run.</p>"
        return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table>{rest}"


def evaluate(
    network: _core.Network | None = None,
    x: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    lengths: SupportsIndex | Sequence[SupportsIndex] | None = None,
    generators: str | Sequence[str] | None = None,
    seeds: SupportsIndex = 3,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    arithmetic: Arithmetic = "float",
    clip: bool = False,
    margins: float | Sequence[float] | None = None,
    device: DeviceNames = "auto",
    faults: float | Sequence[float] | None = None,
    fault_site: str | Sequence[str] | None = None,
    fault_kind: str | None = None,
    fault_layers: str | Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
    executor: Executors | None = None,
    comm: Any = None,
) -> Evaluation:
    """Evaluates a network as streams: accuracy against length and generator.

    Parameters
    ----------
    network
        The network; the embedded one for digits if not given.
    x, y
        Features (n, n_features), or with all axes of the network's input, and classes (n,); the embedded test digits if not given.
    lengths
        Bits per stream, one or several; eight lengths from 8 to 1024 if not given.
    generators
        One or several names as for `Network.streams`; bernoulli, sobol and lfsr if not given. "int8" is a binary circuit that
        multiplies integers of 8 bits, to compare with.
    seeds
        How many seeds to run for generators that have one.
    width, sharing, layers, arithmetic, clip, device
        As for `Network.streams`.
    margins
        Decision margins at which samples stop early, in standard deviations of counting noise. Samples stop early if the scores are
        the outputs of a dense layer that runs as streams, also behind a softmax.
    faults
        Fault rates, one or several: the probability that a bit flips, 0 or from 1e-9 to 0.5. 0 is the network without faults.
    fault_site
        Sites of faults, evaluated one after the other: "inputs", "weights", "streams" (both, the default), "products", "counters",
        "accumulators", "memory", "stuck-at-0", "stuck-at-1", "generators" or "activations". Sites joined by "+" have faults at the same time.
    fault_kind
        "transient", "permanent" or "burst=CYCLES"; if not given, permanent for memory and stuck generators, otherwise transient.
    fault_layers
        The layers that have the faults; all if not given.
    checkpoint
        A file to resume from if it exists, in which finished results are saved during the run. A run that is interrupted, fails or is
        killed loses little. Existing results in the file are always retained.
    progress
        True for a bar if tqdm is installed, or a function of (done, total, generator, length, seed). With an executor, tasks are
        counted instead of generators, lengths and seeds.
    executor
        Where to run: any `concurrent.futures.Executor`, such as a pool of processes, `mpi4py.futures.MPIPoolExecutor` or Dask's
        `Client.get_executor()`; or a function that creates one, and another if workers are lost and the first one breaks. What is
        found is equal to what this process would find. With a checkpoint, every finished task is saved in a file next to it until
        all are. `aleatron.cluster.WorkersLost` is raised if workers stay lost.
    comm
        A communicator of mpi4py, all of whose ranks call this function: rank 0 submits tasks to the others, and all of them
        return the result. Arguments other than `comm` are those of rank 0.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.evaluate(lengths=32, generators=["sobol", "bernoulli"], seeds=2)
    >>> bool(found.rows[0]["accuracy"]["mean"] > 0.93)
    True
    >>> found = al.evaluate(lengths=32, generators="sobol", seeds=2, faults=[0, 0.5], fault_site="counters")
    >>> [row.get("faults") for row in found.rows]
    [None, {'sites': 'counters', 'rate': 0.5}]
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    given_faults = (faults, fault_site, fault_kind, fault_layers)

    def arguments() -> _Arguments:
        plan = read_plan(seeds, width, sharing, layers, arithmetic, clip, device, lengths, generators, margins, given_faults)
        features, classes, name = x, y, "arrays"
        if features is None or classes is None:
            (features, classes), name = load_digits(), "digits (test)"
        return (_core.Network.digits() if network is None else network, features, classes, "classes", name, plan)

    return _evaluate(arguments, checkpoint, progress, executor, comm)


def evaluate_regression(
    network: _core.Network,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    lengths: SupportsIndex | Sequence[SupportsIndex] | None = None,
    generators: str | Sequence[str] | None = None,
    seeds: SupportsIndex = 3,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    arithmetic: Arithmetic = "float",
    clip: bool = False,
    device: DeviceNames = "auto",
    faults: float | Sequence[float] | None = None,
    fault_site: str | Sequence[str] | None = None,
    fault_kind: str | None = None,
    fault_layers: str | Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
    executor: Executors | None = None,
    comm: Any = None,
) -> Evaluation:
    """Evaluates a network of regression as streams: errors against length and generator.

    Parameters
    ----------
    network
        The network.
    x
        Features (n, n_features), or with all axes of the network's input.
    y
        The targets: (n,), or (n, n_outputs).
    lengths, generators, seeds, width, sharing, layers, arithmetic, clip, device, faults, fault_site, fault_kind, fault_layers
        As for `evaluate`.
    checkpoint, progress, executor, comm
        As for `evaluate`.

    Examples
    --------
    >>> import aleatron as al
    >>> x, _ = al.load_digits()
    >>> network = al.Network.digits()
    >>> found = al.evaluate_regression(network, x, network(x), lengths=[16, 256], generators="sobol")
    >>> found.float_errors["mean_absolute"], found.complete
    (0.0, True)
    >>> short, long = [row["to_targets"]["root_mean_square"]["mean"] for row in found.rows]
    >>> bool(long < short)
    True
    """

    def arguments() -> _Arguments:
        given_faults = (faults, fault_site, fault_kind, fault_layers)
        plan = read_plan(seeds, width, sharing, layers, arithmetic, clip, device, lengths, generators, faults=given_faults)
        return network, x, y, "targets", "arrays", plan

    return _evaluate(arguments, checkpoint, progress, executor, comm)


_Arguments = tuple[_core.Network, npt.ArrayLike, npt.ArrayLike, Literal["classes", "targets"], str, _core._Plan]


def _evaluate(
    arguments: Callable[[], _Arguments],
    checkpoint: str | os.PathLike[str] | None,
    progress: bool | Progress,
    executor: Executors | None,
    comm: Any,
) -> Evaluation:
    """Runs an evaluation in this process, on the workers of an executor, or on the ranks of a communicator."""
    if executor is not None and comm is not None:
        raise ValueError("give executor or comm, not both")

    def run(executors: Executors | None) -> Evaluation:
        given = arguments()
        with Checkpoint(checkpoint, Evaluation) as file, shown(progress) as callback:
            if executors is not None:
                return _run_on(executors, _core._Job(*given, file.found), file, callback)
            text, raised = _core._evaluate(*given, file.found, file.path, callback)
            file.write(text)
        if raised is not None:
            raise raised
        return Evaluation(text)

    return run(executor) if comm is None else _on_ranks(comm, run)


def _run_on(executors: Executors, job: _core._Job, file: Checkpoint[Evaluation], progress: Progress | None) -> Evaluation:
    """Runs a job on the workers of an executor; finished tasks are saved, whatever happens."""
    tasks = None if file.path is None else file.path.with_name(file.path.name + ".tasks")
    with Journal(tasks, job, resume=True) as journal:
        try:
            run_job(job, executors, journal, progress)
        except BaseException as error:
            text = job.finish()
            file.write(text)
            if isinstance(error, WorkersLost):
                error.found = Evaluation(text)
            raise
        found = Evaluation(job.finish())
        file.write(found.to_json())
        journal.remove()
    for warning in found.warnings:
        warnings.warn(warning, UserWarning, stacklevel=5)
    return found


def _on_ranks(comm: Any, run: Callable[[Executors | None], Evaluation]) -> Evaluation:
    """Runs on rank 0 with the other ranks as workers, and returns the result, or raises the exception, on all ranks."""
    if comm.Get_size() == 1:
        return run(None)
    found, raised, _ = on_ranks(comm, run)
    if raised is not None:
        raise raised
    assert isinstance(found, Evaluation)
    return found


def load_digits(part: Literal["test", "train"] = "test") -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Returns features (n, 64) from 0 to 16 and classes (n,) of the embedded 8 x 8 digits: 360 for testing, 1437 for training.

    Examples
    --------
    >>> import aleatron as al
    >>> x, y = al.load_digits()
    >>> x.shape, y.shape
    ((360, 64), (360,))
    """
    return _core._digits(part)


Found = TypeVar("Found")


_locks: weakref.WeakSet[_core._FileLock] = weakref.WeakSet()


def _after_fork() -> None:
    """Leaves the locks of checkpoints to the parent: workers that outlive it must not hold them."""
    for lock in list(_locks):
        lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Checkpoint(Generic[Found]):
    """A checkpoint file of an evaluation, checked to be writable before the work."""

    def __init__(self, path: str | os.PathLike[str] | None, read: Callable[[str], Found]) -> None:
        self.path = None if path is None else pathlib.Path(path)
        self.read = read
        self.found: Found | None = None
        self._lock: _core._FileLock | None = None

    def __enter__(self) -> Self:
        if self.path is not None:
            if self.path.is_dir():
                raise IsADirectoryError(f"checkpoint {str(self.path)!r} is a folder")
            if self.path.exists() and not self.path.is_file():
                raise OSError(f"checkpoint {str(self.path)!r} is not a regular file; choose another path")
            if not self.path.parent.is_dir():
                raise FileNotFoundError(f"checkpoint {str(self.path)!r}: there is no folder {str(self.path.parent)!r}")
            # Locked before the file is read, so that no other process writes it.
            self._lock = _core._FileLock(self.path.with_name(f".{self.path.name}.lock"))
            _locks.add(self._lock)
            try:
                self._read(self.path)
            except BaseException:
                self.__exit__()
                raise
        return self

    def _read(self, path: pathlib.Path) -> None:
        if path.exists():
            try:
                self.found = self.read(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"checkpoint {str(path)!r}: {error}; remove the file to begin anew") from None
        tempfile.TemporaryFile(dir=path.parent).close()

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def write(self, text: str) -> None:
        """Replaces the file as a whole."""
        if self.path is not None:
            replace_file(self.path, text)


@contextlib.contextmanager
def shown(
    progress: bool | Progress, unit: str = "cell", label: str = "{}, {} bits, seed {}"
) -> Iterator[Progress | None]:
    """Yields the function to call with the progress, if any; a bar counts in `unit` and is labelled with the rest of the report."""
    if callable(progress):
        yield progress
        return
    tqdm = None
    if progress:
        with contextlib.suppress(ImportError):
            tqdm = importlib.import_module("tqdm.auto").tqdm
    if tqdm is None:
        yield None
        return
    with tqdm(unit=unit) as bar:

        def show(done: int, total: int, generator: str, length: int, seed: int) -> None:
            bar.total = total
            bar.set_description(label.format(generator, length, seed), refresh=False)
            bar.update(done - bar.n)

        yield show


def read_plan(
    seeds: SupportsIndex,
    width: Width,
    sharing: Sharing,
    layers: Mapping[str, LayerSettings] | None,
    arithmetic: Arithmetic,
    clip: bool,
    device: DeviceNames,
    lengths: SupportsIndex | Sequence[SupportsIndex] | None = None,
    generators: str | Sequence[str] | None = None,
    margins: float | Sequence[float] | None = None,
    faults: _Faults = (None, None, None, None),
) -> _core._Plan:
    """The settings of an evaluation, checked."""
    rates, sites, kind, fault_layers = faults
    return _core._Plan(
        lengths=None if lengths is None else _integers(lengths, "lengths"),
        generators=None if generators is None else _names(generators, "generators"),
        seeds=seeds,
        width=width,
        sharing=sharing,
        layers=dict(layers or {}),
        arithmetic=arithmetic,
        clip=clip,
        margins=None if margins is None else _numbers(margins, "margins"),
        device=device,
        faults=None if rates is None else _numbers(rates, "faults"),
        fault_site=None if sites is None else _names(sites, "fault_site"),
        fault_kind=kind,
        fault_layers=None if fault_layers is None else _names(fault_layers, "fault_layers"),
    )


def _integers(values: SupportsIndex | Sequence[SupportsIndex], name: str) -> list[int]:
    """One integer or several, each of which fits the engine's sizes."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name} must be an integer or several, not {type(values).__name__}")
    items = [values] if hasattr(values, "__index__") else list(values)
    return [integer(item, f"{name} at index {index}") for index, item in enumerate(items)]


def integer(value: SupportsIndex, name: str) -> int:
    """An integer that fits the engine's sizes."""
    found = operator.index(value)
    if not 0 <= found < 2**63:
        raise ValueError(f"{name} is {_short(found)}, not in [0, 2**63)")
    return found


def _numbers(values: float | Sequence[float], name: str) -> list[float]:
    items = [values] if isinstance(values, (int, float)) else list(values)
    if not all(isinstance(item, (int, float, np.integer, np.floating)) for item in items):
        raise TypeError(f"{name} must be a number or several")
    return [float(item) for item in items]


def _names(values: str | Sequence[str], what: str) -> list[str]:
    names = [values] if isinstance(values, str) else list(values)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} must be names, not {type(name).__name__}")
    return names


def _value(text: str) -> int | float | str:
    """Returns a number if the text is one, otherwise the text."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _short(value: int) -> str:
    text = str(value) if abs(value) < 10**40 else ""
    return text or "too large"


def frame(text: str, function: str) -> Any:
    """A pandas.DataFrame of comma-separated values."""
    pandas = optional("pandas", function)
    return pandas.DataFrame([{name: _value(text) for name, text in line.items()} for line in csv.DictReader(io.StringIO(text))])


def optional(module: str, function: str) -> Any:
    """Imports an optional module."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{function} needs {package}: pip install {package}") from error
