"""The GPUs of this machine."""

from __future__ import annotations

from typing import NamedTuple

from aleatron import _core


class Gpu(NamedTuple):
    """A GPU: its device string, its name, its kind (discrete, integrated, virtual, other, software), its interface and its driver."""

    device: str
    name: str
    kind: str
    interface: str
    driver: str


def gpus() -> list[Gpu]:
    """Lists the GPUs that layers can run on, the one that `device="gpu"` means first; empty where there is none.

    Equal cards are told apart by their device, such as "gpu:0" and "gpu:1". NVIDIA cards are listed as "cuda:0" too, which is the same
    card through its own driver, if it is installed. A driver that computes on the CPU is listed, and used,
    only if the environment variable ALEATRON_GPU or SC_GPU_ADAPTER names it.

    Examples
    --------
    >>> import aleatron as al
    >>> all(gpu.device.startswith(("gpu:", "cuda:")) for gpu in al.gpus())
    True
    """
    return [Gpu(*facts) for facts in _core._gpus()]
