"""The bits are those of the specification: the known answers, and a reference in plain Python."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aleatron as al

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "crates/aleatron-core/golden" / "streams.kat"


def answers(kind: str) -> list[tuple[list[str], list[str]]]:
    lines = [line.split(" = ") for line in GOLDEN.read_text().splitlines() if line.startswith(kind + " ")]
    return [(question.split()[1:], answer.split()) for question, answer in lines]


@pytest.mark.parametrize(("question", "answer"), answers("philox"))
def test_reference_draws_the_published_words(question: list[str], answer: list[str]) -> None:
    c0, c1, c2, c3, seed = (int(word, 16) for word in question)
    assert reference.philox((c0, c1, c2, c3), seed) == tuple(int(word, 16) for word in answer)


@pytest.mark.parametrize(("question", "answer"), answers("encode"))
def test_known_streams(question: list[str], answer: list[str]) -> None:
    p, length, seed = float(question[0]), int(question[1]), int(question[2], 16)
    unit, row, domain = (int(word) for word in question[3:])
    expected = [int(word, 16) for word in answer]
    assert reference.words(reference.encode(p, length, seed, unit, row, domain)) == expected
    if domain == reference.INPUT:
        probabilities = np.zeros((row + 1, unit + 1))
        probabilities[row, unit] = p
        assert al.encode(probabilities, length, seed)[row, unit].tolist() == expected


@pytest.mark.parametrize(("question", "answer"), answers("weight"))
def test_known_weights(question: list[str], answer: list[str]) -> None:
    seed, neuron, unit = int(question[0], 16), int(question[1]), int(question[2])
    layer = al.DenseLayer(unit + 1, neuron + 1, length=1, seed=seed)
    assert layer.weights[neuron, unit] == float(answer[0]) == reference.weight(seed, neuron, unit)


@pytest.mark.parametrize(("question", "answer"), answers("dense"))
def test_known_counts(question: list[str], answer: list[str]) -> None:
    n_inputs, n_neurons, length = (int(word) for word in question[:3])
    seed, input_seed, sample = int(question[3], 16), int(question[4], 16), int(question[5])
    x = [((7 * i + 3) % 11) / 10 for i in range(n_inputs)]
    layer = al.DenseLayer(n_inputs, n_neurons, length, seed)
    batch = layer.counts(np.tile(x, (sample + 1, 1)), seed=input_seed)
    assert batch[sample].tolist() == [int(word) for word in answer]


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_layers_against_the_reference(data: st.DataObject) -> None:
    n_inputs, n_neurons = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    length, bipolar = data.draw(st.sampled_from([1, 31, 64, 65, 100])), data.draw(st.booleans())
    seed, input_seed = data.draw(st.integers(0, 2**64 - 1)), data.draw(st.integers(0, 2**64 - 1))
    value = st.floats(-1 if bipolar else 0, 1)
    vector = st.lists(value, min_size=n_inputs, max_size=n_inputs)
    weights = data.draw(st.lists(vector, min_size=n_neurons, max_size=n_neurons))
    batch = data.draw(st.lists(vector, min_size=1, max_size=2))
    polarity = "bipolar" if bipolar else "unipolar"
    layer = al.DenseLayer.from_weights(weights, length, seed, polarity)
    counts = layer.counts(batch, input_seed)
    for row, x in enumerate(batch):
        expected = reference.dense_counts(weights, x, length, seed, input_seed, row, bipolar)
        assert counts[row].tolist() == expected
    values = (2 * counts.astype(float) - n_inputs * length) / length if bipolar else counts / length
    assert (layer(batch, input_seed) == values).all()
    streams = al.encode(batch, length, input_seed, polarity=polarity)
    assert (layer.counts_encoded(streams) == counts).all()
    assert (layer.forward_encoded(streams) == values).all()
    full = al.SparseLayer.from_weights(weights, np.ones((n_neurons, n_inputs), bool), length, seed, polarity)
    assert (full.counts(batch, input_seed) == counts).all()


@pytest.mark.parametrize("polarity", ["unipolar", "bipolar"])
def test_error_falls_with_length(polarity: str) -> None:
    rng = np.random.default_rng(0)
    low = 0.0 if polarity == "unipolar" else -1.0
    weights, x = rng.uniform(low, 1, (16, 64)), rng.uniform(low, 1, 64)

    def rms(length: int) -> float:
        layer = al.DenseLayer.from_weights(weights, length, polarity=polarity)
        errors = [layer(x, seed=seed) - weights @ x for seed in range(8)]
        return float(np.sqrt(np.mean(np.square(errors))))

    # The noise of a sum of products p q of independent streams, and no floor under it.
    if polarity == "unipolar":
        variance = (weights * x * (1 - weights * x)).sum(axis=1).mean()
    else:
        variance = (1 - (weights * x) ** 2).sum(axis=1).mean()
    for length in [256, 4096, 65536]:
        assert 0.7 < rms(length) / np.sqrt(variance / length) < 1.3
