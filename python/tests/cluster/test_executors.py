"""Evaluations on executors of the standard library: equal to one process for any assignment of tasks to workers and any lost worker."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import signal
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aleatron as al
from aleatron import _tasks
from aleatron._evaluation import read_plan
from aleatron.cluster import WorkersLost

SPAWN = multiprocessing.get_context("spawn")


def processes(n: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(n, mp_context=SPAWN)


class Recorded(ProcessPoolExecutor):
    """Processes that record their requests."""

    def __init__(self, n: int) -> None:
        super().__init__(n, mp_context=SPAWN)
        self.requests: list[Any] = []

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.requests.append(arguments[0])
        return super().submit(fn, *arguments, **named)


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(3), lambda: processes(1), lambda: processes(3)])
def test_executors_equal_one_process(make: Callable[[], Executor], subject: dict[str, Any], whole: al.Evaluation) -> None:
    seen: list[tuple[int, int, str, int, int]] = []
    threads = al.get_num_threads()
    with make() as executor:
        found = al.evaluate(**subject, executor=executor, progress=lambda *at: seen.append(at))
        again = al.evaluate(**subject, executor=executor)
    assert found == whole and again == whole and found.complete
    assert [row["layers"] for row in found.rows] == [row["layers"] for row in whole.rows], "errors to the last bit"
    assert [at[0] for at in seen] == list(range(1, len(seen) + 1)) and {at[1] for at in seen} == {len(seen)}
    assert {at[2] for at in seen} == {"bernoulli", "lfsr", "sobol", "floating point"}
    assert al.get_num_threads() == threads


def test_a_job_is_sent_to_workers_that_do_not_know_it(subject: dict[str, Any], whole: al.Evaluation) -> None:
    with Recorded(2) as executor:
        assert al.evaluate(**subject, executor=executor) == whole
        sent = [request for request in executor.requests if request.payload is not None]
        # The pool may give the copy for one worker to the other.
        assert 1 <= len(sent) <= 4 and len(executor.requests) > 40
        first = len(executor.requests)
        # Both know it now.
        assert al.evaluate(**subject, executor=executor) == whole
        assert not any(request.payload for request in executor.requests[first:])
        assert len({request.key for request in executor.requests}) == 1
        al.evaluate(**{**subject, "lengths": [8]}, executor=executor)
        assert len({request.key for request in executor.requests}) == 2


def test_cores_are_shared(subject: dict[str, Any]) -> None:
    cores = os.cpu_count() or 1
    with processes(cores) as executor:
        al.evaluate(**subject, executor=executor)
        workers = [executor.submit(al.get_num_threads) for _ in range(8 * cores)]
        assert 1 in {worker.result() for worker in workers}


def kill_one(executor: ProcessPoolExecutor) -> None:
    os.kill(next(iter(executor._processes)), signal.SIGKILL)


def test_tasks_of_a_killed_worker_run_again(subject: dict[str, Any], whole: al.Evaluation) -> None:
    made: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(processes(2))
        return made[-1]

    def kill(done: int, *_: object) -> None:
        if done == 5 and len(made) == 1:
            kill_one(made[0])

    assert al.evaluate(**subject, executor=make, progress=kill) == whole
    assert len(made) == 2


def test_finished_tasks_are_saved_when_workers_stay_lost(
    subject: dict[str, Any], whole: al.Evaluation, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "found.json"
    tasks = tmp_path / "found.json.tasks"
    with processes(2) as executor:

        def kill(done: int, *_: object) -> None:
            if done == 20:
                kill_one(executor)
                time.sleep(1.0)

        with pytest.raises(WorkersLost, match="takes no more tasks") as lost:
            al.evaluate(**subject, executor=executor, checkpoint=file, progress=kill)
    found = lost.value.found
    assert found is not None and not found.complete
    assert al.Evaluation.from_json(file.read_text()) == found
    kept = tasks.read_text().splitlines()
    assert len(kept) >= 21
    # A program that was killed while it wrote leaves half a line.
    tasks.write_text(tasks.read_text() + kept[-1][:50])
    with pytest.raises(ValueError, match="another network, data set, plan"):
        with processes(1) as executor:
            al.evaluate(**{**subject, "lengths": [16]}, executor=executor, checkpoint=file)
    with Recorded(1) as recorded:
        assert al.evaluate(**subject, executor=recorded, checkpoint=file) == whole
        chunks = sum(request.task[2] for request in recorded.requests)
    every = sum(task[2] for task in job(subject).tasks(1))
    assert 0 < chunks < every, "finished tasks are not run again"
    assert al.Evaluation.from_json(file.read_text()) == whole
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


def job(subject: dict[str, Any]) -> Any:
    s = subject
    plan = read_plan(s["seeds"], "auto", "all", s["layers"], "float", False, "cpu", s["lengths"], s["generators"])
    return al._core._Job(s["network"], s["x"], s["y"], "classes", "arrays", plan, None)


def test_regression_on_workers_equals_one_process(subject: dict[str, Any], tmp_path: pathlib.Path) -> None:
    targets = np.asarray(subject["network"](subject["x"])) + 0.25
    given = {**subject, "y": targets}
    whole = al.evaluate_regression(**given)
    assert whole.complete and whole.float_errors is not None
    file = tmp_path / "found.json"
    with ThreadPoolExecutor(2) as executor:
        assert al.evaluate_regression(**given, executor=executor, checkpoint=file) == whole
    assert al.Evaluation.from_json(file.read_text()) == whole
    with pytest.raises(ValueError, match="give executor or comm, not both"):
        al.evaluate_regression(**given, executor=ThreadPoolExecutor(1), comm=object())


class Hopeless(Executor):
    """Loses every task."""

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(ConnectionResetError("gone"))
        return future


def test_a_task_that_is_always_lost_is_given_up(subject: dict[str, Any]) -> None:
    with pytest.raises(WorkersLost, match="lost with its worker 3 times: ConnectionResetError: gone") as lost:
        al.evaluate(**subject, executor=Hopeless())
    assert lost.value.found is not None and lost.value.found.cells == []


@pytest.mark.timeout(60)
def test_executors_that_are_always_broken_are_given_up(subject: dict[str, Any]) -> None:
    class Broken(Executor):
        made = 0

        def __init__(self) -> None:
            Broken.made += 1

        def submit(self, *_: Any, **__: Any) -> Any:
            raise BrokenExecutor("out of order")

    with pytest.raises(WorkersLost, match="executors took no task: BrokenExecutor: out of order"):
        al.evaluate(**subject, executor=Broken)
    assert Broken.made == 3


def test_exceptions_of_tasks_are_raised_by_the_caller(subject: dict[str, Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"
    with processes(1) as executor, pytest.raises(RuntimeError, match="gpu"):
        al.evaluate(**{**subject, "device": "gpu:99"}, executor=executor, checkpoint=file)
    assert not al.Evaluation.from_json(file.read_text()).complete


def test_interrupt_saves_finished_tasks(subject: dict[str, Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "found.json"

    def stop(done: int, *_: object) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with processes(2) as executor, pytest.raises(KeyboardInterrupt):
        al.evaluate(**subject, executor=executor, checkpoint=file, progress=stop)
    assert not al.Evaluation.from_json(file.read_text()).complete
    assert len((tmp_path / "found.json.tasks").read_text().splitlines()) == 31


def test_arguments_are_checked(subject: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="executor must be a concurrent.futures.Executor, not str"):
        al.evaluate(**subject, executor="foo")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int"):
        al.evaluate(**subject, executor=lambda: 7)  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match="give executor or comm, not both"):
        al.evaluate(**subject, executor=ThreadPoolExecutor(1), comm=object())
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="lengths"):
        al.evaluate(**{**subject, "lengths": []}, executor=executor)
    executor.shutdown()
    with pytest.raises(WorkersLost, match="shutdown"):
        al.evaluate(**subject, executor=executor)


def test_workers_are_counted() -> None:
    with ThreadPoolExecutor(3) as executor:
        assert _tasks.workers_of(executor) == 3
    assert _tasks.workers_of(Hopeless()) is None
