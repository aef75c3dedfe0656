"""Networks of scikit-learn's estimators, and the classifier that runs them as streams."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit  # type: ignore[import-untyped]
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_wine, make_multilabel_classification
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import aleatron as al

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]

# These tests do not depend on the quality of the trained models.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mlp(*sizes: int, **settings: Any) -> MLPClassifier:
    return MLPClassifier(sizes, **{"solver": "lbfgs", "max_iter": 60, "random_state": 0, **settings})


@pytest.fixture(scope="module")
def wine() -> Arrays:
    x, y = load_wine(return_X_y=True)
    return x, y


@pytest.fixture(scope="module")
def cancer() -> Arrays:
    x, y = load_breast_cancer(return_X_y=True)
    return x, y


def logits(model: Any, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The scores of an MLP, layer by layer."""
    for w, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        x = x @ w + b
        x = np.maximum(x, 0) if model.activation == "relu" else x
    return np.asarray(x @ model.coefs_[-1] + model.intercepts_[-1])


# The unit roundoff of 32-bit floats, in which networks compute.
UNIT = 2.0**-24


def bound(model: Any, x: npt.NDArray[Any], scaler: Any = None) -> npt.NDArray[Any]:
    """Bounds the rounding error of the scores in 32 bits, to first order.

    A sum of n products rounds its weights, products and n additions, and the bias and its addition: n + 4 times at most. A scaler
    a x + c is part of the first sum, or comes before it: its rounding errors grow with |a x| + |c|. Rectifiers never enlarge an error.
    """
    if hasattr(model, "coefs_"):
        layers = list(zip(model.coefs_, model.intercepts_))
    else:
        layers = [(model.coef_.T, np.broadcast_to(model.intercept_, len(model.coef_)))]
    steps = len(layers[0][0]) + 4
    if scaler is None:
        error = steps * UNIT * np.abs(x)
    else:
        constant = scaler.transform(np.zeros((1, x.shape[1])))
        slope = scaler.transform(np.ones((1, x.shape[1]))) - constant
        error = steps * UNIT * (np.abs(slope * x) + np.abs(constant))
        x = scaler.transform(x)
    for w, b in layers:
        error = error @ np.abs(w) + (len(w) + 4) * UNIT * ((np.abs(x) + error) @ np.abs(w) + np.abs(b))
        x = x @ w + b
        x = np.maximum(x, 0) if getattr(model, "activation", "") == "relu" else x
    return np.asarray(error)


@pytest.mark.parametrize("activation", ["relu", "identity"])
@pytest.mark.parametrize("sizes", [(8,), (8, 6), (8, 6, 4)])
def test_an_mlp_is_the_same_network(wine: Arrays, activation: str, sizes: tuple[int, ...]) -> None:
    x, y = StandardScaler().fit_transform(wine[0]), wine[1]
    model = mlp(*sizes, activation=activation).fit(x, y)
    network = al.Network.from_sklearn(model, "wine", check=x)
    assert (np.abs(network(x) - logits(model, x)) <= bound(model, x)).all()
    hidden = ["hidden"] if len(sizes) == 1 else [f"hidden{k + 1}" for k in range(len(sizes))]
    assert [layer.name for layer in network.layers] == [*hidden, "output"]
    assert network.name == "wine"


@pytest.mark.parametrize(
    "model", [mlp(6), LogisticRegression(), LogisticRegression(fit_intercept=False)], ids=["mlp", "logistic", "no-bias"]
)
def test_two_classes_are_one_score(cancer: Arrays, model: Any) -> None:
    x, y = StandardScaler().fit_transform(cancer[0]), cancer[1]
    model = clone(model).fit(x, y)
    network = al.Network.from_sklearn(model, check=x)
    assert (network.n_outputs, network.n_classes) == (1, 2)
    assert (network.predict(x) == model.predict(x)).all()
    # The slope of the logistic function is at most 1/4.
    errors = np.abs(expit(network(x)[:, 0]) - model.predict_proba(x)[:, 1])
    assert (errors <= bound(model, x)[:, 0] / 4 + 1e-15).all()


