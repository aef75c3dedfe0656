"""Makes fractions.kat: accumulators with fraction bits, from the specification alone, in exact fractions.

Constants are computed in floats of 64 bits, as the specification says; everything after that is exact. Run
`python make_fractions.py > fractions.kat`. It shares no code with the crate.
"""

import random
from fractions import Fraction
from math import floor


def total(polarity, fan_in, length, count):
    """The sum that a count stands for, in product bits."""
    return {"unipolar": count, "bipolar": 2 * count - fan_in * length, "signed": count - fan_in * length}[polarity]


def accumulate(polarity, fan_in, length, width, fraction, bias, activation, count):
    value = total(polarity, fan_in, length, count) + Fraction(bias, 2**fraction)
    units = value * 2**fraction
    assert units.denominator == 1
    held = max(-(2 ** (width - 1)), min(2 ** (width - 1) - 1, int(units)))
    if activation == "relu":
        held = max(held, 0)
    elif activation != "identity":
        low, high = map(int, activation.split(":")[1:])
        held = max(low, min(high, held))
    return held


def log2(value):
    """The exponent of the greatest power of two that is not above a positive fraction."""
    e = 0
    while Fraction(2) ** (e + 1) <= value:
        e += 1
    while Fraction(2) ** e > value:
        e -= 1
    return e


def calibrate(fan_in, length, scale, bias, most_fraction):
    """The fraction bits, the width and the integer bias of a row."""
    for fraction in range(most_fraction, -1, -1):
        integer = floor(bias * (length / scale) * 2.0**fraction + 0.5)
        width = 2 + log2(Fraction(fan_in * length * 2**fraction + abs(integer)))
        if width <= 63:
            return fraction, width, integer
    raise AssertionError


def factor(ratio):
    """The multiplier of a ratio, its width, and the right shift."""
    e = log2(Fraction(ratio)) + 1
    width = max(16, e)
    shift = width - e
    return min(floor(ratio * 2.0**shift + 0.5), 2**width - 1), width, shift


def main():
    rng = random.Random(20261116)
    print("# Known answers of accumulators with fraction bits, from exact fractions (make_fractions.py).")
    print("# accumulate <polarity> <fan-in> <length> <width> <fraction> <bias> <activation> <count> = <value>")
    for _ in range(80):
        polarity = rng.choice(["unipolar", "bipolar", "signed"])
        fan_in, length = rng.choice([1, 3, 64, 1000, 2**20]), rng.choice([1, 7, 16, 64, 1000, 2**20])
        width, fraction = rng.choice([2, 5, 12, 24, 40, 62, 63]), rng.choice([1, 2, 7, 8, 16, 32])
        half = 2 ** (width - 1)
        bias = rng.choice([-half, half - 1, rng.randrange(-half, half)])
        low = rng.randrange(-half, half)
        activation = rng.choice(["identity", "relu", f"clamp:{low}:{rng.randrange(low, half)}"])
        most = fan_in * length * (2 if polarity == "signed" else 1)
        count = rng.choice([0, most, most // 2, rng.randrange(most + 1)])
        held = accumulate(polarity, fan_in, length, width, fraction, bias, activation, count)
        print("accumulate", polarity, fan_in, length, width, fraction, bias, activation, count, "=", held)
    print("# calibrate <fan-in> <length> <scale> <bias> <fraction at most> <input scale of the next layer> <count> "
          "= <fraction> <width> <bias> <multiplier> <its width> <shift> <threshold of 16 bits>")
    for _ in range(80):
        fan_in, length = rng.choice([1, 9, 64, 1000, 2**24]), rng.choice([1, 16, 33, 1000, 2**20, 2**30])
        scale = rng.choice([1.0, 0.1, 1 / 3, rng.uniform(1e-3, 8.0)])
        bias = rng.choice([0.0, rng.uniform(-3.0, 3.0), rng.uniform(-0.01, 0.01)])
        following, most_fraction = rng.choice([1.0, rng.uniform(0.1, 20.0)]), rng.choice([0, 1, 8, 20])
        fraction, width, integer = calibrate(fan_in, length, scale, bias, most_fraction)
        multiplier, multiplier_width, shift = factor(scale / length / 2.0**fraction / following * 2.0**16)
        count = rng.randrange(min(fan_in * length, max(1, int(3 * length * following / scale))) + 1)
        held = accumulate("unipolar", fan_in, length, width, fraction, integer, "identity", count)
        threshold = max(0, min(2**16, floor(Fraction(held * multiplier, 2**shift) + Fraction(1, 2))))
        print("calibrate", fan_in, length, repr(scale), repr(bias), most_fraction, repr(following), count, "=", fraction, width, integer,
              multiplier, multiplier_width, shift, threshold)


main()
