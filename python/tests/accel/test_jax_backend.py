"""JAX: the bits of the engine, the documented equations, gradients, and their behaviour under jit, vmap and scan."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import aleatron as al
import jax
import numpy as np
import pytest
from aleatron.accel import _jax_streams as streams
from aleatron.accel import jax_backend as j
from aleatron.accel import numpy_streams as ns
from aleatron.accel.jax_backend import jnp


def test_words_are_pairs_without_64_bits() -> None:
    words = np.array([[2**64 - 1, 1], [2**32, 5]], np.uint64)
    there = j.to_jax(words)
    assert there.shape == (2, 2, 2) and there.dtype == np.uint32
    assert np.array_equal(j.to_host(there), words)
    assert np.array_equal(j.to_host(j.to_jax(np.asfortranarray(words))), words)
    assert j.to_jax(there) is there
    assert j.to_host(j.to_jax([1.5, 2.5])).dtype == np.float32
    assert np.array_equal(j.to_host(j.to_jax(np.array([-5, 2**31 - 1]))), [-5, 2**31 - 1])
    with pytest.raises(ValueError, match=r"arr at index 1 is 2147483648: it needs JAX's 64-bit mode"):
        j.to_jax(np.array([1, 2**31]))


def test_packed_operations() -> None:
    rng = np.random.default_rng(0)
    for shape in [(1,), (64,), (70,), (3, 130), (2, 0)]:
        bits = rng.integers(0, 2, shape, dtype=np.uint8)
        packed = j.jax_pack_bitstream(bits)
        assert np.array_equal(j.to_host(packed), al.pack(bits))
        assert np.array_equal(j.to_host(jax.jit(j.jax_pack_bitstream)(bits)), al.pack(bits))
        assert np.array_equal(np.asarray(j.jax_popcount(packed)), ns.count_ones(al.pack(bits)))
    a, b = rng.integers(0, 2**64, (3, 4, 2), np.uint64), rng.integers(0, 2**64, (4, 2), np.uint64)
    assert np.array_equal(j.to_host(j.jax_vec_and(a, b)), a & b)
    assert np.array_equal(np.asarray(j.jax_vec_mac(a, b)), ns.and_counts(a, b))
    assert np.array_equal(np.asarray(jax.jit(j.jax_vec_mac)(j.to_jax(a), j.to_jax(a))), ns.and_counts(a, a))
    mapped = jax.vmap(j.jax_vec_mac, in_axes=(None, 0))(j.to_jax(a), j.to_jax(a))
    assert np.array_equal(np.asarray(mapped), ns.and_counts(a, a))
    assert j.jax_vec_mac(a[:0], b).shape == (0,) and j.jax_vec_mac(a, a[:0]).shape == (0, 3)


BAD: list[tuple[Any, Any, str]] = [
    (lambda: j.jax_pack_bitstream([0, 2]), ValueError, "bits at index 1 is 2, neither 0 nor 1"),
    (lambda: j.jax_pack_bitstream(jnp.array([[0, 1], [3, 1]])), ValueError, r"bits at index \(1, 0\) is 3"),
    (lambda: j.jax_pack_bitstream(1), ValueError, "at least one axis"),
    (lambda: j.jax_popcount(jnp.zeros(3)), TypeError, "packed must hold packed words"),
    (lambda: j.jax_popcount(jnp.zeros((4, 3), np.uint32)), TypeError, "packed words"),
    (lambda: j.jax_vec_and([1], [1, 2]), ValueError, "streams differ in words"),
    (lambda: j.jax_vec_mac([[[1]]], [[1], [2]]), ValueError, "packed inputs have shape"),
    (lambda: j.jax_encode([0.5], 0), ValueError, "length is 0"),
    (lambda: j.jax_encode(jnp.array([0.5, 1.5]), 64), ValueError, "probability at index 1 is 1.5, not in"),
    (lambda: j.jax_encode([0.5], 64, seed=2**64), ValueError, "seed is"),
    (lambda: j.jax_encode([0.5], 64, seed=jnp.zeros(3)), TypeError, "a seed in JAX"),
    (lambda: j.jax_encode([0.5], 64, seed=jnp.int32(-1)), ValueError, "seed is -1"),
    (lambda: j.jax_encode(jnp.array([0.5, np.nan], jnp.bfloat16), 64), ValueError, "probability at index 1 is nan"),
    (lambda: j.jax_encode(jnp.array([0.5j]), 64), TypeError, "expected real numbers, not complex64"),
    (lambda: j.jax_encode([0.5], 64, domain=16), ValueError, "16 is not a valid Domain"),
    (lambda: j.jax_dense([0.5], [0.5], 64), ValueError, r"weights have shape \(1,\)"),
    (lambda: j.jax_dense([0.5, 0.5], [[0.5]], 64), ValueError, r"x has shape \(2,\); expected \(1,\)"),
    (lambda: j.jax_dense([np.nan], [[0.5]], 64), ValueError, "is nan"),
    (lambda: j.jax_lif_step([0.0, np.inf], 0, 0, 0, 1, 1, 1, 0), ValueError, "v at index 1 is inf"),
    (lambda: j.jax_lif_step([0.0], [0.0, 1.0], 0, 0, 1, 1, 1, 0), ValueError, r"I_t has shape \(2,\)"),
    (lambda: j.jax_forward_pass([], [[1.0]], 3), ValueError, "weights are empty"),
    (lambda: j.jax_forward_pass([[[1.0, 2.0]]], [[1.0]], 3), ValueError, r"weights\[0\] has shape \(1, 2\)"),
    (lambda: j.jax_forward_pass([[[1.0]]], [[1.0]], 0), ValueError, "n_steps is 0"),
    (lambda: j.jax_forward_pass([[[1.0]]], [[1.0]], 3, alpha=np.nan), ValueError, "alpha is nan"),
    (lambda: j.jax_forward_pass([[[1.0]]], [[1.0]], 3, alpha=[1.0]), ValueError, "expected a scalar"),
    (lambda: j.jax_forward_pass([[[1.0]]], [[[1.0]]], 3), ValueError, "x has shape"),
    (lambda: j.jax_surrogate_loss([[[1.0]]], [[1.0]], [1]), ValueError, r"targets at index 0 is 1, not in \[0, 1\)"),
    (lambda: j.jax_surrogate_loss([[[1.0]]], [[1.0]], [[1.0, 0.0]]), ValueError, "targets have shape"),
    (lambda: j.jax_surrogate_loss([[[1.0]]], [[1.0]], [0], surrogate_path="x"), ValueError, "no surrogate path 'x'"),
]


@pytest.mark.parametrize(("call", "kind", "message"), BAD, ids=[message for _, _, message in BAD])
def test_bad_input(call: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_thresholds_in_float32_are_those_of_float64() -> None:
    rng = np.random.default_rng(1)
    powers = np.float32(2.0) ** -np.arange(0, 60, 0.25, dtype=np.float32)
    v = np.concatenate(
        [
            [0.0, 1.0],
            powers,
            np.nextafter(powers, np.float32(0)),
            np.nextafter(powers, np.float32(1)),
            rng.random(20_000),
            rng.random(20_000) * 2.0 ** -rng.integers(20, 60, 20_000),
        ]
    ).astype(np.float32)
    v = v[v <= 1]
    for polarity, values in [("unipolar", v), ("bipolar", np.concatenate([v, -v]))]:
        low, one = jax.jit(streams.limits, static_argnums=1)(values, polarity)
        found = np.asarray(low).astype(np.uint64) + (np.asarray(one).astype(np.uint64) << np.uint64(32))
        assert np.array_equal(found, ns.thresholds(values.astype(np.float64), polarity=polarity))  # type: ignore[arg-type]


def test_encoding_inside_jit() -> None:
    p = np.random.default_rng(2).random((3, 5)).astype(np.float32)
    encode = jax.jit(lambda p, seed, row: j.jax_encode(p, 100, seed, first_row=row))
    for seed, traced in [(7, jnp.uint32(7)), (2**40 + 3, jnp.array([3, 2**8], np.uint32)), (9, jnp.int32(9))]:
        expected = ns.encode(p, 100, seed, first_row=4)
        assert np.array_equal(j.to_host(encode(p, traced, jnp.uint32(4))), expected)
    # Under vmap the row must be given: each call sees a single row.
    rows = jax.vmap(lambda p, row: j.jax_encode(p, 100, 7, first_row=row))(p, jnp.arange(3))
    assert np.array_equal(j.to_host(rows), ns.encode(p, 100, 7))
    # Traced values cannot be refused: they are clipped.
    ends = j.to_host(jax.jit(lambda p: j.jax_encode(p, 3))(jnp.array([-1.0, 2.0, np.nan])))
    assert ends.tolist() == [[0], [7], [0]]
    assert j.to_host(j.jax_encode(jnp.array([0, 1]), 3)).tolist() == [[0], [7]]
    # Concrete JAX arrays.
    assert np.array_equal(
        j.to_host(j.jax_encode(p, 100, jnp.int32(9), first_row=jnp.int32(4))), ns.encode(p, 100, 9, first_row=4)
    )
    half = jnp.asarray(p, jnp.bfloat16)
    assert np.array_equal(j.to_host(j.jax_encode(half, 100, 7)), ns.encode(np.asarray(half, np.float64), 100, 7))


@pytest.mark.parametrize("polarity", ["unipolar", "bipolar", "signed"])
def test_dense_layers_are_the_engines(polarity: Any) -> None:
    rng = np.random.default_rng(3)
    low = 0.0 if polarity == "unipolar" else -1.0
    w, x = rng.uniform(low, 1, (4, 9)), rng.uniform(low, 1, (5, 9))
    for length in [16, 100]:
        layer = al.DenseLayer.from_weights(w, length, 11, polarity=polarity, device="cpu")
        counts = j.jax_dense_counts(x, w, length, 13, 11, polarity=polarity)
        assert np.array_equal(np.asarray(counts), layer.counts(x, 13))
        # One rounding to float32 of the integer, and one of the quotient.
        value = np.asarray(j.jax_dense(x, w, length, 13, 11, polarity=polarity))
        assert np.array_equal(value, (layer(x, 13) * length).astype(np.float32) / np.float32(length))
        assert np.array_equal(np.asarray(j.jax_dense(x[0], w, length, 13, 11, polarity=polarity)), value[0])
    x32, w32 = jnp.asarray(x), jnp.asarray(w)
    layer = al.DenseLayer.from_weights(np.asarray(w32), 64, 11, polarity=polarity, device="cpu")
    compiled = jax.jit(lambda x, w, seed: j.jax_dense_counts(x, w, 64, seed, 11, polarity=polarity))
    for seed in [1, 2]:
        assert np.array_equal(np.asarray(compiled(x32, w32, jnp.uint32(seed))), layer.counts(np.asarray(x32), seed))


def test_dense_gradients_go_straight_through() -> None:
    rng = np.random.default_rng(4)
    x, w, g = (jnp.asarray(rng.uniform(-1, 1, shape)) for shape in [(5, 9), (4, 9), (5, 4)])

    def through_streams(x: Any, w: Any) -> Any:
        return (g * j.jax_dense(x, w, 16, polarity="bipolar")).sum()

    def in_floats(x: Any, w: Any) -> Any:
        return (g * (x @ w.T)).sum()

    for gradient in [jax.grad, lambda f, **k: jax.jit(jax.grad(f, **k))]:
        found = gradient(through_streams, argnums=(0, 1))(x, w)
        for a, b in zip(found, jax.grad(in_floats, argnums=(0, 1))(x, w)):
            assert np.allclose(a, b, rtol=1e-5, atol=1e-6)
    # One sample. The gradient is one at the ends of the interval and zero outside; NaN propagates.
    one = jax.grad(lambda x: j.jax_dense(x, jnp.array([[0.25, 0.5, 0.75]]), 8).sum())
    assert jax.jit(one)(jnp.array([0.0, 1.0, 2.0])).tolist() == [0.25, 0.5, 0.0]
    with pytest.raises(ValueError, match="probability at index 2 is 2.0"):
        one(jnp.array([0.0, 1.0, 2.0]))
    y = jax.jit(lambda x: j.jax_dense(x, jnp.eye(2), 8))(jnp.array([[1.0, np.nan], [1.0, 0.0]]))
    assert np.isnan(y[0]).all() and y[1].tolist() == [1.0, 0.0]


def lif(
    v: Any, current: Any, v_rest: float, v_reset: float, v_threshold: float, alpha: float, r: float, noise: Any
) -> Any:
    """The documented equation, in plain Python."""
    potentials, spikes = [], []
    for i in range(len(v)):
        new = v[i] + (v_rest - v[i]) * alpha + current[i] * r + noise[i]
        spikes.append(int(new >= v_threshold))
        potentials.append(v_reset if new >= v_threshold else new)
    return potentials, spikes


def test_lif_step_is_the_documented_equation() -> None:
    rng = np.random.default_rng(5)
    for v_rest, v_reset, threshold, alpha, r in [
        (0, 0, 1, 0.1, 1),
        (0.3, -0.5, 0.8, 0.0, 2.5),
        (-0.2, 0.6, 0.5, 1.7, -1),
    ]:
        # Multiples of 1/64 make every sum exact in float32.
        v, current, noise = (rng.integers(-64, 64, 50) / 64 for _ in range(3))
        args = [round(a * 64) / 64 for a in (v_rest, v_reset, threshold, alpha, r)]
        found, spikes = j.jax_lif_step(v, current, *args, noise)
        assert spikes.dtype == np.uint8 and 0 < spikes.sum() < 50
        expected = lif(v, current, *args, noise)
        assert (np.asarray(found, float).tolist(), spikes.tolist()) == expected


def forward(weights: Any, x: Any, steps: int, v_rest: float, v_reset: float, threshold: float, alpha: float) -> Any:
    """v = alpha v + W s_prev, s = 1 where v >= threshold, v = v_reset there; in plain NumPy."""
    potentials = [np.full((len(x), len(w)), v_rest) for w in weights]
    trains: list[list[Any]] = [[] for _ in weights]
    for _ in range(steps):
        s = x
        for i, w in enumerate(weights):
            v = alpha * potentials[i] + s @ w.T
            s = (v >= threshold).astype(float)
            potentials[i] = np.where(s == 1, v_reset, v)
            trains[i].append(s)
    return [np.array(train) for train in trains], potentials[-1]


@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0, 1.25, 0.0])
@pytest.mark.parametrize("v_reset", [0.0, 0.5, -0.25])
def test_forward_pass_is_the_documented_equation(v_reset: float, alpha: float) -> None:
    rng = np.random.default_rng(6)
    # Few bits: eight steps stay exact in float32.
    weights = [rng.integers(-2, 4, shape) / 4 for shape in [(6, 4), (3, 6)]]
    x = rng.integers(0, 4, (5, 4)) / 4
    for v_rest in [0.0, 0.25]:
        trains, potentials = j.jax_forward_pass(weights, x, 8, v_rest, v_reset, 1.0, alpha)
        expected, final = forward(weights, x, 8, v_rest, v_reset, 1.0, alpha)
        assert [train.shape for train in trains] == [(8, 5, 6), (8, 5, 3)]
        for found, train in zip(trains, expected):
            assert np.array_equal(np.asarray(found), train)
        assert np.array_equal(np.asarray(potentials, float), final)
        one, last = j.jax_forward_pass(weights, x[0], 8, v_rest, v_reset, 1.0, alpha)
        assert np.array_equal(one[1], trains[1][:, 0]) and np.array_equal(last, potentials[0])
    assert any(train.any() for train in expected)


def test_neuron_that_resets_to_a_half_still_fires() -> None:
    trains, _ = j.jax_forward_pass([[[0.4]]], [[1.0]], 9, v_reset=0.5)
    assert trains[0].ravel().tolist() == [0, 0, 1, 0, 1, 0, 1, 0, 1]
    trains, _ = j.jax_forward_pass([[[0.4]]], [[1.0]], 9)
    assert trains[0].ravel().tolist() == [0, 0, 1] * 3


def test_steps_are_a_scan() -> None:
    # The program does not grow with the steps.
    def text(steps: int) -> str:
        return str(jax.make_jaxpr(lambda x: j.jax_forward_pass([jnp.ones((2, 2))], x, steps)[1])(jnp.ones((1, 2))))

    assert "scan" in text(5) and text(50).count("\n") == text(5).count("\n")


@pytest.mark.parametrize("path", j.JAX_SURROGATE_PATHS)
def test_surrogate_loss(path: str) -> None:
    rng = np.random.default_rng(7)
    weights = [jnp.asarray(rng.normal(0, 0.7, shape)) for shape in [(8, 6), (3, 8)]]
    x, y = jnp.asarray(rng.random((10, 6))), rng.integers(0, 3, 10)
    trains, _ = j.jax_forward_pass(weights, x, 12)
    rates = np.asarray(trains[-1]).mean(axis=0)
    scores = rates - np.log(np.exp(rates).sum(axis=1, keepdims=True))
    loss = j.jax_surrogate_loss(weights, x, y, n_steps=12, surrogate_path=path)
    assert np.isclose(loss, -scores[np.arange(10), y].mean(), rtol=1e-5)
    one_hot = np.eye(3)[y]
    assert np.isclose(j.jax_surrogate_loss(weights, x, one_hot, n_steps=12, surrogate_path=path), loss, rtol=1e-6)
    gradients = jax.grad(lambda w: j.jax_surrogate_loss(w, x, y, n_steps=12, surrogate_path=path))(weights)
    assert all(np.isfinite(g).all() and np.abs(g).max() > 0 for g in gradients)
    stepped, before = j.jax_surrogate_gradient_step(weights, x, y, n_steps=12, lr=0.25, surrogate_path=path)
    assert isinstance(before, float) and before == float(loss)
    for w, new, g in zip(weights, stepped, gradients):
        assert np.allclose(new, w - 0.25 * g, rtol=1e-4, atol=1e-6)
    # The same inside jit, where the loss is traced.
    inside, traced = jax.jit(
        lambda w: j.jax_surrogate_gradient_step(w, x, y, n_steps=12, lr=0.25, surrogate_path=path)
    )(weights)
    assert np.allclose(traced, before, rtol=1e-5) and np.allclose(inside[0], stepped[0], rtol=1e-4, atol=1e-6)


def test_surrogate_derivatives() -> None:
    # One neuron, one step, no leak: v is the weight, and the rate its spike.
    def slope(w: float, path: str, beta: float) -> float:
        def loss(w: Any) -> Any:
            return j.jax_surrogate_loss([w], [[1.0]], [[1.0, 0.0]], n_steps=1, beta=beta, surrogate_path=path)

        return float(jax.grad(loss)(jnp.array([[w], [-9.0]]))[0, 0])

    for w in [0.25, 0.9, 1.0, 1.5]:
        # d loss / d rate of the first class.
        rate = float(w >= 1)
        by_rate = 1 / (1 + np.exp(-rate)) - 1
        for beta in [1.0, 10.0]:
            over = w - 1
            assert np.isclose(slope(w, "custom_vjp", beta), by_rate / (1 + beta * abs(over)) ** 2, rtol=1e-4)
            s = 1 / (1 + np.exp(-beta * over))
            assert np.isclose(slope(w, "legacy_stop_gradient", beta), by_rate * beta * s * (1 - s), rtol=1e-3)


WITH_64_BITS = """
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import aleatron as al
from aleatron.accel import jax_backend as j, numpy_streams as ns
rng = np.random.default_rng(0)
for polarity, low in [("unipolar", 0.0), ("bipolar", -1.0)]:
    p = np.concatenate([rng.uniform(low, 1, 50), [low, 1.0, np.nextafter(1, 0), 0.49999999999999994 * 2.0**-32]])
    for values in [p, jax.numpy.asarray(p), jax.numpy.asarray(p.astype(np.float32))]:
        words = j.jax_encode(values, 100, 2**63 + 1, polarity=polarity)
        assert words.dtype == np.uint64
        assert np.array_equal(words, al.encode(np.asarray(values), 100, 2**63 + 1, polarity=polarity)), polarity
