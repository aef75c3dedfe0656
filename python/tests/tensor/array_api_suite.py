"""Runs the test suite of the array API standard, data-apis/array-api-tests, against `aleatron.tensor`.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    pip install -r array-api-tests/requirements.txt
    python python/tests/tensor/array_api_suite.py array-api-tests --max-examples 20

Options after the folder are those of pytest and of the suite. Tests in `array-api-skips.txt`, next to this file, are skipped; the file has the
reason of each. The suite must pass otherwise.
"""

from __future__ import annotations

import builtins
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import aleatron.tensor as at

HERE = Path(__file__).resolve().parent

# Types of the standard that `aleatron.tensor` does not have.
MISSING_DTYPES = ("int8", "int16", "uint16", "uint32", "uint64", "complex64", "complex128")


def widest(types: list[tuple[Any, int]], **options: Any) -> Any:
    """Returns the widest type, or 64-bit floats if there are none."""
    return builtins.max(types, default=(at.float64, 64), **options)


def load_without_complex_numbers() -> None:
    """Imports the suite's table of types, which assumes that there is a widest complex type."""
    name = "array_api_tests.dtype_helpers"
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise SystemExit("array_api_tests was not found: is the folder a clone of data-apis/array-api-tests?")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["max"] = widest
    sys.modules[name] = module
    spec.loader.exec_module(module)


def main(folder: str, *options: str) -> int:
    """Runs the suite in a folder and returns the exit code of pytest."""
    os.environ["ARRAY_API_TESTS_MODULE"] = "aleatron.tensor"
    os.environ["ARRAY_API_TESTS_SKIP_DTYPES"] = ",".join(MISSING_DTYPES)
    os.chdir(folder)
    sys.path.insert(0, os.getcwd())
    load_without_complex_numbers()
    skips = f"--skips-file={HERE / 'array-api-skips.txt'}"
    # The deadline of an example is meaningless on a busy machine.
    return pytest.main(["array_api_tests", skips, "--disable-deadline", *options])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    raise SystemExit(main(*sys.argv[1:]))
