# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the samples of this folder with cocotb and compares every result with those of the engine.

    pip install "cocotb>=2,<3"
    python3 tb/test_network.py              # Icarus Verilog; SIM=verilator for Verilator

A start for test benches of systems around the circuit: `send` and `receive` speak AXI stream.
"""

import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge

TOP = "@TOP@"
WORDS = @WORDS@  # inputs of a sample
RESULTS = @RESULTS@  # results of a sample
BITS = @BITS@  # of a result
FOLDER = Path(__file__).resolve().parent


def read_words(name):
    """Returns the words of a vector file."""
    return [int(line, 16) for line in (FOLDER / name).read_text().split()]


async def reset(dut):
    """Starts the clock and resets the circuit."""
    dut.s_axis_tvalid.value = 0
    dut.m_axis_tready.value = 0
    dut.aresetn.value = 0
    cocotb.start_soon(Clock(dut.aclk, 10, unit="ns").start())
    await ClockCycles(dut.aclk, 4)
    await FallingEdge(dut.aclk)
    dut.aresetn.value = 1


async def send(dut, words, probability):
    """Sends words; each cycle offers one with this probability. Signals change at falling edges."""
    for index, word in enumerate(words):
        await FallingEdge(dut.aclk)
        dut.s_axis_tvalid.value = 0
        while random.random() >= probability:
            await FallingEdge(dut.aclk)
        dut.s_axis_tdata.value = word
        dut.s_axis_tlast.value = int(index % WORDS == WORDS - 1)
        dut.s_axis_tvalid.value = 1
        while not int(dut.s_axis_tready.value):
            await FallingEdge(dut.aclk)
    await FallingEdge(dut.aclk)
    dut.s_axis_tvalid.value = 0


async def receive(dut, n, probability):
    """Returns n results and whether each is the last one of its packet."""
    results = []
    while len(results) < n:
        await FallingEdge(dut.aclk)
        is_ready = random.random() < probability
        dut.m_axis_tready.value = int(is_ready)
        if is_ready and int(dut.m_axis_tvalid.value):
            data = int(dut.m_axis_tdata.value) & ((1 << BITS) - 1)
            results.append((data, bool(int(dut.m_axis_tlast.value))))
    return results


async def run(dut, probability):
    """Runs all samples and compares all results."""
    random.seed(1)
    expected = read_words("output.hex")
    await reset(dut)
    cocotb.start_soon(send(dut, read_words("input.hex"), probability))
    results = await receive(dut, len(expected), probability)
    is_last = [index % RESULTS == RESULTS - 1 for index in range(len(expected))]
    assert results == list(zip(expected, is_last))
    assert not int(dut.framing_error.value)


@cocotb.test()
async def samples_equal_the_engine(dut):
    """Without stalls."""
    await run(dut, 1.0)


@cocotb.test()
async def samples_with_stalls_equal_the_engine(dut):
    """With random stalls at both ports."""
    await run(dut, 0.5)


def main():
    """Builds the circuit and runs the tests; returns the number of failures."""
    from cocotb_tools.runner import get_results, get_runner

    runner = get_runner(os.environ.get("SIM", "icarus"))
    folder = FOLDER.parent
    runner.build(sources=sorted((folder / "rtl").glob("*.v")), hdl_toplevel=TOP, build_dir=folder / "build" / "cocotb", timescale=("1ns", "1ps"))
    report = runner.test(hdl_toplevel=TOP, test_module=Path(__file__).stem, test_dir=FOLDER)
    return get_results(report)[1]


if __name__ == "__main__":
    raise SystemExit(main())
