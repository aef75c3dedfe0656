"""The layers of networks: specifications to build from, and layers of existing networks."""

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
    """A dense layer to build a `Network` of.

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
        The divisors of inputs and weights before they are encoded; for weights the largest of each neuron if not given.
    name
        The name; its index if not given.

    Examples
    --------
    >>> import aleatron as al
    >>> hidden = al.Layer([[0.5, -2.0], [1.0, 0.25]], bias=[0.0, 0.1], activation="relu")
    >>> network = al.Network([hidden, al.Layer([[1.0, -1.0]], input_scale=2.0)])
    >>> network([0.5, -0.5])
    array([0.77499998])
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
        if not isinstance(self.polarity, str) or self.polarity.lower() not in ("unipolar", "bipolar", "signed"):
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
        """Returns the values that equal layers share; a bias of zeros is none."""
        weights = as_float64(self.weights, "weights")
        bias = np.zeros(len(weights)) if self.bias is None else as_float64(self.bias, "bias")
        scale = None if self.weight_scale is None else float(self.weight_scale)
        settings = (self.activation, self.polarity, float(self.input_scale), scale, self.name)
        return (weights.shape, weights.tolist(), bias.tolist(), *settings)


@dataclass(frozen=True, eq=False)
class NetworkLayer:
    """A layer of a `Network`, a product with constant weights; `Network.layers` has them.

    Parameters
    ----------
    name
        The name of its node.
    kind
        "dense" or "convolution".
    weights
        Weights of shape (n_neurons, n_inputs), or (n_channels, channels of a group, sizes of the kernel).
    bias
        A bias for each neuron or output channel, added in binary.
    runs_as
        "streams" or "binary".
    polarity
        "signed", "bipolar" or "unipolar" streams.
    input_scale
        The divisor of inputs before they are encoded.
    weight_scales
        The divisors of weights: one number for all, or one for each neuron or output channel.

    Examples
    --------
    >>> import aleatron as al
    >>> network = al.Network.digits("cnn").with_binary("conv1")
    >>> [(layer.name, layer.kind, layer.weights.shape, layer.runs_as) for layer in network.layers[:2]]
    [('conv1', 'convolution', (8, 1, 3, 3), 'binary'), ('conv2', 'convolution', (16, 8, 3, 3), 'streams')]
    """

    name: str
    kind: Literal["dense", "convolution"]
    weights: npt.NDArray[np.float64]
    bias: npt.NDArray[np.float64]
    runs_as: Literal["streams", "binary"]
    polarity: Polarity
    input_scale: float
    weight_scales: npt.NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NetworkLayer):
            return NotImplemented
        return self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    def _facts(self) -> tuple[object, ...]:
        """Returns the values that equal layers share."""
        arrays = [(array.shape, array.tolist()) for array in (self.weights, self.bias, self.weight_scales)]
        return (self.name, self.kind, self.runs_as, self.polarity, self.input_scale, *arrays)


def _check_activation(activation: object) -> None:
    if isinstance(activation, str):
        if activation.lower() not in ("identity", "relu"):
            raise ValueError(f'activation is {activation!r}, not "identity", "relu" or a pair of bounds')
        return
    try:
        low, high = (float(bound) for bound in activation)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        raise TypeError(f"activation must be a name or a pair of bounds, not {activation!r}") from None
    if not (np.isfinite([low, high]).all() and low <= high):
        raise ValueError(f"activation has the bounds ({low}, {high}); they must be finite and in order")