def test_logistic_regression_has_the_scores_of_its_decision_function(wine: Arrays) -> None:
    x, y = StandardScaler().fit_transform(wine[0]), wine[1]
    model = LogisticRegression().fit(x, y)
    assert (np.abs(al.Network.from_sklearn(model)(x) - model.decision_function(x)) <= bound(model, x)).all()


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_network_of_a_regressor_has_its_predictions(wine: Arrays, n_outputs: int) -> None:
    x, targets = wine[0][:, 2:], wine[0][:, :n_outputs]
    model = make_pipeline(StandardScaler(), MLPRegressor(hidden_layer_sizes=[6], solver="lbfgs", max_iter=60, random_state=0))
    model.fit(x, targets if n_outputs > 1 else targets[:, 0])
    network = al.Network.from_sklearn(model, check=x)
    errors = np.abs(network(x) - model.predict(x).reshape(-1, n_outputs))
    assert (errors <= bound(model[-1], x, model[:-1])).all()


SCALERS = [
    [StandardScaler()],
    [StandardScaler(with_mean=False)],
    [StandardScaler(with_std=False)],
    [StandardScaler(with_mean=False, with_std=False)],
    [MinMaxScaler()],
    [MinMaxScaler((-1, 3))],
    [MaxAbsScaler()],
    [RobustScaler()],
    [RobustScaler(with_centering=False)],
    [RobustScaler(with_scaling=False)],
    [MinMaxScaler((-1, 3)), "passthrough", StandardScaler()],
    [make_pipeline(RobustScaler(), MaxAbsScaler()), MinMaxScaler()],
]


@pytest.mark.parametrize("scalers", SCALERS, ids=str)
def test_scalers_become_part_of_the_network(wine: Arrays, scalers: list[Any]) -> None:
    x, y = wine
    model = make_pipeline(*scalers, mlp(6, max_iter=20)).fit(x, y)
    network = al.Network.from_sklearn(model, check=x)
    errors = np.abs(network(x) - logits(model[-1], model[:-1].transform(x)))
    assert (errors <= bound(model[-1], x, model[:-1])).all()
    assert [layer.name for layer in network.layers] == ["hidden", "output"]


def test_a_pipeline_within_a_pipeline(wine: Arrays) -> None:
    x, y = wine
    model = make_pipeline(MinMaxScaler(), make_pipeline(StandardScaler(), LogisticRegression())).fit(x, y)
    network = al.Network.from_sklearn(model, check=x)
    scaler = make_pipeline(model[0], model[1][0])
    assert (np.abs(network(x) - model.decision_function(x)) <= bound(model[1][1], x, scaler)).all()


def test_a_pipeline_with_scalers_is_as_accurate_as_the_classifier(wine: Arrays) -> None:
    x, y = wine
    model = make_pipeline(StandardScaler(), mlp(12)).fit(x, y)
    # Warnings are errors here: no layer's inputs saturate or use a small part of their interval.
    network = al.Network.from_sklearn(model).calibrated(x)
    scaled = al.Network.from_sklearn(model[-1]).calibrated(model[:-1].transform(x))
    assert network.layers[0].input_scale == pytest.approx(scaled.layers[0].input_scale, rel=1e-5)
    streams = network.streams(256, "sobol", clip=True, device="cpu").score(x, y)
    assert abs(streams - al.StreamClassifier(model, length=256).fit(x).score(x, y)) < 0.02
    assert streams > 0.95


def test_inputs_that_do_not_fit_their_interval_are_warnings(wine: Arrays) -> None:
    x, y = wine
    network = al.Network.from_sklearn(LogisticRegression(max_iter=50).fit(x, y))
    # Proline has values up to 1680, and most other features less than a hundredth of that.
    with pytest.warns(UserWarning, match='layer "output": .* % of its inputs use less than 3.1 % .*scale the features'):
        calibrated = network.calibrated(x)
    with pytest.warns(UserWarning, match="scale the features"):
        calibrated.forward_streams(x, 16, "sobol")
    with pytest.warns(UserWarning, match='layer "output": .* % of its inputs saturate at the input scale 1'):
        network.forward_streams(x, 16, "sobol", clip=True)
    small = al.Network.from_sklearn(LogisticRegression().fit(x / 1e6, y))
    with pytest.warns(UserWarning, match='layer "output": its inputs use 0.2 % of the interval'):
        small.forward_streams(x / 1e6, 16, "sobol")


