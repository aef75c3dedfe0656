"""Makes graphs.kat: what graphs in integers need beyond chains of layers, from the specification alone.

Ratios and constants are computed in floats of 64 bits, as the specification says; everything after that is exact. Run
`python make_graphs.py > graphs.kat`. It shares no code with the crate.
"""

import random
from fractions import Fraction
from math import floor


def factor(ratio):
    """The multiplier of a ratio, its width, and the right shift."""
    e = 0
    while Fraction(2) ** e <= Fraction(ratio):
        e += 1
    while Fraction(2) ** (e - 1) > Fraction(ratio):
        e -= 1
    width = max(16, e)
    shift = width - e
    multiplier = rounded(ratio * 2.0**shift)
    return min(multiplier, 2**width - 1), width, shift


def rounded(value):
    """The nearest integer to a float, halves up."""
    return nearest(value)


def nearest(value):
    """The nearest integer to a fraction, halves up."""
    return floor(Fraction(value) + Fraction(1, 2))


def scaled(value, multiplier, shift):
    return nearest(Fraction(value * multiplier, 2**shift))


def taps(size, kernel, stride, padding, dilation, position):
    """The taps of a window that lie inside of an axis."""
    return sum(0 <= position * stride + tap * dilation - padding < size for tap in range(kernel))


def main():
    rng = random.Random(20260116)
    unit = lambda: rng.choice([1.0, 0.5, 0.1, 1 / 3, rng.uniform(1e-4, 8.0), 2.0 ** rng.randrange(-20, 20)])
    print("# Known answers of graphs in integers, from exact fractions (make_graphs.py).")
    print("# requantize <unit> <input scale> <comparator width> <polarity> <value> = <multiplier> <its width> <shift> <threshold>")
    for _ in range(60):
        u, scale, v = unit(), unit(), rng.choice([4, 8, 16, 32])
        polarity = rng.choice(["unipolar", "bipolar", "signed"])
        levels = 2.0**v / 2 if polarity == "bipolar" else 2.0**v
        ratio = u / scale * levels
        multiplier, width, shift = factor(ratio)
        near = int(2**v / ratio) + 2
        value = rng.choice([0, 1, -1, rng.randrange(-near, near), rng.randrange(-near, near), rng.randrange(-(2**40), 2**40)])
        level = scaled(value, multiplier, shift)
        if polarity == "signed":
            threshold = min(abs(level), 2**v) * (-1 if level < 0 else 1)
        else:
            threshold = max(0, min(2**v, level + (2 ** (v - 1) if polarity == "bipolar" else 0)))
        print("requantize", repr(u), repr(scale), v, polarity, value, "=", multiplier, width, shift, threshold)
    print("# rescale <unit> <finer unit> <value> = <multiplier> <its width> <shift> <value>")
    for _ in range(60):
        fine, coarse = sorted([unit(), unit()])
        value = rng.choice([0, 1, -1, rng.randrange(-100, 100), rng.randrange(-(2**30), 2**30)])
        multiplier, width, shift = factor(coarse / fine)
        print("rescale", repr(coarse), repr(fine), value, "=", multiplier, width, shift, scaled(value, multiplier, shift))
    for value in range(-5, 6):
        multiplier, width, shift = factor(2.5)
        print("rescale 2.5 1.0", value, "=", multiplier, width, shift, scaled(value, multiplier, shift))
    print("# constant <value> <unit> = <integer>")
    for _ in range(30):
        value, u = rng.choice([0.0, 6.0, -0.5, rng.uniform(-20.0, 20.0)]), unit()
        print("constant", repr(value), repr(u), "=", rounded(value / u))
    print("# conv <polarity> <rows> <columns> <kernel> <stride> <padding> <dilation> <length> <scale> <bias> <position> <count> = <products> <value>")
    for _ in range(60):
        polarity = rng.choice(["unipolar", "bipolar", "signed"])
        rows, columns, kernel = rng.randrange(1, 7), rng.randrange(1, 7), rng.choice([1, 2, 3])
        stride, padding, dilation = rng.choice([1, 2]), rng.randrange(0, kernel), rng.choice([1, 2])
        length, scale, bias = rng.choice([1, 16, 33, 1000]), unit(), rng.choice([0.0, rng.uniform(-3.0, 3.0)])
        reach = (kernel - 1) * dilation + 1
        counts = [(size + 2 * padding - reach) // stride + 1 for size in (rows, columns)]
        if min(size + 2 * padding for size in (rows, columns)) < reach:
            continue
        position = rng.choice([0, counts[0] * counts[1] - 1, rng.randrange(counts[0] * counts[1])])
        row, column = divmod(position, counts[1])
        n = taps(rows, kernel, stride, padding, dilation, row) * taps(columns, kernel, stride, padding, dilation, column)
        most = 2 * n * length if polarity == "signed" else n * length
        count = rng.choice([0, most, rng.randrange(most + 1)])
        total = {"unipolar": count, "bipolar": 2 * count - n * length, "signed": count - n * length}[polarity]
        held = total + rounded(bias * (length / scale))
        print("conv", polarity, rows, columns, kernel, stride, padding, dilation, length, repr(scale), repr(bias), position, count,
              "=", n, held)


main()
