"""Training of networks, in floating point and through their streams."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron import _core
from aleatron._evaluation import Progress, integer, load_digits, read_plan, shown
from aleatron._find import Found

if TYPE_CHECKING:
    from aleatron._types import Arithmetic, DeviceNames, LayerSettings, Sharing, Width


@dataclass(frozen=True)
class Score:
    """The quality of a network on samples that it was not trained on.

    Parameters
    ----------
    loss
        The mean loss.
    accuracy
        The share of correct classes; None for targets.

    Examples
    --------
    >>> import aleatron as al
    >>> al.Score(loss=0.25, accuracy=0.97).accuracy
    0.97
    """

    loss: float
    accuracy: float | None


@dataclass(frozen=True)
class Epoch:
    """The record of one epoch.

    Parameters
    ----------
    loss
        The mean loss of its steps.
    rate
        The learning rate of its last step.
    validation
        The score of the validation samples after it; None without such samples.

    Examples
    --------
    >>> import aleatron as al
    >>> al.Epoch(loss=0.5, rate=0.001, validation=None).loss
    0.5
    """

    loss: float
    rate: float
    validation: Score | None


@dataclass(frozen=True)
class Trained:
    """The result of a training; `train` returns it.

    Parameters
    ----------
    network
        The network after the best epoch, or the given network if no epoch was better.
    before
        The score of the validation samples before training.
    history
        All epochs.
    best_epoch
        The epoch of the result, counted from 1; 0 if no epoch was better.
    found
        With `find`, the lengths found with training; `before`, `history` and `best_epoch` are those of the trial that the network is from.
    without_training
        With `find`, the lengths found for the given network, on the same samples.

    Examples
    --------
    >>> import aleatron as al
    >>> trained = al.train(lengths=8, epochs=1)
    >>> len(trained.history), trained.network.name
    (1, 'noise_aware')
    """

    network: _core.Network
    before: Score | None
    history: tuple[Epoch, ...]
    best_epoch: int
    found: Found | None = None
    without_training: Found | None = None

    def plot(self, ax: Any = None) -> Any:
        """Draws the losses against the epoch with matplotlib, and returns the axes."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.figure().add_subplot()
        epochs = range(1, len(self.history) + 1)
        ax.plot(epochs, [epoch.loss for epoch in self.history], label="training")
        validation = [epoch.validation.loss for epoch in self.history if epoch.validation is not None]
        if validation:
            ax.plot(epochs, validation, label="validation")
        ax.set_xlabel("epoch")
        ax.set_ylabel("loss")
        ax.legend()
        return ax