def test_unsupported_estimators_are_errors(wine: Arrays) -> None:
    x, y = wine
    for activation in ["tanh", "logistic"]:
        with pytest.raises(ValueError, match=f"MLPClassifier has the activation '{activation}'"):
            al.Network.from_sklearn(mlp(4, activation=activation, max_iter=2).fit(x, y))
    with pytest.raises(TypeError, match="estimator is a SVC; networks are made of MLPClassifier"):
        al.Network.from_sklearn(SVC().fit(x, y))
    with pytest.raises(TypeError, match="the pipeline has a PCA; networks support StandardScaler"):
        al.Network.from_sklearn(make_pipeline(PCA(3), LogisticRegression()).fit(x, y))
    with pytest.raises(ValueError, match="MinMaxScaler has clip=True"):
        al.Network.from_sklearn(make_pipeline(MinMaxScaler(clip=True), LogisticRegression()).fit(x, y))
    labels = make_multilabel_classification(30, 5, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="several labels"):
        al.Network.from_sklearn(mlp(4, max_iter=2).fit(*labels))
    with pytest.raises(ValueError, match="one class only"):
        al.Network.from_sklearn(mlp(4, max_iter=2).fit(x, np.zeros(len(x))))
    poisson = MLPRegressor(loss="poisson", hidden_layer_sizes=[4], max_iter=2, random_state=0).fit(x / 2000, y)
    with pytest.raises(ValueError, match="MLPRegressor has the output activation 'exp'"):
        al.Network.from_sklearn(poisson)
    for model in [mlp(4), make_pipeline(StandardScaler(), LogisticRegression())]:
        with pytest.raises(NotFittedError):
            al.Network.from_sklearn(model)
    with pytest.raises(TypeError, match="estimator is a NoneType"):
        al.Network.from_sklearn(None)


class Contrary(LogisticRegression):  # type: ignore[misc]
    """Predicts classes that contradict its scores."""

    def predict(self, X: Any) -> Any:
        return self.classes_[1 - np.searchsorted(self.classes_, super().predict(X))]


class Shifted(MLPRegressor):  # type: ignore[misc]
    """Predicts a little more than its weights imply."""

    def predict(self, X: Any) -> Any:
        return super().predict(X) * (1 + 1e-3)


def test_check_finds_a_network_that_disagrees(cancer: Arrays) -> None:
    x, y = StandardScaler().fit_transform(cancer[0]), np.array(["bad", "good"])[cancer[1]]
    model = Contrary().fit(x, y)
    first = al.Network.from_sklearn(model).predict(x)[0]
    names = ["bad", "good"]
    with pytest.raises(ValueError, match=f"sample 0: the network predicts {names[first]}, the estimator {names[1 - first]}"):
        al.Network.from_sklearn(model, check=x)
    shifted = Shifted(hidden_layer_sizes=[4], solver="lbfgs", max_iter=20, random_state=0).fit(x, x[:, 0])
    with pytest.raises(ValueError, match=r"sample \d+, output 0: the network gives"):
        al.Network.from_sklearn(shifted, check=x)
    with pytest.raises(ValueError, match=r"check has shape \(30,\), not \(n_samples, 30\)"):
        al.Network.from_sklearn(model, check=x[0])


# Bits of Bernoulli streams depend on a sample's position in the batch, as every sample has streams of its own.
POSITIONS = dict.fromkeys(
    ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
    "a sample's Bernoulli streams depend on its position in the batch",
)


def failing(classifier: al.StreamClassifier) -> dict[str, str]:
    return POSITIONS if classifier.generator == "bernoulli" else {}


