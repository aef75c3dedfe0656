"""Evaluation of networks of regression."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy.typing as npt

from aleatron import _core
from aleatron._evaluation import Checkpoint, Progress, frame, optional, read_plan, shown

if TYPE_CHECKING:
    from typing_extensions import Self

    from aleatron._types import Arithmetic, DeviceNames, LayerSettings, Sharing, Width


class RegressionEvaluation(_core._RegressionEvaluation):
    """The result of an evaluation of a network of regression: errors against length and generator. Print it for a table.

    Examples
    --------
    >>> import aleatron as al, numpy as np
    >>> x, _ = al.load_digits()
    >>> network = al.Network.digits()
    >>> found = al.evaluate_regression(network, x, network(x), lengths=[16, 256], generators="sobol")
    >>> found.float_errors["mean_absolute"], found.complete
    (0.0, True)
    >>> short, long = [row["to_targets"]["root_mean_square"]["mean"] for row in found.rows]
    >>> bool(long < short)
    True
    """

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads the text that `to_json` wrote; ValueError if it is not an evaluation, or an inconsistent one."""
        return cls(text)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything as dictionaries, lists, numbers and text."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_pandas(self) -> Any:
        """Returns a flat pandas.DataFrame, a line for each generator, length and seed, with the columns of `to_csv`."""
        return frame(self.to_csv(), "RegressionEvaluation.to_pandas")

    def plot(self, ax: Any = None) -> Any:
        """Draws the root mean square error against length, a line for each generator, and returns the matplotlib axes.

        Bands are 95 % intervals over seeds. `ax` is where to draw, a new figure if not given.
        """
        pyplot = optional("matplotlib.pyplot", "RegressionEvaluation.plot")
        if ax is None:
            _, ax = pyplot.subplots()
        for generator in dict.fromkeys(row["generator"] for row in self.rows):
            rows = [row for row in self.rows if row["generator"] == generator]
            lengths = [row["length"] for row in rows]
            errors = [row["to_targets"]["root_mean_square"] for row in rows]
            (line,) = ax.plot(lengths, [error["mean"] for error in errors], marker="o", label=generator)
            low, high = ([error[end] for error in errors] for end in ("low", "high"))
            if low != high:
                ax.fill_between(lengths, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        ax.axhline(self.float_errors["root_mean_square"], color="gray", linestyle="--", label="floating point")
        ax.set_xscale("log", base=2)
        ax.set_xlabel("stream length (bits)")
        ax.set_ylabel("root mean square error")
        ax.legend()
        return ax


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
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
) -> RegressionEvaluation:
    """Evaluates a network of regression as streams: errors against length and generator.

    Parameters
    ----------
    network
        The network.
    x
        Features (n, n_features), or with all axes of the network's input.
    y
        The targets: (n,), or (n, n_outputs).
    lengths, generators, seeds, width, sharing, layers, arithmetic, clip, device, checkpoint, progress
        As for `evaluate`.

    Examples
    --------
    >>> import aleatron as al
    >>> x, _ = al.load_digits()
    >>> network = al.Network.digits()
    >>> al.evaluate_regression(network, x, network(x), lengths=64, generators="sobol")
    RegressionEvaluation(network="noise_aware", samples=360, cells=1, unfinished=0)
    """
    plan = read_plan(seeds, width, sharing, layers, arithmetic, clip, device, lengths, generators)
    with Checkpoint(checkpoint, RegressionEvaluation) as file, shown(progress) as callback:
        text, raised = _core._evaluate_regression(
            network,
            x,
            y,
            "arrays",
            plan,
            file.found,
            file.path,
            callback,
        )
        file.write(text)
    if raised is not None:
        raise raised
    return RegressionEvaluation(text)
