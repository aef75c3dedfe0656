"""Checks and times evaluations on several processes: the speed-up, and what an executor costs.

    python benchmarks/cluster_bench.py                      a table, 1 to 16 processes
    python benchmarks/cluster_bench.py --samples 2048       more samples, for faster machines
    python benchmarks/cluster_bench.py --processes 1,2,4    other numbers of processes
    python benchmarks/cluster_bench.py --json               JSON on standard output
    python benchmarks/cluster_bench.py --quick              a small network: is everything right?

A network of 784-512-512-10 is evaluated with 4 generators, 6 lengths and 4 seeds. Every process has one thread. The first time is that of
`evaluate` without an executor; the results of executors are compared with it by `==`, and a difference ends the run with exit
code 1. Processes are started before the clock is. The speed-up is against one process behind an executor, the overhead that of
this process against none.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import aleatron as al
import numpy as np

GENERATORS = ["bernoulli", "sobol", "lfsr", "halton"]
SEEDS = 4


@dataclass
class Result:
    """The time of an evaluation on some processes; 0 for one without an executor."""

    processes: int
    seconds: float
    speed_up: float | None = None
    share_of_ideal: float | None = None


@dataclass
class Report:
    """Everything found."""

    machine: dict[str, str]
    subject: str
    results: list[Result] = field(default_factory=list)
    overhead_of_one_worker: float | None = None


def network_and_samples(sizes: list[int], n_samples: int) -> tuple[al.Network, Any, Any]:
    """A network with random weights, and samples whose classes are those it finds in floating point."""
    rng = np.random.default_rng(0)
    layers = [
        al.Layer(
            rng.normal(size=(m, n)) / np.sqrt(n),
            bias=rng.normal(size=m) / 10,
            activation="relu" if k + 2 < len(sizes) else "identity",
        )
        for k, (n, m) in enumerate(zip(sizes, sizes[1:]))
    ]
    x = rng.random((n_samples, sizes[0])) * (rng.random((n_samples, sizes[0])) < 0.3)
    network = al.Network(layers, name="random").calibrated(x[:64])
    # What later layers get from other samples may be more than from these; it saturates.
    return network, x, network.predict(x)


def evaluate(subject: dict[str, Any], executor: ProcessPoolExecutor | None) -> tuple[al.Evaluation, float]:
    """An evaluation, and its time."""
    start = time.perf_counter()
    found = al.evaluate(**subject, executor=executor)
    return found, time.perf_counter() - start


def wait(_: int) -> int:
    """Keeps a process busy until all of them have been started."""
    time.sleep(0.2)
    return os.getpid()


def main() -> int:
    """Checks, times, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1024, metavar="N", help="samples to evaluate (1024)")
    parser.add_argument("--processes", default="1,2,4,8,16", metavar="N,...", help="numbers of processes (1,2,4,8,16)")
    parser.add_argument("--quick", action="store_true", help="a small network, one and two processes")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    arguments = parser.parse_args()
    sizes, lengths = [784, 512, 512, 10], [32, 64, 128, 256, 512, 1024]
    counts = [int(n) for n in arguments.processes.split(",")]
    n_samples = arguments.samples
    if arguments.quick:
        sizes, lengths, counts, n_samples = [20, 16, 4], [16, 32], [1, 2], 300
    network, x, y = network_and_samples(sizes, n_samples)
    subject: dict[str, Any] = {
        "network": network,
        "x": x,
        "y": y,
        "lengths": lengths,
        "generators": GENERATORS,
        "seeds": SEEDS,
        "clip": True,
        "device": "cpu",
    }
    machine = {
        "aleatron": al.__version__,
        "Python": platform.python_version(),
        "processor": f"{al.simd_tier()}, {os.cpu_count()} cores",
    }
    names = f"{len(GENERATORS)} generators, {len(lengths)} lengths, {SEEDS} seeds"
    report = Report(machine, f"{'-'.join(map(str, sizes))}, {n_samples} samples, {names}")
    al.set_num_threads(1)
    whole, alone = evaluate(subject, None)
    report.results.append(Result(0, alone))
    one: float | None = None
    context = multiprocessing.get_context("spawn")
    for n in counts:
        with ProcessPoolExecutor(n, context, initializer=al.set_num_threads, initargs=(1,)) as executor:
            while len(set(executor.map(wait, range(n)))) < n:
                pass
            found, seconds = evaluate(subject, executor)
        if found != whole:
            print(f"wrong: {n} processes find something else", file=sys.stderr)
            return 1
        if n == 1:
            one = seconds
            report.overhead_of_one_worker = seconds / alone - 1
        speed_up = None if one is None else one / seconds
        report.results.append(Result(n, seconds, speed_up, None if speed_up is None else speed_up / n))
        if not arguments.json:
            print(f"{n} processes: {seconds:.2f} s", file=sys.stderr, flush=True)
    print(json.dumps(asdict(report), indent=2) if arguments.json else table(report))
    return 0


def table(report: Report) -> str:
    """The report as text."""
    lines = [f"{name}: {value}" for name, value in report.machine.items()]
    lines += [report.subject, "all equal", "", f"{'processes':>12} {'seconds':>9} {'speed-up':>9} {'of ideal':>9}"]
    for result in report.results:
        name = "no executor" if result.processes == 0 else str(result.processes)
        values = [result.speed_up, result.share_of_ideal]
        shown = " ".join(f"{'' if value is None else f'{value:.2f}':>9}" for value in values)
        lines.append(f"{name:>12} {result.seconds:9.2f} {shown}")
    if report.overhead_of_one_worker is not None:
        lines.append(f"\noverhead of an executor with one worker: {100 * report.overhead_of_one_worker:.1f} %")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
