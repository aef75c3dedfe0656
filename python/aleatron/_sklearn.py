"""Networks from scikit-learn estimators. scikit-learn is imported only by the functions that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_float64
from aleatron._core import Network
from aleatron._network import Activation, Layer

Floats = npt.NDArray[np.float64]

ESTIMATORS = "MLPClassifier, MLPRegressor, LogisticRegression, or a pipeline of scalers that ends in one of them"
SCALERS = "StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler"


@dataclass(frozen=True)
class _Dense:
    """Dense layers as scikit-learn has them: weights of shape (neurons, inputs), and one activation between layers."""

    weights: list[Floats]
    biases: list[Floats]
    hidden: str

    def names(self) -> list[str]:
        n_hidden = len(self.weights) - 1
        numbered = [f"hidden{k + 1}" for k in range(n_hidden)] if n_hidden > 1 else ["hidden"] * n_hidden
        return [*numbered, "output"]


@dataclass(frozen=True)
class _Affine:
    """The linear map of scalers: gain * feature + shift."""

    gain: Floats
    shift: Floats


def from_sklearn(estimator: Any, name: str = "network", *, check: npt.ArrayLike | None = None) -> Network:
    """Creates a network from a fitted estimator of scikit-learn.

    The estimator is an MLPClassifier, an MLPRegressor, a LogisticRegression, or a pipeline of scalers that ends in one of
    them. The network computes the input of the estimator's softmax or logistic function, or, for a regressor, its
    predictions. A classifier of two classes has one score. Classes are indices into the estimator's `classes_`. The layers
    are named "hidden" ("hidden1" and so on if there are several) and "output".

    Scalers become the first operation of the network, computed in binary, so the network takes features as they are and its streams
    encode scaled ones. Call `calibrated` with training samples, not scaled, to set the scales of inputs.

    Parameters
    ----------
    estimator
        The fitted estimator.
    name
        A name for reports.
    check
        Samples on which the network must agree with the estimator, except for rounding to 32 bits.

    Raises
    ------
    TypeError
        If the estimator, or a step of the pipeline, is none of these.
    ValueError
        If the estimator is not fitted, has an unsupported activation (tanh, logistic), or has several labels for a
        sample; or if the network disagrees with it on `check`.

    Examples
    --------
    >>> import aleatron as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> x, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    >>> network = al.Network.from_sklearn(model, "iris", check=x)
    >>> network
    Network("iris", input 4, 3 outputs, 1 of 1 layers as streams)
    >>> network.score(x, y) == model.score(x, y)
    True
    """
    scalers, last = split_pipeline(estimator)
    dense = _read_dense(last)
    n_features = dense.weights[0].shape[1]
    affine = _Affine(np.ones(n_features), np.zeros(n_features))
    for scaler in scalers:
        affine = _then(affine, _read_scaler(scaler))
    network = _assemble(dense, affine, name)
    if check is not None:
        _check(network, estimator, dense, affine, as_float64(check, "check"))
    return network


def stream_classifier() -> type:
    """The class `StreamClassifier`, or, without scikit-learn, a stand-in that raises an error when it is called."""
    try:
        from aleatron._stream_classifier import StreamClassifier
    except ImportError as error:
        if error.name is None or error.name.split(".")[0] != "sklearn":
            raise
        return _MissingStreamClassifier
    return StreamClassifier


class _MissingStreamClassifier:
    """Replaces `StreamClassifier` if scikit-learn is not installed, so that `from aleatron import *` works."""

    def __init__(self, *_: object, **__: object) -> None:
        raise ImportError("aleatron.StreamClassifier needs scikit-learn 1.6 or later: pip install scikit-learn")


def split_pipeline(estimator: Any) -> tuple[list[Any], Any]:
    """The steps before the last that do something, and the last; an estimator that is not a pipeline is its own last step."""
    from sklearn.pipeline import Pipeline  # type: ignore[import-untyped]

    steps: list[Any] = []
    last = estimator
    while isinstance(last, Pipeline):
        *before, last = [step for _, step in last.steps]
        for step in before:
            nested, end = split_pipeline(step)
            steps += [one for one in [*nested, end] if one is not None and one != "passthrough"]
    return steps, last


def _read_dense(estimator: Any) -> _Dense:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
    from sklearn.neural_network import MLPClassifier, MLPRegressor  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]

    kind = type(estimator).__name__
    if not isinstance(estimator, (LogisticRegression, MLPClassifier, MLPRegressor)):
        raise TypeError(f"estimator is a {kind}; networks are made of {ESTIMATORS}")
    check_is_fitted(estimator)
    if isinstance(estimator, LogisticRegression):
        weights = as_float64(estimator.coef_, "coef_")
        # Without an intercept, scikit-learn keeps one zero or several.
        bias = np.zeros(len(weights)) + as_float64(estimator.intercept_, "intercept_")
        return _Dense([weights], [bias], "identity")
    if estimator.activation not in ("identity", "relu") and len(estimator.coefs_) > 1:
        raise ValueError(f'the {kind} has the activation {estimator.activation!r}; networks have "identity" and "relu"')
    if isinstance(estimator, MLPRegressor):
        if estimator.out_activation_ != "identity":
            raise ValueError(f"the {kind} has the output activation {estimator.out_activation_!r}, not 'identity'")
    elif isinstance(estimator.classes_, list) or (estimator.out_activation_ == "logistic" and estimator.n_outputs_ > 1):
        raise ValueError(f"the {kind} gives a sample several labels; networks give each one class")
    elif len(estimator.classes_) < 2:
        raise ValueError(f"the {kind} has seen one class only; networks tell at least two apart")
    return _Dense(
        [np.ascontiguousarray(as_float64(w, "coefs_").T) for w in estimator.coefs_],
        [as_float64(b, "intercepts_") for b in estimator.intercepts_],
        "relu" if estimator.activation == "relu" else "identity",
    )


def _read_scaler(scaler: Any) -> _Affine:
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted

    kind = type(scaler).__name__
    if not isinstance(scaler, (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)):
        raise TypeError(f"the pipeline has a {kind}; networks support {SCALERS}")
    check_is_fitted(scaler)
    if getattr(scaler, "clip", False):
        raise ValueError(f"the {kind} has clip=True, which networks do not support; scale the features before the network")
    if isinstance(scaler, MinMaxScaler):
        return _Affine(as_float64(scaler.scale_, "scale_"), as_float64(scaler.min_, "min_"))
    n_features = scaler.n_features_in_
    # Scalers keep unused statistics, so their settings decide.
    center, scale = np.zeros(n_features), np.ones(n_features)
    if isinstance(scaler, StandardScaler) and scaler.with_mean:
        center = as_float64(scaler.mean_, "mean_")
    if isinstance(scaler, RobustScaler) and scaler.with_centering:
        center = as_float64(scaler.center_, "center_")
    if isinstance(scaler, MaxAbsScaler) or getattr(scaler, "with_std", False) or getattr(scaler, "with_scaling", False):
        scale = as_float64(scaler.scale_, "scale_")
    return _Affine(1 / scale, -center / scale)


def _then(first: _Affine, second: _Affine) -> _Affine:
    return _Affine(first.gain * second.gain, first.shift * second.gain + second.shift)


def _assemble(dense: _Dense, affine: _Affine, name: str) -> Network:
    last = len(dense.weights) - 1
    hidden: Activation = "relu" if dense.hidden == "relu" else "identity"
    layers = [
        Layer(weights, bias, hidden if k < last else "identity", "signed", name=layer)
        for k, (layer, weights, bias) in enumerate(zip(dense.names(), dense.weights, dense.biases))
    ]
    # gain * feature + shift, as networks have it: (feature - offset) / scale.
    return Network(layers, name, offset=-affine.shift / affine.gain, scale=1 / affine.gain)


def _check(network: Network, estimator: Any, dense: _Dense, affine: _Affine, x: Floats) -> None:
    """Compares the network with the estimator; they may differ by rounding only."""
    if x.ndim != 2:
        raise ValueError(f"check has shape {x.shape}, not (n_samples, {network.n_features})")
    scores = network(x)
    predicted = np.asarray(estimator.predict(x))
    bound = _rounding(dense, affine, x)
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        expected = predicted.reshape(scores.shape)
        wrong = ~(np.abs(scores - expected) <= bound)
        if wrong.any():
            sample, k = (int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"sample {sample}, output {k}: the network gives {scores[sample, k]}, the estimator {expected[sample, k]}"
            )
        return
    indices = np.searchsorted(classes, predicted)
    if scores.shape[1] == 1:
        scores, bound = np.hstack([-scores, scores]) / 2, np.hstack([bound, bound]) / 2
    rows = np.arange(len(x))
    best = scores.argmax(axis=1)
    # The estimator's class may have less than the best score by at most the errors of both.
    lost = scores[rows, best] - scores[rows, indices]
    wrong = ~(lost <= bound[rows, best] + bound[rows, indices])
    if wrong.any():
        sample = int(np.argmax(wrong))
        raise ValueError(
            f"sample {sample}: the network predicts {classes[best[sample]]}, the estimator {classes[indices[sample]]}"
        )


def _rounding(dense: _Dense, affine: _Affine, x: Floats) -> Floats:
    """Returns a bound of the difference between two computations of the scores.

    A sum of n products in any order is wrong by at most n / (1 - n u) times the unit roundoff u times the sum of the
    products' magnitudes. Magnitudes and errors go through layers with the magnitudes of weights; activations enlarge
    neither. Scalers, bias, and numbers that become ones of 32 bits add eight roundings to each layer at most.
    """
    magnitude = np.abs(x) * np.abs(affine.gain) + np.abs(affine.shift)
    roundings = 0
    for weights, bias in zip(dense.weights, dense.biases):
        magnitude = magnitude @ np.abs(weights).T + np.abs(bias)
        roundings += weights.shape[1] + 8
    # The epsilon of float32 is twice its unit roundoff: once for each of the two ways.
    return np.asarray(magnitude * (roundings * float(np.finfo(np.float32).eps) * 1.01))
