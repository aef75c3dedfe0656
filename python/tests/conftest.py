"""What all tests share: the known answers of the repository, and the one thread setting they leave behind."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

import aleatron as al

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def root() -> pathlib.Path:
    """The repository."""
    return ROOT


@pytest.fixture
def keep_threads() -> Iterator[None]:
    """Restores one thread per core."""
    yield
    al.set_num_threads(0)
