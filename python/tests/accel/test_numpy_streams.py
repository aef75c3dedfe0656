"""The specification in NumPy: against the known answers, and against the engine."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import aleatron as al
import numpy as np
import pytest
from aleatron.accel import numpy_sequences as sequences
from aleatron.accel import numpy_streams as ns
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[3]


def answers(file: str, kind: str) -> Iterator[tuple[list[str], list[str]]]:
    found = 0
    for line in (ROOT / "crates/aleatron-core/golden" / file).read_text().splitlines():
        if line.startswith(f"{kind} "):
            found += 1
            question, answer = line.split(" = ")
            yield question.split()[1:], answer.split()
    assert found


def test_philox() -> None:
    for (*counter, seed), words in answers("streams.kat", "philox"):
        drawn = ns.philox(tuple(int(word, 16) for word in counter), int(seed, 16))  # type: ignore[arg-type]
        assert [f"{int(word):08x}" for word in drawn] == words


def test_streams() -> None:
    for (p, length, seed, unit, row, domain), words in answers("streams.kat", "encode"):
        # The last element of a row is the requested unit.
        values = np.zeros(int(unit) + 1)
        values[-1] = float(p)
        streams = ns.encode(values[None], int(length), int(seed, 16), domain=ns.Domain(int(domain)), first_row=int(row))
        assert [f"{int(word):016x}" for word in streams[0, -1]] == words


def test_weights_and_counts() -> None:
    for (seed, neuron, unit), value in answers("streams.kat", "weight"):
        weights = ns.random_weights(int(neuron) + 1, int(unit) + 1, int(seed, 16))
        assert weights[-1, -1] == float(value[0])
    for (n, m, length, weight_seed, seed, sample), counts in answers("streams.kat", "dense"):
        x = np.array([(7 * i + 3) % 11 / 10 for i in range(int(n))])
        weights = ns.random_weights(int(m), int(n), int(weight_seed, 16))
        w = ns.encode(weights, int(length), int(weight_seed, 16), domain=ns.Domain.WEIGHT)
        inputs = ns.encode(x[None], int(length), int(seed, 16), first_row=int(sample))
        assert ns.dense_counts(w, inputs, int(length))[0].tolist() == [int(count) for count in counts]


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 9),
    m=st.integers(1, 5),
    samples=st.integers(1, 3),
    length=st.sampled_from([1, 31, 32, 33, 63, 64, 65, 100, 200]),
    seeds=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    polarity=st.sampled_from(["unipolar", "bipolar"]),
    values=st.integers(0, 2**32 - 1),
)
def test_layers_are_the_engines(
    n: int, m: int, samples: int, length: int, seeds: tuple[int, int], polarity: Any, values: int
) -> None:
    rng = np.random.default_rng(values)
    low = 0.0 if polarity == "unipolar" else -1.0
    weights, x = rng.uniform(low, 1, (m, n)).round(2), rng.uniform(low, 1, (samples, n)).round(2)
    mask = rng.random((m, n)) < 0.5
    w = ns.encode(weights, length, seeds[0], polarity=polarity, domain=ns.Domain.WEIGHT)
    inputs = ns.encode(x, length, seeds[1], polarity=polarity)
    dense = al.DenseLayer.from_weights(weights, length, seeds[0], polarity=polarity, device="cpu")
    counts = ns.dense_counts(w, inputs, length, polarity=polarity)
    assert np.array_equal(counts, dense.counts(x, seeds[1]))
    assert np.array_equal(ns.dense_counts(w, inputs[0], length, polarity=polarity), counts[0])
    assert np.array_equal(ns.values_of_counts(counts, n, length, polarity=polarity), dense(x, seeds[1]))
    sparse = al.SparseLayer.from_weights(weights, mask, length, seeds[0], polarity=polarity)
    counts = ns.sparse_counts(w, mask, inputs, length, polarity=polarity)
    assert np.array_equal(counts, sparse.counts(x, seeds[1]))
    assert np.array_equal(ns.values_of_counts(counts, mask.sum(axis=1), length, polarity=polarity), sparse(x, seeds[1]))
    drawn = al.DenseLayer(n, m, length, seeds[0], polarity, device="cpu")
    assert np.array_equal(ns.random_weights(m, n, seeds[0], polarity=polarity), drawn.weights)


def test_long_and_many_streams() -> None:
    # More elements than a block holds: in one stream, and in many.
    long = 32 * (ns.ENCODE_BLOCK + 5) + 3
    assert np.array_equal(ns.encode([0.3, 0.9], long, 8), al.encode([0.3, 0.9], long, 8))
    p = np.random.default_rng(0).random((3, ns.ENCODE_BLOCK // 2 + 7))
    assert np.array_equal(ns.encode(p, 33, 8), al.encode(p, 33, 8))
    w, x = ns.encode(p[:, :3000], 1100, 1), ns.encode(p[:2, :3000], 1100, 2)
    assert w[0].size * 3 > ns.COUNT_BLOCK
    products = [[al.popcount(row & sample) for row in w] for sample in x]
    assert ns.dense_counts(w, x, 1100).tolist() == products


def test_counting_without_numpy_2(monkeypatch: pytest.MonkeyPatch) -> None:
    words = np.random.default_rng(0).integers(0, 2**64, (3, 5, 7), np.uint64)
    table = np.array([i.bit_count() for i in range(1 << 16)], np.uint8)
    expected = [[[int(word).bit_count() for word in row] for row in rows] for rows in words]
    assert ns.count_ones(words).tolist() == expected
    monkeypatch.setattr(ns, "_ONES_OF_16", table)
    assert ns.count_ones(words).tolist() == expected
    assert ns.count_ones(words[:, ::2, 3]).tolist() == np.array(expected)[:, ::2, 3].tolist()


REGISTER = st.integers(-(2**15), 2**15 - 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_neurons_are_the_engines(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([REGISTER, st.integers(-300, 300)]))
    params = {
        "data_width": data.draw(st.integers(1, 16)),
        "fraction": data.draw(st.integers(0, 31)),
        "v_rest": data.draw(value),
        "v_reset": data.draw(value),
        "v_threshold": data.draw(value),
        "refractory_period": data.draw(st.integers(0, 4)),
    }
    leak_k, gain_k = data.draw(value), data.draw(value)
    currents = np.array(data.draw(st.lists(st.lists(value, min_size=8, max_size=8), min_size=1, max_size=3)), np.int16)
    noises = currents[::-1, ::-1]
    spikes, potentials = ns.lif_run_varying(leak_k, gain_k, currents, noises, **params)
    assert (spikes.dtype, potentials.dtype) == (np.uint8, np.int16)
    for i in range(len(currents)):
        expected = al.lif_run_varying(leak_k, gain_k, currents[i], noises[i], **params)
        assert np.array_equal(spikes[i], expected[0]) and np.array_equal(potentials[i], expected[1])


def test_sequences() -> None:
    for (base, width, first), values in answers("generators.kat", "halton"):
        found = sequences.halton(len(values), width=int(width), base=int(base), first=int(first))
        assert [str(value) for value in found] == values
    for (width, taps, seed), values in answers("generators.kat", "lfsr"):
        chosen = tuple(int(tap) for tap in taps.split(","))
        assert [str(v) for v in sequences.lfsr(len(values), width=int(width), seed=int(seed), taps=chosen)] == values
        assert sequences.TAPS[int(width)] == chosen
    table = (ROOT / "crates/aleatron-core/data/joe-kuo/new-joe-kuo-6.1111").read_text().splitlines()
    rows = {1: (0, 0, ())}
    for line in table[1:]:
        dimension, degree, polynomial, *initial = (int(field) for field in line.split())
        rows[dimension] = (degree, polynomial, tuple(initial))  # type: ignore[assignment]
    for (dimension, width, first), values in answers("generators.kat", "sobol"):
        degree, polynomial, initial = rows[int(dimension)]
        found = sequences.sobol(
            len(values), width=int(width), first=int(first), degree=degree, polynomial=polynomial, initial=initial
        )
        assert [str(value) for value in found] == values


WIDTH, LENGTH = 8, 100
PAIRS: dict[str, tuple[Any, Any]] = {
    "sobol:1+sobol:2": (
        sequences.sobol(LENGTH, width=WIDTH),
        sequences.sobol(LENGTH, width=WIDTH, degree=1, initial=(1,)),
    ),
    "halton:2+halton:3": tuple(sequences.halton(LENGTH, width=WIDTH, base=base) for base in (2, 3)),  # type: ignore[dict-item]
    "ramp+lfsr:77": (sequences.ramp(LENGTH, width=WIDTH), sequences.lfsr(LENGTH, width=WIDTH, seed=77)),
}


@pytest.mark.filterwarnings("ignore:streams of 100 bits end before the period")
@pytest.mark.parametrize("generator", PAIRS)
def test_shared_streams_are_the_engines(generator: str) -> None:
    rng = np.random.default_rng(2)
    x, weights = rng.random((4, 6)), rng.random((3, 6))
    network = al.Network([al.Layer(weights, polarity="unipolar", weight_scale=1.0)])
    inputs, streams = (
        sequences.encode_shared(values, sequence, width=WIDTH)
        for values, sequence in zip((x, weights), PAIRS[generator])
    )
    counts = ns.dense_counts(streams, inputs, LENGTH)
    assert np.array_equal(network.forward_streams(x, LENGTH, generator, width=WIDTH), counts / LENGTH)


BAD: list[tuple[Any, str]] = [
    (lambda: ns.philox((0, 2**32, 0, 0), 1), "counter word 1 is 4294967296"),
    (lambda: ns.philox((0, 0, -1, 0), 1), "counter word 2 is -1"),
    (lambda: ns.encode([0.5], 64, domain=7), "7 is not a valid Domain"),  # type: ignore[arg-type]
    (lambda: ns.encode([0.5], 0), "length is 0"),
    (lambda: ns.encode([0.5], 64, seed=2**64), "seed is"),
    (lambda: ns.encode([0.5], 64, layer=2**28), "layer is"),
    (lambda: ns.encode([[0.5], [0.5]], 64, first_row=2**32 - 1), "the last row is 4294967296"),
    (lambda: ns.encode([0.5], 64, polarity="x"), "polarity is 'x'"),  # type: ignore[arg-type]
    (lambda: ns.random_weights(0, 3), "n_neurons is 0"),
    (lambda: ns.dense_counts([[1]], [[1]], 64), r"packed weights have shape \(1, 1\)"),
    (lambda: ns.dense_counts([[[1]]], [[1], [2]], 64), r"packed inputs have shape \(2, 1\)"),
    (lambda: ns.dense_counts([[[1]]], [[2]], 1), "inputs: the stream at index 0 has ones past its length of 1"),
    (lambda: ns.sparse_counts([[[1]]], [[True, False]], [[1]], 64), r"mask has shape \(1, 2\)"),
    (lambda: ns.lif_run_varying(1, 1, [1], data_width=17), "data_width is 17"),
    (lambda: ns.lif_run_varying(1, 1, [1], fraction=32), "fraction is 32"),
    (lambda: ns.lif_run_varying(1, 1, [1, 40000]), "currents at index 1 is 40000"),
    (lambda: ns.lif_run_varying(1, 2**15, [1]), "gain_k is 32768"),
    (lambda: ns.lif_run_varying(1, 1, [1], [1, 2]), "noises has shape"),
    (lambda: ns.lif_run_varying(1, 1, 5), "at least one axis"),
    (lambda: sequences.lfsr(3, width=2, seed=1), "width is 2"),
    (lambda: sequences.lfsr(3, width=8, seed=0), "seed is 0"),
    (lambda: sequences.lfsr(3, width=8, seed=1, taps=(7, 1)), "include 8"),
    (lambda: sequences.halton(3, width=8, base=1), "base is 1"),
    (lambda: sequences.ramp(3, width=33), "width is 33"),
    (lambda: sequences.sobol(3, width=8, degree=2, polynomial=1, initial=(1,)), "2 initial numbers"),
    (lambda: sequences.sobol(3, width=8, degree=1, initial=(2,)), "must be odd"),
    (lambda: sequences.encode_shared([0.5], [], width=8), "at least one integer"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_sizes_beyond_addresses() -> None:
    with pytest.raises(MemoryError):
        ns.random_weights(2**32, 2**32)
    with pytest.raises(MemoryError):
        ns.encode(np.broadcast_to(0.5, (2**20,)), 2**34)
