"""Times the Python package: packing, counting, encoding, layers, neurons, scaling, memory.

    python benchmarks/benchmark_suite.py                                  a table
    python benchmarks/benchmark_suite.py --markdown                       writes benchmarks/results/BENCHMARKS.md
    python benchmarks/benchmark_suite.py --json                           JSON on standard output
    python benchmarks/benchmark_suite.py --full                           ten times the time for each case
    python benchmarks/benchmark_suite.py --peer sc_neurocore_engine      compared with another package with the same names
    python benchmarks/benchmark_suite.py --threads 1 --only popcount      some cases on one thread

A case is one function over a module with the names of `aleatron.compat`, so a peer runs the very same code. Results are
checked before they are timed. The two packages take turns, round after round, so that a busy machine is busy for both; the
figure is the best round's time for a call.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import aleatron as al
from aleatron import compat

RESULTS = pathlib.Path(__file__).parent / "results" / "BENCHMARKS.md"
ROUNDS = 7

Call = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A benchmark case: `prepare(module)` returns the call, `check(result)` whether its result is right."""

    group: str
    name: str
    prepare: Callable[[Any], Call]
    check: Callable[[Any], bool]
    # Stream bits that a call handles, for the rate.
    bits: float


@dataclass
class Result:
    """The best time of a call in seconds, here and there."""

    group: str
    name: str
    seconds: float
    gbit_per_second: float
    peer_seconds: float | None = None
    ratio: float | None = None


def bit_cases() -> Iterator[Case]:
    """Packing, unpacking, counting, encoding."""
    rng = np.random.default_rng(1)
    n = 1_000_000
    bits = rng.integers(0, 2, n, dtype=np.uint8)
    words = al.pack(bits)
    many = rng.integers(0, 2**63, n, dtype=np.uint64)
    ones = int(al.unpack(many, n * 64).sum(dtype=np.int64))
    p = rng.random(1000)
    as_list = bits[:100_000].tolist()

    def near(encoded: Any) -> bool:
        shares = al.decode(encoded, 1024)
        return bool(np.abs(shares - p).max() < 0.1)

    yield Case(
        "bits", "pack 1M bits", lambda m: lambda: m.pack_bitstream_numpy(bits), lambda r: np.array_equal(r, words), n
    )
    yield Case(
        "bits",
        "pack 100K bits, list",
        lambda m: lambda: m.pack_bitstream(as_list),
        lambda r: np.array_equal(r, al.pack(as_list)),
        len(as_list),
    )
    yield Case(
        "bits",
        "unpack 1M bits",
        lambda m: lambda: m.unpack_bitstream_numpy(words, n),
        lambda r: np.array_equal(r, bits),
        n,
    )
    yield Case("bits", "popcount 1M words", lambda m: lambda: m.popcount_numpy(many), lambda r: r == ones, n * 64)
    yield Case("bits", "encode 1000 x 1024", lambda m: lambda: m.batch_encode_numpy(p, 1024), near, 1000 * 1024)
    yield Case("bits", "encode 1000 x 1024, list", lambda m: lambda: m.batch_encode(p, 1024), near, 1000 * 1024)


def dense_case(
    name: str, layer: tuple[int, int, int], x: Any, run: Callable[[Any, Any], Call], group: str = "dense"
) -> Case:
    """A case of a layer of inputs, neurons and length: `run(module, layer)` returns a call on the inputs `x`."""
    n_inputs, n_neurons, length = layer
    made: dict[Any, Any] = {}

    def prepare(module: Any) -> Call:
        made["layer"] = layer = module.DenseLayer(n_inputs, n_neurons, length)
        return run(module, layer)

    def check(result: Any) -> bool:
        exact = x @ np.asarray(made["layer"].get_weights()).T
        # Ten standard deviations of the noise, and the peer's rounding of probabilities to 8 bits.
        noise = 10 * np.sqrt(n_inputs / 4 / length) + n_inputs / 256
        return bool(np.abs(np.asarray(result) - exact).max() < noise)

    return Case(group, name, prepare, check, float(x.size) * n_neurons * length)


def with_new_seeds(method: Callable[..., Any], x: Any) -> Call:
    """A call with another seed each time, as for independent repetitions; without, a call has the default seed."""
    # As far apart as the peer's seeds must be for its samples not to share bits.
    seeds = iter(range(10**9, 2**63, 10**9))
    return lambda: method(x, next(seeds))


