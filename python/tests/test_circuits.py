"""Circuits of networks: their integers, their files and their cost."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import pytest

import aleatron as al


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    return al.load_digits()


def test_trace_has_the_counts_and_scores_of_the_engine(digits: tuple[np.ndarray, np.ndarray]) -> None:
    x = digits[0][:5]
    network = al.Network.digits()
    for generator in ("lfsr", "sobol", "halton"):
        trace = network.circuit(32, generator).trace(x)
        streams = network.streams(32, generator, arithmetic="integer")
        outputs = streams.layer_outputs(x)
        layers = [stage for stage in trace["stages"] if stage["operation"] == "layer"]
        assert [stage["counts"].dtype for stage in layers] == [np.uint64, np.uint64]
        for stage, output in zip(layers, outputs):
            assert np.array_equal(stage["counts"], output["counts"])
        units = np.array(network.circuit(32, generator).to_dict()["units"])
        assert np.array_equal(layers[-1]["values"] * units, streams(x))
        # Pixels are not negative: their words are thresholds of comparators.
        assert trace["inputs"].shape == (5, 64)
        assert trace["inputs"].min() >= 0


def test_trace_of_one_sample_has_no_axis_of_samples(digits: tuple[np.ndarray, np.ndarray]) -> None:
    circuit = al.Network.digits().circuit(16)
    one, batch = circuit.trace(digits[0][0]), circuit.trace(digits[0][:1])
    assert one["inputs"].shape == (64,)
    assert np.array_equal(one["stages"][0]["counts"], batch["stages"][0]["counts"][0])


def test_description_is_the_same_as_dict_and_as_json() -> None:
    circuit = al.Network.digits().circuit(64, "sobol", lanes=8)
    description = circuit.to_dict()
    assert description == json.loads(circuit.to_json())
    assert [stage["name"] for stage in description["stages"]] == circuit.stages


def test_write_creates_every_file_it_names(tmp_path: pathlib.Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    circuit = al.Network.digits().circuit(16, output="class")
    design = circuit.write(tmp_path / "design")
    assert not any(path.startswith("tb/") for path in design)
    both = circuit.write(tmp_path / "design", digits[0][:2])
    assert {"rtl/al_lfsr.v", "circuit.json", "README.md", "tb/network_tb.v", "tb/input.hex"} <= set(both)
    assert all((tmp_path / "design" / path).is_file() for path in both)
    # One line for each threshold of both samples.
    assert len((tmp_path / "design" / "tb" / "input.hex").read_text().split()) == 128


def test_cost_follows_length_and_lanes(digits: tuple[np.ndarray, np.ndarray]) -> None:
    network, x = al.Network.digits(), digits[0][:2]
    short, long = (network.circuit(length).cost(x) for length in (16, 256))
    lanes = network.circuit(16, lanes=4).cost(x)
    # 64 words enter, the streams run, and 64 neurons are read.
    assert (short["cycles"], long["cycles"], lanes["cycles"]) == (145, 385, 64 + 16 * 17 + 64)
    assert lanes["area"] < short["area"] < long["area"]
    assert short["energy"] < long["energy"]
    assert sum(short["area_parts"].values()) == pytest.approx(short["area"])
    assert sum(short["energy_parts"].values()) == pytest.approx(short["energy"])
    assert network.circuit(16).cost(x, technology="sky130")["area"] != short["area"]


def test_settings_without_hardware_are_errors() -> None:
    network = al.Network.digits()
    with pytest.raises(ValueError, match=r"Bernoulli streams .* use a sequence"):
        network.circuit(64, "bernoulli")
    with pytest.raises(ValueError, match="lanes is 0"):
        network.circuit(64, lanes=0)
    with pytest.raises(ValueError, match="output is 'best'|output is \"best\""):
        network.circuit(64, output="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='no technology "asic"'):
        network.circuit(64).cost(technology="asic")  # type: ignore[arg-type]


def test_evaluation_has_costs_or_the_reason() -> None:
    found = al.evaluate(lengths=[16, 64], generators=["sobol", "bernoulli"], seeds=1)
    costs = {(row["generator"], row["length"]): row["cost"] for row in found.rows}
    assert costs["sobol", 64]["cycles"] == 193
    assert costs["sobol", 16]["energy"] < costs["sobol", 64]["energy"]
    assert "Bernoulli" in costs["bernoulli", 16]["reason"]
    assert al.Evaluation.from_json(found.to_json()) == found


def test_search_has_the_cost_of_its_lengths() -> None:
    found = al.find(generator="sobol", longest=64, shortest=16)
    assert found.cost is not None
    assert found.cost["area"] > 0
    assert f"{found.cost['cycles']} cycles" in str(found)
    assert al.Found.from_json(found.to_json()) == found


def test_early_termination():
    x, _ = al.load_digits()
    x = x[:40]
    network = al.Network.digits()
    circuit = network.circuit(64, "sobol", output="class", non_negative=True, early_margin=3)
    trace = circuit.trace(x)
    scores = trace["stages"][-1]["values"]
    cycles, classes = trace["early"]["cycles"], trace["early"]["classes"]
    assert set(cycles.tolist()) <= {8, 16, 32, 64}
    assert cycles.shape == classes.shape == (40,)
    full = cycles == 64
    assert (classes[full] == scores.argmax(axis=1)[full]).all()
    never = network.circuit(64, "sobol", output="class", non_negative=True, early_margin=1000).trace(x)["early"]
    assert (never["cycles"] == 64).all() and (never["classes"] == scores.argmax(axis=1)).all()
    assert "early" not in network.circuit(64, "sobol").trace(x)


@pytest.mark.parametrize("margin", [0, -1, float("nan"), float("inf")])
def test_early_termination_needs_a_margin(margin):
    with pytest.raises(ValueError, match="standard deviations"):
        al.Network.digits().circuit(64, output="class", early_margin=margin)


def test_early_termination_needs_classes():
    with pytest.raises(ValueError, match="--class"):
        al.Network.digits().circuit(64, non_negative=True, early_margin=3)
