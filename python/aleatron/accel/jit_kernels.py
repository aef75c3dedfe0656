"""Packing, encoding and counting compiled by Numba, on all cores; in NumPy if Numba is not installed.

Kernels release the interpreter and run in a pool of threads, so calls from several threads and after a fork are safe.
`HAS_NUMBA` is whether Numba is available, and `WHY_NO_NUMBA` the reason if not.

>>> import numpy as np
>>> from aleatron.accel.jit_kernels import jit_pack_bits
>>> packed = np.empty(2, np.uint64)
>>> jit_pack_bits(np.ones(70, np.uint8), packed)
>>> packed.tolist()
[18446744073709551615, 63]
"""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any, Literal, SupportsIndex

import numpy as np
import numpy.typing as npt

from aleatron._arrays import as_words, read
from aleatron.accel import numpy_streams
from aleatron.accel._checks import (
    Words,
    as_length,
    as_seed,
    as_values,
    check_bits,
    check_layer,
    check_memory,
    words_of,
)
from aleatron.accel._optional import once, optional
from aleatron.accel.numpy_streams import Domain
from aleatron.accel.vector_ops import pack_bitstream

__all__ = ["HAS_NUMBA", "WHY_NO_NUMBA", "jit_encode", "jit_pack_bits", "jit_vec_mac"]

numba: Any
numba, WHY_NO_NUMBA = optional("numba", "numba")
HAS_NUMBA: bool = WHY_NO_NUMBA is None

# Work per thread below which another thread does not pay: bytes to pack, words to count, words to encode.
PACK_ALONE = 1 << 20
COUNT_ALONE = 1 << 17
ENCODE_ALONE = 1 << 11