def dense_cases() -> Iterator[Case]:
    """Layers of three sizes, one sample and batches, every way in."""
    rng = np.random.default_rng(2)
    for n_inputs, n_neurons in [(64, 32), (512, 256), (1000, 500)]:
        x = rng.random(n_inputs)
        sizes, title = (n_inputs, n_neurons, 1024), f"{n_inputs}->{n_neurons}"

        def numpy(m: Any, layer: Any, x: Any = x) -> Call:
            return lambda: layer.forward_numpy(x)

        def repeated(m: Any, layer: Any, x: Any = x) -> Call:
            return with_new_seeds(layer.forward_numpy, x)

        def prepacked(m: Any, layer: Any, x: Any = x) -> Call:
            packed = m.batch_encode_numpy(x, 1024)
            return lambda: layer.forward_prepacked_numpy(packed)

        def listed(m: Any, layer: Any, x: Any = x.tolist()) -> Call:
            return lambda: layer.forward_fast(x)

        def first(m: Any, layer: Any, x: Any = x.tolist()) -> Call:
            return lambda: layer.forward(x)

        yield dense_case(f"{title} forward_numpy", sizes, x, numpy)
        yield dense_case(f"{title} forward_numpy, new seeds", sizes, x, repeated)
        yield dense_case(f"{title} forward_prepacked_numpy", sizes, x, prepacked)
        yield dense_case(f"{title} forward_fast, list", sizes, x, listed)
        yield dense_case(f"{title} forward, list", sizes, x, first)
        for n_samples in [1, 10, 100, 1000] if n_inputs == 64 else [64]:
            batch = rng.random((n_samples, n_inputs))

            def batched(m: Any, layer: Any, batch: Any = batch) -> Call:
                return lambda: layer.forward_batch_numpy(batch)

            def repeated_batch(m: Any, layer: Any, batch: Any = batch) -> Call:
                return with_new_seeds(layer.forward_batch_numpy, batch)

            yield dense_case(f"{title} batch of {n_samples}", sizes, batch, batched)
            yield dense_case(f"{title} batch of {n_samples}, new seeds", sizes, batch, repeated_batch)
    for length in [128, 256, 512, 1024, 2048, 4096]:
        x = rng.random(32)

        def scaled(m: Any, layer: Any, x: Any = x) -> Call:
            return lambda: layer.forward_numpy(x)

        yield dense_case(f"32->16, length {length}", (32, 16, length), x, scaled, "scaling")
    x = rng.random(64)

    def least(m: Any, layer: Any, x: Any = x) -> Call:
        return lambda: layer.forward_numpy(x)

    # Almost no work: the time is the overhead of a call from Python.
    yield dense_case("64->1, length 1", (64, 1, 1), x, least)
    bits = 1000.0 * 500 * 1024
    yield Case(
        "dense", "1000->500 construct", lambda m: lambda: m.DenseLayer(1000, 500), lambda r: r is not None, bits
    )
    weights = np.full((500, 1000), 0.5).tolist()

    def set_weights(m: Any) -> Call:
        layer = m.DenseLayer(1000, 500)

        def call() -> Any:
            layer.set_weights(weights)
            return layer

        return call

    yield Case("dense", "1000->500 set_weights, list", set_weights, lambda r: r.get_weights() == weights, bits)


def lif_cases() -> Iterator[Case]:
    """Neurons."""
    expected = al.lif_run(100_000, 20, 256, 100)
    currents = np.full(100_000, 100, np.int16)
    many = np.full(100, 100, np.int16)

    def right(result: Any) -> bool:
        return np.array_equal(result[0], expected[0]) and np.array_equal(result[1], expected[1])

    yield Case("neurons", "LIF 100K steps", lambda m: lambda: m.batch_lif_run(100_000, 20, 256, 100), right, 1e5)
    yield Case(
        "neurons",
        "LIF 100K steps, varying",
        lambda m: lambda: m.batch_lif_run_varying(20, 256, currents),
        right,
        1e5,
    )
    yield Case(
        "neurons",
        "LIF 100 neurons x 1000 steps",
        lambda m: lambda: m.batch_lif_run_multi(100, 1000, 20, 256, many),
        lambda r: np.array_equal(r[1][99], expected[1][:1000]),
        1e5,
    )


def gpu_cases() -> Iterator[Case]:
    """Layers on a GPU; a peer without one has no `GpuDenseLayer`."""
    for n_inputs, n_neurons, n_samples in [(512, 256, 1), (1000, 500, 1), (1000, 500, 256)]:
        inputs = [0.5] * (n_inputs * n_samples)

        def prepare(m: Any, sizes: Any = (n_inputs, n_neurons), n: int = n_samples, inputs: Any = inputs) -> Call:
            layer = m.GpuDenseLayer(*sizes)
            return lambda: layer.forward_batch(inputs, n)

        def right(result: Any, n: int = n_neurons * n_samples) -> bool:
            return len(result) == n and all(value > 0 for value in result)

        yield Case(
            "gpu",
            f"{n_inputs}->{n_neurons} batch of {n_samples}, list",
            prepare,
            right,
            float(n_samples) * n_inputs * n_neurons * 1024,
        )


