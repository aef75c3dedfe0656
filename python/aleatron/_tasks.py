"""The tasks of an evaluation on the workers of an executor.

A task names a job by its hash. A worker that does not know the job requests it with the next task and caches it. The result of a task
is integers for each sample and errors for each chunk of 256 samples, so that the assignment of tasks does not matter, and
when.
"""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Union

from aleatron import _core

if TYPE_CHECKING:
    from aleatron._evaluation import Evaluation
    from aleatron._journal import Journal
    from aleatron._language import LanguageEvaluation

Task = tuple[int, int, int]
# An evaluation of a network or of a language model.
Job = Union[_core._Job, _core._LanguageJob]
Executor = concurrent.futures.Executor
# An executor, or a function that makes one, and another where the first breaks.
Executors = Union[Executor, Callable[[], Executor]]
Progress = Callable[[int, int, str, int, int], object]

# Tasks for each worker: with more of them workers end together, with fewer they encode weights less often.
TASKS_PER_WORKER = 8
# How often a task is run when its workers are lost.
TRIES = 3
# Seconds without any worker after which they are taken to stay lost.
PATIENCE = 60.0
# The number of jobs that a worker caches (LRU).
KEPT = 2
# Seconds between two polls of a silent executor.
POLL = 0.5

# Variables of launchers: the number of ranks of this machine, and the index of this rank among them.
LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")
LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "SLURM_LOCALID")


class WorkersLost(RuntimeError):
    """Workers were lost and stayed lost. What was finished is in `found`, and in the file of the checkpoint.

    Attributes
    ----------
    found
        The Evaluation or the LanguageEvaluation of the finished tasks.

    Examples
    --------
    >>> from aleatron.cluster import WorkersLost
    >>> issubclass(WorkersLost, RuntimeError)
    True
    """

    def __init__(self, message: str, found: Evaluation | LanguageEvaluation | None = None) -> None:
        super().__init__(message)
        self.found = found


@dataclass(frozen=True)
class _Request:
    """A request to a worker: a task of a job. The number makes every request unique, also for a repeated task."""

    key: str
    kind: Literal["network", "language"]
    task: Task
    number: int
    root: str
    slots: int
    device: str
    payload: bytes | None = None


@dataclass(frozen=True)
class _Answer:
    """A response of a worker: a result, an unknown job, or the exception of the task."""

    kind: Literal["result", "unknown", "raised"]
    worker: str
    line: str = ""
    error: BaseException | None = None


_jobs: collections.OrderedDict[str, Job] = collections.OrderedDict()
_lock = threading.Lock()


def _name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def run_task(request: _Request) -> _Answer:
    """Runs on a worker. Its own exceptions mean that the worker is lost; exceptions of a task are responses."""
    worker = _name()
    with _lock:
        job = _jobs.get(request.key)
        if job is None and request.payload is not None:
            try:
                of_kind = _core._Job if request.kind == "network" else _core._LanguageJob
                job = of_kind.from_bytes(request.payload, _own_device(request.device))
            except Exception as error:
                return _Answer("raised", worker, error=error)
            if worker != request.root:
                _share_cores(request.slots)
            _jobs[request.key] = job
            while len(_jobs) > KEPT:
                _jobs.popitem(last=False)
        elif job is not None:
            _jobs.move_to_end(request.key)
    if job is None:
        return _Answer("unknown", worker)
    try:
        return _Answer("result", worker, job.run(request.task))
    except Exception as error:
        return _Answer("raised", worker, error=error)


def _from_environment(names: tuple[str, ...]) -> int | None:
    for name in names:
        text = os.environ.get(name, "")
        if text.isdecimal():
            return int(text)
    return None


def _share_cores(slots: int) -> None:
    """Takes as many threads as this worker's share of the cores, unless a number was set already."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if _core.get_num_threads() not in (cores, os.cpu_count()):
        return
    n = _from_environment(LOCAL_SIZES) or slots
    _core.set_num_threads(max(1, min(cores, (os.cpu_count() or 1) // max(1, n))))


def _own_device(device: str) -> str | None:
    """Returns the GPU of this worker if each has its own: "gpu" is the first one for the first rank of a machine, and so on."""
    rank = _from_environment(LOCAL_RANKS)
    if device != "gpu" or rank is None:
        return None
    n = len(_core._gpus())
    return f"gpu:{rank % n}" if n > 1 else None


def workers_of(executor: Executor) -> int | None:
    """Returns the number of tasks that an executor runs at a time; None if it is unknown."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return int(sum(client.nthreads().values()))
    for name in ("num_workers", "_max_workers"):
        n = getattr(executor, name, None)
        if isinstance(n, int) and n > 0:
            return n
    return None


