"""The layers of networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_float64
from aleatron._types import Polarity

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
        "signed", "bipolar" or "unipolar" streams.
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
    polarity: Polarity = "bipolar"
    input_scale: float = 1.0
    weight_scale: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        weights = as_float64(self.weights, "weights")
        if weights.ndim != 2:
            raise ValueError(f"weights have shape {weights.shape}, not (n_neurons, n_inputs)")
        if self.bias is not None and (shape := as_float64(self.bias, "bias").shape) != weights.shape[:1]:
            raise ValueError(f"bias has shape {shape}; expected ({weights.shape[0]},)")
        if self.polarity not in ("unipolar", "bipolar", "signed"):
            raise ValueError(f'polarity is {self.polarity!r}, not "unipolar", "bipolar" or "signed"')
        _check_activation(self.activation)
        for name, scale in [("input_scale", self.input_scale), ("weight_scale", self.weight_scale)]:
            if scale is None and name == "weight_scale":
                continue
            if not isinstance(scale, (int, float, np.integer, np.floating)):
                raise TypeError(f"{name} must be a number, not {type(scale).__name__}")
            if not 0 < scale < float("inf"):
                raise ValueError(f"{name} is {scale}; it must be positive and finite")
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"name must be a str, not {type(self.name).__name__}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layer):
            return NotImplemented
        return self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    def _facts(self) -> tuple[object, ...]:
        """What makes two layers equal; a bias of zeros is none, and a scale that is not given the largest weight."""
        weights = as_float64(self.weights, "weights")
        bias = np.zeros(len(weights)) if self.bias is None else as_float64(self.bias, "bias")
        scale = self.weight_scale
        if scale is None:
            scale = float(np.abs(weights).max(initial=0.0)) or 1.0
        settings = (self.activation, self.polarity, float(self.input_scale), float(scale), self.name)
        return (weights.shape, weights.tolist(), bias.tolist(), *settings)


def _check_activation(activation: object) -> None:
    if isinstance(activation, str):
        if activation not in ("identity", "relu"):
            raise ValueError(f'activation is {activation!r}, not "identity", "relu" or a pair of bounds')
        return
    try:
        low, high = (float(bound) for bound in activation)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise TypeError(f"activation must be a name or a pair of bounds, not {activation!r}") from None
    if not (np.isfinite([low, high]).all() and low <= high):
        raise ValueError(f"activation has the bounds ({low}, {high}); they must be finite and in order")
