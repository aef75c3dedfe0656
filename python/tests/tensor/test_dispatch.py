"""scikit-learn and SciPy compute with tensors, through the array API standard."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from standard import DEVICES

PROGRAM = """
import warnings
import numpy as np
import scipy.stats, scipy.special
import sklearn
from sklearn.decomposition import PCA
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler
import aleatron.tensor as at

device = {device!r}
rng = np.random.default_rng(0)
# Values that both float types hold.
x = rng.integers(-64, 64, (40, 5)) / 16.0
y = x @ np.array([1.0, -2.0, 0.5, 3.0, 0.25]) + rng.integers(-8, 8, 40) / 16.0
tensor, target = at.asarray(x, device=device), at.asarray(y, device=device)
unit = np.finfo(tensor.dtype.numpy).eps


def close(got, exact, factor=1e3):
    values = np.asarray(got, dtype=np.float64)
    assert values.shape == np.shape(exact), (values.shape, np.shape(exact))
    assert np.abs(values - exact).max() <= factor * unit * max(1.0, np.abs(exact).max()), (values, exact)


with sklearn.config_context(array_api_dispatch=True):
    for scaler in (MinMaxScaler, StandardScaler):
        got = scaler().fit(tensor).transform(tensor)
        assert isinstance(got, at.Tensor) and got.device == tensor.device, scaler
        close(got, scaler().fit(x).transform(x))
    for solver in ("full", "covariance_eigh"):
        model = PCA(n_components=2, svd_solver=solver).fit(tensor)
        plain = PCA(n_components=2, svd_solver=solver).fit(x)
        assert isinstance(model.components_, at.Tensor)
        close(model.explained_variance_, plain.explained_variance_)
        close(model.transform(tensor), plain.transform(x))
    labels, guesses = rng.integers(0, 3, 40), rng.integers(0, 3, 40)
    exact = accuracy_score(labels, guesses)
    got = accuracy_score(at.asarray(labels, device=device), at.asarray(guesses, device=device))
    # The mean of truth values is of the default float type.
    assert abs(got - exact) <= np.finfo(np.float32).eps
    close(r2_score(target, target + 0.25), r2_score(y, y + 0.25))

got = scipy.stats.zscore(tensor)
assert isinstance(got, at.Tensor)
close(got, scipy.stats.zscore(x))
got = scipy.special.logsumexp(tensor, axis=1)
assert isinstance(got, at.Tensor)
close(got, scipy.special.logsumexp(x, axis=1))
if device == "cpu":
    # On other devices SciPy mixes arrays of the default device into this function.
    got = scipy.stats.pearsonr(tensor[:, 0], target)
    close(got.statistic, scipy.stats.pearsonr(x[:, 0], y).statistic)
print("good")
"""


@pytest.mark.parametrize("device", DEVICES)
def test_scikit_learn_and_scipy_compute_with_tensors(device: str) -> None:
    # SciPy decides when it is imported.
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(device=device)],
        capture_output=True,
        text=True,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        timeout=300,
    )
    assert done.stdout == "good\n", done.stderr
