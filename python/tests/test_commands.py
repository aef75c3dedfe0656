"""The commands and the Python code of all pages: they run as printed, in a folder with the files that pages name."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest

import aleatron as al

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Other tests run the commands and the code of these pages.
ELSEWHERE = {
    "README.md": "the task `cargo xtask test` and test_docs.py",
    "docs/cli.md": "generated from the help texts, whose examples the tests of the program parse",
    "docs/python/api.md": "generated from docstrings, which test_docs.py runs",
    "docs/tutorial.md": "the test `tutorial` of the program, which compares the output as well",
}
ALL_PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "crates").rglob("README.md")]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ALL_PAGES if path.relative_to(ROOT).as_posix() not in ELSEWHERE)

# Commands that take minutes: each must start, which it does if its options are valid, and is then stopped.
LONG = [
    "aleatron eval bytes",
    "aleatron bench network",
    "aleatron bench transformer",
    "aleatron eval --lengths 64,256 --generators sobol,lfsr,bernoulli --seeds 10",
    "aleatron eval --lengths 64 --generators sobol,lfsr,int8,int4 --seeds 10",
    "aleatron eval --lengths 256 --generators bernoulli --seeds 40",
    "aleatron eval --generators bernoulli,bernoulli+sobol:2,sobol:1+bernoulli,sobol --lengths 16,64,256 --seeds 10",
    "aleatron verify",
    "aleatron train plain --polarity signed --find",
    "aleatron train noise_aware --find",
    "aleatron train cnn --find",
]
# Commands that need files which the page tells how to make, or hardware. If they fail, it must be for this reason, and not as invalid usage.
MISSING = {
    "lenet5/lenet5.onnx": "lenet5/lenet5.onnx",
    "--device cuda": "CUDA",
    "bench gpu": "no hardware GPU adapter",
    "--device gpu:1": "GPU adapter 1",
    "--device gpu:0,gpu:1": "GPU adapter 1",
}
# Code that needs machines which tests do not have. The tests of `python/tests/cluster` run these features on this machine.
CODE_ELSEWHERE = {
    "tcp://scheduler:8786": "a Dask scheduler",
    "SLURMCluster": "Slurm",
    "n_inputs=65536": "a cluster with 512 GB of memory",
    'device="cuda"': "a card",
    "import torch": "torch, in test_torch_streams.py",
    "torch.nn.Sequential": "torch, in test_torch.py",
    "from_state_dict(model": "the network of the block before it",
}
# Seconds after which a command counts as one that does not end: more than twice the longest on two cores.
LIMIT = 240
# The exit code of the program `timeout` for a command that it stopped.
STOPPED = 124
PRELUDE = """
import concurrent.futures
from concurrent.futures import ProcessPoolExecutor
import numpy as np
import aleatron as al
import aleatron.tensor as at
network = al.Network.digits()
x, y = (values[:32] for values in al.load_digits("test"))
"""


def blocks(page: str, languages: str) -> list[str]:
    """Returns the blocks of a page in some languages, a regular expression; "" for blocks without one."""
    found = re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", (ROOT / page).read_text(), flags=re.M | re.S)
    return [textwrap.dedent(body) for language, body in found if re.fullmatch(languages, language)]


def commands(page: str) -> list[str]:
    """The command lines of a page: those of `sh`, and those behind `$` of `console`."""
    lines = []
    for block in blocks(page, "sh"):
        lines += re.sub(r"\\\n\s*", " ", block).splitlines()
    for block in blocks(page, "console"):
        lines += [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    # The first round of a loop stands for all.
    lines = [re.sub(r"^for (\w+) in (\S+).*; do (.*); done$", lambda loop: loop[3].replace(f"${loop[1]}", loop[2]), line) for line in lines]
    return [line for line in lines if line.strip()]


def png(path: pathlib.Path, pixels: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    height, width = pixels.shape
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 0, 0, 0, 0])
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the files that pages use: networks, samples, images, a language model and a text."""
    plain = al.Network.digits("plain")
    for name in ["model", "my-network", "wine"]:
        plain.save(tmp_path / f"{name}.onnx")
    al.Network.digits().save(tmp_path / "trained.onnx")
    for name in ["train", "test"]:
        images, labels = al.load_digits(name)
        np.savez(tmp_path / f"{name}.npz", x=images[:100], y=labels[:100])
    images, labels = al.load_digits("test")
    np.save(tmp_path / "x.npy", (255 * images[:100]).astype(np.uint8))
    np.save(tmp_path / "y.npy", labels[:100])
    prices = al.Network([al.Layer(np.full((1, 64), 0.25))])
    prices.calibrated(np.full((1, 64), 255.0)).save(tmp_path / "prices.onnx")
    for k in range(50):
        (tmp_path / "images" / str(labels[k])).mkdir(parents=True, exist_ok=True)
        png(tmp_path / "images" / str(labels[k]) / f"{k}.png", (255 * images[k]).astype(np.uint8).reshape(8, 8))
    (tmp_path / "layers.json").write_text('{"output": {"length": 512}}')
    for name, network in [("before", "plain"), ("after", "noise_aware")]:
        done = shell(f"aleatron eval {network} --data test.npz --lengths 16 --seeds 1 --report {name}", tmp_path, None)
        assert done.returncode == 0, done.stdout
    embedded = ROOT / "crates" / "aleatron-transformer" / "assets" / "bytes"
    shutil.copytree(embedded, tmp_path / "MODEL_DIR")
    held_out = tmp_path / embedded.relative_to(ROOT) / "held_out.txt"
    held_out.parent.mkdir(parents=True)
    for path in [held_out, tmp_path / "train.txt", tmp_path / "text.txt"]:
        shutil.copyfile(embedded / "held_out.txt", path)
    (tmp_path / "book.txt").write_text(held_out.read_text()[:2000])
    (tmp_path / "chats.jsonl").write_text('{"prompt": "Who is Emma?", "completion": " A heroine."}\n')
    done = shell(one_step("aleatron finetune bytes --data train.txt --out ADAPTER_DIR"), tmp_path, None)
    assert done.returncode == 0, done.stdout
    return tmp_path


