"""Finished tasks, saved to disk one by one."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import secrets
from typing import TYPE_CHECKING

from aleatron import _core

if TYPE_CHECKING:
    from typing_extensions import Self


def replace_file(path: pathlib.Path, text: str) -> None:
    """Replaces a file atomically: a concurrent reader sees the old file or the new one."""
    # Not by `tempfile`, whose files other users may not read.
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


class Journal:
    """A file of finished tasks, in the format of shards; without a path nothing is saved."""

    def __init__(self, path: pathlib.Path | None, job: _core._Job | _core._LanguageJob, resume: bool) -> None:
        self.path = path
        self._file: io.TextIOBase | None = None
        if path is None:
            return
        text = job.schedule() + "\n"
        if resume and path.exists():
            try:
                text = job.add_file(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"finished tasks in {str(path)!r}: {error}; remove the file to begin anew") from None
        # Rewritten as a whole, without a truncated line.
        replace_file(path, text)
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, line: str) -> None:
        """Saves the result of a task."""
        if self._file is not None:
            self._file.write(line + "\n")
            self._file.flush()

    def remove(self) -> None:
        """Removes the file once all tasks are in the result."""
        if self.path is not None:
            self.__exit__()
            with contextlib.suppress(OSError):
                self.path.unlink()
