"""Optional libraries, imported at first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class Missing:
    """A missing library: using any of its names raises an ImportError that says what to install."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # The interpreter and tools probe any object for such names.
            raise AttributeError(name)
        raise ImportError(self._reason)


def optional(name: str, extra: str) -> tuple[Any, str | None]:
    """Imports a library, or returns a stand-in and the reason why it is missing."""
    try:
        return importlib.import_module(name), None
    except ImportError as error:
        reason = f'{error}; pip install ".[{extra}]" in a clone of aleatron'
        return Missing(reason), reason


def once(function: F) -> F:
    """Caches the results of a function; the cache preserves the type of the function."""
    return cast(F, functools.cache(function))