def calls_for(call: Call, budget: float) -> int:
    """How many calls take about the budget."""
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(n := max(1, min(100, int(budget / 10 / max(once, 1e-7))))):
        call()
    return max(1, int(budget / max((time.perf_counter() - start) / n, 1e-7)))


def timed(call: Call, n: int) -> float:
    """The time of a call among `n`."""
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) / n


def measure(case: Case, peer: Any, budget: float) -> Result:
    """Checks and times a case, taking turns with the peer."""
    modules = [compat] + ([peer] if peer is not None else [])
    calls: list[Call | None] = []
    for module in modules:
        try:
            call = case.prepare(module)
        except (AttributeError, RuntimeError) as error:
            if module is compat:
                raise
            print(f"{module.__name__} has not: {case.name} ({error})", file=sys.stderr)
            calls.append(None)
            continue
        if not case.check(call()):
            raise SystemExit(f"{module.__name__}: {case.name} gives a wrong result")
        calls.append(call)
    counts = [call and calls_for(call, budget / ROUNDS) for call in calls]
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for i, turn in enumerate(calls):
            if turn is not None:
                best[i] = min(best[i], timed(turn, counts[i] or 1))
    result = Result(case.group, case.name, best[0], case.bits / best[0] / 1e9)
    if len(best) > 1 and calls[1] is not None:
        result.peer_seconds, result.ratio = best[1], best[1] / best[0]
    return result


def memory(module_name: str) -> float:
    """Returns the megabytes of a 1000->500 layer, in a separate process."""
    program = f"""
import importlib, pathlib
module = importlib.import_module({module_name!r})
module.DenseLayer(64, 32)
def resident():
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6
before = resident()
layer = module.DenseLayer(1000, 500)
print(resident() - before)
"""
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def span(seconds: float) -> str:
    """A time for people."""
    for unit, scale in [("s", 1.0), ("ms", 1e3), ("us", 1e6)]:
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def table(results: list[Result], memories: dict[str, float], peer: str | None) -> str:
    """All results as a Markdown table, which reads well as it is."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {al.get_num_threads()} threads"
    lines = [f"aleatron {al.__version__} ({al.simd_tier()}), {versions}", ""]
    head = ["case", "time", "Gbit/s"] + ([peer, "ratio"] if peer else [])
    rows = [head, ["---"] * len(head)]
    for r in results:
        rate = "" if r.group == "neurons" else f"{r.gbit_per_second:.1f}"
        row = [r.name, span(r.seconds), rate]
        if peer:
            row += [span(r.peer_seconds) if r.peer_seconds else "", f"{r.ratio:.1f}x" if r.ratio else ""]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines += ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |" for row in rows]
    lines += [""] + [f"memory of a 1000->500 layer of 1024 bits, {name}: {mb:.0f} MB" for name, mb in memories.items()]
    return "\n".join(lines)


def main() -> int:
    """Runs the suite."""
    parser = argparse.ArgumentParser(description="Times the aleatron package.")
    parser.add_argument("--markdown", action="store_true", help=f"write {RESULTS.parent.name}/{RESULTS.name}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--full", action="store_true", help="ten times the time for each case")
    parser.add_argument("--peer", metavar="MODULE", help="a package with the same names to run beside this one")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains this")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads of aleatron (0: one for each core)")
    parser.add_argument("--budget", type=float, default=0.3, metavar="SECONDS", help="time for each case (0.3)")
    arguments = parser.parse_args()
    al.set_num_threads(arguments.threads)
    peer = importlib.import_module(arguments.peer) if arguments.peer else None
    budget = arguments.budget * (10 if arguments.full else 1)
    cases = [*bit_cases(), *dense_cases(), *lif_cases(), *(gpu_cases() if al.gpus() else [])]
    results = []
    for case in cases:
        if arguments.only in case.name:
            results.append(measure(case, peer, budget))
            print(f"{case.name}: {span(results[-1].seconds)}", file=sys.stderr)
    memories = {}
    if not arguments.only and pathlib.Path("/proc/self/statm").exists():
        memories = {name: memory(name) for name in ["aleatron.compat", *([arguments.peer] if peer else [])]}
    text = table(results, memories, arguments.peer)
    if arguments.json:
        print(json.dumps({"results": [asdict(r) for r in results], "memory_mb": memories}, indent=2))
    else:
        print(text)
    if arguments.markdown:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# Benchmarks\n\n{text}\n")
        print(f"wrote {RESULTS}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