class _Root:
    """Submits tasks and collects responses."""

    def __init__(self, job: Job, executors: Executors, journal: Journal, progress: Progress | None):
        self.job, self.device, self.journal, self.progress = job, job.device, journal, progress
        self.make = None if isinstance(executors, Executor) else executors
        if self.make is not None and not callable(self.make):
            raise TypeError(f"executor must be a concurrent.futures.Executor, not {type(self.make).__name__}")
        self.executor = executors if isinstance(executors, Executor) else executors()
        if not isinstance(self.executor, Executor):
            raise TypeError(f"executor must be a concurrent.futures.Executor, not {type(self.executor).__name__}")
        self.payload: bytes = job.to_bytes()
        self.kind: Literal["network", "language"] = "network" if isinstance(job, _core._Job) else "language"
        self.key = hashlib.sha256(self.payload).hexdigest()
        self.root = _name()
        self.n_workers = workers_of(self.executor) or os.cpu_count() or 1
        self.tasks = collections.deque(job.tasks(TASKS_PER_WORKER * self.n_workers))
        self.total, self.done, self.number = len(self.tasks), 0, 0
        self.running: dict[concurrent.futures.Future[_Answer], _Request] = {}
        self.tries: collections.Counter[Task] = collections.Counter()
        self.knowing: set[str] = set()
        self.asking: set[str] = set()
        self.alive_at = time.monotonic()
        # Executors in a row that broke before anything was answered.
        self.broken = 0

    def run(self) -> None:
        try:
            while self.tasks or self.running:
                self.submit()
                done, _ = concurrent.futures.wait(
                    self.running, timeout=POLL, return_when=concurrent.futures.FIRST_COMPLETED
                )
                for future in done:
                    self.take(future, self.running.pop(future))
                if not done:
                    self.check_alive()
        finally:
            for future in self.running:
                future.cancel()
            if self.make is not None:
                self.executor.shutdown(wait=False, cancel_futures=True)

    def submit(self) -> None:
        sent = sum(request.payload is not None for request in self.running.values())
        while self.tasks and len(self.running) < 2 * self.n_workers + 2:
            task = self.tasks.popleft()
            # There are as many copies of the job in flight as workers without it.
            payload = self.payload if sent < len(self.asking - self.knowing) else None
            sent += payload is not None
            self.number += 1
            slots = os.cpu_count() or 1 if hasattr(self.executor, "_client") else self.n_workers
            request = _Request(self.key, self.kind, task, self.number, self.root, slots, self.device, payload)
            try:
                with warnings.catch_warnings():
                    # Dask would rather have large arguments beforehand; here they are sent once to each worker.
                    warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                    warnings.filterwarnings("ignore", "Large object", UserWarning)
                    self.running[self.executor.submit(run_task, request)] = request
            except (concurrent.futures.BrokenExecutor, RuntimeError) as error:
                self.tasks.appendleft(task)
                self.replace(error)

    def take(self, future: concurrent.futures.Future[_Answer], request: _Request) -> None:
        try:
            answer = future.result()
        except (Exception, concurrent.futures.CancelledError) as error:
            self.lose(request.task, error)
            return
        self.alive_at, self.broken = time.monotonic(), 0
        if answer.error is not None:
            raise answer.error
        if answer.kind == "unknown":
            self.asking.add(answer.worker)
            # Who does not know it any more has to get it again.
            self.knowing.discard(answer.worker)
            self.tasks.appendleft(request.task)
            return
        self.knowing.add(answer.worker)
        self.job.add(answer.line)
        self.journal.append(answer.line)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total, *self.job.label(request.task))

    def lose(self, task: Task, error: BaseException) -> None:
        """Handles a lost worker: the task is run again, a limited number of times."""
        self.tries[task] += 1
        self.tasks.append(task)
        # The lost worker is unknown.
        self.knowing.clear()
        self.asking.clear()
        if self.tries[task] >= TRIES:
            raise WorkersLost(f"a task was lost with its worker {TRIES} times: {_text(error)}") from error

    def replace(self, error: BaseException) -> None:
        """Continues with another executor if this one is broken."""
        if self.make is None:
            raise WorkersLost(f"the executor takes no more tasks: {_text(error)}") from error
        for request in self.running.values():
            self.lose(request.task, error)
        self.running.clear()
        self.broken += 1
        if self.broken >= TRIES:
            raise WorkersLost(f"{TRIES} executors took no task: {_text(error)}") from error
        self.executor.shutdown(wait=False, cancel_futures=True)
        self.executor = self.make()

    def check_alive(self) -> None:
        if workers_of(self.executor) != 0:
            self.alive_at = time.monotonic()
        elif time.monotonic() - self.alive_at > PATIENCE:
            raise WorkersLost(f"there has been no worker for {PATIENCE:.0f} seconds")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def run_job(job: Job, executors: Executors, journal: Journal, progress: Progress | None) -> None:
    """Runs all that is missing of a job."""
    _Root(job, executors, journal, progress).run()