def jit_pack_bits(bitstream: npt.ArrayLike, packed_arr: npt.NDArray[np.uint64]) -> None:
    """Packs zeros and ones into words.

    Parameters
    ----------
    bitstream
        Bits of shape (N,). A value other than 0 and 1 is a ValueError with its index.
    packed_arr
        uint64 of shape (ceil(N / 64),), which receives the words; bits past N become zero. An array of shape (N // 64,) receives
        the whole words only.

    Examples
    --------
    >>> import numpy as np
    >>> from aleatron.accel.jit_kernels import jit_pack_bits
    >>> packed = np.empty(1, np.uint64)
    >>> jit_pack_bits(np.array([1, 0, 1, 1], np.uint8), packed)
    >>> int(packed[0])
    13
    """
    bits = read(bitstream, "bitstream")
    if bits.ndim != 1:
        raise ValueError(f"bitstream has shape {bits.shape}; expected (N,)")
    if bits.dtype == np.bool_:
        bits = bits.view(np.uint8)
    if np.shape(packed_arr) == (len(bits) // 64,):
        bits = bits[: len(bits) // 64 * 64]
    words = _output(packed_arr, "packed_arr", (words_of(len(bits)),))
    if words.dtype != np.uint64:
        raise TypeError(f"packed_arr must be uint64, not {words.dtype}")
    if not HAS_NUMBA or not words.flags.c_contiguous:
        words[...] = pack_bitstream(bits)
        return
    if bits.dtype != np.uint8:
        bits = check_bits(bits, "bitstream")
    # The kernel reads 64 bytes for each word; the last word is packed from a zero-padded copy.
    bits = np.ascontiguousarray(bits)
    whole = len(bits) // 64
    tail = np.zeros(64, np.uint8)
    tail[: len(bits) - whole * 64] = bits[whole * 64 :]
    kernel = _kernels().pack

    def part(start: int, end: int) -> bool:
        return bool(kernel(np.uint64(bits.ctypes.data + 64 * start), words[start:end]))

    right = _in_parts(part, whole, len(bits) // PACK_ALONE)
    right.append(bool(kernel(np.uint64(tail.ctypes.data), words[whole:])))
    if not all(right):
        check_bits(bits, "bitstream")


def jit_vec_mac(packed_weights: npt.ArrayLike, packed_inputs: npt.ArrayLike, outputs: npt.NDArray[Any]) -> None:
    """Multiplies and accumulates a dense layer: outputs[j] = ones of weights[j] AND inputs.

    Parameters
    ----------
    packed_weights
        uint64 streams of shape (n_neurons, n_inputs, words).
    packed_inputs
        uint64 streams of shape (n_inputs, words).
    outputs
        An array of shape (n_neurons,) of any number type, which receives the counts. A type too small for them is an
        error.

    Examples
    --------
    >>> import numpy as np
    >>> from aleatron.accel.jit_kernels import jit_vec_mac
    >>> counts = np.zeros(2, np.uint64)
    >>> jit_vec_mac([[[7], [1]], [[3], [0]]], [[6], [1]], counts)
    >>> counts.tolist()
    [3, 1]
    """
    w, x = as_words(packed_weights, "packed_weights"), as_words(packed_inputs, "packed_inputs")
    check_layer(w.shape, x.shape)
    if x.ndim != 2:
        raise ValueError(f"packed_inputs has shape {x.shape}; expected {w.shape[1:]}")
    out = _output(outputs, "outputs", (len(w),))
    if out.dtype.kind not in "fiu":
        raise TypeError(f"outputs must hold numbers, not {out.dtype}")
    direct = out.dtype == np.uint64 and out.flags.c_contiguous
    counts = out if direct else np.empty(len(w), np.uint64)
    if HAS_NUMBA:
        rows, column = w.reshape(len(w), x.size), x.reshape(-1)
        kernel = _kernels().mac
        _in_parts(lambda start, end: kernel(rows[start:end], column, counts[start:end]), len(w), w.size // COUNT_ALONE)
    else:
        counts[...] = numpy_streams.and_counts(w, x)
    if not direct:
        _store(counts, out)


def _store(counts: Words, out: npt.NDArray[Any]) -> None:
    """Writes counts into an array that holds each of them exactly."""
    largest = int(counts.max(initial=0))
    limit = int(np.iinfo(out.dtype).max) if out.dtype.kind in "iu" else 2 ** (np.finfo(out.dtype).nmant + 1)
    if largest > limit:
        raise ValueError(f"outputs at index {int(counts.argmax())} would be {largest}, which {out.dtype} cannot hold")
    out[...] = counts


def jit_encode(
    probs: npt.ArrayLike,
    length: SupportsIndex,
    seed: SupportsIndex = 44257,
    *,
    polarity: Literal["unipolar", "bipolar"] = "unipolar",
    domain: Domain = Domain.INPUT,
    layer: SupportsIndex = 0,
    first_row: SupportsIndex = 0,
) -> Words:
    """Encodes values as packed streams: the bits of `aleatron.encode`.

    Parameters are those of `aleatron.accel.numpy_streams.encode`.

    Examples
    --------
    >>> from aleatron.accel.jit_kernels import jit_encode
    >>> jit_encode([0.0, 1.0], length=70).tolist()
    [[0, 0], [18446744073709551615, 63]]
    """
    if not HAS_NUMBA:
        return numpy_streams.encode(
            probs, length, seed, polarity=polarity, domain=domain, layer=layer, first_row=first_row
        )
    bits, key = as_length(length), as_seed(seed)
    values = as_values(probs, "probability", polarity)
    n_units, row, c3 = numpy_streams.address(values.shape, domain, layer, first_row)
    check_memory(values.size * words_of(bits) * 8, "streams")
    words = np.empty((*values.shape, words_of(bits)), np.uint64)
    limits = numpy_streams.thresholds(values, polarity=polarity).reshape(-1)
    rows = words.reshape(len(limits), words_of(bits))
    kernel = _kernels().encode
    scalars = (np.uint64(n_units), np.uint64(row), np.uint32(c3), np.uint64(key), np.int64(bits))

    def part(start: int, end: int) -> None:
        kernel(limits[start:end], rows[start:end], np.uint64(start), *scalars)

    _in_parts(part, len(limits), words.size // ENCODE_ALONE)
    return words


def _output(array: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Checks an array that is written to."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, not {type(array).__name__}")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only")
    return array


_pool: concurrent.futures.ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()


def _after_fork() -> None:
    # The threads do not exist in the child, and the lock may be held.
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _threads() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_parts(work: Callable[[int, int], Any], n: int, at_most: int) -> list[Any]:
    """Runs `work(start, end)` over 0..n in parts, on at most the given number of threads, and returns the results of the parts."""
    global _pool
    n_parts = max(1, min(_threads(), at_most, n))
    if n_parts == 1:
        return [work(0, n)]
    bounds = [n * i // n_parts for i in range(n_parts + 1)]
    with _pool_lock:
        if _pool is None:
            _pool = concurrent.futures.ThreadPoolExecutor(_threads(), "aleatron-jit")
        futures = [_pool.submit(work, *pair) for pair in zip(bounds[1:-1], bounds[2:])]
    return [work(*bounds[:2]), *(future.result() for future in futures)]


class _Kernels:
    """The compiled functions. Numba compiles each at its first call, and caches it on disk if possible."""

    def __init__(self) -> None:
        popcount, above = _intrinsics()

        def pack(address: Any, words: Any) -> bool:
            wrong = np.uint64(0)
            for w in range(len(words)):
                first = address + np.uint64(64 * w)
                words[w] = above(first, np.uint8(0))
                wrong |= above(first, np.uint8(1))
            return bool(wrong == 0)

        def mac(weights: Any, inputs: Any, counts: Any) -> None:
            for j in range(weights.shape[0]):
                row = weights[j]
                total = np.uint64(0)
                for k in range(len(inputs)):
                    total += popcount(row[k] & inputs[k])
                counts[j] = total

        def encode(
            limits: Any, words: Any, start: Any, n_units: Any, first_row: Any, c3: Any, seed: Any, length: Any
        ) -> None:
            low, thirty_two = np.uint64(0xFFFFFFFF), np.uint64(32)
            for s in range(len(limits)):
                limit = limits[s]
                stream = start + np.uint64(s)
                unit, row = stream % n_units, first_row + stream // n_units
                for w in range(words.shape[1]):
                    word = np.uint64(0)
                    for h in range(2):
                        half = np.uint64(2 * w + h)
                        left = length - np.int64(32 * (2 * w + h))
                        if left <= 0:
                            continue
                        result, undecided = np.uint64(0), low
                        if limit > low:
                            result = low
                        below = limit & low
                        d = np.uint64(0)
                        while d < np.uint64(8) and undecided != 0 and below != 0:
                            c0, c1, c2, c3_ = half * np.uint64(8) + d, unit, row, np.uint64(c3)
                            k0, k1 = seed & low, seed >> thirty_two
                            for _ in range(10):
                                p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
                                c0, c1 = (p1 >> thirty_two) ^ c1 ^ k0, p1 & low
                                c2, c3_ = (p0 >> thirty_two) ^ c3_ ^ k1, p0 & low
                                k0 = (k0 + np.uint64(0x9E3779B9)) & low
                                k1 = (k1 + np.uint64(0xBB67AE85)) & low
                            for plane in (c0, c1, c2, c3_):
                                if below >> np.uint64(31):
                                    result |= undecided & ~plane
                                    undecided &= plane
                                else:
                                    undecided &= ~plane
                                below = (below << np.uint64(1)) & low
                            d += np.uint64(1)
                        if left < 32:
                            result &= (np.uint64(1) << np.uint64(left)) - np.uint64(1)
                        word |= result << (np.uint64(32) * np.uint64(h))
                    words[s, w] = word

        self.pack: Any = _compiled(pack)
        self.mac: Any = _compiled(mac)
        self.encode: Any = _compiled(encode)


def _compiled(function: Callable[..., Any]) -> Any:
    return numba.njit(nogil=True, cache=False)(function)


def _intrinsics() -> tuple[Any, Any]:
    """Two instructions that Numba has no name for: the ones of a word, and which of 64 bytes at an address are above a bound."""
    ir = importlib.import_module("llvmlite.ir")
    types = numba.types

    def popcount(typing_context: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    def above(typing_context: Any, address: Any, bound: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(ir.IntType(8), 64)
            bytes_ = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
            lane = builder.insert_element(
                ir.Constant(vector, ir.Undefined), arguments[1], ir.Constant(ir.IntType(32), 0)
            )
            bounds = builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64))
            return builder.bitcast(builder.icmp_unsigned(">", bytes_, bounds), ir.IntType(64))

        return types.uint64(types.uint64, types.uint8), generate

    return numba.extending.intrinsic(popcount), numba.extending.intrinsic(above)


@once
def _kernels() -> _Kernels:
    return _Kernels()