@parametrize_with_checks(  # type: ignore[untyped-decorator, unused-ignore]
    [
        al.StreamClassifier(LogisticRegression()),
        al.StreamClassifier(make_pipeline(StandardScaler(), mlp(8)), length=1024),
        al.StreamClassifier(LogisticRegression(), generator="bernoulli"),
    ],
    expected_failed_checks=failing,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("generator", ["sobol", "bernoulli"])
@pytest.mark.parametrize("model", [mlp(12), LogisticRegression()], ids=["mlp", "logistic"])
def test_predictions_are_those_of_the_calibrated_network(wine: Arrays, model: Any, generator: str) -> None:
    x, names = wine[0], np.array(["red", "rose", "white"])
    pipeline = make_pipeline(StandardScaler(), PCA(8, random_state=0), model)
    classifier = al.StreamClassifier(pipeline, length=512, generator=generator, seed=7).fit(x[::2], names[wine[1][::2]])
    own = clone(pipeline).fit(x[::2], names[wine[1][::2]])
    inputs = own[:-1].transform(x)
    network = al.Network.from_sklearn(own[-1]).calibrated(inputs[::2])
    scores = network.forward_streams(inputs, 512, generator, 7, clip=True, device="cpu")
    assert (classifier.decision_function(x) == scores).all()
    assert (classifier.predict(x) == names[scores.argmax(axis=1)]).all()
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(classifier.predict_proba(x), shares, rtol=1e-9)
    assert classifier.classes_.tolist() == names.tolist()
    assert classifier.score(x, names[wine[1]]) == np.mean(classifier.predict(x) == names[wine[1]])


def test_long_streams_come_near_the_estimator(wine: Arrays, cancer: Arrays) -> None:
    for x, y in [wine, cancer]:
        pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
        error = []
        for length in [64, 4096]:
            classifier = al.StreamClassifier(pipeline, length=length).fit(x)
            error.append(np.abs(classifier.predict_proba(x) - pipeline.predict_proba(x)).mean())
        assert error[1] < error[0] / 4
        assert (classifier.predict(x) == pipeline.predict(x)).mean() > 0.98


def test_cross_validation_fits_the_estimator_in_each_fold(wine: Arrays) -> None:
    x, y = wine
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    # A clone of a fitted estimator is not fitted, so no fold has seen its test samples.
    streams = cross_val_score(al.StreamClassifier(pipeline, length=2048), x, y, cv=3, error_score="raise")
    assert (streams >= cross_val_score(pipeline, x, y, cv=3) - 0.05).all()


def test_grid_search_over_lengths_and_the_estimators_own_settings(wine: Arrays) -> None:
    x, y = wine
    classifier = al.StreamClassifier(make_pipeline(StandardScaler(), LogisticRegression()))
    grid = {"length": [16, 1024], "estimator__logisticregression__C": [1e-6, 1.0]}
    search = GridSearchCV(classifier, grid, cv=3, error_score="raise").fit(x, y)
    assert search.best_params_["estimator__logisticregression__C"] == 1.0
    assert search.best_estimator_.network_.n_features == 13
    assert search.score(x, y) > 0.9


def test_fitted_estimator_is_unchanged(wine: Arrays) -> None:
    x, y = wine
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    before = pickle.dumps(pipeline)
    classifier = al.StreamClassifier(pipeline).fit(x[:20])
    assert classifier.estimator_ is pipeline and pickle.dumps(pipeline) == before
    assert classifier.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="y has the class .*5.*, which is none of the classes"):
        classifier.fit(x, np.where(y == 2, 5, y))
    unfitted = al.StreamClassifier(LogisticRegression())
    unfitted.fit(x[:, :3] / 10, y)
    with pytest.raises(NotFittedError):
        unfitted.estimator.predict(x[:, :3])


def test_a_network_is_calibrated(wine: Arrays) -> None:
    x, y = StandardScaler().fit_transform(wine[0]), wine[1]
    network = al.Network.from_sklearn(LogisticRegression().fit(x, y))
    classifier = al.StreamClassifier(network, length=2048).fit(x)
    assert classifier.network_ == network.calibrated(x)
    assert classifier.score(x, y) > 0.95
    copy = pickle.loads(pickle.dumps(classifier))
    assert (copy.decision_function(x) == classifier.decision_function(x)).all()
    with pytest.raises(ValueError, match="none of the classes"):
        classifier.fit(x, y + 1)
    with pytest.raises(ValueError, match=r"x has shape \(178, 4\); expected \(N, 13\)"):
        al.StreamClassifier(network).fit(x[:, :4], y)
    assert len(cross_val_score(al.StreamClassifier(network), x, y, cv=3, error_score="raise")) == 3


def test_data_frames_keep_their_names(wine: Arrays) -> None:
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(wine[0], columns=[f"f{k}" for k in range(13)])
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, wine[1])
    # Warnings are errors here: the pipeline would warn of features without names.
    classifier = al.StreamClassifier(pipeline).fit(x, wine[1])
    plain = al.StreamClassifier(clone(pipeline)).fit(wine[0], wine[1])
    assert (classifier.predict(x) == plain.predict(wine[0])).all()


