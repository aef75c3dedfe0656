"""Makes faults.kat, fault masks and layers with faults, from the specification alone, a bit at a time.

Run `python make_faults.py > faults.kat` beside make_layers.py, whose streams and topologies it uses; it needs SciPy for Sobol values. It
shares no code with the crate.
"""

from fractions import Fraction
from math import floor

from make_layers import bernoulli, lfsr_step, number, philox, products, sequence, threshold

SITES = ["inputs", "weights", "products", "counters", "accumulators", "memory", "stuck-at-0", "stuck-at-1", "generators",
         "activations"]
KINDS = ["transient", "permanent", "burst"]


def blocks(rate, length, seed, unit, row, layer):
    """The bits of a mask of a low rate: hits of a Poisson process in blocks of 2^b positions."""
    b = next(b for b in range(64) if 4 < Fraction(rate) * 2**b)
    one = 2**60
    hits = int(Fraction(rate) * 2**b * one)
    mean, term, i = 0, hits, 1
    while term:
        mean, term, i = mean + term // i, term * hits // (one * 2**b), i + 1
    weights = [2**51]
    for k in range(1, 63):
        weights.append(weights[-1] * mean // (k * one))
    thresholds = [2**64 * sum(weights[: k + 1]) // sum(weights) for k in range(62)]
    drawn = 0
    for block in range(unit * length // 2**b, ((unit + 1) * length - 1) // 2**b + 1):
        words = []
        for draw in range(16):
            words += philox([draw + 16 * (block >> 32), block % 2**32, row, 6 + 16 * layer], seed)
        number = words[0] + (words[1] << 32)
        n = sum(threshold <= number for threshold in thresholds)
        for word in words[2 : 2 + n]:
            k = block * 2**b + word // 2 ** (32 - b) - unit * length
            if 0 <= k < length:
                drawn |= 1 << k
    return drawn


def mask(fault, length, fault_seed, operand, sample, row, unit, layer):
    """The integer whose bit k is bit k of the mask; row is that of sites without samples in it."""
    site, kind, rate = fault.split(":")
    kind, _, cycles = kind.partition("=")
    sample = 0 if kind == "permanent" else sample
    if site in ("inputs", "counters", "accumulators", "activations"):
        row, in_key = sample, 0
    elif site in ("weights", "products"):
        in_key = sample
    else:
        in_key = 0
    words = philox([SITES.index(site) + 16 * KINDS.index(kind), in_key, operand, 5], fault_seed)
    seed = words[0] + (words[1] << 32)
    if float(rate) <= 1 / 32:
        drawn = blocks(float(rate), length, seed, unit, row, layer)
    else:
        share, e = float(rate), 0
        while share <= 0.5:
            share, e = 2.0 * share, e + 1
        drawn = bernoulli(2 ** (32 - e), length, seed, unit, row, 6, layer)
        drawn &= bernoulli(floor(share * 2.0**32 + 0.5), length, seed, unit, row, 7, layer)
    flips = 0
    for start in range(length):
        if drawn >> start & 1:
            for k in range(start, min(length, start + int(cycles or 1))):
                flips |= 1 << k
    return flips


def counts(faults, fault_seed, polarity, topology, generator, sharing, width, length, weight_seed, input_seed, sample, layer):
    neurons, n_inputs, row_units = products(topology)
    weights = sorted({(row, unit, place) for neuron in neurons for row, unit, place, _ in neuron})
    if generator.startswith("int"):
        of_inputs, of_weights = "int", "int"
    else:
        of_inputs, of_weights = ["bernoulli"] * 2 if generator == "bernoulli" else generator.split("+")
    faults = sorted(faults.split(","), key=lambda fault: (SITES.index(fault.split(":")[0]), fault.split(":")[1]))

    def at(site):
        return [fault for fault in faults if fault.split(":")[0] == site]

    def stored(t, negative, bits, greatest, flips):
        """An operand whose magnitude has so many bits, with the sign above them, after flips."""
        word = (min(t, greatest) + (negative << bits)) ^ flips
        t, negative = min(word % 2**bits, greatest), polarity == "signed" and bool(word >> bits)
        return t, negative and t > 0

    def registers(site, t, negative, bits, address):
        """An operand in registers with faults; integers have no magnitude past that of their bits, thresholds have 2^W."""
        if generator.startswith("int"):
            bits, greatest = bits, 2**bits - 1
        else:
            bits, greatest = bits + 1, 2**bits
        for fault in at(site):
            flips = mask(fault, bits + (polarity == "signed"), fault_seed, 0, *address, layer)
            t, negative = stored(t, negative, bits, greatest, flips)
        return t, negative

    def stuck(t, one, operand, row, unit):
        for site, value in (("stuck-at-0", 0), ("stuck-at-1", one)):
            for fault in at(site):
                if mask(fault, 1, fault_seed, operand, 0, row, unit, layer):
                    t = value
        return t

    def stream(operand, q, t, which):
        kind, _, parameter = operand.partition(":")
        values = sequence(kind, int(parameter or 0), width, q, length)
        for fault in at("generators"):
            flips = mask(fault, width, fault_seed, which, 0, 0, q, layer)
            if kind == "sobol":
                values = [u ^ flips for u in values]
            elif kind == "ramp":
                values = [(flips + k) % 2**width for k in range(length)]
            else:
                assert kind == "lfsr"
                state, values = values[0] ^ flips, []
                for _ in range(length):
                    values.append(state)
                    state = lfsr_step(state, width)
        return sum((u < t) << k for k, u in enumerate(values))

    x, x_negative = [], []
    for i in range(n_inputs):
        bits = 32 if of_inputs == "bernoulli" else width
        value = number("input", polarity, i)
        t = threshold(polarity, value, bits)
        negative = polarity == "signed" and value < 0 and t > 0
        t, negative = registers("activations", t, negative, bits, (sample, None, i))
        t = stuck(t, 2**bits, 0, 0, i)
        x_negative.append(negative and t > 0)
        if of_inputs == "int":
            bits_of_x = t
        elif of_inputs == "bernoulli":
            bits_of_x = bernoulli(t, length, input_seed, i, sample, 0, layer)
        else:
            bits_of_x = stream(of_inputs, 0 if sharing == "all" else i, t, 0)
        for fault in at("inputs"):
            bits_of_x ^= mask(fault, length, fault_seed, 0, sample, None, i, layer)
        x.append(bits_of_x)

    w, w_negative = {}, {}
    for row, unit, place in weights:
        bits = 32 if of_weights == "bernoulli" else width
        value = number("weight", polarity, place)
        t = threshold(polarity, value, bits)
        negative = polarity == "signed" and value < 0 and t > 0
        t, negative = registers("memory", t, negative, bits, (0, row, unit))
        t = stuck(t, 2**bits, 1, row, unit)
        w_negative[place] = negative and t > 0
        if of_weights == "int":
            w[place] = t
        elif of_weights == "bernoulli":
            w[place] = bernoulli(t, length, weight_seed, unit, row, 1, layer)
        else:
            q = {"all": 0, "input": unit, "stream": row * row_units + unit}[sharing]
            w[place] = stream(of_weights, q, t, 1)
        for fault in at("weights"):
            w[place] ^= mask(fault, length, fault_seed, 0, sample, row, unit, layer)

    most = max(len(neuron) for neuron in neurons) * length * (2 if polarity == "signed" else 1)
    result = []
    for j, neuron in enumerate(neurons):
        count = 0
        for _, unit, place, i in neuron:
            if of_inputs == "int":
                # The product of two magnitudes, in units of the square of the greatest.
                greatest = 2**width - 1
                ones = min(w[place], greatest) * min(x[i], greatest)
                count += length + (-ones if w_negative[place] != x_negative[i] else ones)
                continue
            product = w[place] & x[i] if polarity != "bipolar" else (w[place] ^ x[i]) ^ (2**length - 1)
            for fault in at("products"):
                product ^= mask(fault, length, fault_seed, 0, sample, j, unit, layer)
            ones = product.bit_count()
            if polarity == "signed":
                count += length + (-ones if w_negative[place] != x_negative[i] else ones)
            else:
                count += ones
        for fault in at("counters"):
            count ^= mask(fault, most.bit_length(), fault_seed, 0, sample, None, j, layer)
        result.append(count)
    return result


def accumulate(faults, fault_seed, fan_in, length, width, bias, sample, neuron, layer, count):
    """A unipolar neuron with a rectifier."""
    held = max(-(2 ** (width - 1)), min(2 ** (width - 1) - 1, count + bias)) % 2**width
    for fault in faults.split(","):
        held ^= mask(fault, width, fault_seed, 0, sample, None, neuron, layer)
    return max(0, held - 2**width if held >> (width - 1) else held)


MASKS = [
    ("inputs:transient:0.5", 100, 7, 0, 3, 0, 2, 0),
    ("inputs:permanent:0.3", 70, 7, 0, 3, 0, 2, 1),
    ("inputs:burst=5:0.05", 130, 9, 0, 1, 0, 4, 2),
    ("weights:transient:0.1", 64, 2**40 + 5, 0, 9, 6, 3, 0),
    ("weights:permanent:0.01", 300, 1, 0, 9, 6, 3, 0),
    ("weights:burst=64:0.02", 200, 1, 0, 0, 1, 1, 3),
    ("products:transient:0.125", 65, 3, 0, 2, 1, 0, 0),
    ("products:permanent:0.2", 33, 3, 0, 2, 1, 0, 0),
    ("products:burst=1:0.2", 33, 3, 0, 2, 1, 0, 0),
    ("counters:transient:0.4", 12, 5, 0, 8, 0, 1, 0),
    ("accumulators:permanent:0.4", 20, 5, 0, 8, 0, 1, 0),
    ("memory:permanent:0.25", 33, 6, 0, 0, 4, 5, 2),
    ("stuck-at-0:permanent:0.5", 1, 6, 0, 0, 0, 1, 0),
    ("stuck-at-1:permanent:0.5", 1, 6, 1, 0, 2, 1, 0),
    ("generators:permanent:0.5", 8, 6, 1, 0, 0, 3, 1),
    ("weights:transient:1e-3", 2000, 12, 0, 0, 0, 0, 0),
    ("products:transient:0.03125", 100, 21, 0, 2, 7, 5, 1),
    ("products:transient:1e-2", 257, 22, 0, 2, 7, 3, 0),
    ("weights:transient:1e-3", 3000, 23, 0, 0, 1, 2, 3),
    ("inputs:permanent:1e-2", 1000, 24, 0, 5, 0, 6, 0),
    ("inputs:burst=70:3e-3", 700, 25, 0, 6, 0, 1, 2),
    ("memory:permanent:1e-2", 33, 26, 0, 0, 2, 8, 0),
    # Blocks past 2^32.
    ("products:transient:2e-2", 1000, 27, 0, 1, 4294967295, 4294967295, 268435455),
    ("weights:transient:1e-5", 2000, 18, 0, 0, 0, 4000000000, 0),
    ("activations:transient:0.4", 9, 12, 0, 4, 0, 3, 1),
    ("activations:permanent:0.4", 9, 12, 0, 4, 0, 3, 1),
]

LAYERS = [
    ("unipolar", "dense:5:3", "bernoulli", "all", 32, 64, 0x5EED, 0xACE1, 2, 1),
    ("bipolar", "dense:4:3", "sobol:1+sobol:2", "all", 8, 100, 0, 0, 1, 0),
    ("signed", "sparse:6:0,2,5//1,3/4", "lfsr:77+sobol:5", "input", 8, 70, 0, 0, 3, 2),
    ("bipolar", "conv:2,4,3:2:2,2:2,1:1,0,0,1:1,1:1", "bernoulli", "all", 32, 40, 5, 6, 3, 2),
    ("signed", "conv:1,3,3:2:2,2:1,1:0,1,0,0:1,1:1", "bernoulli+lfsr:9", "stream", 5, 31, 0, 78, 1, 0),
    ("unipolar", "dense:4:2", "ramp+lfsr:3", "all", 5, 40, 0, 0, 1, 0),
]

FAULTS = [
    "inputs:transient:0.1", "inputs:permanent:0.1", "inputs:burst=3:0.05",
    "weights:transient:0.1", "weights:permanent:0.1", "weights:burst=7:0.05",
    "products:transient:0.1", "products:permanent:0.1", "products:burst=2:0.05",
    "counters:transient:0.2", "counters:permanent:0.2",
    "memory:permanent:0.2", "stuck-at-0:permanent:0.3", "stuck-at-1:permanent:0.3",
    "inputs:transient:0.02,weights:permanent:0.02,weights:burst=5:0.01,products:transient:0.02,counters:transient:0.1,"
    "memory:permanent:0.05,stuck-at-0:permanent:0.1,stuck-at-1:permanent:0.1",
]


ACTIVATIONS = [
    "activations:transient:0.2", "activations:permanent:0.2",
    "activations:transient:0.1,memory:permanent:0.1,counters:transient:0.1",
]

INTEGERS = [
    ("signed", "dense:5:3", "int4", "all", 3, 49, 0, 0, 2, 1),
    ("signed", "dense:4:3", "int8", "all", 7, 127**2, 0, 0, 1, 0),
    ("signed", "conv:2,4,3:2:2,2:2,1:1,0,0,1:1,1:1", "int5", "all", 4, 225, 0, 0, 3, 2),
    ("signed", "sparse:6:0,2,5//1,3/4", "int2", "all", 1, 1, 0, 0, 3, 2),
]

GENERATORS = ["generators:permanent:0.3", "generators:permanent:0.5,weights:permanent:0.05,memory:permanent:0.1"]


def main():
    print("# Known answers of faults, from the specification alone (make_faults.py).")
    print("# mask <fault> <length> <fault seed> <operand> <sample> <row> <unit> <layer> = <packed words>")
    for fault, length, *address in MASKS:
        flips = mask(fault, length, *address)
        words = [f"{flips >> 64 * k & 2**64 - 1:016x}" for k in range((length + 63) // 64)]
        print("mask", fault, length, *address, "=", *words)
    print("# layer <faults> <fault seed> and the fields of layers.kat = <counts>")
    for k, layer in enumerate(LAYERS):
        # Random bits have no state.
        for faults in FAULTS + (GENERATORS if layer[2] != "bernoulli" else []):
            print("layer", faults, 100 + k, *layer, "=", *counts(faults, 100 + k, *layer))
    print("# Registers of inputs, and layers of integers")
    for k, layer in enumerate(LAYERS + INTEGERS):
        own = ["memory:permanent:0.2", "counters:permanent:0.2"] if layer in INTEGERS else []
        for faults in ACTIVATIONS + own:
            print("layer", faults, 200 + k, *layer, "=", *counts(faults, 200 + k, *layer))
    print("# accumulate <faults> <fault seed> <fan-in> <length> <width> <bias> <sample> <neuron> <layer> <count>: unipolar, ReLU = <value>")
    for faults in ("accumulators:transient:0.3", "accumulators:permanent:0.3", "accumulators:transient:0.1,accumulators:permanent:0.1"):
        for neuron in range(6):
            fields = (3, 64, 10, -40, neuron % 3, neuron, 1, 37 * neuron)
            print("accumulate", faults, 8, *fields, "=", accumulate(faults, 8, *fields))


if __name__ == "__main__":
    main()
