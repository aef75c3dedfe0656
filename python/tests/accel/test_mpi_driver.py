"""The MPI driver on one to four ranks, and alone."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = pathlib.Path(__file__).with_name("mpi_program.py")
# Open MPI refuses to run as root and to oversubscribe cores unless told to.
ALLOWED = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.timeout(120)
def test_ranks(size: int) -> None:
    mpirun = shutil.which("mpirun")
    assert mpirun, "the MPI driver is tested with mpirun: install Open MPI (Debian's package openmpi-bin)"
    command = [mpirun, "-n", str(size), sys.executable, str(PROGRAM), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ, **ALLOWED})
    assert done.returncode == 0, done.stdout + done.stderr
    # The launcher may join the output of two ranks in one line.
    said = sorted(re.findall(r"rank \d of \d is done", done.stdout))
    assert said == [f"rank {rank} of {size} is done" for rank in range(size)]


ALONE = """
import sys
sys.modules["mpi4py"] = None
import numpy as np
from aleatron.accel.mpi_driver import MPIDriver
driver = MPIDriver()
assert (driver.rank, driver.size, driver.comm) == (0, 1, None)
x = np.arange(6.0).reshape(3, 2)
assert driver.scatter_workload(x) is x and driver.gather_results(x) is x
driver.barrier()
for wrong in [None, 1.0]:
    for method in [driver.scatter_workload, driver.gather_results]:
        try:
            method(wrong)
        except ValueError:
            continue
        raise SystemExit("no error")
print("good")
"""


def alone(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", ALONE],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_alone() -> None:
    done = alone()
    assert (done.stdout, done.stderr) == ("good\n", "")


def test_started_by_a_launcher_without_mpi4py() -> None:
    # Every process would do all the work, so there is a warning.
    done = alone(OMPI_COMM_WORLD_SIZE="4")
    assert done.stdout == "good\n"
    assert "started as one of several (OMPI_COMM_WORLD_SIZE=4) but runs alone, as rank 0 of 1" in done.stderr


def test_shares_differ_by_at_most_one() -> None:
    # np.array_split, which the ranks are compared with, follows the documented rule.
    for n, size in [(10, 4), (3, 4), (0, 2), (8, 4)]:
        lengths = [len(part) for part in np.array_split(np.arange(n), size)]
        assert sum(lengths) == n and max(lengths) - min(lengths) <= 1 and lengths == sorted(lengths, reverse=True)
