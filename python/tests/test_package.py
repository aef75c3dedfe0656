"""The package as it is installed: versions, typing, import, the command."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import json
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

import aleatron as al

PROGRAM = shutil.which("aleatron", path=sysconfig.get_path("scripts")) or "aleatron"
COMMANDS = [[PROGRAM], [sys.executable, "-m", "aleatron"]]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_version_is_the_crates(root: pathlib.Path) -> None:
    manifest = re.search(r'\[workspace\.package\]\nversion = "(.*)"', (root / "Cargo.toml").read_text())
    assert manifest is not None and al.__version__ == manifest[1]
    assert al.__version__ == importlib.metadata.version("aleatron")


def test_typed_and_abi3() -> None:
    files = importlib.resources.files("aleatron")
    assert (files / "py.typed").is_file()
    assert (files / "_core.pyi").is_file()
    suffix = ".pyd" if platform.system() == "Windows" else ".abi3.so"
    assert any(file.name.endswith(suffix) for file in files.iterdir())


def test_all_names_are_there() -> None:
    assert sorted(al.__all__) == al.__all__
    public = {name for name in dir(al) if not name.startswith("_")}
    assert public - set(al.__all__) <= {"accel", "cluster", "compat", "tensor"}
    assert all(getattr(al, name).__doc__ for name in al.__all__)


def test_names_are_complete_before_their_first_use() -> None:
    program = """
import aleatron as al
assert set(al.__all__) | {"accel", "cluster", "compat", "tensor"} <= set(dir(al)), dir(al)
assert al.tensor.asarray([1.0]).shape == (1,) and al.compat.simd_tier and al.accel.__name__ == "aleatron.accel"
assert al.cluster.WorkersLost.__name__ == "WorkersLost"
try:
    al.clusters
except AttributeError as error:
    print(error)
"""
    done = run(sys.executable, "-c", program)
    assert (done.stdout, done.stderr) == ("module 'aleatron' has no attribute 'clusters'\n", "")


def test_import_is_quick() -> None:
    program = """
import time, numpy
start = time.perf_counter()
import aleatron
print(time.perf_counter() - start)
"""
    # The quickest of three: the bar is the package's, not that of a busy machine.
    times = [float(run(sys.executable, "-c", program).stdout) for _ in range(3)]
    assert min(times) < 0.3


def test_import_needs_no_compiler_and_no_network() -> None:
    program = """
import sys, numpy
def refuse(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn")):
        raise SystemExit(f"{event} {arguments}")
sys.addaudithook(refuse)
import aleatron, aleatron.compat
aleatron.DenseLayer(3, 2, device="cpu")([0.5] * 3)
print("good")
"""
    done = run(sys.executable, "-c", program)
    assert (done.stdout, done.stderr, done.returncode) == ("good\n", "", 0)


@pytest.mark.parametrize("command", COMMANDS, ids=["aleatron", "python -m aleatron"])
def test_info(command: list[str]) -> None:
    done = run(*command, "info")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"aleatron {al.__version__}\n")
    assert f"Python:    {platform.python_version()}\n" in done.stdout
    assert f"NumPy:     {np.__version__}\n" in done.stdout
    assert al.simd_tier() in done.stdout
    info = json.loads(run(*command, "info", "--json").stdout)
    assert info["version"] == al.__version__ and info["tier"] == al.simd_tier()
    assert info["host"] == {"Python": platform.python_version(), "NumPy": np.__version__}


@pytest.mark.parametrize("command", COMMANDS, ids=["aleatron", "python -m aleatron"])
def test_exit_codes(command: list[str]) -> None:
    assert run(*command, "--version").stdout == f"aleatron {al.__version__}\n"
    wrong = run(*command, "no-such-command")
    assert wrong.returncode == 2 and "no-such-command" in wrong.stderr
