"""Many threads, forks, the interpreter released, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import aleatron as al

SECONDS = 10.0


@pytest.mark.usefixtures("keep_threads")
@pytest.mark.timeout(120)
def test_ten_threads_hammering_one_layer() -> None:
    layer = al.DenseLayer(64, 32)
    rng = np.random.default_rng(0)
    samples, batch = rng.random((10, 64)), rng.random((50, 64))
    one = [layer.counts(x, seed=i) for i, x in enumerate(samples)]
    many = layer.counts(batch)
    end = time.monotonic() + SECONDS

    def hammer(i: int) -> int:
        calls = 0
        while time.monotonic() < end:
            assert np.array_equal(layer.counts(samples[i], seed=i), one[i])
            if calls % 10 == 0:
                assert np.array_equal(layer.counts(batch), many)
            if calls % 50 == i:
                al.set_num_threads(i % 3 + 1)
            calls += 1
        return calls

    with ThreadPoolExecutor(10) as pool:
        assert min(pool.map(hammer, range(10))) > 10


@pytest.mark.timeout(120)
def test_weights_replaced_while_others_compute() -> None:
    rng = np.random.default_rng(1)
    layer, x = al.DenseLayer(200, 100, length=256), rng.random((20, 200))
    versions = [rng.random((100, 200)) for _ in range(2)]
    answers = set()
    for weights in versions:
        layer.weights = weights
        answers.add(layer.counts(x).tobytes())
    done = threading.Event()

    def replace() -> None:
        for i in range(60):
            layer.weights = versions[i % 2]
        done.set()

    def compute() -> int:
        calls = 0
        while not done.is_set() or calls < 5:
            # All of the old weights or all of the new ones.
            assert layer.counts(x).tobytes() in answers
            calls += 1
        return calls

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(compute) for _ in range(3)] + [pool.submit(replace)]
        assert all(future.exception() is None for future in futures)


@pytest.mark.usefixtures("keep_threads")
def test_results_do_not_depend_on_threads() -> None:
    layer, x = al.DenseLayer(300, 200), np.random.default_rng(2).random((10, 300))
    expected = layer.counts(x)
    for n in [1, 2, 3, 7]:
        al.set_num_threads(n)
        assert al.get_num_threads() == n
        assert np.array_equal(layer.counts(x), expected)
    al.set_num_threads(0)
    assert al.get_num_threads() == len(os.sched_getaffinity(0))


def test_results_do_not_depend_on_cached_draws() -> None:
    layer, rng = al.DenseLayer(100, 20, polarity="bipolar"), np.random.default_rng(5)
    before = al.get_draw_memory()
    try:
        for _ in range(4):
            x = rng.uniform(-1, 1, (6, 100))
            al.set_draw_memory(before)
            kept = layer.counts(x, seed=6)
            al.set_draw_memory(0)
            assert al.get_draw_memory() == 0
            assert np.array_equal(layer.counts(x, seed=6), kept)
            # Kept draws are forgotten with the memory they had; let the next round use some.
            al.set_draw_memory(before)
            for _ in range(3):
                assert np.array_equal(layer.counts(x, seed=6), kept)
    finally:
        al.set_draw_memory(before)
    with pytest.raises(ValueError, match="n_bytes"):
        al.set_draw_memory(-1)


@pytest.mark.usefixtures("keep_threads")
def test_other_threads_run_meanwhile() -> None:
    al.set_num_threads(1)
    layer, x = al.DenseLayer(1000, 500), np.random.default_rng(3).random((100, 1000))
    ticks, stop = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        start, before = time.monotonic(), ticks
        layer(x)
        elapsed, during = time.monotonic() - start, ticks - before
    finally:
        stop.set()
        thread.join()
    # Held, the interpreter would let no tick through except those between chunks; on a busy machine expect a tenth.
    assert elapsed > 0.02
    assert during > elapsed * 1000 / 10


FORKS = """
import multiprocessing, warnings
import numpy as np
import aleatron as al

def child_counts(x):
    return al.DenseLayer(300, 200).counts(x).tolist()

