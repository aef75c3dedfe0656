"""What all tests share: the known answers of the repository, and the one thread setting they leave behind."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Iterator

import pytest

import aleatron as al

# Shells ignore Ctrl-C in the background processes of scripts, and tests that send it would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
