"""Evaluations on two local workers of Dask, one of which is killed, or both."""

from __future__ import annotations

import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import distributed
import pytest

import aleatron as al
from aleatron import _tasks
from aleatron.cluster import WorkersLost

# Dask's own threads and sockets end after the test, which does not test them.
pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.timeout(240),
]


@pytest.fixture()
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def pids(client: Any) -> list[int]:
    return sorted(client.run(os.getpid).values())


def test_dask_equals_one_process(client: Any, subject: dict[str, Any], whole: al.Evaluation) -> None:
    executor = client.get_executor()
    assert _tasks.workers_of(executor) == 2
    assert al.evaluate(**subject, executor=executor) == whole
    assert set(client.run(al.get_num_threads).values()) == {1}, "a thread for each thread of Dask"


def test_tasks_of_a_killed_worker_run_again(client: Any, subject: dict[str, Any], whole: al.Evaluation) -> None:
    before = pids(client)

    def kill(done: int, *_: object) -> None:
        if done == 5:
            os.kill(before[0], signal.SIGKILL)

    assert al.evaluate(**subject, executor=client.get_executor(), progress=kill) == whole
    client.wait_for_workers(2, timeout=60)
    assert pids(client) != before


def test_finished_tasks_are_saved_when_workers_stay_lost(
    client: Any, subject: dict[str, Any], whole: al.Evaluation, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tasks, "PATIENCE", 2.0)
    file = tmp_path / "found.json"

    def retire(done: int, *_: object) -> None:
        if done == 10:
            client.cluster.scale(0)

    with pytest.raises(WorkersLost, match="no worker for 2 seconds") as lost:
        al.evaluate(**subject, executor=client.get_executor(), checkpoint=file, progress=retire)
    assert lost.value.found is not None and not lost.value.found.complete
    assert len((tmp_path / "found.json.tasks").read_text().splitlines()) > 10
    client.cluster.scale(1)
    assert al.evaluate(**subject, executor=client.get_executor(), checkpoint=file) == whole
