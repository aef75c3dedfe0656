"""Search for the shortest streams of a network's layers that are accurate enough."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy.typing as npt

from aleatron import _core
from aleatron._evaluation import Checkpoint, Progress, integer, load_digits, read_plan, shown

if TYPE_CHECKING:
    from typing_extensions import Self

    from aleatron._types import Arithmetic, DeviceNames, LayerSettings, Sharing, Width


@dataclass(frozen=True)
class Trial:
    """One choice of lengths and its score.

    Parameters
    ----------
    lengths
        The length of each layer that runs as streams.
    score
        The mean score of all seeds.
    untrained
        If the search trains the network: the mean score before the training of the trial.
    start
        If the search trains the network: the trial, counted from 0, whose weights the training began with; None for those of the given network.

    Examples
    --------
    >>> import aleatron as al
    >>> al.find(generator="sobol", longest=64, shortest=64).trials[0].lengths
    (64, 64)
    """

    lengths: tuple[int, ...]
    score: float
    untrained: float | None = None
    start: int | None = None


@dataclass(frozen=True)
class Found:
    """The result of a search for short streams; `find` returns it. Print it for a table.

    Parameters
    ----------
    identity
        A hash of the network, the data and the settings.
    generator
        The generator.
    layers
        The layers that run as streams.
    products
        The products of one sample in each of them.
    lengths
        The shortest lengths found that are good enough; the initial lengths if even those are not.
    score
        The score with them: the accuracy, or the coefficient of determination R² of a regression.
    float_score
        The score in floating point.
    bar
        The score that is good enough.
    measure
        "accuracy" or "r_squared".
    bit_macs_before
        Products of bits of one sample with all layers at their longest.
    bit_macs
        Products of bits of one sample with the lengths found.
    trials
        Every `Trial`.
    is_finished
        Whether the search came to its end.
    cost
        The cost of the circuit with the lengths found: cycles, area (gate equivalents) and energy (nanojoules per sample) by a model, or the
        reason why there is none; None if it was not computed.
    provenance
        The runs of the program that contributed, in their order. Results are equal without them.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.find(loss=1.0, generator="sobol", longest=64, shortest=16)
    >>> found.is_good, found.layers
    (True, ('hidden', 'output'))
    >>> al.Found.from_json(found.to_json()) == found
    True
    """

    identity: str
    generator: str
    layers: tuple[str, ...]
    products: tuple[int, ...]
    lengths: tuple[int, ...]
    score: float
    float_score: float
    bar: float
    measure: Literal["accuracy", "r_squared"]
    bit_macs_before: int
    bit_macs: int
    trials: tuple[Trial, ...]
    is_finished: bool
    cost: dict[str, Any] | None = None
    provenance: tuple[dict[str, Any], ...] = field(default=(), compare=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads the output of `to_json`, or find.json of `aleatron eval --find` or `aleatron train --find`; ValueError if it is not a search."""
        read: dict[str, Any] = json.loads(_core._read_found(text))
        read["provenance"] = tuple(read.pop("provenance", ()))
        trials = tuple(Trial(tuple(trial.pop("lengths")), **trial) for trial in read.pop("trials"))
        layers, products, lengths = (tuple(read.pop(name)) for name in ("layers", "products", "lengths"))
        return cls(trials=trials, layers=layers, products=products, lengths=lengths, **read)

    def to_json(self) -> str:
        """Returns everything as JSON."""
        trials = [{name: value for name, value in vars(trial).items() if value is not None} for trial in self.trials]
        values = {**vars(self), "trials": trials}
        for name in ("cost", "provenance"):
            if not values[name]:
                del values[name]
        return json.dumps(values, indent=2)

    @property
    def is_good(self) -> bool:
        """Whether the search finished with lengths that are good enough."""
        return self.is_finished and self.score >= self.bar

    @property
    def settings(self) -> dict[str, LayerSettings]:
        """The lengths found as `layers` of `evaluate` and `Network.streams`.

        Examples
        --------
        >>> import aleatron as al
        >>> found = al.find(loss=1.0, generator="sobol", longest=64, shortest=16)
        >>> streams = al.Network.digits().streams(64, "sobol", layers=found.settings)
        >>> streams.lengths == list(found.lengths)
        True
        """
        return {layer: {"length": length} for layer, length in zip(self.layers, self.lengths)}

    def __str__(self) -> str:
        width = max([5, *(len(layer) for layer in self.layers)])
        shown = [f"{100 * max(s, 0.0):.2f} %" if self.measure == "accuracy" else f"R² {s:.4f}" for s in (self.float_score, self.bar, self.score)]
        lines = [f"{self.generator}: floating point {shown[0]}, at least {shown[1]} wanted", ""]
        lines.append(f"{'layer':{width}}  {'products':>12}  {'bits':>6}")
        for layer, products, length in zip(self.layers, self.products, self.lengths):
            lines.append(f"{layer:{width}}  {products:>12}  {length:>6}")
        saved = 100 * (1 - self.bit_macs / max(self.bit_macs_before, 1))
        lines += ["", f"{shown[2]} with these lengths; {saved:.2f} % of {self.bit_macs_before} bit-MACs saved"]
        if self.cost is not None and "reason" in self.cost:
            lines.append(f"no circuit: {self.cost['reason']}")
        elif self.cost is not None:
            cycles, area, energy = (self.cost[name] for name in ("cycles", "area", "energy"))
            lines.append(f"circuit: {cycles} cycles, {area:.0f} gate equivalents, {energy:.2f} nJ per sample")
        return "\n".join(lines)


