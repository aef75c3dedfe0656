"""Spiking networks of leaky integrate-and-fire neurons in JAX. `aleatron.accel.jax_backend` exports them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from aleatron._arrays import first_index
from aleatron.accel._jax_streams import as_floats, is_traced, jax, jnp, lax, to_jax
from aleatron.accel._optional import once

if TYPE_CHECKING:
    from jax import Array as JaxArray

JAX_SURROGATE_PATHS = ("custom_vjp", "legacy_stop_gradient")


def jax_lif_step(
    v: Any,
    I_t: Any,
    v_rest: Any,
    v_reset: Any,
    v_threshold: Any,
    alpha: Any,
    resistance: Any,
    noise: Any,
) -> tuple[JaxArray, JaxArray]:
    """Steps neurons once: dv = (v_rest - v) alpha + I_t resistance + noise.

    A neuron whose v + dv reaches the threshold spikes, and its potential becomes v_reset.

    Parameters
    ----------
    v
        Potentials of any shape.
    I_t, noise
        Currents and noise, of that shape or scalars.
    v_rest, v_reset, v_threshold, alpha, resistance
        Scalars, or arrays that broadcast to that shape.

    Returns
    -------
    tuple
        The new potentials, and the spikes as uint8.

    Examples
    --------
    >>> import numpy as np
    >>> from aleatron.accel.jax_backend import jax_lif_step
    >>> v, spikes = jax_lif_step(np.array([0.5, 0.75]), 0.5, 0.0, -0.25, 1.0, 0.0, 1.0, 0.0)
    >>> v.tolist(), spikes.tolist()
    ([-0.25, -0.25], [1, 1])
    """
    potentials = _finite(v, "v")
    names = ("I_t", "v_rest", "v_reset", "v_threshold", "alpha", "resistance", "noise")
    others = (I_t, v_rest, v_reset, v_threshold, alpha, resistance, noise)
    arrays = [_finite(value, name) for value, name in zip(others, names)]
    for array, name in zip(arrays, names):
        if np.broadcast_shapes(array.shape, potentials.shape) != potentials.shape:
            raise ValueError(
                f"{name} has shape {array.shape}, which does not broadcast to that of v, {potentials.shape}"
            )
    return _lif_step()(potentials, *arrays)  # type: ignore[no-any-return]


@once
def _lif_step() -> Any:
    def step(
        v: Any, current: Any, v_rest: Any, v_reset: Any, v_threshold: Any, alpha: Any, resistance: Any, noise: Any
    ) -> tuple[Any, Any]:
        driven = v + ((v_rest - v) * alpha + current * resistance + noise)
        spikes = driven >= v_threshold
        return jnp.where(spikes, v_reset, driven).astype(v.dtype), spikes.astype(np.uint8)

    return jax.jit(step)


def jax_forward_pass(
    weights: Sequence[Any],
    x: Any,
    n_steps: SupportsIndex,
    v_rest: Any = 0.0,
    v_reset: Any = 0.0,
    v_threshold: Any = 1.0,
    alpha: Any = 0.9,
) -> tuple[list[JaxArray], JaxArray]:
    """Runs a network of leaky integrate-and-fire layers for some steps.

    Each step updates the layers in order, where s_prev is the spikes of the previous layer in the same step, and x for the first:

        v = alpha v + W s_prev
        s = 1 where v >= v_threshold, else 0
        v = v_reset where s = 1

    With v_reset = 0 this is v = alpha v (1 - s) + W s_prev from one step to the next. Potentials start at v_rest.

    Parameters
    ----------
    weights
        Arrays of shape (n_out, n_in), one for each layer.
    x
        Input currents of shape (N, n_in), or (n_in,) for one sample.
    n_steps
        Steps; static.
    v_rest, v_reset, v_threshold, alpha
        Scalars.

    Returns
    -------
    tuple
        A list of spike trains (n_steps, N, n_out), one for each layer, and the final potentials (N, n_out) of the last layer.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_forward_pass
    >>> trains, v = jax_forward_pass([[[0.4]]], [[1.0]], n_steps=6)
    >>> trains[0].ravel().tolist()
    [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    """
    layers, inputs = _network(weights, x)
    steps = _steps(n_steps)
    scalars = [
        _scalar(value, name)
        for value, name in ((v_rest, "v_rest"), (v_reset, "v_reset"), (v_threshold, "v_threshold"), (alpha, "alpha"))
    ]
    trains, potentials = _forward()(layers, inputs, steps, *scalars)
    return list(trains), potentials


@once
def _forward() -> Any:
    def forward(
        weights: Any, x: Any, n_steps: int, v_rest: Any, v_reset: Any, v_threshold: Any, alpha: Any
    ) -> tuple[Any, Any]:
        def fire(v: Any) -> tuple[Any, Any]:
            spikes = v >= v_threshold
            return spikes.astype(v.dtype), jnp.where(spikes, v_reset, v).astype(v.dtype)

        start = [jnp.full((*x.shape[:-1], w.shape[0]), v_rest, w.dtype) for w in weights]
        potentials, trains = _scan(weights, x, n_steps, start, alpha, fire)
        return trains, potentials[-1]

    return jax.jit(forward, static_argnums=2)


def _scan(weights: Any, x: Any, n_steps: int, start: Any, alpha: Any, fire: Any) -> tuple[Any, Any]:
    """Runs the steps of a network; `fire` computes spikes and the potentials after them. Returns the last potentials and all spikes."""
    # The input is constant, so its product with the first weights is computed once.
    first = x @ weights[0].T

    def step(potentials: Any, _: Any) -> tuple[Any, Any]:
        after: list[Any] = []
        spikes: list[Any] = []
        for i, (w, v) in enumerate(zip(weights, potentials)):
            current = first if i == 0 else spikes[-1] @ w.T
            fired, v = fire((alpha * v + current).astype(v.dtype))
            spikes.append(fired)
            after.append(v)
        return after, tuple(spikes)

    return lax.scan(step, start, None, length=n_steps)  # type: ignore[no-any-return]


def jax_surrogate_loss(
    weights: Sequence[Any],
    x: Any,
    targets: Any,
    n_steps: SupportsIndex = 25,
    beta: Any = 10.0,
    threshold: Any = 1.0,
    surrogate_path: str = "custom_vjp",
    alpha: Any = 0.9,
) -> JaxArray:
    """Returns the cross-entropy of a spiking network whose scores are the firing rates of its last layer.

    Spikes are hard in the forward pass of both paths, so the loss is the same; the gradients differ:

    - "custom_vjp": the derivative of a spike is that of a fast sigmoid, 1 / (1 + beta |v - threshold|)^2, also where a spike resets
      its neuron;
    - "legacy_stop_gradient": the derivative is that of the sigmoid of beta (v - threshold), and resets have no derivative.

    Parameters
    ----------
    weights, x, n_steps, alpha
        As for `jax_forward_pass`.
    targets
        Class indices (N,), or class probabilities (N, n_classes).
    beta
        How steep the surrogate is.
    threshold
        The potential at which neurons spike.
    surrogate_path
        One of `JAX_SURROGATE_PATHS`.

    Examples
    --------
    >>> import jax
    >>> from aleatron.accel.jax_backend import jax_surrogate_loss, jnp
    >>> weights = [jnp.array([[0.9, 0.1], [0.2, 0.6]])]
    >>> float(jax_surrogate_loss(weights, jnp.array([[1.0, 0.0]]), jnp.array([0]))) < 0.6931
    True
    """
    layers, inputs = _network(weights, x)
    if surrogate_path not in JAX_SURROGATE_PATHS:
        known = ", ".join(JAX_SURROGATE_PATHS)
        raise ValueError(f"there is no surrogate path {surrogate_path!r}; the paths are {known}")
    scalars = [_scalar(value, name) for value, name in ((beta, "beta"), (threshold, "threshold"), (alpha, "alpha"))]
    wanted = _targets(targets, (*inputs.shape[:-1], layers[-1].shape[0]), inputs.dtype)
    return _loss()(layers, inputs, wanted, _steps(n_steps), surrogate_path, *scalars)


@once
def _loss() -> Any:
    def loss(weights: Any, x: Any, targets: Any, n_steps: int, path: str, beta: Any, threshold: Any, alpha: Any) -> Any:
        def fire(v: Any) -> tuple[Any, Any]:
            over = v - threshold
            if path == "custom_vjp":
                spikes = _spike()(over, beta)
                return spikes, v * (1 - spikes)
            soft = jax.nn.sigmoid(beta * over)
            spikes = soft + lax.stop_gradient((over >= 0).astype(v.dtype) - soft)
            return spikes, v * (1 - lax.stop_gradient((over >= 0).astype(v.dtype)))

        start = [jnp.zeros((*x.shape[:-1], w.shape[0]), w.dtype) for w in weights]
        _, trains = _scan(weights, x, n_steps, start, alpha, fire)
        rates = trains[-1].mean(axis=0)
        return -(targets * jax.nn.log_softmax(rates, axis=-1)).sum(axis=-1).mean()

    return jax.jit(loss, static_argnums=(3, 4))


@once
def _spike() -> Any:
    """One where a potential is over the threshold; backwards, the derivative of a fast sigmoid."""

    def spike(over: Any, beta: Any) -> Any:
        return (over >= 0).astype(over.dtype)

    def forward(over: Any, beta: Any) -> Any:
        return spike(over, beta), (over, beta)

    def backward(kept: Any, g: Any) -> Any:
        over, beta = kept
        return (g / (1 + beta * jnp.abs(over)) ** 2).astype(over.dtype), jnp.zeros_like(beta)

    function = jax.custom_vjp(spike)
    function.defvjp(forward, backward)
    return function


def jax_surrogate_gradient_step(
    weights: Sequence[Any],
    x: Any,
    targets: Any,
    n_steps: SupportsIndex = 25,
    lr: Any = 0.001,
    beta: Any = 10.0,
    threshold: Any = 1.0,
    surrogate_path: str = "custom_vjp",
    alpha: Any = 0.9,
) -> tuple[list[JaxArray], Any]:
    """Takes one step of gradient descent on `jax_surrogate_loss`; returns the new weights, and the loss before the step.

    The loss is a float, or a traced scalar inside jit.

    Examples
    --------
    >>> from aleatron.accel.jax_backend import jax_surrogate_gradient_step, jnp
    >>> weights, x, y = [jnp.array([[0.3, 0.1], [0.3, 0.4]])], jnp.array([[1.0, 0.5]]), jnp.array([0])
    >>> losses = []
    >>> for _ in range(20):
    ...     weights, loss = jax_surrogate_gradient_step(weights, x, y, lr=0.5)
    ...     losses.append(loss)
    >>> losses[-1] < losses[0]
    True
    """
    layers, inputs = _network(weights, x)
    rate = _scalar(lr, "lr")

    def loss_of(layers: Any) -> Any:
        return jax_surrogate_loss(layers, inputs, targets, n_steps, beta, threshold, surrogate_path, alpha)

    loss, gradients = jax.value_and_grad(loss_of)(layers)
    stepped = [(w - rate * g).astype(w.dtype) for w, g in zip(layers, gradients)]
    return stepped, loss if is_traced(loss) else float(loss)


def _steps(n_steps: SupportsIndex) -> int:
    steps = operator.index(n_steps)
    if steps < 1:
        raise ValueError(f"n_steps is {steps}; it must be at least 1")
    return steps


def _finite(obj: Any, name: str) -> Any:
    """Reads floats; NaN and infinities are an error with their index if values are concrete."""
    array = as_floats(to_jax(obj))
    if not is_traced(array):
        wrong = ~np.isfinite(np.asarray(array))
        if wrong.any():
            index = first_index(wrong)
            place = f" at index {index}" if array.ndim else ""
            raise ValueError(f"{name}{place} is {np.asarray(array)[index]}, not a finite number")
    return array


def _scalar(obj: Any, name: str) -> Any:
    array = _finite(obj, name)
    if array.ndim:
        raise ValueError(f"{name} has shape {array.shape}; expected a scalar")
    return array


def _network(weights: Sequence[Any], x: Any) -> tuple[list[Any], Any]:
    """Reads the weights of layers that follow each other, and their inputs."""
    layers = [_finite(w, f"weights[{i}]") for i, w in enumerate(weights)]
    if not layers:
        raise ValueError("weights are empty; expected an array for each layer")
    inputs = _finite(x, "x")
    if inputs.ndim not in (1, 2):
        raise ValueError(f"x has shape {inputs.shape}; expected (N, n_in), or (n_in,) for one sample")
    n = inputs.shape[-1]
    for i, w in enumerate(layers):
        if w.ndim != 2 or w.shape[1] != n:
            raise ValueError(f"weights[{i}] has shape {w.shape}; expected (n_out, {n})")
        n = w.shape[0]
    return layers, inputs


def _targets(targets: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Reads class indices or probabilities as probabilities."""
    array = to_jax(targets)
    if array.dtype.kind in "iu" and array.shape == shape[:-1]:
        if not is_traced(array):
            host = np.asarray(array)
            wrong = (host < 0) | (host >= shape[-1])
            if wrong.any():
                index = first_index(wrong)
                place = f" at index {index}" if host.ndim else ""
                raise ValueError(f"targets{place} is {host[index]}, not in [0, {shape[-1]})")
        return jax.nn.one_hot(array, shape[-1], dtype=dtype)
    probabilities = _finite(targets, "targets")
    if probabilities.shape != shape:
        raise ValueError(
            f"targets have shape {probabilities.shape}; expected {shape[:-1]} classes or {shape} probabilities"
        )
    return probabilities
