"""Exploration of designs: accuracy against energy, area and latency of circuits."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy.typing as npt

from aleatron import _core
from aleatron._evaluation import Checkpoint, Progress, frame, integer, load_digits, read_plan, shown

if TYPE_CHECKING:
    from typing_extensions import Self

    from aleatron._types import DeviceNames, LayerSettings, Sharing, Width


@dataclass(frozen=True)
class Design:
    """A network with its streams and the architecture of its circuit, its score and its cost.

    Parameters
    ----------
    network
        The index of the network among those explored.
    generator, sharing, width
        The streams, as for `Network.streams`.
    lengths
        The stream length of each layer that runs as streams.
    margin
        The decision margin at which the last layer stops early, in standard deviations of the counting noise; None if all cycles run.
    lanes
        The neurons that a layer computes at a time; None for all.
    score, worst_score
        The mean and the least score of the seeds: the accuracy, or R² of a regression.
    cycles, latency
        The cycles from one sample to the next, and from the first word of a sample to its last result.
    area, energy
        Gate equivalents, and nanojoules of a sample, by a model.
    is_optimal
        Whether no other design is at least as good in score, energy, area and latency and better in one of them.

    Examples
    --------
    >>> import aleatron as al
    >>> design = al.explore(lengths=[16], generators=["sobol"]).optimal[0]
    >>> design.generator, design.lengths
    ('sobol', (16, 16))
    """

    network: int
    generator: str
    sharing: str
    width: str
    lengths: tuple[int, ...]
    margin: float | None
    lanes: int | None
    score: float
    worst_score: float
    cycles: int
    latency: int
    area: float
    energy: float
    is_optimal: bool


class Exploration:
    """The result of `explore`. Print it for a table of the optimal designs.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.explore(lengths=[8, 16], generators=["sobol"])
    >>> found.layers, found.is_finished
    (('hidden', 'output'), True)
    >>> al.Exploration.from_json(found.to_json()).optimal == found.optimal
    True
    """

    def __init__(self, text: str) -> None:
        self._json, self._csv, self._page = _core._read_exploration(text)
        self._read: dict[str, Any] = json.loads(self._json)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `to_json` or `aleatron explore --report` wrote; ValueError if it is not an exploration."""
        return cls(text)

    def to_json(self) -> str:
        """Returns everything as JSON."""
        return self._json

    def to_csv(self) -> str:
        """Returns one line of comma-separated values for each design, under a heading."""
        return self._csv

    def to_html(self) -> str:
        """Returns a self-contained page with charts and the optimal designs."""
        return self._page

    def to_pandas(self) -> Any:
        """Returns a flat pandas.DataFrame, a line for each design, with the columns of `to_csv`."""
        return frame(self.to_csv(), "Exploration.to_pandas")

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of the networks."""
        return tuple(self._read["networks"])

    @property
    def layers(self) -> tuple[str, ...]:
        """The layers that run as streams."""
        return tuple(self._read["layers"])

    @property
    def float_score(self) -> float:
        """The best score of the networks in floating point."""
        return float(max(self._read["float_scores"]))

    @property
    def is_finished(self) -> bool:
        """Whether the search finished within its budget."""
        return bool(self._read["is_finished"])

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self._read["trials"])

    @property
    def designs(self) -> list[Design]:
        """Every `Design` that ran on all samples, by energy."""
        designs = []
        for read in self._read["designs"]:
            streams = {**read["streams"], "lengths": tuple(read["streams"]["lengths"])}
            early = streams.pop("early", "none")
            margin = None if early == "none" else float(early)
            lanes = None if read["lanes"] == "all" else int(read["lanes"])
            rest = {name: read[name] for name in ("score", "worst_score", "is_optimal")}
            designs.append(Design(**streams, margin=margin, lanes=lanes, **read["cost"], **rest))
        return designs

    @property
    def optimal(self) -> list[Design]:
        """The optimal designs that lose no more than permitted, by energy."""
        bar = self.float_score - self._read["loss"] / 100 - 1e-9
        return [design for design in self.designs if design.is_optimal and design.score >= bar]

    def settings(self, design: Design) -> dict[str, LayerSettings]:
        """Returns the lengths of a design as `layers` of `evaluate`, `Network.streams` and `Network.circuit`.

        Examples
        --------
        >>> import aleatron as al
        >>> found = al.explore(lengths=[8, 16], generators=["sobol"])
        >>> design = found.optimal[-1]
        >>> streams = al.Network.digits().streams(1, "sobol", layers=found.settings(design))
        >>> streams.lengths == list(design.lengths)
        True
        """
        return {layer: {"length": length} for layer, length in zip(self.layers, design.lengths)}

    def __str__(self) -> str:
        lines = [f"{'generator':16}  {'bits':>14}  {'margin':>6}  {'lanes':>5}  {'score':>8}  {'energy nJ':>9}  {'area':>8}  {'latency':>7}"]
        for design in self.optimal:
            lengths = design.lengths[:1] if len(set(design.lengths)) == 1 else design.lengths
            bits, lanes = "/".join(map(str, lengths)), "all" if design.lanes is None else design.lanes
            margin = "none" if design.margin is None else f"{design.margin:g}"
            lines.append(
                f"{design.generator:16}  {bits:>14}  {margin:>6}  {lanes:>5}  {design.score:>8.4f}  {design.energy:>9.2f}  {design.area:>8.0f}  {design.latency:>7}"
            )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Exploration: {len(self.optimal)} optimal of {len(self.designs)} designs>"

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"


@dataclass(frozen=True)
class _Arguments:
    """The arguments of an exploration, from which workers create their own."""

    plan: tuple[Any, ...]
    subject: tuple[Any, ...]
    space: tuple[Any, ...]

    def explorer(self) -> _core._Explorer:
        arguments: tuple[Any, ...] = (*self.subject, read_plan(*self.plan), *self.space)
        return _core._Explorer(*arguments)


# The exploration that a worker ran a trial of last, by its arguments.
_last: dict[bytes, _core._Explorer] = {}


def _run_trial(arguments: bytes, trial: str) -> str:
    """Runs on a worker, which caches the exploration for its next trial."""
    explorer = _last.get(arguments)
    if explorer is None:
        made: _Arguments = pickle.loads(arguments)
        explorer = made.explorer()
        _last.clear()
        _last[arguments] = explorer
    return explorer.run(trial)


def _run_trials(
    explorer: _core._Explorer,
    arguments: _Arguments,
    executor: concurrent.futures.Executor,
    known: str | None,
    file: Checkpoint[Exploration],
    progress: Progress | None,
) -> str:
    """Runs all trials on an executor, those that do not depend on each other at the same time, and returns the exploration."""
    payload = pickle.dumps(arguments)
    budget = arguments.space[-1]
    done = 0 if known is None else len(json.loads(known)["trials"])
    known, pending = explorer.advance(known, [])
    while pending:
        trials = [executor.submit(_run_trial, payload, trial) for trial in pending]
        finished: list[str] = []
        try:
            # In their order, which the result depends on.
            for trial in trials:
                finished.append(trial.result())
                done += 1
                if progress is not None:
                    progress(done, budget, "designs", 0, 0)
        finally:
            for trial in trials:
                trial.cancel()
            known, pending = explorer.advance(known, finished)
            file.write(known)
    return known


def explore(
    network: _core.Network | Sequence[_core.Network] | None = None,
    x: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    labels: Literal["classes", "targets"] = "classes",
    generators: Sequence[str] = ("sobol", "lfsr", "int8", "int4"),
    lengths: Sequence[SupportsIndex] = (8, 16, 32, 64, 128, 256),
    sharings: Sequence[Sharing] = ("all",),
    widths: Sequence[Width] = ("auto",),
    early_margins: Sequence[float | None] = (None,),
    lanes: Sequence[SupportsIndex | None] = (None, 8, 1),
    loss: float = 5.0,
    budget: SupportsIndex = 200,
    seeds: SupportsIndex = 3,
    clip: bool = False,
    faults: float | None = None,
    fault_site: str | None = None,
    fault_kind: str | None = None,
    device: DeviceNames = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    executor: concurrent.futures.Executor | None = None,
    progress: bool | Progress = False,
) -> Exploration:
    """Explores designs of a network: accuracy against energy, area and latency of circuits, as `aleatron explore` does.

    Parameters
    ----------
    network
        The network, or several variants of one with the same layers; the embedded one for digits if not given.
    x, y
        Features (n, n_features), or with all axes of the network's input, and classes (n,) or targets; the embedded test digits if not given.
    labels
        "classes" if y has classes, "targets" if it has targets.
    generators, lengths, sharings, widths
        The streams to combine. Lengths of single layers are halved down to the least of the lengths.
    early_margins
        The decision margins at which the last layer stops early, in standard deviations of the counting noise; None for all cycles.
    lanes
        The numbers of neurons that a layer computes at a time; None for all.
    loss
        The loss against floating point up to which designs are refined and shown, in hundredths of the score.
    budget
        The most trials.
    seeds, clip, device
        As for `evaluate`.
    faults, fault_site, fault_kind
        A fault rate to measure scores with, and its sites ("streams" if not given) and kind as for `evaluate`. Costs are those without faults.
    checkpoint
        A file to resume from if it exists, in which trials are saved during the search.
    executor
        An executor that runs trials, such as a process pool, a Dask client's `get_executor()` or `aleatron.cluster`'s executor of MPI ranks.
        The designs are those of one process. Finished trials are in the checkpoint if a worker fails.
    progress
        True for a bar if tqdm is installed, or a function of (trials, budget, "designs", longest length, 0).

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.explore(generators=["sobol"], lengths=[8, 16, 32], loss=1.0)
    >>> min(found.optimal, key=lambda design: design.energy).score >= found.float_score - 0.01
    True
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    name = "arrays"
    if x is None or y is None:
        (x, y), name = load_digits(), "digits (test)"
    if network is None:
        network = _core.Network.digits()
    networks = [network] if isinstance(network, _core.Network) else list(network)
    arguments = _Arguments(
        (seeds, "auto", "all", None, "integer", clip, device, None, None, None, (faults, fault_site, fault_kind, None)),
        (networks, x, y, labels, name),
        (
            list(generators),
            [integer(length, "length") for length in lengths],
            list(sharings),
            [str(width) for width in widths],
            ["none" if margin is None else repr(float(margin)) for margin in early_margins],
            ["all" if lane is None else str(integer(lane, "lanes")) for lane in lanes],
            loss,
            integer(budget, "budget"),
        ),
    )
    explorer = arguments.explorer()
    with Checkpoint(checkpoint, Exploration.from_json) as file, shown(progress) as callback:
        known = None if file.found is None else file.found.to_json()
        if executor is not None:
            known = _run_trials(explorer, arguments, executor, known, file, callback)
        text, raised = explorer.explore(known, file.path, callback)
        file.write(text)
    if raised is not None:
        raise raised
    return Exploration(text)
