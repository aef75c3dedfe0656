"""What is written is true: docstrings, pages and the notebook are run."""

from __future__ import annotations

import doctest
import inspect
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import nbclient
import nbformat
import pytest

import aleatron as al
from aleatron import _arrays, _streams, accel, cluster, compat, tensor
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
    accel,
    backend,
    gpu_backend,
    jax_backend,
    jit_kernels,
    mpi_driver,
    numpy_sequences,
    numpy_streams,
    vector_ops,
]
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs" / "python").glob("*.md"), *(ROOT / "docs" / "concepts").glob("*.md")])
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def docstrings() -> Iterator[tuple[str, str]]:
    for module in [al, cluster, compat, tensor, _arrays, _streams, *ACCELERATORS]:
        yield module.__name__, module.__doc__ or ""
        for name in getattr(module, "__all__", []):
            thing = getattr(module, name)
            if not callable(thing):
                continue
            yield f"{module.__name__}.{name}", thing.__doc__ or ""
            if inspect.isclass(thing):
                for member in vars(thing):
                    if not member.startswith("_") and not isinstance(getattr(thing, member), (int, str, type(None))):
                        yield f"{module.__name__}.{name}.{member}", inspect.getdoc(getattr(thing, member)) or ""


def examples(text: str, name: str) -> int:
    """Runs the examples of a text; returns how many there were."""
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
    return len(test.examples)


def test_docstrings() -> None:
    found = {name: examples(inspect.cleandoc(text), name) for name, text in docstrings()}
    assert sum(found.values()) > 60
    # Every class and function has an example, except for a few plain ones, those of hardware, and those that need the files of a language model.
    plain = {"aleatron.CudaArray", "aleatron.Gpu", "aleatron.get_draw_memory", "aleatron.get_num_threads", "aleatron.or_", "aleatron.xor"}
    plain |= {"aleatron.Transformer", "aleatron.HeadStop", "aleatron.LanguageEvaluation", "aleatron.LanguageRow"}
    public = {f"aleatron.{name}" for name in al.__all__ if not name.startswith("__")}
    for module in [cluster, *ACCELERATORS]:
        public |= {f"{module.__name__}.{name}" for name in module.__all__ if callable(getattr(module, name))}
    assert {name for name in public if not found[name]} == plain


def test_everything_public_has_a_docstring() -> None:
    assert [name for name, text in docstrings() if not text.strip()] == []


SECTION = re.compile(r"^(Parameters|Attributes|Raises)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)


def test_descriptions_in_sections_are_indented_below_their_names() -> None:
    sections = [(name, section, body.strip("\n")) for name, text in docstrings() for section, body in SECTION.findall(inspect.cleandoc(text))]
    assert sum(section == "Parameters" for _, section, _ in sections) > 50
    wrong = []
    for name, section, body in sections:
        lines = body.splitlines()
        heads = [(line, [*lines, ""][index + 1]) for index, line in enumerate(lines) if line and not line[0].isspace()]
        # An item is a line of names; what follows it is indented.
        wrong += [(name, section, head) for head, below in heads if not below.startswith("    ")]
    assert wrong == []
    # Lines below headings are lines of their own.
    assert [name for name, text in docstrings() if re.search(r"\S +-{4}", text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: pathlib.Path) -> None:
    # Fences end the output of an example.
    text = re.sub(r"^```.*$", "", page.read_text(), flags=re.MULTILINE)
    assert examples(text, page.name) > 5


def test_the_readme_runs_as_it_stands() -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert done.returncode == 0 and "sobol: within one point of floating point" in done.stdout, done.stderr


def test_the_guide_to_training_runs_as_it_stands(tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "training.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    # The block of torch is run by test_torch_streams.py.
    (block,) = [block for block in blocks if "import torch" not in block]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and (tmp_path / "short.onnx").exists(), done.stderr


def test_api_page_is_current() -> None:
    program = ROOT / "docs" / "python" / "generate_api.py"
    done = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_have_the_docstrings_of_the_module() -> None:
    program = ROOT / "crates" / "aleatron-python" / "generate_stubs.py"
    done = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_figures_are_current() -> None:
    program = ROOT / "docs" / "figures" / "figures.py"
    done = subprocess.run([sys.executable, program, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def text_of(output: Any) -> str:
    return str(output.get("text") or output.get("data", {}).get("text/plain", ""))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
@pytest.mark.filterwarnings("default")
@pytest.mark.timeout(180)
def test_notebook(path: pathlib.Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    written = [[text_of(output) for output in cell.get("outputs", [])] for cell in notebook.cells]
    assert any(written), "the notebook shows no results"
    run = nbclient.NotebookClient(notebook, timeout=120).execute()
    # The bits are the same everywhere, so the results in the notebook are those of any machine.
    assert [[text_of(output) for output in cell.get("outputs", [])] for cell in run.cells] == written
