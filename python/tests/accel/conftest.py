"""What the tests of `aleatron.accel` share: the CuPy whose device is the CPU."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types
from collections.abc import Iterator

import aleatron.accel
import pytest
from aleatron.accel import gpu_backend

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cupy_on_cpu  # noqa: E402


@pytest.fixture(scope="session")
def cupy_module() -> types.ModuleType:
    """`gpu_backend` with CuPy: the real one if there is a device, otherwise the one on the CPU."""
    if gpu_backend.HAS_CUPY:
        return gpu_backend
    name = "aleatron.accel.gpu_backend"
    spec = importlib.util.spec_from_file_location(name, gpu_backend.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    missing = sys.modules.get("cupy")
    sys.modules["cupy"] = cupy_on_cpu.module()
    try:
        spec.loader.exec_module(module)
    finally:
        if missing is None:
            del sys.modules["cupy"]
        else:
            sys.modules["cupy"] = missing
    assert module.HAS_CUPY
    # Two warps a block are enough for what warps do together, and cost fewer threads.
    module.THREADS = 64  # type: ignore[attr-defined]
    return module


@pytest.fixture
def with_cupy(cupy_module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Installs the backend as the module."""
    monkeypatch.setitem(sys.modules, "aleatron.accel.gpu_backend", cupy_module)
    monkeypatch.setattr(aleatron.accel, "gpu_backend", cupy_module, raising=False)
    yield cupy_module
