"""Checks and times `aleatron.accel`: NumPy, the engine, Numba, JAX and CuPy side by side.

    python benchmarks/accel_bench.py                          a table
    python benchmarks/accel_bench.py --json                   JSON on standard output
    python benchmarks/accel_bench.py --quick                  small sizes: is everything right?
    python benchmarks/accel_bench.py --peer sc_neurocore.accel   compared with another package with the same names

Everything is compared with `==` first; a difference ends the run with exit code 1. A time is that of the best round and includes
waiting for the device. The multiply and accumulate on a GPU is compared with the time of reading its weights, measured as half
the time of a copy of them.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import aleatron as al
import numpy as np
from aleatron import accel
from aleatron.accel import gpu_backend, jax_backend, jit_kernels, numpy_streams, vector_ops

Call = Callable[[], Any]


@dataclass(frozen=True)
class Sizes:
    """The layer that is timed."""

    n_inputs: int = 1000
    n_neurons: int = 500
    length: int = 1024
    batch: int = 64
    bits: int = 1 << 20
    rounds: int = 20


QUICK = Sizes(n_inputs=50, n_neurons=20, length=100, batch=3, bits=1000, rounds=2)


@dataclass
class Result:
    """The best time of a call in seconds, what it is compared with, and their ratio."""

    case: str
    backend: str
    seconds: float
    compared_with: str = ""
    ratio: float | None = None


@dataclass
class Report:
    """Everything found."""

    machine: dict[str, str]
    checked: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    def check(self, name: str, found: Any, expected: Any) -> None:
        """Ends the program if two arrays differ."""
        found, expected = np.asarray(found), np.asarray(expected)
        if found.shape != expected.shape or not np.array_equal(found, expected):
            sys.exit(f"wrong: {name}: {found.dtype}{found.shape} differs from {expected.dtype}{expected.shape}")
        self.checked.append(name)


def best(call: Call, rounds: int) -> float:
    """The least time of a call, after one that compiles; at least `rounds` of them and half a second's worth."""
    call()
    times: list[float] = []
    until = time.perf_counter() + 0.5
    while len(times) < rounds or (time.perf_counter() < until and len(times) < 100 * rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def machine() -> dict[str, str]:
    """What this runs on."""
    found = {
        "aleatron": al.__version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "processor": f"{al.simd_tier()}, {al.get_num_threads()} threads",
        "GPUs of the engine": ", ".join(gpu.name for gpu in al.gpus()) or "none",
    }
    if gpu_backend.HAS_CUPY:
        cupy = gpu_backend.xp
        name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        found["CuPy"] = f"{cupy.__version__} on {name}"
    else:
        found["CuPy"] = f"no: {gpu_backend.WHY_NO_CUPY}"
    if jax_backend.HAS_JAX:
        jax = importlib.import_module("jax")
        found["JAX"] = f"{jax.__version__} on {jax.devices()[0].device_kind}"
    else:
        found["JAX"] = f"no: {jax_backend.WHY_NO_JAX}"
    version = jit_kernels.numba.__version__ if jit_kernels.HAS_NUMBA else f"no: {jit_kernels.WHY_NO_NUMBA}"
    return {**found, "Numba": version}


def wait(array: Any) -> Any:
    """Waits for the computation of an array of JAX or CuPy."""
    if hasattr(array, "block_until_ready"):
        array.block_until_ready()
    elif gpu_backend.HAS_CUPY:
        gpu_backend.xp.cuda.get_current_stream().synchronize()
    return array


def waiting(function: Callable[..., Any], *arguments: Any) -> Call:
    """A call that is over when its result is there."""
    return lambda: wait(function(*arguments))


def check_everything(report: Report) -> None:
    """Every backend and every function with bits, against the engine, over sizes that are not round."""
    rng = np.random.default_rng(0)
    backends = [accel.get_backend(name) for name, there in accel.available_backends().items() if there]
    for n, m, length, samples in [(1, 1, 1, 1), (33, 7, 65, 3), (130, 65, 1000, 5), (257, 130, 256, 9)]:
        p, q = rng.random((samples, n)), rng.random((m, n))
        p[0, 0] = 0.0
        w = numpy_streams.encode(q, length, 1, domain=numpy_streams.Domain.WEIGHT)
        streams = al.encode(p, length, 2)
        expected = numpy_streams.dense_counts(w, streams, length)
        layer = al.DenseLayer.from_weights(q, length, 1, device="cpu")
        size = f"{n} inputs, {m} neurons, {length} bits, {samples} samples"
        report.check(f"numpy counts, {size}", expected, layer.counts(p, 2))
        for backend in backends:
            for batch, values in [(p, expected), (p[0], expected[0])]:
                found = backend.sc_forward(w, batch, length=length, seed=2)
                report.check(f"sc_forward {backend.name}, {size}, {batch.ndim} axes", found, values / length)
        for name, encode in encoders():
            report.check(f"encode {name}, {size}", encode(p, length, 2), streams)
            two = 2 * p - 1
            found = encode(two, length, 2, polarity="bipolar")
            report.check(f"encode {name}, bipolar, {size}", found, al.encode(two, length, 2, polarity="bipolar"))
        bits = rng.integers(0, 2, (samples, length), dtype=np.uint8)
        for name, pack in packers():
            report.check(f"pack {name}, {size}", pack(bits), al.pack(bits))
        if jax_backend.HAS_JAX:
            for polarity, a, b in [("unipolar", p, q), ("bipolar", 2 * p - 1, 2 * q - 1)]:
                counts = jax_backend.jax_dense_counts(a, b, length, 2, 1, polarity=polarity)  # type: ignore[arg-type]
                engine = al.DenseLayer.from_weights(b, length, 1, polarity=polarity, device="cpu")  # type: ignore[arg-type]
                report.check(f"jax_dense_counts {polarity}, {size}", counts, engine.counts(a, 2))
        report.check(
            f"gpu_popcount, {size}", gpu_backend.to_host(gpu_backend.gpu_popcount(w)), numpy_streams.count_ones(w)
        )
        report.check(
            f"gpu_vec_and, {size}", gpu_backend.to_host(gpu_backend.gpu_vec_and(w, streams[0])), w & streams[0]
        )
        gpu_layer = gpu_backend.GpuLayer(q, length, 1)
        report.check(f"GpuLayer, {size}", gpu_layer.counts(p, 2), expected)


def encoders() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions that encode, with results on the host."""
    yield "numpy", numpy_streams.encode
    if jit_kernels.HAS_NUMBA:
        yield "numba", jit_kernels.jit_encode
    if jax_backend.HAS_JAX:
        yield "jax", lambda *a, **k: jax_backend.to_host(jax_backend.jax_encode(*a, **k))
    if gpu_backend.HAS_CUPY:
        yield "cupy", lambda *a, **k: gpu_backend.to_host(gpu_backend.gpu_encode(*a, **k))


def packers() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions that pack, with results on the host."""
    yield "numpy", vector_ops.pack_bitstream
    if jit_kernels.HAS_NUMBA:

        def pack(rows: Any) -> Any:
            words = np.empty((len(rows), -(-rows.shape[1] // 64)), np.uint64)
            for row, out in zip(rows, words):
                jit_kernels.jit_pack_bits(row, out)
            return words

        yield "numba", pack
    if jax_backend.HAS_JAX:
        yield "jax", lambda bits: jax_backend.to_host(jax_backend.jax_pack_bitstream(bits))
    if gpu_backend.HAS_CUPY:
        yield "cupy", lambda bits: gpu_backend.to_host(gpu_backend.gpu_pack_bitstream(bits))


def time_everything(report: Report, sizes: Sizes, peer: str | None) -> None:
    """Times each function on each backend, with operands on its device."""
    rng = np.random.default_rng(1)
    n, m, length, batch = sizes.n_inputs, sizes.n_neurons, sizes.length, sizes.batch
    p, q = rng.random((batch, n)), rng.random((m, n))
    w, x = al.encode(q, length, 1), al.encode(p, length, 2)
    counts = numpy_streams.dense_counts(w, x, length)
    bits = rng.integers(0, 2, sizes.bits, dtype=np.uint8)
    packed = al.pack(bits)

    def add(case: str, backend: str, call: Call, other: Result | None = None) -> Result:
        result = Result(case, backend, best(call, sizes.rounds))
        if other is not None:
            result.compared_with, result.ratio = f"{other.backend} {other.case}", result.seconds / other.seconds
        report.results.append(result)
        return result

    mac, macs = f"mac {n}x{m}", f"mac {n}x{m} x {batch}"
    encode, pack = f"encode {n} x {length}", f"pack {sizes.bits} bits"
    forward = f"sc_forward {n}x{m}"

    # Packing.
    add(pack, "engine", lambda: al.pack(bits))
    add(pack, "numpy", lambda: vector_ops.pack_bitstream(bits))
    words = np.empty_like(packed)
    if jit_kernels.HAS_NUMBA:
        there = add(pack, "numba", lambda: jit_kernels.jit_pack_bits(bits, words))
        report.check("numba pack", words, packed)
        if peer is not None:
            module = importlib.import_module(f"{peer}.jit_kernels")
            add(pack, f"{peer} numba", lambda: module.jit_pack_bits(bits, words), there)

    # Multiply and accumulate.
    add(mac, "numpy", lambda: numpy_streams.and_counts(w, x[0]))
    if jit_kernels.HAS_NUMBA:
        out = np.empty(m, np.uint64)
        there = add(mac, "numba", lambda: jit_kernels.jit_vec_mac(w, x[0], out))
        report.check("numba mac", out, counts[0])
        if peer is not None:
            module = importlib.import_module(f"{peer}.jit_kernels")
            add(mac, f"{peer} numba", lambda: module.jit_vec_mac(w, x[0], out), there)

    # Encoding.
    add(encode, "engine", lambda: al.encode(p[0], length, 2))
    add(encode, "numpy", lambda: numpy_streams.encode(p[0], length, 2))
    if jit_kernels.HAS_NUMBA:
        add(encode, "numba", lambda: jit_kernels.jit_encode(p[0], length, 2))

    if jax_backend.HAS_JAX:
        time_jax(report, add, (w, x, p, counts, bits, packed), length, (mac, macs, encode, pack))
    if gpu_backend.HAS_CUPY:
        time_cupy(report, add, (w, x, p, counts, bits, packed), length, (mac, macs, encode, pack), peer)

    for name, is_there in accel.available_backends().items():
        if is_there:
            backend = accel.get_backend(name)
            add(forward, name, functools.partial(backend.sc_forward, w, p[0], length=length, seed=2))


def time_jax(report: Report, add: Any, data: tuple[Any, ...], length: int, names: tuple[str, ...]) -> None:
    """Times JAX, and a plain popcount matmul for comparison."""
    jax = importlib.import_module("jax")
    w, x, p, counts, bits, packed = data
    mac, macs, encode, pack = names
    jw, jx, jp = jax_backend.to_jax(w), jax_backend.to_jax(x), jax_backend.to_jax(p.astype(np.float32))
    jbits = jax_backend.to_jax(bits)

    def matmul(w: Any, x: Any) -> Any:
        axes = tuple(range(2, w.ndim + 1))
        return jax.lax.population_count(w[None] & x[:, None]).astype(np.int32).sum(axis=axes, dtype=np.int32)

    def dense(p: Any, w: Any) -> Any:
        return jax_backend.jax_vec_mac(w, jax_backend.jax_encode(p, length, 2))

    plain, dense, packs = jax.jit(matmul), jax.jit(dense), jax.jit(jax_backend.jax_pack_bitstream)
    report.check("jax plain matmul", plain(jw, jx), counts)
    report.check("jax mac", jax_backend.jax_vec_mac(jw, jx), counts)
    report.check("jax pack", jax_backend.to_host(packs(jbits)), packed)
    add(pack, "jax", waiting(packs, jbits))
    add(encode, "jax", waiting(lambda: jax_backend.jax_encode(jp[0], length, 2)))
    one = add(mac, "jax, plain", waiting(plain, jw, jx[:1]))
    add(mac, "jax", waiting(jax_backend.jax_vec_mac, jw, jx[0]), one)
    many = add(macs, "jax, plain", waiting(plain, jw, jx))
    add(macs, "jax", waiting(jax_backend.jax_vec_mac, jw, jx), many)
    add(f"encode + {macs}", "jax", waiting(dense, jp, jw), many)


def time_cupy(
    report: Report, add: Any, data: tuple[Any, ...], length: int, names: tuple[str, ...], peer: str | None
) -> None:
    """Times CuPy, and for comparison reading the weights and broadcast temporaries."""
    cupy = gpu_backend.xp
    w, x, p, counts, bits, packed = data
    mac, macs, encode, pack = names
    dw, dx, dp, dbits = (cupy.asarray(array) for array in (w, x, p, bits))
    copy = cupy.empty_like(dw)

    def broadcast(w: Any, x: Any) -> Any:
        return gpu_backend.gpu_popcount(w & x[None]).sum(axis=(1, 2))

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    report.check("cupy mac", gpu_backend.to_host(gpu_backend.gpu_vec_mac(dw, dx[0])), counts[0])
    report.check("cupy mac, batch", gpu_backend.to_host(gpu_backend.gpu_vec_mac(dw, dx)), counts)
    taken = pool.total_bytes() - before
    if taken > max(dw.nbytes // 8, 1 << 16):
        sys.exit(f"wrong: the mac took {taken} bytes of temporaries, its weights have {dw.nbytes}")
    report.checked.append(f"cupy mac takes {taken} bytes on the device beside its operands of {dw.nbytes}")
    report.check("cupy broadcast", gpu_backend.to_host(broadcast(dw, dx[0])), counts[0])
    report.check("cupy pack", gpu_backend.to_host(gpu_backend.gpu_pack_bitstream(dbits)), packed)

    copied = add(f"copy of the weights of {mac}", "cupy", waiting(lambda: cupy.copyto(copy, dw)))
    copied.case, copied.seconds = f"reading the weights of {mac}", copied.seconds / 2
    add(mac, "cupy", waiting(gpu_backend.gpu_vec_mac, dw, dx[0]), copied)
    add(mac, "cupy, broadcast", waiting(broadcast, dw, dx[0]), copied)
    add(macs, "cupy", waiting(gpu_backend.gpu_vec_mac, dw, dx))
    add(encode, "cupy", waiting(gpu_backend.gpu_encode, dp[0], length, 2))
    add(pack, "cupy", waiting(gpu_backend.gpu_pack_bitstream, dbits))
    if peer is not None:
        module = importlib.import_module(f"{peer}.gpu_backend")
        if module.HAS_CUPY:
            add(mac, f"{peer} cupy", waiting(module.gpu_vec_mac, dw, dx[0]), copied)


def table(report: Report) -> str:
    """The report as text."""
    lines = [f"{name}: {value}" for name, value in report.machine.items()]
    lines += ["", f"{len(report.checked)} comparisons, all equal", ""]
    lines.append(f"{'case':34} {'backend':24} {'time':>12}   ratio")
    for result in report.results:
        beside = "" if result.ratio is None else f"   {result.ratio:.2f} of {result.compared_with}"
        lines.append(f"{result.case:34} {result.backend:24} {result.seconds * 1e6:9.1f} us{beside}")
    return "\n".join(lines)


def main() -> int:
    """Checks, times, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds")
    parser.add_argument("--peer", metavar="PACKAGE", help="another package with the same names to time")
    arguments = parser.parse_args()
    report = Report(machine())
    check_everything(report)
    time_everything(report, QUICK if arguments.quick else Sizes(), arguments.peer)
    print(json.dumps(asdict(report), indent=2) if arguments.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
