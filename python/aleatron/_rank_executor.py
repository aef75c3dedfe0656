"""Ranks of MPI as the workers of an executor, which goes on when some of them are lost.

A working rank sends a message every second. A rank that has been silent for long is lost, and its task fails with `ConnectionError`, so
that it can be run again. Only one thread of a process calls MPI.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

ROOT = 0
# Seconds between two signs of life.
BEAT = 1.0
# Seconds between two polls for messages: short compared with a task, long compared with a poll.
LOOK = 0.001


def patience() -> float:
    """Seconds of silence after which a rank is lost: those of ALEATRON_WORKER_TIMEOUT, or 30."""
    text = os.environ.get("ALEATRON_WORKER_TIMEOUT", "30")
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"ALEATRON_WORKER_TIMEOUT is {text!r}, not a positive number of seconds")
    return max(seconds, 2 * BEAT)


class RankExecutor(concurrent.futures.Executor):
    """The ranks of a communicator except the root, each of which runs `serve`."""

    def __init__(self, channel: Any, patience: float) -> None:
        self._channel, self._patience = channel, patience
        self._mpi = importlib.import_module("mpi4py.MPI")
        self._queue: queue.SimpleQueue[tuple[concurrent.futures.Future[Any], Any]] = queue.SimpleQueue()
        now = time.monotonic()
        self._seen = dict.fromkeys(range(1, channel.Get_size()), now)
        self._running: dict[int, tuple[int, concurrent.futures.Future[Any]]] = {}
        self._sends: list[Any] = []
        self._number = 0
        self._ending: tuple[Any, BaseException | None] | None = None
        self._lost = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._manage, name="aleatron ranks", daemon=True)
        self._thread.start()

    @property
    def num_workers(self) -> int:
        """The ranks that are alive."""
        return sum(self._is_alive(rank) for rank in self._seen)

    def _is_alive(self, rank: int) -> bool:
        return time.monotonic() - self._seen[rank] < self._patience

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """Hands a call to a rank that is free."""
        if self._ending is not None or self._failure is not None:
            raise RuntimeError(f"cannot schedule new futures after shutdown{f': {self._failure}' if self._failure else ''}")
        if self.num_workers == 0:
            raise concurrent.futures.BrokenExecutor(f"all ranks have been silent for {self._patience:.0f} seconds")
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._queue.put((future, (fn, args, kwargs)))
        return future

    def end(self, found: Any, raised: BaseException | None) -> bool:
        """Ends `serve` on all ranks that are alive, which return results and exceptions; returns whether ranks were lost."""
        self._ending = (found, raised)
        self._thread.join()
        return self._lost

    def _manage(self) -> None:
        try:
            while self._ending is None:
                if not (self._receive() | self._hand_out() | self._give_up()):
                    time.sleep(LOOK)
            # Ranks that work take their leave when they are done; the lost ones are left.
            alive = [rank for rank in self._seen if self._is_alive(rank)]
            self._lost = len(alive) < len(self._seen)
            content = (*self._ending, self._lost)
            farewell = [self._channel.isend(("end", 0, content), dest=rank) for rank in alive]
            until = time.monotonic() + self._patience
            while not all(request.Test() for request in farewell) and time.monotonic() < until:
                self._receive()
                time.sleep(LOOK)
        except BaseException as error:
            self._failure = error
            for _, future in self._running.values():
                future.set_exception(error)

    def _receive(self) -> bool:
        status = self._mpi.Status()
        received = False
        while self._channel.Iprobe(source=self._mpi.ANY_SOURCE, status=status):
            received = True
            rank = status.Get_source()
            number, result, error = self._channel.recv(source=rank)
            self._seen[rank] = time.monotonic()
            if number == self._running.get(rank, (0, None))[0] and number:
                _, future = self._running.pop(rank)
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(result)
        return received

    def _hand_out(self) -> bool:
        self._sends = [request for request in self._sends if not request.Test()]
        for rank in self._seen:
            if rank in self._running or not self._is_alive(rank):
                continue
            try:
                future, call = self._queue.get_nowait()
            except queue.Empty:
                return False
            if future.set_running_or_notify_cancel():
                self._number += 1
                self._running[rank] = (self._number, future)
                self._sends.append(self._channel.isend(("call", self._number, call), dest=rank))
        return False

    def _give_up(self) -> bool:
        """Fails the tasks of lost ranks, and all tasks if no rank is left."""
        for rank in [rank for rank in self._running if not self._is_alive(rank)]:
            _, future = self._running.pop(rank)
            future.set_exception(ConnectionError(f"rank {rank} has been silent for {self._patience:.0f} seconds"))
        if self.num_workers == 0:
            while not self._queue.empty():
                future, _ = self._queue.get_nowait()
                future.set_exception(ConnectionError("there is no rank left"))
        return False


def serve(channel: Any) -> Any:
    """Runs calls of the root until it ends, and returns its farewell."""
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        work: concurrent.futures.Future[Any] | None = None
        number, beat = 0, 0.0
        while True:
            if work is None and channel.Iprobe(source=ROOT):
                kind, number, content = channel.recv(source=ROOT)
                if kind == "end":
                    return content
                fn, args, kwargs = content
                work = thread.submit(fn, *args, **kwargs)
            if work is not None and work.done():
                error = work.exception()
                channel.send((number, None if error else work.result(), error), dest=ROOT)
                work, beat = None, time.monotonic()
            elif time.monotonic() - beat > BEAT:
                channel.send((0, None, None), dest=ROOT)
                beat = time.monotonic()
            if work is None:
                time.sleep(LOOK)
            else:
                concurrent.futures.wait([work], timeout=BEAT / 10)


def on_ranks(comm: Any, run: Callable[[concurrent.futures.Executor], Any]) -> tuple[Any, BaseException | None, bool]:
    """Runs a function on the root, with an executor of the other ranks. All ranks receive its result, its exception, and whether
    ranks were lost."""
    channel = comm.Dup()
    if comm.Get_rank() != ROOT:
        ended: tuple[Any, BaseException | None, bool] = serve(channel)
        return ended
    found, raised = None, None
    executor: RankExecutor | None = None
    try:
        executor = RankExecutor(channel, patience())
        found = run(executor)
    except BaseException as error:
        raised = error
    if executor is None:
        executor = RankExecutor(channel, 2 * BEAT)
    told = raised
    try:
        pickle.dumps(raised)
    except Exception:
        told = RuntimeError(f"{type(raised).__name__}: {raised}")
    return found, raised, executor.end(found, told)
