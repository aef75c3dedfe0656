"""Runs ONNX's own test cases and networks checked with onnxruntime through the engine.

    python run.py [--device NAME] [--write]

Needs the packages onnx, onnxruntime and numpy, and cargo. Unsupported cases must equal the lists next to this file, each with its
reason: `node-exceptions.txt` and `model-exceptions.txt`. A wrong result is always a failure. `--write` writes the lists.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE / "export.py", folder], check=True)
        subprocess.run([sys.executable, HERE / "networks.py", f"{folder}/networks"], check=True)
        failures = 0
        for kind in ("node", "model", "networks"):
            command = ["cargo", "run", "--quiet", "--package", "aleatron-graph", "--example", "onnx_cases", "--"]
            lists = HERE / f"{kind}-exceptions.txt"
            print(f"{kind}: ", end="", flush=True)
            failures += subprocess.run([*command, f"{folder}/{kind}", lists, *arguments], check=False).returncode != 0
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