def train(
    network: _core.Network | None = None,
    x: npt.ArrayLike | None = None,
    y: npt.ArrayLike | None = None,
    *,
    labels: Literal["classes", "targets"] = "classes",
    lengths: SupportsIndex | Sequence[SupportsIndex] = 16,
    generators: str | Sequence[str] = "sobol",
    through: Literal["streams", "noise", "float"] = "streams",
    find: float | None = None,
    budget: SupportsIndex = 100,
    epochs: SupportsIndex | None = None,
    batch: SupportsIndex = 64,
    rate: float = 2e-3,
    optimizer: Literal["adam", "sgd"] = "adam",
    validation: float = 0.1,
    patience: SupportsIndex | None = None,
    clip_norm: float | None = None,
    shift: SupportsIndex = 0,
    flip: bool = False,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    arithmetic: Arithmetic = "float",
    faults: float | None = None,
    fault_site: str | None = None,
    fault_kind: str | None = None,
    device: DeviceNames = "cpu",
    gradient_device: str = "cpu",
    seed: SupportsIndex = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
) -> Trained:
    """Trains a network for given stream lengths and generators, as `aleatron train` does.

    The forward pass is the engine's, bit for bit what `evaluate` computes; gradients pass straight through the streams. The scales of inputs stay
    as they are: calibrate a network first. Training with the same arguments gives the same weights, for any number of threads.

    Parameters
    ----------
    network
        The network; the embedded one for digits if not given.
    x, y
        Features (n, n_features), or with all axes of the network's input, and classes (n,) or targets; the embedded training digits if not given.
    labels
        "classes" if y has classes (cross entropy), "targets" if it has targets (mean squared error).
    lengths, generators
        Stream lengths and generators to train for; steps take them in turn.
    through
        "streams"; "noise" for floating point with the noise of random streams, which is cheaper; "float" for floating point.
    find
        Search for the shortest streams of each layer, and train the network for them: lengths between the least and the greatest of `lengths` are
        halved, and the network is trained for them, as long as the score of the validation samples is at most this many hundredths below that of
        floating point: percentage points of accuracy, or of R².
    budget
        The most trials of `find`.
    epochs, batch
        Passes over the data (20 if not given; with `find` those of each trial, 5 if not given), and samples of a step.
    rate, optimizer
        The learning rate at the start, which falls along half a cosine, and the rule of the updates.
    validation
        The share of the samples that is not trained on, by which the best epoch is chosen, and with `find` the lengths. With 0, the last epoch is
        the result.
    patience
        The number of epochs without a better validation score after which training ends.
    clip_norm
        The largest norm of the gradients of a step.
    shift, flip
        Move training images by up to this many pixels, and mirror half of them left to right.
    width, sharing, layers, arithmetic, device
        As for `evaluate`; the device is that of the streams.
    gradient_device
        Where gradients are computed, and the network between its streams: "cpu", "gpu" or "gpu:1". Small networks are faster on the CPU.
    faults, fault_site, fault_kind
        A fault rate to train with, and its sites ("streams" if not given) and kind as for `evaluate`. Each step has different faults.
    seed
        Decides the split, the order of samples, augmentation and random streams.
    checkpoint
        A file that is written after every epoch, with `find` after every trial, and from which training resumes if it exists.
    progress
        True for a bar if tqdm is installed, or a function of (steps, all steps, "epoch", epoch, 0); with `find`, of (trials, budget, generator,
        longest, 0).

    Returns
    -------
    Trained

    Raises
    ------
    ValueError
        If an option or the data do not fit the network, or a node has no gradient.

    Examples
    --------
    >>> import aleatron as al
    >>> x, y = al.load_digits()
    >>> plain = al.Network.digits("plain")
    >>> trained = al.train(plain, *al.load_digits("train"), lengths=8, epochs=3)
    >>> before, after = (n.streams(8, "sobol").score(x, y) for n in (plain, trained.network))
    >>> bool(after > before)
    True
    >>> short = al.train(plain, find=1.0, lengths=[4, 64])
    >>> short.found.bit_macs < short.without_training.bit_macs
    True
    >>> streams = short.network.streams(64, "sobol", layers=short.found.settings)
    """
    if (x is None) != (y is None):
        raise ValueError("give both x and y, or neither")
    name = "arrays"
    if x is None or y is None:
        (x, y), name = load_digits("train"), "digits (training)"
    if faults is not None and np.ndim(faults) > 0:
        raise ValueError(f"faults is {faults!r}, not a number: a training has one fault rate")
    if faults is not None and through != "streams":
        raise ValueError('faults need through="streams": only streams have bits that flip')
    if find is not None and (through != "streams" or faults is not None):
        raise ValueError('find needs through="streams" without faults: trials train through their streams')
    if epochs is None:
        epochs = 20 if find is None else 5
    plan = read_plan(
        1 if find is None else 3,
        width,
        sharing,
        layers,
        arithmetic,
        True,
        device,
        lengths=lengths,
        generators=generators,
        faults=(faults, fault_site, fault_kind, None),
    )
    with shown(progress, "step", "{} {}") as callback:
        made, before, rows, best, searches = _core._train(
            _core.Network.digits() if network is None else network,
            x,
            y,
            labels,
            name,
            plan,
            through,
            integer(epochs, "epochs"),
            integer(batch, "batch"),
            rate,
            optimizer,
            validation,
            None if patience is None else integer(patience, "patience"),
            clip_norm,
            integer(shift, "shift"),
            flip,
            integer(seed, "seed"),
            gradient_device,
            None if checkpoint is None else pathlib.Path(checkpoint),
            None if find is None else (find, integer(budget, "budget")),
            callback,
        )
    history = tuple(Epoch(loss, at, None if score is None else Score(*score)) for loss, at, score in rows)
    found, fixed = (None, None) if searches is None else (Found.from_json(text) for text in searches)
    return Trained(made, None if before is None else Score(*before), history, best, found, fixed)
