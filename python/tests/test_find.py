"""The search for the shortest streams that are good enough."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import aleatron as al

X, Y = al.load_digits()
CNN = al.Network.digits("cnn").calibrated(al.load_digits("train")[0])


@pytest.mark.parametrize("network", [al.Network.digits(), CNN])
def test_lengths_are_good_enough_and_no_longer_than_needed(network: al.Network) -> None:
    found = al.find(network, X, Y, loss=1.0, generator="sobol", longest=64, shortest=16)
    assert found.is_finished and found.is_good and found.bit_macs < found.bit_macs_before == 64 * sum(found.products)
    assert found.bit_macs == sum(n * length for n, length in zip(found.products, found.lengths))
    assert found.float_score == network.score(X, Y) and abs(found.bar - (found.float_score - 0.01)) < 1e-8
    # The score is that of the network with these lengths, in which half of any would be too short, or shorter than permitted.
    streams = network.streams(64, "sobol", 0, layers=found.settings)
    assert streams.score(X, Y) == found.score
    tried = {trial.lengths: trial.score for trial in found.trials}
    assert tried[found.lengths] == found.score and len(tried) == len(found.trials)
    for k, length in enumerate(found.lengths):
        assert length == 16 or any(t[k] == length // 2 and a < found.bar for t, a in tried.items())
    assert str(found).count("\n") == 5 + len(found.layers)


def test_searches_resume(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "find.json"
    asked = {"loss": 2.0, "generator": "sobol", "longest": 64, "shortest": 8}
    whole = al.find(CNN, X.reshape(-1, 1, 8, 8), Y, **asked)  # type: ignore[arg-type]

    def stop(done: int, total: int, generator: str, length: int, seed: int) -> None:
        assert (total, generator, length, seed) == (100, "sobol", 64, 0)
        if done == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        al.find(CNN, X, Y, checkpoint=file, progress=stop, **asked)  # type: ignore[arg-type]
    part = al.Found.from_json(file.read_text())
    assert part.trials == whole.trials[: len(part.trials)] and not part.is_finished
    done: list[int] = []
    found = al.find(CNN, X, Y, checkpoint=file, progress=lambda *at: done.append(at[0]), **asked)  # type: ignore[arg-type]
    assert found == whole == al.Found.from_json(file.read_text())
    assert sorted(set(done)) == list(range(len(part.trials), len(whole.trials) + 1)) and done == sorted(done)
    with pytest.raises(ValueError, match="the checkpoint differs in"):
        al.find(al.Network.digits(), X, Y, checkpoint=file, **asked)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the checkpoint differs in the generator"):
        al.find(CNN, X, Y, checkpoint=file, **{**asked, "generator": "lfsr"})  # type: ignore[arg-type]


def test_search_of_the_program_is_read(tmp_path: pathlib.Path) -> None:
    arguments = ["eval", "--find", "1", "--generators", "sobol", "--lengths", "16,64", "--report", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "aleatron", *arguments], check=True, capture_output=True)
    read = al.Found.from_json((tmp_path / "find.json").read_text())
    assert "--find" in read.provenance[0]["command"] and al.Found.from_json(read.to_json()).provenance == read.provenance
    assert read == al.find(loss=1.0, generator="sobol", longest=64, shortest=16)


def test_a_budget_ends_a_search() -> None:
    found = al.find(generator="sobol", longest=64, budget=1)
    assert not found.is_finished and not found.is_good and len(found.trials) == 1
    assert al.find(loss=0.0, generator="sobol", longest=8, shortest=8).lengths == (8, 8)


def test_invalid_arguments_are_errors() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"loss": -1.0}, "the permitted loss is -1"),
        ({"loss": float("nan")}, "the permitted loss is NaN"),
        ({"longest": 4, "shortest": 8}, "lengths to search"),
        ({"shortest": 0}, "lengths to search"),
        ({"longest": -1}, "longest is -1, not in"),
        ({"budget": 0}, "trials"),
        ({"generator": "dice"}, "dice"),
        ({"layers": {"no": {"generator": "sobol"}}}, 'no layer "no"'),
        ({"layers": {"hidden": {"length": 8}}}, 'layer "hidden" has the length 8, which the search would replace'),
        ({"y": None}, "both x and y"),
        ({"y": np.full(len(Y), 10)}, "class"),
    ]
    for asked, said in cases:
        with pytest.raises(ValueError, match=said):
            al.find(**{"network": CNN, "x": X, "y": Y, "generator": "sobol", **asked})
    with pytest.raises(TypeError, match="network is a str, not an aleatron.Network"):
        al.find("network", X, Y)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="search"):
        al.Found.from_json("{}")
    with pytest.raises(ValueError, match="layers that run as streams"):
        al.find(CNN.with_binary(CNN.layer_names), X, Y, generator="sobol")


def test_search_of_a_regression_loses_at_most_a_part_of_r_squared() -> None:
    network = al.Network.digits()
    x = X[:100]
    found = al.find(network, x, network(x), labels="targets", loss=2.0, generator="sobol", longest=512, shortest=32)
    assert found.measure == "r_squared" and found.float_score == 1.0 and found.is_good
    outputs, exact = network.forward_streams(x, 512, "sobol", layers=found.settings), network(x)
    r_squared = 1 - ((outputs - exact) ** 2).sum() / ((exact - exact.mean(axis=0)) ** 2).sum()
    assert found.score == pytest.approx(float(r_squared), rel=1e-9) and "R² " in str(found)
    assert al.Found.from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="not classes or targets"):
        al.find(network, x, network(x), labels="numbers")  # type: ignore[arg-type]
