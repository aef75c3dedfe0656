"""The GPUs of this machine."""

from __future__ import annotations

from typing import NamedTuple

from aleatron import _core


class Gpu(NamedTuple):
    """A GPU: its name, its kind (discrete, integrated, virtual, other, software), its interface and its driver."""

    name: str
    kind: str
    backend: str
    driver: str


def gpus() -> list[Gpu]:
    """Lists the GPUs that `device="gpu"` can use, the one it does use first; empty where there is none.

    A driver that computes on the CPU is listed, and used, only where the environment variable SC_GPU_ADAPTER names it.

    Examples
    --------
    >>> import aleatron as al
    >>> all(gpu.kind != "" for gpu in al.gpus())
    True
    """
    return [Gpu(*facts) for facts in _core._gpus()]
