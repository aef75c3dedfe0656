"""Checks of every backend before a computation: lengths, seeds, probabilities, packed words."""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from aleatron._arrays import Array, as_float64, as_words, first_index

Words: TypeAlias = npt.NDArray[np.uint64]
Floats: TypeAlias = npt.NDArray[np.float64]

LONGEST = 2**34


def words_of(length: int) -> int:
    """The 64-bit words of a stream of `length` bits."""
    return -(-length // 64)


def as_length(length: SupportsIndex) -> int:
    """Reads the bits of a stream: 1 to 2**34."""
    bits = operator.index(length)
    if not 1 <= bits <= LONGEST:
        raise ValueError(f"length is {bits}, not in [1, {LONGEST}]")
    return bits


def as_seed(seed: SupportsIndex) -> int:
    """Reads a seed of 64 bits."""
    value = operator.index(seed)
    if not 0 <= value < 2**64:
        raise ValueError(f"seed is {value}, not in [0, 2**64)")
    return value


def as_counter(value: SupportsIndex, name: str, bits: int = 32) -> int:
    """Reads part of a Philox counter."""
    number = operator.index(value)
    if not 0 <= number < 2**bits:
        raise ValueError(f"{name} is {number}, not in [0, 2**{bits})")
    return number


def interval(polarity: str) -> tuple[float, float]:
    """The values that streams of a polarity can have."""
    if polarity == "unipolar":
        return 0.0, 1.0
    if polarity == "bipolar":
        return -1.0, 1.0
    raise ValueError(f'polarity is {polarity!r}, not "unipolar" or "bipolar"')


def as_values(obj: object, name: str, polarity: str = "unipolar") -> Floats:
    """Reads values that streams can have; NaN and anything outside the interval is an error with its index."""
    low, high = interval(polarity)
    values = as_float64(obj, name)
    with np.errstate(invalid="ignore"):
        wrong = ~((values >= low) & (values <= high))
    if wrong.any():
        index = first_index(wrong)
        place = f" at index {index}" if values.ndim else ""
        raise ValueError(f"{name}{place} is {values[index]}, not in [{low:g}, {high:g}]")
    return values


def tail_mask(length: int) -> np.uint64:
    """The bits of the last word that belong to a stream."""
    return np.uint64((1 << ((length - 1) % 64 + 1)) - 1)


def as_streams(obj: object, name: str, length: int) -> Words:
    """Reads packed streams of `length` bits along the last axis; ones past the length are an error with the stream's index."""
    words = as_words(obj, name)
    expected = words_of(length)
    if words.ndim == 0 or words.shape[-1] != expected:
        raise ValueError(f"{name} has shape {words.shape}; streams of {length} bits have shape (..., {expected})")
    check_tails(words, name, length)
    return words


def check_tails(words: Words, name: str, length: int) -> None:
    """Refuses streams with ones past their length."""
    if length % 64 == 0:
        return
    dirty = (words[..., -1] & ~tail_mask(length)) != 0
    if dirty.any():
        place = f" at index {first_index(dirty)}" if dirty.ndim else ""
        raise ValueError(f"{name}: the stream{place} has ones past its length of {length}")


def check_bits(bits: Array, name: str) -> npt.NDArray[np.uint8]:
    """Reads an array of zeros and ones of any number type; other values are errors with their index."""
    if bits.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers or booleans, not {bits.dtype}")
    if bits.dtype != np.bool_:
        # A float NaN differs from both.
        wrong = (bits != 0) & (bits != 1)
        if wrong.any():
            index = first_index(wrong)
            place = f" at index {index}" if bits.ndim else ""
            raise ValueError(f"{name}{place} is {bits[index]}, neither 0 nor 1")
    return np.asarray(bits.astype(np.uint8, copy=False))


def check_memory(n_bytes: int, what: str) -> None:
    """Refuses sizes that no address can reach, before NumPy is asked."""
    if n_bytes >= 2**63:
        raise MemoryError(f"{what} would take {n_bytes} bytes")


def check_layer(weights: Any, inputs: Any) -> None:
    """Checks that weights (n_out, n_in, words) and inputs (n_in, words) or (N, n_in, words) fit each other."""
    if len(weights) != 3:
        raise ValueError(f"packed weights have shape {weights}, not (n_neurons, n_inputs, words)")
    if len(inputs) not in (2, 3) or inputs[-2:] != weights[1:]:
        _, n_inputs, words = weights
        raise ValueError(
            f"packed inputs have shape {inputs}; expected ({n_inputs}, {words}) for a sample "
            f"or (N, {n_inputs}, {words}) for a batch"
        )
