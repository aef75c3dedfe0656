"""The layers of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from aleatron._types import Polarity


@dataclass(frozen=True, eq=False)
class GraphLayer:
    """A product of a `GraphNetwork` that can run as streams, as it is; `GraphNetwork.layers` has them.

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
        What inputs are divided by before they are encoded.
    weight_scales
        What weights are divided by: one number for all, or one for each neuron or output channel.

    Examples
    --------
    >>> import aleatron as al
    >>> network = al.Network.from_onnx(al.Network.digits("cnn").to_onnx(), binary="conv1")
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
