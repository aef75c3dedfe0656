"""Writes docs/python/api.md from the docstrings of the installed package.

    python docs/python/generate_api.py            writes it
    python docs/python/generate_api.py --check    fails if it is not current
"""

from __future__ import annotations

import argparse
import ast
import enum
import inspect
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import aleatron as al
from aleatron import accel, cluster, compat, tensor
from aleatron.accel import (
    backend,
    gpu_backend,
    jax_backend,
    jit_kernels,
    mpi_driver,
    numpy_sequences,
    numpy_streams,
    vector_ops,
)

ACCELERATORS = [
    backend,
    vector_ops,
    gpu_backend,
    jax_backend,
    jit_kernels,
    mpi_driver,
    numpy_streams,
    numpy_sequences,
]

# A package that needs torch, but is parsed without it: the package, and the files of its public names.
TORCH = pathlib.Path(al.__file__).with_name("torch")
TORCH_FILES = [TORCH / "_modules.py", TORCH / "_convert.py"]

PAGE = pathlib.Path(__file__).with_name("api.md")

HEAD = """\
# API reference

Generated from the docstrings by `docs/python/generate_api.py`; edit those, not this page. Every example on it is tested.

Arrays may be anything that holds numbers: NumPy arrays of any type, memory order and strides, lists, objects with
`__array__`, the buffer protocol or `__dlpack__`. Results are NumPy arrays. Wrong values raise `ValueError` with index and
value, wrong types `TypeError`, exhausted memory `MemoryError`, missing devices `RuntimeError`.
"""


def signature(name: str, thing: Any) -> str:
    """The signature without annotations, `self` and `cls`; the name alone for an enum."""
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        return name
    parameters = inspect.signature(thing).parameters.values()
    kept = [p.replace(annotation=p.empty) for p in parameters if p.name not in {"self", "cls"}]
    return f"{name}{inspect.Signature(kept)}"


def markdown(docstring: str) -> str:
    """A NumPy docstring as Markdown."""
    lines = inspect.cleandoc(docstring).splitlines()
    out: list[str] = []
    section, i = "", 0
    while i < len(lines):
        line = lines[i]
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if following and set(following) == {"-"}:
            section = line
            out += [f"**{line}**", ""]
            i += 2
        elif line.startswith(">>> "):
            out.append("```python")
            while i < len(lines) and lines[i].strip():
                out.append(lines[i])
                i += 1
            out.append("```")
        elif line.startswith("    ") and not out[-1:] == ["```"] and out and not out[-1]:
            out.append("```text")
            while i < len(lines) and lines[i].startswith("    "):
                out.append(lines[i][4:])
                i += 1
            out.append("```")
        elif section in {"Parameters", "Returns", "Raises", "Attributes"} and line and not line.startswith(" "):
            names = ", ".join(f"`{name.strip()}`" for name in line.split(","))
            text = []
            while i + 1 < len(lines) and lines[i + 1].startswith("    "):
                text.append(lines[i + 1].strip())
                i += 1
            out.append(f"- {names}: {' '.join(text)}")
            i += 1
        else:
            out.append(line)
            i += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()


def members(cls: type) -> Iterator[str]:
    """The public members of a class: the call, the methods, the attributes."""
    if "__call__" in vars(cls):
        # A type slot carries neither the docstring nor the signature it was given.
        text = "Computes outputs for one sample of shape (n_inputs,) or a batch of shape (N, n_inputs)."
        yield f"### `{cls.__name__}.__call__(x, seed=44257)`\n\n{text}\n"
    # scikit-learn adds set_METHOD_request to its estimators' classes, with a text of its own.
    names = sorted(name for name in vars(cls) if not name.startswith("_") and not name.endswith("_request"))
    public = {name: vars(cls)[name] for name in names}
    methods = [name for name in public if callable(getattr(cls, name))]
    for name in methods:
        method = getattr(cls, name)
        yield f"### `{cls.__name__}.{signature(name, method)}`\n\n{markdown(method.__doc__)}\n"
    for name, member in public.items():
        if name not in methods and inspect.isdatadescriptor(member):
            yield f"### `{cls.__name__}.{name}`\n\n{markdown(inspect.getdoc(member) or '')}\n"


