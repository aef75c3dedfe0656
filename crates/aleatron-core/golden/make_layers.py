"""Makes layers.kat, signed layers, convolutions and pools, and mixed.kat, layers with random bits for one operand and sequences for
the other, from the specification alone, a bit at a time.

Run `python make_layers.py > layers.kat` and `python make_layers.py mixed > mixed.kat`; it needs SciPy for Sobol values. It shares no
code with the crate.
"""

import sys
from fractions import Fraction
from itertools import product
from math import floor

from scipy.stats import qmc

MASK = 0xFFFFFFFF


def philox(counter, seed):
    c, k = list(counter), [seed & MASK, seed >> 32]
    for _ in range(10):
        low, high = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(high >> 32) ^ c[1] ^ k[0], high & MASK, (low >> 32) ^ c[3] ^ k[1], low & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def bernoulli(threshold, length, seed, unit, row, domain, layer):
    """The integer whose bit k is bit k of the stream."""
    stream = 0
    for word in range((length + 31) // 32):
        planes = []
        for draw in range(8):
            planes += philox([8 * word + draw, unit, row, domain + 16 * layer], seed)
        for j in range(min(32, length - 32 * word)):
            u = sum((plane >> j & 1) << (31 - m) for m, plane in enumerate(planes))
            stream |= (u < threshold) << (32 * word + j)
    return stream


def sobol(dimension, width, length):
    points = qmc.Sobol(dimension, scramble=False, bits=32).random(length)
    return [floor(Fraction(float(x)) * 2**width) for x in points[:, dimension - 1]]


TAPS = {5: (5, 3), 8: (8, 6, 5, 4), 10: (10, 7)}


def lfsr_step(state, width):
    parity = sum(state >> (tap - 1) & 1 for tap in TAPS[width]) % 2
    return (2 * state + parity) % 2**width


def sequence(kind, parameter, width, number, length):
    """The integers of sequence `number` of those beside the first."""
    if kind == "sobol":
        return sobol(parameter + 2 * number, width, length)
    if kind == "ramp":
        assert number == 0
        return [k % 2**width for k in range(length)]
    if kind == "halton":
        primes = [b for b in range(parameter + 1, 400) if all(b % d for d in range(2, b))]
        base = primes[2 * number - 1] if number else parameter
        values = []
        for k in range(length):
            inverse, place = Fraction(0), Fraction(1, base)
            while k:
                inverse, place, k = inverse + k % base * place, place / base, k // base
            values.append(floor(inverse * 2**width))
        return values
    cycle = 2**width - 1
    step = cycle * 0x9E3779B97F4A7C15 // 2**64
    state = parameter
    for _ in range((number % cycle) * step % cycle):
        state = lfsr_step(state, width)
    values = []
    for _ in range(length):
        values.append(state)
        state = lfsr_step(state, width)
    return values


def threshold(polarity, value, width):
    p = {"unipolar": value, "bipolar": (value + 1.0) / 2.0, "signed": abs(value)}[polarity]
    return floor(p * 2.0**width + 0.5)


def number(kind, polarity, k):
    """Value k of the inputs or the weights: both ends and the middle are among them."""
    a, b, n = {"input": (7, 3, 23), "weight": (5, 2, 29)}[kind]
    share = ((a * k + b) % n) / (n - 1)
    return share if polarity == "unipolar" else 2.0 * share - 1.0


def products(topology):
    """For each neuron: the row, unit and place of each weight, and the input it meets; the inputs; the units of a row."""
    kind, *fields = topology.split(":")
    if kind == "dense":
        n, m = map(int, fields)
        return [[(j, i, j * n + i, i) for i in range(n)] for j in range(m)], n, n
    if kind == "sparse":
        n, rows = int(fields[0]), [[int(i) for i in row.split(",") if i] for row in fields[1].split("/")]
        neurons, place = [], 0
        for j, row in enumerate(rows):
            neurons.append([(j, i, place + k, i) for k, i in enumerate(row)])
            place += len(row)
        return neurons, n, n
    image, out, kernel, stride, padding, dilation, groups = ([int(n) for n in field.split(",")] for field in fields)
    (channels, height, width), (out,), (groups,) = image, out, groups
    inside = channels // groups
    taps = list(product(range(inside), range(kernel[0]), range(kernel[1])))
    rows = (height + padding[0] + padding[1] - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    columns = (width + padding[2] + padding[3] - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    neurons = []
    for o, r, c in product(range(out), range(rows), range(columns)):
        group, neuron = o // (out // groups), []
        for unit, (channel, tap_row, tap_column) in enumerate(taps):
            y = r * stride[0] + tap_row * dilation[0] - padding[0]
            x = c * stride[1] + tap_column * dilation[1] - padding[2]
            if 0 <= y < height and 0 <= x < width:
                place = ((group * inside + channel) * height + y) * width + x
                neuron.append((o, unit, o * len(taps) + unit, place))
        neurons.append(neuron)
    return neurons, channels * height * width, len(taps)


def counts(polarity, topology, generator, sharing, width, length, weight_seed, input_seed, sample, layer):
    neurons, n_inputs, row_units = products(topology)
    weights = sorted({(row, unit, place) for neuron in neurons for row, unit, place, _ in neuron})
    w_value = {place: number("weight", polarity, place) for _, _, place in weights}
    x_value = [number("input", polarity, i) for i in range(n_inputs)]
    of_inputs, of_weights = ["bernoulli"] * 2 if generator == "bernoulli" else generator.split("+")

    def stream(operand, q, value):
        kind, _, parameter = operand.partition(":")
        t = threshold(polarity, value, width)
        return sum((u < t) << k for k, u in enumerate(sequence(kind, int(parameter or 0), width, q, length)))

    if of_inputs == "bernoulli":
        x = [bernoulli(threshold(polarity, value, 32), length, input_seed, i, sample, 0, layer)
             for i, value in enumerate(x_value)]
    else:
        x = [stream(of_inputs, 0 if sharing == "all" else i, value) for i, value in enumerate(x_value)]
    if of_weights == "bernoulli":
        w = {place: bernoulli(threshold(polarity, w_value[place], 32), length, weight_seed, unit, row, 1, layer)
             for row, unit, place in weights}
    else:
        w = {place: stream(of_weights, {"all": 0, "input": unit, "stream": row * row_units + unit}[sharing], w_value[place])
             for row, unit, place in weights}
    result = []
    for neuron in neurons:
        count = 0
        for _, _, place, i in neuron:
            both = (w[place] & x[i]).bit_count()
            if polarity == "unipolar":
                count += both
            elif polarity == "bipolar":
                count += length - (w[place] ^ x[i]).bit_count()
            else:
                sign = -1 if (w_value[place] < 0) != (x_value[i] < 0) else 1
                count += length + sign * both
        result.append(count)
    return result


LAYERS = [
    ("signed", "dense:5:3", "bernoulli", "all", 32, 64, 0x5EED, 0xACE1, 0, 0),
    ("signed", "dense:5:3", "bernoulli", "all", 32, 64, 0x5EED, 0xACE1, 2, 1),
    ("signed", "dense:17:2", "bernoulli", "all", 32, 100, 42, 43, 7, 0),
    ("signed", "dense:1:1", "bernoulli", "all", 32, 1, 1, 2, 0, 0),
    ("signed", "sparse:6:0,2,5//1,3/4", "bernoulli", "all", 32, 70, 9, 8, 1, 3),
    ("signed", "dense:9:4", "sobol:1+sobol:2", "all", 8, 100, 0, 0, 0, 0),
    ("signed", "dense:9:4", "lfsr:77+sobol:5", "input", 8, 65, 0, 0, 0, 0),
    ("signed", "dense:6:3", "lfsr:3+lfsr:9", "stream", 5, 33, 0, 0, 0, 0),
    ("signed", "sparse:6:0,2,5//1,3/4", "halton:2+halton:3", "input", 10, 129, 0, 0, 0, 0),
    ("signed", "dense:4:2", "ramp+halton:2", "all", 5, 31, 0, 0, 0, 0),
    ("unipolar", "conv:1,4,5:2:3,2:1,1:0,0,0,0:1,1:1", "bernoulli", "all", 32, 64, 0x5EED, 0xACE1, 0, 0),
    ("bipolar", "conv:2,4,3:3:2,2:2,1:1,0,0,1:1,1:1", "bernoulli", "all", 32, 70, 5, 6, 3, 2),
    ("signed", "conv:2,4,4:4:3,3:1,2:1,1,1,1:1,1:2", "bernoulli", "all", 32, 100, 77, 78, 1, 0),
    ("signed", "conv:1,2,2:1:2,2:1,1:3,3,2,2:1,1:1", "bernoulli", "all", 32, 33, 1, 1, 0, 0),
    ("unipolar", "conv:3,1,8:3:1,3:1,2:0,0,1,2:1,2:3", "sobol:1+sobol:2", "all", 8, 64, 0, 0, 0, 0),
    ("bipolar", "conv:2,5,4:2:2,3:1,1:1,2,0,1:2,1:1", "lfsr:77+sobol:5", "input", 8, 65, 0, 0, 0, 0),
    ("signed", "conv:2,3,4:4:2,2:1,1:0,0,0,0:1,1:2", "lfsr:3+lfsr:9", "stream", 5, 31, 0, 0, 0, 0),
    ("signed", "conv:4,3,3:3:1,1:1,1:0,0,0,0:1,1:1", "halton:2+halton:3", "all", 10, 100, 0, 0, 0, 0),
]


MIXED = [
    ("unipolar", "dense:5:3", "bernoulli+sobol:2", "all", 8, 64, 0, 0xACE1, 0, 0),
    ("bipolar", "dense:17:2", "bernoulli+lfsr:77", "stream", 8, 100, 0, 43, 7, 1),
    ("signed", "dense:9:4", "bernoulli+halton:3", "input", 10, 129, 0, 8, 2, 2),
    ("unipolar", "dense:5:3", "sobol:1+bernoulli", "all", 8, 64, 0x5EED, 0, 0, 0),
    ("bipolar", "dense:9:4", "lfsr:77+bernoulli", "input", 8, 65, 42, 0, 3, 1),
    ("signed", "dense:6:3", "ramp+bernoulli", "all", 5, 33, 9, 0, 0, 3),
    ("unipolar", "sparse:6:0,2,5//1,3/4", "bernoulli+sobol:5", "stream", 8, 70, 0, 8, 1, 3),
    ("signed", "sparse:6:0,2,5//1,3/4", "halton:2+bernoulli", "stream", 10, 129, 6, 0, 0, 0),
    ("unipolar", "conv:1,4,5:2:3,2:1,1:0,0,0,0:1,1:1", "bernoulli+sobol:2", "input", 8, 64, 0, 0xACE1, 0, 0),
    ("bipolar", "conv:2,4,3:3:2,2:2,1:1,0,0,1:1,1:1", "sobol:3+bernoulli", "input", 8, 70, 5, 0, 3, 2),
    ("signed", "conv:2,4,4:4:3,3:1,2:1,1,1,1:1,1:2", "bernoulli+lfsr:9", "stream", 5, 31, 0, 78, 1, 0),
    ("signed", "conv:3,1,8:3:1,3:1,2:0,0,1,2:1,2:3", "halton:2+bernoulli", "all", 10, 100, 77, 0, 0, 1),
]


def accumulate(polarity, fan_in, length, width, bias, count):
    assert polarity == "signed"
    units = count - fan_in * length + bias
    return max(-(2 ** (width - 1)), min(2 ** (width - 1) - 1, units))


def requantize(multiplier, shift, comparator, value):
    scaled = floor(Fraction(value * multiplier, 2**shift) + Fraction(1, 2)) if shift else value * multiplier
    return f"{'-' if scaled < 0 else '+'}{min(abs(scaled), 2**comparator)}"


def pool(kind, border, image, window, stride, padding, values):
    channels, height, width = image
    rows = (height + padding[0] + padding[1] - window[0]) // stride[0] + 1
    columns = (width + padding[2] + padding[3] - window[1]) // stride[1] + 1
    result = []
    for channel, r, c in product(range(channels), range(rows), range(columns)):
        places = [(r * stride[0] + y - padding[0], c * stride[1] + x - padding[2])
                  for y, x in product(range(window[0]), range(window[1]))]
        inside = [values[(channel * height + y) * width + x] for y, x in places if 0 <= y < height and 0 <= x < width]
        if kind == "max":
            result.append(max(inside))
        else:
            n = len(places) if border == "zeros" else len(inside)
            result.append(floor(Fraction(sum(inside), n) + Fraction(1, 2)))
    return result


POOLS = [
    ("max", "leftout", (2, 4, 4), (2, 2), (2, 2), (0, 0, 0, 0)),
    ("average", "leftout", (2, 4, 4), (2, 2), (2, 2), (0, 0, 0, 0)),
    ("average", "leftout", (1, 5, 4), (3, 3), (2, 1), (1, 1, 1, 1)),
    ("average", "zeros", (1, 5, 4), (3, 3), (2, 1), (1, 1, 1, 1)),
    ("max", "leftout", (3, 3, 2), (2, 2), (1, 1), (1, 0, 0, 1)),
    ("average", "leftout", (3, 3, 5), (3, 5), (3, 5), (0, 0, 0, 0)),
    ("max", "leftout", (3, 3, 5), (3, 5), (3, 5), (0, 0, 0, 0)),
]


def print_layers(layers):
    print("# layer <polarity> <topology> <generator> <sharing> <width> <length> <weight seed> <input seed> <sample> <layer> = <counts>")
    print("#   topologies: dense:INPUTS:NEURONS, sparse:INPUTS:LISTS, conv:C,H,W:OUT:KH,KW:SH,SW:TOP,BOTTOM,LEFT,RIGHT:DH,DW:GROUPS")
    print("#   input i is ((7 i + 3) mod 23) / 22, weight k ((5 k + 2) mod 29) / 28, or twice that less 1 unless unipolar")
    for layer in layers:
        print("layer", *layer, "=", *counts(*layer))


def main():
    if sys.argv[1:] == ["mixed"]:
        print("# Known answers of layers with random bits for one operand and sequences for the other (make_layers.py).")
        print_layers(MIXED)
        return
    print("# Known answers of signed layers, convolutions and pools, from the specification alone (make_layers.py).")
    print_layers(LAYERS)
    print("# accumulate <polarity> <fan-in> <length> <width> <bias> <count> = <value>")
    for fan_in, length, width, bias in [(3, 64, 12, 5), (1, 7, 2, -2), (1000, 1000, 24, -99), (64, 2**20, 20, 7)]:
        for count in (0, fan_in * length // 3, fan_in * length, 2 * fan_in * length):
            print("accumulate signed", fan_in, length, width, bias, count, "=",
                  accumulate("signed", fan_in, length, width, bias, count))
    print("# requantize <multiplier> <multiplier width> <shift> <comparator width> <polarity> <value> = <sign and threshold>")
    for multiplier, bits, shift, comparator in [(1, 1, 1, 3), (5, 3, 3, 4), (1, 1, 0, 8), (40000, 16, 12, 16), (3, 2, 70, 8)]:
        for value in (*range(-9, 10), -(2**62), 2**62 - 1, 2**40 + 12345, -(2**40) - 12345):
            print("requantize", multiplier, bits, shift, comparator, "signed", value, "=",
                  requantize(multiplier, shift, comparator, value))
    print("# pool <kind> <border> <C,H,W> <window> <stride> <top,bottom,left,right>: value i is ((37 i + 11) mod 101) - 50 = <values>")
    for kind, border, image, window, stride, padding in POOLS:
        n = image[0] * image[1] * image[2]
        values = [(37 * i + 11) % 101 - 50 for i in range(n)]
        fields = [",".join(map(str, field)) for field in (image, window, stride, padding)]
        print("pool", kind, border, *fields, "=", *pool(kind, border, image, window, stride, padding, values))


if __name__ == "__main__":
    main()
