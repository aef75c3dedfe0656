"""The stream specification in NumPy alone: the reference of all other backends, and the fallback if none is available.

`docs/streams.md` defines each bit. This module is written from that page and shares no code with the engine: random
words, streams, layers, random weights and fixed-point neurons, vectorised.

>>> from aleatron.accel import numpy_streams as ns
>>> [hex(int(word)) for word in ns.philox((0, 0, 0, 0), seed=0)]
['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
>>> ns.encode([0.0, 0.5, 1.0], length=100).shape
(3, 2)
"""

from __future__ import annotations

import enum
import math
import operator
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_int16, as_mask, as_words, first_index
from aleatron.accel._checks import (
    Floats,
    Words,
    as_counter,
    as_length,
    as_seed,
    as_streams,
    as_values,
    check_layer,
    check_memory,
    interval,
    words_of,
)

__all__ = [
    "Domain",
    "count_ones",
    "dense_counts",
    "encode",
    "lif_run_varying",
    "philox",
    "random_weights",
    "sparse_counts",
    "thresholds",
    "values_of_counts",
]

Halves = npt.NDArray[np.uint32]

MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
INCREMENTS = 0x9E3779B9, 0xBB67AE85
DRAWS = 8
PLANES_PER_DRAW = 4

# 32-bit stream words, and 64-bit product words, per block: temporaries that fit the cache.
ENCODE_BLOCK = 1 << 15
COUNT_BLOCK = 1 << 16


class Domain(enum.IntEnum):
    """The purpose of random words: the low bits of the last word of a Philox counter.

    Examples
    --------
    >>> from aleatron.accel.numpy_streams import Domain
    >>> Domain.WEIGHT.value
    1
    """

    INPUT = 0
    WEIGHT = 1
    WEIGHT_INIT = 2
    SELECT = 3
    NOISE = 4


def philox(counter: tuple[Any, Any, Any, Any], seed: SupportsIndex) -> tuple[Halves, Halves, Halves, Halves]:
    """Returns the four random words of Philox 4x32-10 for counters whose words broadcast against each other.

    Examples
    --------
    >>> import numpy as np
    >>> from aleatron.accel.numpy_streams import philox
    >>> philox((np.arange(3), 0, 0, 0), seed=7)[0].shape
    (3,)
    """
    key = as_seed(seed)
    words = [as_words(word, f"counter word {i}") for i, word in enumerate(counter)]
    for i, word in enumerate(words):
        wrong = word > MASK
        if wrong.any():
            raise ValueError(f"counter word {i} is {word[first_index(wrong)]}, not in [0, 2**32)")
    out = _philox(list(np.broadcast_arrays(*words)), key)
    return out[0].astype(np.uint32), out[1].astype(np.uint32), out[2].astype(np.uint32), out[3].astype(np.uint32)


