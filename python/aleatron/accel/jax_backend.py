"""Streams and spiking networks in JAX: compiled by jit, mapped by vmap, differentiated by grad, on CPU, GPU or TPU.

Nothing of JAX's configuration is touched. In its 64-bit mode packed words are uint64; otherwise, as by default, a word is a pair
of uint32, the low one first, along a last axis of two. `to_jax` and `to_host` convert both ways.

Without JAX the module can be imported, `HAS_JAX` is False, `WHY_NO_JAX` is the reason, and using any other name, `jnp`
included, raises ImportError. `JAX_SURROGATE_PATHS` has the names of the surrogate gradients.

>>> from aleatron.accel.jax_backend import HAS_JAX, jax_pack_bitstream, jnp, to_host
>>> bits = jnp.array([1, 0, 1, 1], dtype=jnp.uint8)
>>> to_host(jax_pack_bitstream(bits))
array([13], dtype=uint64)
"""

from __future__ import annotations

from aleatron.accel._jax_conv import jax_conv, jax_conv_counts
from aleatron.accel._jax_dense import jax_dense, jax_dense_counts
from aleatron.accel._jax_spiking import (
    JAX_SURROGATE_PATHS,
    jax_forward_pass,
    jax_lif_step,
    jax_surrogate_gradient_step,
    jax_surrogate_loss,
)
from aleatron.accel._jax_streams import (
    WHY_NO_JAX,
    jax_encode,
    jax_pack_bitstream,
    jax_popcount,
    jax_vec_and,
    jax_vec_mac,
    jnp,
    to_host,
    to_jax,
)

__all__ = [
    "HAS_JAX",
    "JAX_SURROGATE_PATHS",
    "WHY_NO_JAX",
    "jax_conv",
    "jax_conv_counts",
    "jax_dense",
    "jax_dense_counts",
    "jax_encode",
    "jax_forward_pass",
    "jax_lif_step",
    "jax_pack_bitstream",
    "jax_popcount",
    "jax_surrogate_gradient_step",
    "jax_surrogate_loss",
    "jax_vec_and",
    "jax_vec_mac",
    "jnp",
    "to_host",
    "to_jax",
]

HAS_JAX: bool = WHY_NO_JAX is None
