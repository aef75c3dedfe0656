"""A scikit-learn classifier that predicts with streams. Imported at first use, as scikit-learn is optional."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, clone  # type: ignore[import-untyped]
from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]
from sklearn.utils import column_or_1d  # type: ignore[import-untyped]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]

from aleatron._core import Network, StreamNetwork
from aleatron._sklearn import Floats, from_sklearn, split_pipeline


class StreamClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A scikit-learn classifier whose network runs as streams.

    `fit` fits a clone of the estimator, unless the estimator is fitted already, converts it to a network and calibrates the
    network with the samples. Of a pipeline the last step becomes the network; the steps before it run in scikit-learn, as
    they are. Features outside what `fit` has seen saturate.

    With "bernoulli" inputs, a sample's bits depend on its position in the batch; with sequences such as "sobol" they do not.

    Parameters
    ----------
    estimator
        An MLPClassifier or LogisticRegression, a pipeline that ends in one, or a `Network`, whose classes are the integers from 0 on.
    length
        Bits per stream.
    generator, seed, device
        As for `Network.streams`.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of `predict_proba`.
    estimator_
        The fitted estimator, or None for a network.
    network_
        The calibrated network.

    Examples
    --------
    >>> import aleatron as al
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> x, y = load_iris(return_X_y=True)
    >>> model = al.StreamClassifier(make_pipeline(StandardScaler(), LogisticRegression()), length=1024)
    >>> bool(cross_val_score(model, x, y).mean() > 0.9)
    True
    """

    def __init__(
        self, estimator: Any, *, length: int = 256, generator: str = "sobol", seed: int = 44257, device: str = "cpu"
    ) -> None:
        self.estimator = estimator
        self.length = length
        self.generator = generator
        self.seed = seed
        self.device = device

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike | None = None) -> StreamClassifier:
        """Fits the estimator if it is not fitted, and calibrates its network with `X`.

        `y` may be omitted for a network and for a fitted estimator; if it is given, its classes must match.
        """
        ready = isinstance(self.estimator, Network) or _is_fitted(self.estimator)
        if y is None and ready:
            inner = self._validated(X)
        else:
            inner, y = self._validated(X, y)
            check_classification_targets(y)
        if isinstance(self.estimator, Network):
            self.estimator_ = None
            network, self.classes_ = self.estimator, np.arange(self.estimator.n_classes)
        else:
            self.estimator_ = self.estimator if ready else clone(self.estimator).fit(inner, y)
            last = split_pipeline(self.estimator_)[1]
            if not hasattr(last, "classes_"):
                raise TypeError(f"estimator is a {type(last).__name__}, not a classifier")
            network, self.classes_ = from_sklearn(last), np.asarray(last.classes_)
        if y is not None and (unknown := np.setdiff1d(y, self.classes_)).size:
            raise ValueError(f"y has the class {unknown[0]!r}, which is none of the classes {self.classes_.tolist()}")
        network = network.calibrated(self._transform(inner))
        with warnings.catch_warnings():
            # Invalid settings are errors here; `predict` warns of unfavourable ones.
            warnings.simplefilter("ignore")
            self._streams(network)
        self.network_ = network
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Returns the class of each sample."""
        scores = self._scores(X)
        best = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Returns the softmax of the scores of each sample, of shape (N, n_classes)."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            # The logistic function is the softmax of the score and 0.
            scores = np.hstack([np.zeros_like(scores), scores])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Returns the scores of each sample, of shape (N, n_classes); of two classes, how far the second is ahead."""
        scores = self._scores(X)
        if scores.shape[1] == 1:
            return np.asarray(scores[:, 0])
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def _scores(self, X: npt.ArrayLike) -> Floats:
        check_is_fitted(self)
        x = self._transform(self._validated(X, reset=False))
        return self._streams(self.network_)(x)

    def _streams(self, network: Network) -> StreamNetwork:
        return network.streams(self.length, self.generator, self.seed, clip=True, device=self.device)

    def _validated(self, X: Any, *y: Any, reset: bool = True) -> Any:
        """Returns the arguments of the estimator, with `y` if there is one.

        Steps of a pipeline define their inputs themselves: text, missing values, columns of any type. Without them, features are numbers.
        """
        network = isinstance(self.estimator, Network)
        if not network and split_pipeline(self.estimator)[0]:
            # The first step checks inputs without columns: a list of texts, or one sample that lacks an axis.
            if reset or getattr(X, "ndim", 2) != 1:
                validate_data(self, X, *y, reset=reset, skip_check_array=True)
            return (X, column_or_1d(y[0], warn=True)) if y else X
        features = validate_data(self, X, *y, reset=reset, dtype=np.float64)
        if hasattr(X, "columns"):
            # The estimator sees the names of the columns of a data frame.
            return (X, features[1]) if y else X
        return features

    def _transform(self, x: Any) -> Floats:
        """Returns the features of the network: those after the pipeline's steps."""
        if self.estimator_ is not None:
            for step in split_pipeline(self.estimator_)[0]:
                x = step.transform(x)
        return np.asarray(x.toarray() if hasattr(x, "toarray") else x, dtype=np.float64)


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
