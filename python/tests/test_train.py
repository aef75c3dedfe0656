"""Training through streams."""

from __future__ import annotations

import numpy as np
import pytest

import aleatron as al


def test_training_improves_short_streams_and_is_deterministic() -> None:
    plain = al.Network.digits("plain")
    x, y = al.load_digits("train")
    test = al.load_digits()
    trained = al.train(plain, x, y, lengths=8, epochs=3)
    before, after = (network.streams(8, "sobol").score(*test) for network in (plain, trained.network))
    assert after > before + 0.05
    assert len(trained.history) == 3 and trained.history[2].loss < trained.history[0].loss
    assert trained.before is not None and trained.before.accuracy is not None
    again = al.train(plain, np.asfortranarray(x.astype(np.float32)), y, lengths=8, epochs=3)
    # Digits are small integers, so 32-bit features are the same numbers.
    assert np.array_equal(again.network(test[0]), trained.network(test[0]))
    assert again.history == trained.history


def test_training_with_targets_lowers_the_loss() -> None:
    rng = np.random.default_rng(1)
    x = rng.random((200, 4))
    y = x @ [0.5, -0.25, 0.125, 0.75] + 0.1
    layer = al.Layer(np.full((1, 4), 0.2), np.zeros(1))
    network = al.Network([layer])
    trained = al.train(network, x, y, labels="targets", lengths=64, epochs=20, rate=0.02)
    assert trained.history[-1].loss < trained.history[0].loss / 4


def test_gradients_on_a_gpu_have_equal_losses() -> None:
    plain, train = al.Network.digits("plain"), al.load_digits("train")

    def loss(device: str) -> float:
        found = al.train(plain, *train, through="float", epochs=1, gradient_device=device)
        return float(found.history[0].loss)

    cpu, gpu = loss("cpu"), loss("gpu:llvmpipe")
    # A few hundred steps in float32, in another order of additions.
    assert abs(cpu - gpu) < 1e-5 * cpu
    with pytest.raises(ValueError, match="tpu"):
        loss("tpu")


def test_progress_and_checkpoint(tmp_path) -> None:
    calls: list[tuple[int, int]] = []
    x, y = al.load_digits("train")
    arguments = {"lengths": [16, 32], "generators": ["bernoulli", "lfsr"], "epochs": 2, "batch": 128}
    first = al.train(
        None, x[:256], y[:256], **arguments, checkpoint=tmp_path / "state", progress=lambda *a: calls.append(a[:2])
    )
    assert calls[-1][0] == calls[-1][1] == len(calls)
    resumed = al.train(None, x[:256], y[:256], **arguments, checkpoint=tmp_path / "state")
    assert resumed.history == first.history

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    with pytest.raises(Stop):
        al.train(None, x, y, progress=stop)


def test_training_with_faults_makes_a_network_tolerant() -> None:
    train, (x, y) = al.load_digits("train"), al.load_digits()
    rate, site = 0.05, "activations"

    def trained(faults: float | None, fault_site: str | None) -> al.Network:
        found = al.train(None, *train, lengths=32, epochs=20, validation=0.0, faults=faults, fault_site=fault_site)
        return found.network

    def accuracy(network: al.Network | None) -> float:
        found = al.evaluate(network, x, y, lengths=32, generators="sobol", seeds=10, faults=rate, fault_site=site)
        return float(found.rows[0]["accuracy"]["mean"])

    # Ten circuits of 360 images: the standard error of a difference is below half a point.
    tolerant = accuracy(trained(rate, site))
    assert tolerant > accuracy(None) + 0.01
    assert tolerant > accuracy(trained(None, None)) + 0.01


def test_search_with_training_finds_shorter_streams_and_resumes(tmp_path) -> None:
    plain = al.Network.digits("plain")
    x, y = al.load_digits("train")
    asked = {"find": 2.0, "lengths": [4, 32], "epochs": 1, "validation": 0.25}
    calls: list[tuple[int, int, str, int]] = []
    whole = al.train(plain, x[:600], y[:600], **asked, progress=lambda *at: calls.append(at[:4]))  # type: ignore[arg-type]
    found, fixed = whole.found, whole.without_training
    assert found is not None and fixed is not None and found.is_good
    assert found.bit_macs < fixed.bit_macs and found.bar == fixed.bar
    assert calls[-1] == (len(found.trials), 100, "sobol", 32) and len(whole.history) == 1
    assert al.Found.from_json(found.to_json()) == found and found.trials[1].start == 0
    streams = whole.network.streams(32, "sobol", layers=found.settings)
    assert streams.lengths == list(found.lengths)
    # One trial, and the others after it.
    file = tmp_path / "state"
    first = al.train(plain, x[:600], y[:600], **asked, budget=1, checkpoint=file).found  # type: ignore[arg-type]
    assert first is not None and first.trials == found.trials[:1] and not first.is_finished
    resumed = al.train(plain, x[:600], y[:600], **asked, checkpoint=file)  # type: ignore[arg-type]
    assert resumed.found == found and np.array_equal(resumed.network(x[:9]), whole.network(x[:9]))


@pytest.mark.parametrize(
    "arguments",
    [
        {"find": -1.0, "lengths": [4, 8]},
        {"find": 1.0, "lengths": [4, 8], "validation": 0.0},
        {"find": 1.0, "lengths": [4, 8], "generators": ["sobol", "halton"]},
        {"find": 1.0, "lengths": [4, 8], "through": "noise"},
        {"find": 1.0, "lengths": [4, 8], "budget": 0},
        {"through": "air"},
        {"faults": 0.1, "through": "noise"},
        {"faults": 0.7},
        {"faults": [0.01, 0.05]},
        {"faults": []},
        {"faults": 0.1, "fault_site": "roof"},
        {"optimizer": "newton"},
        {"lengths": 0},
        {"lengths": []},
        {"batch": 0},
        {"rate": float("nan")},
        {"validation": 1.0},
        {"clip_norm": -1.0},
        {"generators": "dice"},
        {"shift": 3},
    ],
)
def test_invalid_options_are_value_errors(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        al.train(**arguments)  # type: ignore[arg-type]


def test_labels_beyond_the_classes_are_errors() -> None:
    x, y = al.load_digits("train")
    with pytest.raises(ValueError, match="10 classes"):
        al.train(None, x, y + 5)
