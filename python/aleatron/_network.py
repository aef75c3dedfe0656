"""Networks, and judging them as streams."""

from __future__ import annotations

import importlib
import os
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Union

import numpy as np
import numpy.typing as npt

from aleatron import _core

Activation = Union[Literal["identity", "relu"], tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Layer:
    """A dense layer of a network.

    Parameters
    ----------
    weights
        Weights of shape (n_neurons, n_inputs), in the network's own units.
    bias
        A bias for each neuron, added in binary; none if not given.
    activation
        "identity", "relu", or the bounds (low, high) that values are limited to.
    polarity
        "bipolar" or "unipolar" streams.
    input_scale, weight_scale
        What inputs and weights are divided by before they are encoded; the largest weight if not given.
    name
        The name, which is also that of its tensors in files; its index if not given.

    Examples
    --------
    >>> import aleatron as al
    >>> hidden = al.Layer([[0.5, -2.0], [1.0, 0.25]], bias=[0.0, 0.1], activation="relu")
    >>> network = al.Network([hidden, al.Layer([[1.0, -1.0]], input_scale=2.0)])
    >>> network([0.5, -0.5])
    array([0.775])
    """

    weights: npt.ArrayLike
    bias: npt.ArrayLike | None = None
    activation: Activation = "identity"
    polarity: Literal["unipolar", "bipolar"] = "bipolar"
    input_scale: float = 1.0
    weight_scale: float | None = None
    name: str | None = None


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


def evaluate(
    network: _core.Network | None = None,
    x: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    lengths: Sequence[int] | None = None,
    generators: Sequence[str] | None = None,
    seeds: int = 3,
    width: int = 8,
    sharing: Literal["all", "input", "stream"] = "all",
    margins: Sequence[float] | None = None,
    device: Literal["auto", "cpu", "gpu"] = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int, int, str, int, int], object] = False,
) -> _core.Evaluation:
    """Judges a network as streams: accuracy against length and generator.

    Parameters
    ----------
    network
        The network; the embedded one for digits if not given.
    x, y
        Features (n, n_features) and classes (n,); the embedded test digits if not given.
    lengths
        Bits per stream; eight lengths from 8 to 1024 if not given.
    generators
        Names as for `Network.forward_streams`; bernoulli, sobol and lfsr if not given.
    seeds
        How many seeds to run for generators that have one.
    width, sharing, device
        As for `Network.forward_streams`.
    margins
        Leads at which samples stop early, in standard deviations of counting noise.
    checkpoint
        A file to go on from where it exists, and to leave what was finished in, also when the run is interrupted.
    progress
        True for a bar where tqdm is installed, or a function of (done, total, generator, length, seed).

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.evaluate(lengths=[32], generators=["sobol", "bernoulli"], seeds=2)
    >>> bool(found.rows[0]["accuracy"]["mean"] > 0.93)
    True
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    name = "arrays"
    if x is None or y is None:
        (x, y), name = load_digits(), "digits (test)"
    file = None if checkpoint is None else pathlib.Path(checkpoint)
    earlier = None
    if file is not None and file.exists():
        earlier = _core.Evaluation.from_json(file.read_text(encoding="utf-8"))
    callback, close = _progress(progress)
    try:
        evaluation, raised = _core._evaluate(
            _core.Network.digits() if network is None else network,
            x,
            y,
            name,
            None if lengths is None else list(lengths),
            None if generators is None else list(generators),
            seeds,
            width,
            sharing,
            None if margins is None else list(margins),
            device,
            earlier,
            callback,
        )
    finally:
        close()
    if file is not None:
        file.write_text(evaluation.to_json(), encoding="utf-8")
    if raised is not None:
        raise raised
    return evaluation


def _progress(
    progress: bool | Callable[[int, int, str, int, int], object],
) -> tuple[Callable[[int, int, str, int, int], object] | None, Callable[[], object]]:
    """The function to call on the way, and the one to call at the end."""
    if callable(progress):
        return progress, lambda: None
    if not progress:
        return None, lambda: None
    try:
        bar = importlib.import_module("tqdm.auto").tqdm(unit="cell")
    except ImportError:
        return None, lambda: None

    def show(done: int, total: int, generator: str, length: int, seed: int) -> None:
        bar.total = total
        bar.set_description(f"{generator}, {length} bits, seed {seed}", refresh=False)
        bar.update(done - bar.n)

    return show, bar.close

