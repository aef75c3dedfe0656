"""Makes arithmetic.kat: the integer arithmetic between layers, from the specification alone, in exact fractions.

Run `python make_arithmetic.py > arithmetic.kat`. It shares no code with the crate.
"""

import random
from fractions import Fraction
from math import floor


def accumulate(polarity, fan_in, length, width, bias, activation, count):
    ones = Fraction(count, length)
    value = ones if polarity == "unipolar" else 2 * ones - fan_in
    units = value * length + bias
    assert units.denominator == 1
    held = max(-(2 ** (width - 1)), min(2 ** (width - 1) - 1, int(units)))
    if activation == "relu":
        held = max(held, 0)
    elif activation != "identity":
        low, high = map(int, activation.split(":")[1:])
        held = max(low, min(high, held))
    return held


def requantize(multiplier, shift, comparator, polarity, value):
    scaled = floor(Fraction(value * multiplier, 2**shift) + Fraction(1, 2)) if shift else value * multiplier
    level = scaled + (2 ** (comparator - 1) if polarity == "bipolar" else 0)
    return max(0, min(2**comparator, level))


def main():
    rng = random.Random(20260101)
    print("# Known answers of the integer arithmetic between layers, from exact fractions (make_arithmetic.py).")
    print("# accumulate <polarity> <fan-in> <length> <width> <bias> <activation> <count> = <value>")
    for k in range(60):
        polarity = rng.choice(["unipolar", "bipolar"])
        fan_in, length = rng.choice([1, 3, 64, 1000, 2**20]), rng.choice([1, 7, 16, 64, 1000, 2**20])
        width = rng.choice([2, 5, 12, 16, 24, 40, 63])
        half = 2 ** (width - 1)
        bias = rng.choice([-half, half - 1, rng.randrange(-half, half)])
        low = rng.randrange(-half, half)
        clamp = f"clamp:{low}:{rng.randrange(low, half)}"
        activation = rng.choice(["identity", "relu", clamp])
        count = rng.choice([0, fan_in * length, rng.randrange(fan_in * length + 1)])
        held = accumulate(polarity, fan_in, length, width, bias, activation, count)
        print("accumulate", polarity, fan_in, length, width, bias, activation, count, "=", held)
    print("# requantize <multiplier> <multiplier width> <shift> <comparator width> <polarity> <value> = <threshold>")
    for k in range(100):
        bits = rng.choice([1, 4, 8, 16, 31, 62])
        multiplier = rng.choice([1, 2**bits - 1, rng.randrange(2**bits)])
        comparator = rng.choice([1, 3, 8, 16, 32])
        shift = rng.choice([0, 1, bits, min(125, bits + 7), rng.randrange(60)])
        polarity = rng.choice(["unipolar", "bipolar"])
        # Mostly values that land inside the comparator, and halves.
        span = max(1, 2 ** (comparator + shift) // max(1, multiplier))
        near = rng.randrange(-span, 2 * span)
        value = rng.choice([0, 1, -1, -(2**62), 2**62 - 1, near, near, near, near])
        value = max(-(2**62), min(2**62 - 1, value))
        print("requantize", multiplier, bits, shift, comparator, polarity, value, "=",
              requantize(multiplier, shift, comparator, polarity, value))
    for shift in (1, 2, 5):
        for value in range(-(2**shift) * 2, 2**shift * 2 + 1):
            print("requantize 1 1", shift, 3, "bipolar", value, "=", requantize(1, shift, 3, "bipolar", value))


main()
