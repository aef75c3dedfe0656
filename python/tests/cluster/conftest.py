"""What the tests of clusters evaluate, and how ranks are started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import aleatron as al

# Open MPI refuses to run as root and to oversubscribe cores unless told to.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


@pytest.fixture(scope="session")
def subject() -> dict[str, Any]:
    """A network, samples that are not whole chunks, and a plan with generators of all kinds."""
    x, y = al.load_digits("train")
    return {
        "network": al.Network.digits("plain"),
        "x": x[:600],
        "y": y[:600].astype(np.int32),
        "lengths": [16, 40, 64],
        "generators": ["bernoulli", "lfsr", "sobol"],
        "seeds": 2,
        "layers": {"output": {"length": 48}},
        "device": "cpu",
    }


@pytest.fixture(scope="session")
def whole(subject: dict[str, Any]) -> al.Evaluation:
    """What one process finds."""
    found = al.evaluate(**subject)
    assert found.complete and len(found.cells) == 15
    return found


@pytest.fixture(scope="session")
def start() -> Any:
    """Starts a command on some ranks."""
    mpirun = shutil.which("mpirun")
    assert mpirun, "clusters are tested with mpirun: install Open MPI (Debian's package openmpi-bin)"

    def run(size: int, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [mpirun, *options, "-n", str(size), sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **ALLOWED},
        )

    return run