def find(
    network: _core.Network | None = None,
    x: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    labels: Literal["classes", "targets"] = "classes",
    loss: float = 1.0,
    generator: str = "bernoulli",
    longest: SupportsIndex = 1024,
    shortest: SupportsIndex = 8,
    budget: SupportsIndex = 100,
    seeds: SupportsIndex = 3,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    arithmetic: Arithmetic = "float",
    clip: bool = False,
    device: DeviceNames = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
) -> Found:
    """Searches for the shortest streams of each layer that lose at most a part of the score, as `aleatron eval --find` does.

    The search first tries one length for all layers, from the shortest up. Then the layer that costs most is tried with half its length; if the
    score stays within the loss, the layer keeps the half, otherwise it is unchanged. The search ends when no layer can be shortened, or the
    budget is spent.

    Parameters
    ----------
    network
        The network; the embedded one for digits if not given.
    x, y
        Features (n, n_features), or with all axes of the network's input, and classes (n,) or targets; the embedded test digits if not given.
    labels
        "classes" if y has classes, whose score is the accuracy; "targets" if it has targets, (n,) or (n, n_outputs), whose score is the
        coefficient of determination R².
    loss
        The permitted loss of the score against floating point in hundredths: percentage points of accuracy, or of R².
    generator
        One name as for `Network.streams`.
    longest, shortest
        The length that all layers begin with, and the one that no layer goes below.
    budget
        The most trials.
    seeds, width, sharing, layers, arithmetic, clip, device
        As for `evaluate`. Lengths among the settings of layers do not matter.
    checkpoint
        A file to resume from if it exists, in which trials are saved during the search.
    progress
        True for a bar if tqdm is installed, or a function of (trials, budget, generator, longest, 0).

    Examples
    --------
    >>> import aleatron as al
    >>> network = al.Network.digits("cnn").calibrated(al.load_digits("train")[0])
    >>> found = al.find(network, *al.load_digits(), loss=2.0, generator="sobol", longest=128, shortest=64)
    >>> found.layers, found.bit_macs < found.bit_macs_before
    (('conv1', 'conv2', 'dense1'), True)
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    name = "arrays"
    if x is None or y is None:
        (x, y), name = load_digits(), "digits (test)"
    plan = read_plan(seeds, width, sharing, layers, arithmetic, clip, device)
    with Checkpoint(checkpoint, Found.from_json) as file, shown(progress) as callback:
        text, raised = _core._find(
            _core.Network.digits() if network is None else network,
            x,
            y,
            labels,
            name,
            plan,
            loss,
            generator,
            integer(longest, "longest"),
            integer(shortest, "shortest"),
            integer(budget, "budget"),
            None if file.found is None else file.found.to_json(),
            file.path,
            callback,
        )
        file.write(text)
    if raised is not None:
        raise raised
    return Found.from_json(text)