def test_pipeline_steps_receive_raw_inputs(wine: Arrays) -> None:
    """Text, missing values, columns of names: inputs reach the first step unread."""
    pandas = pytest.importorskip("pandas")
    x, y = wine
    documents = np.array(["good red", "bad white", "good", "white bad bad"] * 5)
    labels = np.array(["p", "n", "p", "n"] * 5)
    missing = x.copy()
    missing[::7, 3] = np.nan
    named = pandas.DataFrame({"alcohol": x[:, 0], "colour": np.where(x[:, 9] > 5, "dark", "light")})
    columns = ColumnTransformer([("numbers", StandardScaler(), ["alcohol"]), ("names", OneHotEncoder(), ["colour"])])
    for samples, classes, steps in [
        (documents, labels, [TfidfVectorizer()]),
        (documents.tolist(), labels, [TfidfVectorizer()]),
        (missing, y, [SimpleImputer(), StandardScaler()]),
        (named, y, [columns]),
    ]:
        model = make_pipeline(*steps, LogisticRegression()).fit(samples, classes)
        classifier = al.StreamClassifier(clone(model), length=4096).fit(samples, classes)
        # Streams of 4096 bits may turn a sample between two classes, here one in fifty.
        assert (classifier.predict(samples) == model.predict(samples)).mean() > 0.98
        ready = al.StreamClassifier(model, length=4096).fit(samples)
        assert (ready.predict(samples) == classifier.predict(samples)).all()
        cross_val_score(classifier, samples, classes, cv=2, error_score="raise")
    # Without such a step, features are finite numbers.
    with pytest.raises(ValueError, match="NaN"):
        al.StreamClassifier(LogisticRegression()).fit(missing, y)


def test_regressor_is_not_a_classifier(wine: Arrays) -> None:
    with pytest.raises(TypeError, match="estimator is a MLPRegressor, not a classifier"):
        al.StreamClassifier(MLPRegressor(hidden_layer_sizes=[4], max_iter=2, solver="lbfgs")).fit(*wine)


@pytest.mark.filterwarnings("ignore:layer .*scale the features")
def test_bad_settings_are_errors(wine: Arrays) -> None:
    x, y = wine
    wrong: list[dict[str, Any]] = [{"length": 0}, {"generator": "dice"}, {"device": "abacus"}]
    for settings in wrong:
        with pytest.raises(ValueError):
            al.StreamClassifier(LogisticRegression(max_iter=5), **settings).fit(x, y)
        classifier = al.StreamClassifier(LogisticRegression(max_iter=5)).fit(x, y).set_params(**settings)
        with pytest.raises(ValueError):
            classifier.predict(x)


def test_scikit_learn_is_optional() -> None:
    program = """
import sys
sys.modules["sklearn"] = None
from aleatron import *
import aleatron as al
try:
    al.StreamClassifier(None)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("aleatron.StreamClassifier needs scikit-learn"), done.stderr


def test_importing_aleatron_does_not_import_scikit_learn() -> None:
    program = "import sys, aleatron; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_a_convolutional_network_as_a_classifier() -> None:
    x, y = al.load_digits()
    train, labels = al.load_digits("train")
    network = al.Network.digits("cnn").with_binary("conv1")
    classifier = al.StreamClassifier(network, length=128)
    with pytest.raises(NotFittedError):
        classifier.predict(x)
    classifier.fit(train)
    assert classifier.network_ == network.calibrated(train) and classifier.estimator_ is None
    streams = classifier.network_.streams(128, "sobol", clip=True)
    assert np.array_equal(classifier.predict(x), streams.predict(x))
    assert classifier.score(x, y) == streams.score(x, y) > 0.9
    assert np.allclose(classifier.predict_proba(x).sum(axis=1), 1.0)
    copied = clone(classifier).set_params(length=16).fit(train, labels)
    assert copied.network_ == classifier.network_
    assert pickle.loads(pickle.dumps(classifier)).score(x, y) == classifier.score(x, y)
    search = GridSearchCV(classifier, {"length": [16, 128]}, cv=2).fit(train[:200], labels[:200])
    assert search.best_params_ == {"length": 128}
    with pytest.raises(ValueError, match="10.*none of the classes"):
        classifier.fit(train[:3], [0, 1, 10])
    with pytest.raises(ValueError, match="63"):
        classifier.predict(x[:, :63])
    with pytest.raises(ValueError, match="expected .N, 64."):
        al.StreamClassifier(network).fit(train[:, :63])