# Newer Pythons warn of forks with several threads; this tests that forks work here.
warnings.simplefilter("ignore", DeprecationWarning)
al.set_num_threads(2)
x = np.random.default_rng(4).random((40, 300))
expected = child_counts(x)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map_async(child_counts, [x] * 4).get(timeout=50) == [expected] * 4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.timeout(80)
def test_forked_children_compute() -> None:
    # In a process of its own: other libraries that tests import do not bear a fork.
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "call",
    [
        # The first would take many minutes, the others ten seconds with the plainest instructions.
        "al.DenseLayer(1000, 500).counts(wide.reshape(200_000, 1000))",
        "al.DenseLayer(4000, 2000)",
        "al.DenseLayer.from_weights(np.full((2000, 4000), 0.3))",
        "al.SparseLayer(np.ones((2000, 4000), bool), 4096)",
        "al.encode(np.full((1000, 1000), 0.3), 65536, generator='sobol', width=16)",
        "al.Network.digits().forward_streams(al.load_digits()[0], 2**20, device='cpu')",
        "al.Network([al.Layer(np.full((2000, 4000), 0.1))]).calibrated(wide)",
        "al.Network([al.Layer(np.full((2000, 4000), 0.1))])(wide)",
        "al.Network.digits('cnn').forward_streams(al.load_digits()[0], 2**20, device='cpu')",
    ],
)
def test_ctrl_c_ends_a_long_call(call: str) -> None:
    program = f"""
import aleatron as al, numpy as np
al.set_num_threads(1)
# NumPy cannot be interrupted while it fills 1.6 GB.
wide = np.full((50_000, 4000), 0.1) if "wide" in {call!r} else None
print("ready", flush=True)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    environment = {**os.environ, "ALEATRON_TIER": "portable"}
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        start = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - start < 4
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that send signals")
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "call",
    [
        "al.lif_run(2**27, leak_k=20, gain_k=256, current=100)",
        "al.lif_run_varying(20, 256, currents)",
        "al.lif_run_multi(2**15, leak_k=20, gain_k=256, currents=[100] * 4096)",
    ],
)
def test_signals_end_a_run_of_neurons(call: str) -> None:
    # Traces are as large as memory allows, so a run cannot be made long; it must end well before its end.
    program = f"""
import signal, time
import aleatron as al, numpy as np
al.set_num_threads(1)
currents = np.zeros(2**27, np.int16)
def measure():
    start = time.perf_counter()
    try:
        {call}
    except InterruptedError:
        pass
    return time.perf_counter() - start
def stop(*_):
    raise InterruptedError
signal.signal(signal.SIGALRM, stop)
whole = max(measure(), measure())
signal.setitimer(signal.ITIMER_REAL, whole / 3)
print(measure() < 0.8 * whole)
"""
    environment = {**os.environ, "ALEATRON_TIER": "portable"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, env=environment)
    assert (done.stdout, done.stderr) == ("True\n", "")


# The object prolongs the end of the interpreter, so that threads have time to attach to it.
DAEMON = """
import threading, time
import aleatron as al

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)

late = Late()

def work():
    while True:
        WORK

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "work",
    [
        "al.evaluate(lengths=[2**n for n in range(4, 14)], generators='bernoulli', seeds=9, device='cpu')",
        "al.evaluate(lengths=64, generators='sobol', progress=lambda *at: None, device='cpu')",
        "al.Network.digits().forward_streams(al.load_digits()[0], 4096, device='cpu')",
        "al.DenseLayer(64, 32, device='cpu')([0.5] * 64)",
        "al.tensor.sum(al.tensor.ones(100000, device='cpu'))",
    ],
)
def test_daemon_threads_may_compute_while_the_interpreter_ends(work: str) -> None:
    program = DAEMON.replace("WORK", work)
    for _ in range(7):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")


def test_handlers_at_exit_may_compute() -> None:
    program = """
import atexit
atexit.register(lambda: print(al.Network.digits().forward_streams(al.load_digits()[0], 64).shape))
import aleatron as al
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("(360, 10)\n", "", 0)