def _philox(counter: list[Words], key: int) -> list[Words]:
    """Ten rounds over words of 32 bits held in uint64 arrays."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        c0 = (p1 >> SHIFT) ^ c1 ^ np.uint64(k0)
        c1 = p1 & MASK
        c2 = (p0 >> SHIFT) ^ c3 ^ np.uint64(k1)
        c3 = p0 & MASK
        k0, k1 = (k0 + INCREMENTS[0]) & 0xFFFFFFFF, (k1 + INCREMENTS[1]) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


def thresholds(p: npt.ArrayLike, *, polarity: Literal["unipolar", "bipolar"] = "unipolar") -> Words:
    """Returns floor(p * 2**32 + 0.5) of each value, 0 to 2**32.

    Examples
    --------
    >>> from aleatron.accel.numpy_streams import thresholds
    >>> thresholds([0.0, 0.25, 1.0]).tolist()
    [0, 1073741824, 4294967296]
    """
    return _thresholds(as_values(p, "probability", polarity), polarity)


def _thresholds(values: Floats, polarity: str) -> Words:
    p = values if polarity == "unipolar" else (values + 1.0) / 2.0
    return np.asarray(np.floor(p * 2.0**32 + 0.5).astype(np.uint64))


def encode(
    p: npt.ArrayLike,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    domain: Domain = Domain.INPUT,
    layer: SupportsIndex = 0,
    first_row: SupportsIndex = 0,
) -> Words:
    """Encodes values as packed streams: `aleatron.encode` in NumPy, for every address there is.

    Parameters
    ----------
    p
        Values in [0, 1], or in [-1, 1] for bipolar streams. The last axis is the unit, all before it the row.
    length
        Bits per stream.
    seed
        The key of the random words.
    domain, layer
        What the streams are for: inputs or weights, of which layer of a network.
    first_row
        The row of the first sample or neuron.

    Returns
    -------
    numpy.ndarray
        uint64 of shape (\\*p.shape, ceil(length / 64)), bits past the length zero.

    Examples
    --------
    >>> from aleatron.accel import numpy_streams as ns
    >>> ns.encode([0.0, 1.0], length=70).tolist()
    [[0, 0], [18446744073709551615, 63]]
    >>> weights = ns.encode([[0.3, 0.6]], 128, seed=24301, domain=ns.Domain.WEIGHT)
    >>> weights.shape
    (1, 2, 2)
    """
    bits, key = as_length(length), as_seed(seed)
    values = as_values(p, "probability", polarity)
    n_units, row, c3 = address(values.shape, domain, layer, first_row)
    check_memory(values.size * words_of(bits) * 8, "streams")
    rows, units = np.divmod(np.arange(values.size, dtype=np.uint64), np.uint64(n_units))
    limits = _thresholds(values, polarity).reshape(-1)
    words = _encode(limits, units, rows + np.uint64(row), bits, key, c3)
    return words.reshape(*values.shape, words_of(bits))


def address(
    shape: tuple[int, ...], domain: Domain, layer: SupportsIndex, first_row: SupportsIndex
) -> tuple[int, int, int]:
    """The addresses of the streams of an array of values: the units of a row, the first row, and the last counter word.

    Every row and unit must fit its counter word.
    """
    row, index = as_counter(first_row, "first_row"), as_counter(layer, "layer", 28)
    n_units = max(shape[-1] if shape else 1, 1)
    as_counter(n_units - 1, "the last unit")
    as_counter(row + max(math.prod(shape) // n_units - 1, 0), "the last row")
    return n_units, row, int(Domain(domain)) + 16 * index


def _encode(limits: Words, units: Words, rows: Words, length: int, key: int, c3: int) -> Words:
    """Streams of thresholds, a block of streams, or of words of a stream, at a time."""
    used = -(-length // 32)
    halves = np.zeros((len(limits), 2 * words_of(length)), np.uint32)
    streams, columns = max(ENCODE_BLOCK // used, 1), min(ENCODE_BLOCK, used)
    for start in range(0, len(limits), streams):
        block = slice(start, start + streams)
        for column in range(0, used, columns):
            words = np.arange(column, min(column + columns, used), dtype=np.uint64)
            shape = len(limits[block]), len(words)
            limit, word, unit, row = (
                np.broadcast_to(a, shape).ravel()
                for a in (limits[block, None], words, units[block, None], rows[block, None])
            )
            halves[block, column : column + len(words)] = _compare(limit, word, unit, row, key, c3).reshape(shape)
    if length % 32:
        halves[:, used - 1] &= np.uint32((1 << length % 32) - 1)
    return halves[:, 0::2].astype(np.uint64) | (halves[:, 1::2].astype(np.uint64) << SHIFT)


def _compare(limits: Words, words: Words, units: Words, rows: Words, key: int, c3: int) -> Halves:
    """32 comparisons of each element, U < T, plane by plane; elements leave when their bits are decided."""
    out = np.where(limits == np.uint64(2**32), np.uint32(0xFFFFFFFF), np.uint32(0))
    # An element stays active while a bit is undecided and T has a one in a lower plane.
    active = np.flatnonzero((limits & MASK) != 0)
    result = np.zeros(len(active), np.uint64)
    undecided = np.full(len(active), MASK)
    for draw in range(DRAWS):
        if not len(active):
            break
        counter = [words[active] * np.uint64(8) + np.uint64(draw), units[active], rows[active]]
        planes = _philox([*counter, np.full(len(active), np.uint64(c3))], key)
        limit = limits[active]
        for m, plane in enumerate(planes, PLANES_PER_DRAW * draw):
            one = (limit >> np.uint64(31 - m)) & np.uint64(1)
            ones = one * MASK
            result |= undecided & ~plane & ones
            undecided &= plane ^ ~ones
        below = np.uint64((1 << (32 - PLANES_PER_DRAW * (draw + 1))) - 1)
        out[active] = result
        going = ((undecided & MASK) != 0) & ((limit & below) != 0)
        active, result, undecided = active[going], result[going], undecided[going]
    return np.asarray(out)


def random_weights(
    n_neurons: SupportsIndex,
    n_inputs: SupportsIndex,
    seed: SupportsIndex = 24301,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    layer: SupportsIndex = 0,
) -> Floats:
    """Returns the weights a layer of this seed draws, of shape (n_neurons, n_inputs).

    Examples
    --------
    >>> from aleatron.accel.numpy_streams import random_weights
    >>> float(random_weights(1, 1)[0, 0])
    0.48708472633734345
    """
    m, n = operator.index(n_neurons), operator.index(n_inputs)
    for size, name in [(m, "n_neurons"), (n, "n_inputs")]:
        if not 1 <= size <= 2**32:
            raise ValueError(f"{name} is {size}, not in [1, 2**32]")
    check_memory(m * n * 8, "weights")
    interval(polarity)
    c3 = Domain.WEIGHT_INIT + 16 * as_counter(layer, "layer", 28)
    draws = philox((np.arange(-(-n // 4)), 0, np.arange(m)[:, None], c3), seed)
    u = np.stack(draws, axis=-1).reshape(m, -1)[:, :n] / 2.0**32
    return np.asarray(u if polarity == "unipolar" else 2.0 * u - 1.0)


# np.bitwise_count exists from NumPy 2 on.
_ONES_OF_16 = None if hasattr(np, "bitwise_count") else np.array([i.bit_count() for i in range(1 << 16)], np.uint8)


def count_ones(words: Words) -> npt.NDArray[np.uint8]:
    """Returns the number of ones of each word.

    Examples
    --------
    >>> import numpy as np
    >>> from aleatron.accel.numpy_streams import count_ones
    >>> count_ones(np.array([0, 7, 2**64 - 1], np.uint64)).tolist()
    [0, 3, 64]
    """
    if _ONES_OF_16 is None:
        return np.asarray(np.bitwise_count(words))
    quarters = _ONES_OF_16[np.ascontiguousarray(words).reshape(-1).view(np.uint16)]
    return np.asarray(quarters.reshape(*words.shape, 4).sum(axis=-1, dtype=np.uint8))


def dense_counts(
    weights: npt.ArrayLike,
    inputs: npt.ArrayLike,
    length: SupportsIndex,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
) -> Words:
    """Counts the products of a dense layer over packed streams.

    Parameters
    ----------
    weights
        Weight streams, (n_neurons, n_inputs, words).
    inputs
        Input streams, (n_inputs, words), or (N, n_inputs, words) for a batch.
    length
        Bits per stream.
    polarity
        AND for unipolar streams, XNOR for bipolar ones.

    Returns
    -------
    numpy.ndarray
        uint64 counts of shape (n_neurons,) or (N, n_neurons).

    Examples
    --------
    >>> from aleatron.accel import numpy_streams as ns
    >>> w = ns.encode(ns.random_weights(3, 5), 64, seed=24301, domain=ns.Domain.WEIGHT)
    >>> x = ns.encode([0.3, 1.0, 0.6, 0.2, 0.9], 64, seed=44257)
    >>> ns.dense_counts(w, x, length=64).tolist()
    [91, 73, 96]
    """
    bits = as_length(length)
    w, x = as_streams(weights, "weights", bits), as_streams(inputs, "inputs", bits)
    check_layer(w.shape, x.shape)
    return layer_counts(w, x, bits, polarity)


def layer_counts(w: Words, x: Words, length: int, polarity: str) -> Words:
    """`dense_counts` of checked streams."""
    both = and_counts(w, x)
    if polarity == "unipolar":
        return both
    interval(polarity)
    n = np.uint64(length * w.shape[1])
    ones_w = _ones(w)
    ones_x = _ones(x)
    return np.asarray(n - ones_w - ones_x[..., None] + np.uint64(2) * both)


def and_counts(w: Words, x: Words) -> Words:
    """The ones of weights AND inputs, summed for each sample and neuron."""
    n_neurons, per_neuron = w.shape[0], w.shape[1] * w.shape[2]
    rows = w.reshape(n_neurons, per_neuron)
    samples = x.reshape(-1, per_neuron) if per_neuron else x.reshape(x.shape[0] if x.ndim == 3 else 1, 0)
    counts = np.empty((len(samples), n_neurons), np.uint64)
    # Loop over samples inside, so that each block of weights is read from memory once.
    block = max(COUNT_BLOCK // max(per_neuron, 1), 1)
    for start in range(0, n_neurons, block):
        part = rows[start : start + block]
        for s, sample in enumerate(samples):
            counts[s, start : start + block] = count_ones(part & sample).sum(axis=1, dtype=np.uint64)
    return counts[0] if x.ndim == 2 else counts


def _ones(streams: Words) -> Words:
    """The ones of all streams of a neuron or sample: the last two axes."""
    return np.asarray(count_ones(streams).sum(axis=(-2, -1), dtype=np.uint64))


def sparse_counts(
    weights: npt.ArrayLike,
    mask: npt.ArrayLike,
    inputs: npt.ArrayLike,
    length: SupportsIndex,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
) -> Words:
    """Counts the products of the connections where `mask`, (n_neurons, n_inputs), is true.

    Examples
    --------
    >>> from aleatron.accel import numpy_streams as ns
    >>> w, x = ns.encode([[1.0, 1.0]], 64), ns.encode([1.0, 1.0], 64)
    >>> ns.sparse_counts(w, [[True, False]], x, length=64).tolist()
    [64]
    """
    bits = as_length(length)
    w, x = as_streams(weights, "weights", bits), as_streams(inputs, "inputs", bits)
    connected = as_mask(mask, "mask")
    check_layer(w.shape, x.shape)
    if connected.shape != w.shape[:2]:
        raise ValueError(f"mask has shape {connected.shape}; expected {w.shape[:2]}")
    w = np.where(connected[..., None], w, np.uint64(0))
    both = and_counts(w, x)
    if polarity == "unipolar":
        return both
    interval(polarity)
    ones_x = count_ones(x).sum(axis=-1, dtype=np.uint64) @ connected.T.astype(np.uint64)
    n = connected.sum(axis=1, dtype=np.uint64) * np.uint64(bits)
    return np.asarray(n - _ones(w) - ones_x + np.uint64(2) * both)


def values_of_counts(
    counts: npt.ArrayLike,
    n_inputs: npt.ArrayLike,
    length: SupportsIndex,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
) -> Floats:
    """Returns the values of counts: c / L, or (2 c - n L) / L for bipolar layers.

    Examples
    --------
    >>> from aleatron.accel.numpy_streams import values_of_counts
    >>> values_of_counts([32, 96], 2, 64), values_of_counts([32, 96], 2, 64, polarity="bipolar")
    (array([0.5, 1.5]), array([-1.,  1.]))
    """
    bits = as_length(length)
    c = np.asarray(counts)
    if polarity == "unipolar":
        return np.asarray(c.astype(np.float64) / bits)
    interval(polarity)
    return np.asarray((2 * c.astype(np.int64) - np.asarray(n_inputs, np.int64) * bits).astype(np.float64) / bits)


def lif_run_varying(
    leak_k: SupportsIndex,
    gain_k: SupportsIndex,
    currents: npt.ArrayLike,
    noises: npt.ArrayLike | None = None,
    *,
    data_width: SupportsIndex = 16,
    fraction: SupportsIndex = 8,
    v_rest: SupportsIndex = 0,
    v_reset: SupportsIndex = 0,
    v_threshold: SupportsIndex = 256,
    refractory_period: SupportsIndex = 2,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int16]]:
    """Runs fixed-point neurons over the steps along the last axis, one neuron for each index before it.

    Returns spikes and potentials of the currents' shape.

    Examples
    --------
    >>> from aleatron.accel.numpy_streams import lif_run_varying
    >>> spikes, potentials = lif_run_varying(20, 256, [100, 100, 100, 100])
    >>> spikes.tolist(), potentials.tolist()
    ([0, 0, 1, 0], [100, 192, 0, 0])
    """
    width, shift = operator.index(data_width), operator.index(fraction)
    if not 1 <= width <= 16:
        raise ValueError(f"data_width is {width}, not in [1, 16]")
    if not 0 <= shift <= 31:
        raise ValueError(f"fraction is {shift}, not in [0, 31]")
    period = as_counter(refractory_period, "refractory_period", 31)
    registers = {"leak_k": leak_k, "gain_k": gain_k, "v_rest": v_rest, "v_reset": v_reset, "v_threshold": v_threshold}
    leak, gain, rest, reset, limit = (int(as_int16(operator.index(r), name)) for name, r in registers.items())
    current = as_int16(currents, "currents").astype(np.int64)
    if current.ndim == 0:
        raise ValueError("currents must have at least one axis")
    noise = np.zeros_like(current) if noises is None else as_int16(noises, "noises").astype(np.int64)
    if noise.shape != current.shape:
        raise ValueError(f"noises has shape {noise.shape}; expected that of currents, {current.shape}")
    spikes, potentials = np.zeros(current.shape, np.uint8), np.zeros(current.shape, np.int16)
    half, mask = 1 << (width - 1), (1 << width) - 1

    def wrap(x: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return ((x + half) & mask) - half

    v = np.full(current.shape[:-1], rest, np.int64)
    counter = np.zeros(current.shape[:-1], np.int64)
    for t in range(current.shape[-1]):
        driven = wrap(v + wrap((rest - v) * leak >> shift) + wrap(current[..., t] * gain >> shift) + noise[..., t])
        resting = counter > 0
        spike = ~resting & (driven >= limit)
        v = np.where(resting, rest, np.where(spike, reset, driven))
        counter = np.where(spike, period, np.maximum(counter - 1, 0))
        spikes[..., t], potentials[..., t] = spike, v
    return spikes, potentials