def entries(module: Any) -> Iterator[str]:
    """The documentation of every public name of a module."""
    # Constants are in the text of their module.
    names = [name for name in module.__all__ if not name.startswith("__") and callable(getattr(module, name))]
    for name in sorted(names, key=lambda name: (not inspect.isclass(getattr(module, name)), name)):
        thing = getattr(module, name)
        if getattr(al, name, None) is thing and module is not al:
            yield f"## `{signature(name, thing)}`\n\nAs `aleatron.{name}`.\n"
            continue
        yield f"## `{signature(name, thing)}`\n\n{markdown(thing.__doc__)}\n"
        if inspect.isclass(thing):
            yield from members(thing)


def read_entries(package: pathlib.Path, files: list[pathlib.Path]) -> Iterator[str]:
    """The documentation of a package that is read, not imported: its own, and that of every public class and function in its files."""
    tree = ast.parse((package / "__init__.py").read_text())
    yield markdown(ast.get_docstring(tree) or "") + "\n"
    public: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            public = ast.literal_eval(node.value)
    found: dict[str, ast.ClassDef | ast.FunctionDef] = {}
    for file in files:
        for item in ast.parse(file.read_text()).body:
            if isinstance(item, (ast.ClassDef, ast.FunctionDef)) and item.name in public:
                found[item.name] = item
    # As `entries`: classes before functions. A name that is in no file is an error.
    for name in sorted(public, key=lambda name: (not isinstance(found[name], ast.ClassDef), name)):
        thing = found[name]
        yield f"## `{read_signature(thing)}`\n\n{markdown(ast.get_docstring(thing) or '')}\n"


def without_prompts(text: str) -> str:
    """Examples as programs with their outputs in comments: without torch, the examples of this page could not run."""
    out: list[str] = []
    in_example = False
    for line in text.splitlines():
        in_example = line == "```python" if line.startswith("```") else in_example
        if in_example and line.startswith((">>> ", "... ")):
            line = line[4:]
        elif in_example and not line.startswith("```"):
            line = f"# {line}"
        out.append(line)
    return "\n".join(out) + "\n"


def read_signature(thing: ast.ClassDef | ast.FunctionDef) -> str:
    """The signature of a function or of the constructor of a class, without annotations and `self`."""
    makers = [item for item in thing.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    arguments = (makers[0] if isinstance(thing, ast.ClassDef) else thing).args
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    for each in (*arguments.args, *arguments.kwonlyargs):
        each.annotation = None
    return f"{thing.name}({ast.unparse(arguments)})"


def page() -> str:
    """The whole page."""
    parts = [HEAD, "# `aleatron`\n", markdown(al.__doc__ or "") + "\n", *entries(al)]
    parts += ["# `aleatron.compat`\n", markdown(compat.__doc__ or "") + "\n", *entries(compat)]
    parts += ["# `aleatron.cluster`\n", markdown(cluster.__doc__ or "") + "\n", *entries(cluster)]
    parts += ["# `aleatron.tensor`\n", markdown(tensor.__doc__ or "") + "\n", *entries(tensor)]
    linalg = tensor.linalg
    parts += ["# `aleatron.tensor.linalg`\n", markdown(linalg.__doc__ or "") + "\n", *entries(linalg)]
    parts += ["# `aleatron.torch`\n", *map(without_prompts, read_entries(TORCH, TORCH_FILES))]
    parts += ["# `aleatron.accel`\n", markdown(accel.__doc__ or "") + "\n"]
    for module in ACCELERATORS:
        parts += [f"# `{module.__name__}`\n", markdown(module.__doc__ or "") + "\n", *entries(module)]
    return "\n".join(parts)


def main() -> int:
    """Writes or checks the page."""
    parser = argparse.ArgumentParser(description="Writes docs/python/api.md.")
    parser.add_argument("--check", action="store_true", help="only say whether the page is current")
    text = page()
    if parser.parse_args().check:
        current = PAGE.exists() and PAGE.read_text() == text
        print(f"{PAGE.name} is {'current' if current else 'not current: run docs/python/generate_api.py'}")
        return 0 if current else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
