"""Evaluations and layers on the ranks of MPI, and a rank that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

import aleatron as al

PROGRAM = str(pathlib.Path(__file__).with_name("ranks_program.py"))

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks(size: int, start: Any) -> None:
    ranks = start(size, PROGRAM)
    output, errors = ranks.communicate(timeout=200)
    assert ranks.returncode == 0, output + errors
    # The launcher may join the output of two ranks in one line.
    said = sorted(re.findall(r"rank \d of \d is done", output))
    assert said == [f"rank {rank} of {size} is done" for rank in range(size)]


SMALL = ["eval", "plain", "--lengths", "16,40", "--generators", "bernoulli,lfsr", "--seeds", "2", "--device", "cpu"]


def without_losses(text: str) -> al.Evaluation:
    """Reads an evaluation without the losses of single layers, which a report adds in one process."""
    document = json.loads(text)
    document.pop("graph", None)
    return al.Evaluation.from_json(json.dumps(document))


@pytest.mark.parametrize("size", [1, 3])
def test_program_on_ranks_equals_one_process(size: int, start: Any, tmp_path: pathlib.Path) -> None:
    alone = subprocess.run([sys.executable, "-m", "aleatron", *SMALL, "--json"], capture_output=True, text=True, check=True)
    folder = tmp_path / "report"
    ranks = start(size, "-m", "aleatron", *SMALL, "--json", "--report", str(folder))
    output, errors = ranks.communicate(timeout=200)
    assert ranks.returncode == 0, output + errors
    whole = al.Evaluation.from_json(alone.stdout)
    assert without_losses(output) == whole
    assert without_losses((folder / "evaluation.json").read_text()) == whole
    names = sorted(path.name for path in folder.iterdir() if path.name != ".aleatron.lock")
    assert names == ["evaluation.csv", "evaluation.json", "index.html"]


@pytest.mark.parametrize(("more", "code"), [(["--lengths", "0"], 2), (["--help"], 0), (["--data", "none.npz"], 1)])
def test_program_on_ranks_reports_an_error_once(more: list[str], code: int, start: Any) -> None:
    ranks = start(2, "-m", "aleatron", "eval", *more)
    output, errors = ranks.communicate(timeout=100)
    assert ranks.returncode == code, output + errors
    assert len(re.findall("a length is|Print help|none.npz: ", output + errors)) == 1


def environment(pid: int) -> dict[str, str]:
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition(b"=") for entry in text.split(b"\0"))
    return {name.decode(): value.decode(errors="replace") for name, _, value in pairs}


def pid_of_rank(rank: int, mark: str) -> int:
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdecimal():
                continue
            found = environment(int(entry.name))
            if (entry / "cmdline").read_bytes().split(b"\0")[1:3] != [b"-m", b"aleatron"]:
                continue
            if found.get("CLUSTER_TEST") == mark and found.get("OMPI_COMM_WORLD_RANK") == str(rank):
                return int(entry.name)
    raise AssertionError(f"there is no rank {rank}")


LARGE = ["eval", "--lengths", "512,1024,2048", "--generators", "bernoulli", "--seeds", "24", "--device", "cpu"]


@pytest.fixture(scope="module")
def whole() -> al.Evaluation:
    return al.evaluate(lengths=[512, 1024, 2048], generators="bernoulli", seeds=24, device="cpu")


def kill_on_the_way(ranks: Any, tasks: pathlib.Path, mark: str, killed: list[int]) -> tuple[str, int]:
    """Kills some ranks when five tasks are finished; returns the output and the number of finished tasks at that time."""
    until = time.monotonic() + 100
    while not tasks.exists() or tasks.read_bytes().count(b"\n") < 6:
        assert ranks.poll() is None and time.monotonic() < until, ranks.communicate()
        time.sleep(0.02)
    for rank in killed:
        os.kill(pid_of_rank(rank, mark), signal.SIGKILL)
    kept = tasks.read_bytes().count(b"\n")
    output, errors = ranks.communicate(timeout=150)
    return output + errors, kept


def test_killed_rank_loses_no_finished_task(
    start: Any, whole: al.Evaluation, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_TEST", str(tmp_path))
    folder, tasks = tmp_path / "report", tmp_path / "report" / "tasks.jsonl"
    ranks = start(3, "-m", "aleatron", *LARGE, "--report", str(folder))
    said, kept = kill_on_the_way(ranks, tasks, str(tmp_path), [2])
    # The launcher ends all of them.
    assert ranks.returncode != 0, said
    assert tasks.read_bytes().count(b"\n") >= kept >= 6
    again = start(3, "-m", "aleatron", *LARGE, "--report", str(folder), "--resume")
    output, errors = again.communicate(timeout=200)
    assert again.returncode == 0, output + errors
    assert al.Evaluation.from_json((folder / "evaluation.json").read_text()) == whole
    assert not tasks.exists()


def test_tasks_of_a_killed_rank_run_again(
    start: Any, whole: al.Evaluation, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_TEST", str(tmp_path))
    monkeypatch.setenv("ALEATRON_WORKER_TIMEOUT", "6")
    folder, tasks = tmp_path / "report", tmp_path / "report" / "tasks.jsonl"
    ranks = start(3, "-m", "aleatron", *LARGE, "--report", str(folder), options=("--enable-recovery",))
    said, _ = kill_on_the_way(ranks, tasks, str(tmp_path), [2])
    assert al.Evaluation.from_json((folder / "evaluation.json").read_text()) == whole, said
    assert ranks.returncode == 0 and not tasks.exists() and "72 cells in" in said, said


# Reports how a rank ends: a launcher that continues without lost ranks does not.
TOLD = """
import os, subprocess, sys
code = subprocess.call([sys.executable, *sys.argv[1:]])
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "ends with", code, flush=True)
"""


def test_what_is_finished_is_written_when_all_ranks_are_lost(
    start: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_TEST", str(tmp_path))
    monkeypatch.setenv("ALEATRON_WORKER_TIMEOUT", "4")
    folder, tasks = tmp_path / "report", tmp_path / "report" / "tasks.jsonl"
    command = ["-c", TOLD, "-m", "aleatron", *LARGE, "--report", str(folder)]
    ranks = start(3, *command, options=("--enable-recovery",))
    said, kept = kill_on_the_way(ranks, tasks, str(tmp_path), [1, 2])
    found = al.Evaluation.from_json((folder / "evaluation.json").read_text())
    assert not found.complete and tasks.read_bytes().count(b"\n") >= kept, said
    assert "silent for 4 seconds" in said and "unfinished: " in said and "rank 0 ends with 1" in said, said


def test_merged_shards_of_the_program_equal_the_whole_evaluation(tmp_path: pathlib.Path) -> None:
    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, "-m", "aleatron", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    for shard in ["2/3", "1/3", "3/3"]:
        run(*SMALL, "--shard", shard, "--report", str(tmp_path))
    merged = run("merge", str(tmp_path), "--json")
    assert al.Evaluation.from_json(merged) == al.Evaluation.from_json(run(*SMALL, "--json"))
    assert json.loads(merged)["unfinished"] == 0