for polarity, low in [("unipolar", 0.0), ("bipolar", -1.0), ("signed", -1.0)]:
    w, x = rng.uniform(low, 1, (3, 5)), rng.uniform(low, 1, (4, 5))
    layer = al.DenseLayer.from_weights(w, 100, 1, polarity=polarity)
    assert np.array_equal(j.jax_dense(x, w, 100, 2, 1, polarity=polarity), layer(x, 2))
    assert np.array_equal(jax.jit(lambda x, s: j.jax_dense(x, w, 100, s, 1, polarity=polarity))(x, 2), layer(x, 2))
    kernels, images = rng.uniform(low, 1, (4, 1, 3, 2)), rng.uniform(low, 1, (2, 2, 5, 4))
    layer = al.ConvLayer.from_weights(kernels, (2, 5, 4), 100, 1, polarity, padding=1, groups=2)
    found = j.jax_conv(images, kernels, 100, 2, 1, polarity=polarity, padding=1, groups=2)
    assert found.dtype == np.float64 and np.array_equal(found, layer(images, 2))
words = rng.integers(0, 2**64, (3, 4, 2), np.uint64)
there = j.to_jax(words)
assert there.dtype == np.uint64 and np.array_equal(j.to_host(there), words)
assert np.array_equal(j.jax_vec_mac(there, there), ns.and_counts(words, words))
assert np.array_equal(j.jax_popcount(there), ns.count_ones(words))
assert np.array_equal(j.jax_pack_bitstream(np.ones(70, np.uint8)), [2**64 - 1, 63])
assert np.array_equal(j.to_host(j.jax_vec_and(there, there)), words)
print(j.to_jax(np.array([2**40])).dtype)
"""


def test_with_64_bits() -> None:
    done = subprocess.run([sys.executable, "-c", WITH_64_BITS], capture_output=True, text=True, timeout=120)
    assert done.stdout == "int64\n", done.stderr
