"""The bits of docs/streams.md in plain Python integers: slow, and independent of the engine."""

from __future__ import annotations

from fractions import Fraction

MASK = 0xFFFFFFFF
INPUT, WEIGHT, WEIGHT_INIT = 0, 1, 2


def philox(counter: tuple[int, int, int, int], seed: int) -> tuple[int, int, int, int]:
    """Philox 4x32-10."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & MASK, p0 >> 32 ^ c3 ^ k1, p0 & MASK
        k0, k1 = k0 + 0x9E3779B9 & MASK, k1 + 0xBB67AE85 & MASK
    return c0, c1, c2, c3


def encode(p: float, length: int, seed: int, unit: int, row: int, domain: int) -> list[int]:
    """The bits of one stream."""
    threshold = int(p * 2**32 + 0.5)
    bits = []
    for k in range(length):
        word, j = divmod(k, 32)
        uniform = 0
        for draw in range(8):
            for plane in philox((word << 3 | draw, unit, row, domain), seed):
                uniform = uniform << 1 | plane >> j & 1
        bits.append(int(uniform < threshold))
    return bits


def words(bits: list[int]) -> list[int]:
    """Bits packed, least significant first."""
    return [
        sum(bit << k for k, bit in enumerate(bits[start : start + 64])) for start in range(0, len(bits), 64)
    ]


def weight(seed: int, neuron: int, unit: int) -> float:
    """A random weight of a unipolar layer."""
    return philox((unit // 4, 0, neuron, WEIGHT_INIT), seed)[unit % 4] / 2**32


def dense_counts(
    weights: list[list[float]], x: list[float], length: int, seed: int, input_seed: int, row: int, bipolar: bool
) -> list[int]:
    """The counts of one sample of a dense layer."""

    def p(value: float) -> float:
        return (value + 1) / 2 if bipolar else value

    inputs = [encode(p(v), length, input_seed, i, row, INPUT) for i, v in enumerate(x)]
    counts = []
    for j, weights_of in enumerate(weights):
        streams = [encode(p(w), length, seed, i, j, WEIGHT) for i, w in enumerate(weights_of)]
        pairs = [pair for a, b in zip(streams, inputs) for pair in zip(a, b)]
        counts.append(sum(a == b if bipolar else a & b for a, b in pairs))
    return counts


def lif(
    steps: list[tuple[int, int]],
    leak_k: int,
    gain_k: int,
    data_width: int,
    fraction: int,
    v_rest: int,
    v_reset: int,
    v_threshold: int,
    refractory_period: int,
) -> tuple[list[int], list[int]]:
    """Spikes and potentials of a fixed-point neuron for (current, noise) of each step."""

    def wrap(x: int) -> int:
        x &= (1 << data_width) - 1
        return x - (1 << data_width) if x >> (data_width - 1) else x

    v, counter = v_rest, 0
    spikes, voltages = [], []
    for current, noise in steps:
        spike = 0
        if counter:
            counter -= 1
            v = v_rest
        else:
            leak = wrap((v_rest - v) * leak_k >> fraction)
            v = wrap(v + leak + wrap(current * gain_k >> fraction) + noise)
            if v >= v_threshold:
                spike, v, counter = 1, v_reset, refractory_period
        spikes.append(spike)
        voltages.append(v)
    return spikes, voltages


def exact(weights: list[list[float]], x: list[float]) -> list[Fraction]:
    """The product a layer approximates."""
    return [sum((Fraction(w) * Fraction(v) for w, v in zip(row, x)), Fraction(0)) for row in weights]
