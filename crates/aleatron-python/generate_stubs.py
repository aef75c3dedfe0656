"""Writes the docstrings of the extension module into its stubs, python/aleatron/_core.pyi.

    python crates/aleatron-python/generate_stubs.py            writes them
    python crates/aleatron-python/generate_stubs.py --check    fails if they are not current

Signatures and types in the stubs are written by hand, and mypy's stubtest compares them with the module. Editors show the
docstrings of stubs; `help()` shows those of the module. This program keeps both the same.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from aleatron import _core

STUBS = pathlib.Path(__file__).resolve().parents[2] / "python" / "aleatron" / "_core.pyi"


def literal(docstring: str, indent: str) -> str:
    """Returns the source of a docstring, indented."""
    prefix = "r" if "\\" in docstring else ""
    lines = inspect.cleandoc(docstring).splitlines()
    first, *others = lines
    if not others:
        return f'{prefix}"""{first}"""'
    body = [f"{indent}{line}" if line else "" for line in others]
    return "\n".join([f'{prefix}"""{first}', *body, f'{indent}"""'])


def documented(node: ast.ClassDef | ast.FunctionDef, thing: Any, name: str) -> str:
    """Returns the docstring of an object of the module; an error if a public one lacks it."""
    docstring = getattr(thing, "__doc__", None) or ""
    if not docstring and not any(part.startswith("_") for part in name.split(".")):
        raise SystemExit(f"{name} (line {node.lineno} of {STUBS.name}) has no docstring")
    return docstring


def edits(body: list[ast.stmt], owner: Any, path: str = "") -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, str]]:
    """Yields the definitions of a body with their docstrings, an empty string if there is none."""
    overloaded: set[str] = set()
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            continue
        name = f"{path}{node.name}"
        # The slots of a type have texts of Python's own; those of overloads stand at the first.
        is_slot = node.name.startswith("__") and node.name.endswith("__")
        thing = inspect.getattr_static(owner, node.name, None)
        if isinstance(thing, (classmethod, staticmethod)):
            thing = thing.__func__
        repeated = is_slot or node.name in overloaded
        overloaded.add(node.name)
        yield node, "" if repeated else documented(node, thing, name)
        if isinstance(node, ast.ClassDef):
            yield from edits(node.body, thing, f"{name}.")


def stubs(source: str) -> str:
    """Returns the stubs with the docstrings of the module."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        # Columns of the syntax tree count bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    changes: list[tuple[int, int, str]] = []
    tree = ast.parse(source)
    for node, docstring in edits(tree.body, _core):
        first = node.body[0]
        indent = " " * (node.col_offset + 4)
        has_docstring = ast.get_docstring(node, clean=False) is not None
        is_function = isinstance(node, ast.FunctionDef)
        start = offset(first.lineno, first.col_offset)
        end = offset(first.end_lineno or 0, first.end_col_offset or 0)
        if is_function and not docstring:
            # The colon of the signature, and the body on its line.
            colon = source.rindex(":", 0, start)
            changes.append((colon, end, ": ..."))
        elif is_function:
            colon = source.rindex(":", 0, start)
            changes.append((colon, end, f":\n{indent}{literal(docstring, indent)}"))
        elif docstring and has_docstring:
            changes.append((start, end, literal(docstring, indent)))
        elif docstring:
            # Before the decorators of the first member.
            decorators = getattr(first, "decorator_list", [])
            line = min([first.lineno, *(decorator.lineno for decorator in decorators)])
            is_empty = isinstance(first, ast.Expr)
            where = starts[line - 1]
            if is_empty:
                colon = source.rindex(":", 0, start)
                changes.append((colon, end, f":\n{indent}{literal(docstring, indent)}"))
            else:
                changes.append((where, where, f"{indent}{literal(docstring, indent)}\n\n"))
    for start, end, text in sorted(changes, reverse=True):
        source = source[:start] + text + source[end:]
    return source


def main() -> int:
    """Writes or checks the stubs."""
    parser = argparse.ArgumentParser(description="Writes the docstrings of python/aleatron/_core.pyi.")
    parser.add_argument("--check", action="store_true", help="only say whether the stubs are current")
    current = STUBS.read_text()
    text = stubs(current)
    if parser.parse_args().check:
        is_current = text == current
        print(f"{STUBS.name} is {'current' if is_current else 'not current: run crates/aleatron-python/generate_stubs.py'}")
        return 0 if is_current else 1
    STUBS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