def one_step(line: str) -> str:
    """Returns a command of fine-tuning with a single short step, which writes the same files."""
    return re.sub(r" --steps \d+", "", line) + " --steps 1 --batch 1 --length 16" if line.startswith("aleatron finetune ") else line


def shell(line: str, folder: pathlib.Path, timeout: float | None, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a line with more variables; after the time limit, ends it, and returns with the exit code of `timeout`."""
    programs = pathlib.Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", **variables}
    options = {"cwd": folder, "env": environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(["bash", "-c", f"exec {line}"], **options) as process:  # type: ignore[call-overload]
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            return subprocess.CompletedProcess(line, STOPPED, f"still running after {timeout} seconds", "")
        return subprocess.CompletedProcess(line, process.returncode, output, "")


def check_program(line: str) -> None:
    """Checks a command of another program: what it names must be in the repository."""
    words = line.split("#")[0].split()
    while "=" in words[0] and "$(" not in words[0]:
        words = words[1:]
    match words:
        case ["cargo", "xtask", task, *_]:
            assert f'"{task}"' in (ROOT / "xtask" / "src" / "main.rs").read_text(), line
        case ["cargo", *_] if "-p" in words:
            crate = ROOT / "crates" / words[words.index("-p") + 1]
            assert crate.is_dir(), line
            for kind, where in [("--example", "examples"), ("--bench", "benches")]:
                if kind in words:
                    name = words[words.index(kind) + 1]
                    assert any((crate / where / file).is_file() for file in [f"{name}.rs", f"{name}/main.rs"]), line
        case ["python", script, *_]:
            assert (ROOT / script).is_file(), line
        case ["pip", "install", *what]:
            for extra in re.findall(r'"\.\[(\w+)\]"', " ".join(what)):
                assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text(), flags=re.M), line
        case _:
            programs = ["apt-get", "cd", "git", "job=$(sbatch", "Rscript", "sbatch"]
            assert words[0] in programs, f"{line}: no test runs this command"


def test_pages_have_commands() -> None:
    found = [line for page in PAGES for line in commands(page) if line.startswith("aleatron ")]
    assert len(found) > 70
    for start in LONG:
        assert any(line.startswith(start) for line in found), f"no page has a command that starts with {start!r}"
    for what in MISSING:
        assert any(what in line for line in found), f"no page has a command with {what!r}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_marked_as_such(page: str) -> None:
    """Blocks without a language are output: a command in them would never run."""
    for block in blocks(page, ""):
        marked = [line for line in block.splitlines() if re.match(r"(\$ )?aleatron ", line)]
        assert not marked, f"{page}: mark the block of {marked[0]!r} as sh or console"


@pytest.mark.timeout(6 * LIMIT)
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands(page: str, folder: pathlib.Path) -> None:
    variables = ""
    for line in commands(page):
        if re.fullmatch(r"\w+=\S+", line):
            variables += f"{line}; "
            continue
        # MPI ranks and the time do not change what a command does.
        line = re.sub(r"^mpirun -n \d+ python -m ", "", line).removeprefix("time ")
        if not line.startswith("aleatron "):
            check_program(line)
            continue
        line = one_step(re.sub(r" +#.*", "", line))
        # A part of the text has the same shards.
        line = re.sub(r"(eval bytes --shard \S+)", r"\1 --max-tokens 100", line)
        # Without a number, only GPUs in hardware are used.
        line = re.sub(r"--device gpu(?= |$)", "--device gpu:0", line)
        line = f"{variables.rstrip('; ')}; exec {line}" if variables else line
        long = any(line.startswith(start) for start in LONG) and not line.startswith("aleatron eval bytes --shard")
        done = shell(line if not variables else f"bash -c '{line}'", folder, 2 if long else LIMIT)
        if done.returncode == STOPPED:
            assert long, f"{line}\n{done.stdout}"
            continue
        missing = [reason for what, reason in MISSING.items() if what in line]
        if missing:
            assert done.returncode == 0 or (done.returncode == 1 and missing[0] in done.stdout), f"{line}\n{done.stdout}"
        else:
            assert done.returncode == 0, f"{line}\n{done.stdout}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")])
def test_scripts(page: str, folder: pathlib.Path) -> None:
    """Scripts of Slurm, here with one task on this machine."""
    for script in blocks(page, "bash"):
        (folder / "script.sh").write_text('srun() { "$@"; }\n' + script)
        done = shell("bash script.sh", folder, LIMIT, SLURM_JOB_NAME="job", SLURM_ARRAY_TASK_ID="1")
        assert done.returncode == 0, f"{script}\n{done.stdout}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python(page: str, folder: pathlib.Path) -> None:
    before = PRELUDE
    for block in blocks(page, "python"):
        # Examples with output are run by test_docs.py.
        if ">>>" in block:
            continue
        compile(block, page, "exec")
        if any(what in block for what in CODE_ELSEWHERE):
            continue
        if "__main__" not in block:
            block = 'if __name__ == "__main__":\n' + textwrap.indent(block, "    ")
        before += block
        (folder / "page.py").write_text(before)
        done = subprocess.run([sys.executable, "page.py"], cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{block}\n{done.stderr}"
