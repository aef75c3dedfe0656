"""Fixed-point neurons against the step in plain Python."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import aleatron as al

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference  # noqa: E402

REGISTER = st.integers(-(2**15), 2**15 - 1)
SMALL = st.integers(-300, 300)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_neurons(data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([REGISTER, SMALL]))
    params = {
        "data_width": data.draw(st.integers(1, 16)),
        "fraction": data.draw(st.integers(0, 31)),
        "v_rest": data.draw(value),
        "v_reset": data.draw(value),
        "v_threshold": data.draw(value),
        "refractory_period": data.draw(st.integers(0, 4)),
    }
    leak_k, gain_k = data.draw(value), data.draw(value)
    currents = data.draw(st.lists(value, min_size=1, max_size=20))
    noises = data.draw(st.lists(value, min_size=len(currents), max_size=len(currents)))

    def expect(steps: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
        return reference.lif(steps, leak_k, gain_k, **params)

    spikes, voltages = al.lif_run_varying(leak_k, gain_k, currents, noises, **params)
    assert (spikes.dtype, voltages.dtype) == (np.uint8, np.int16)
    assert (spikes.tolist(), voltages.tolist()) == expect(list(zip(currents, noises)))
    spikes, voltages = al.lif_run_varying(leak_k, gain_k, currents, **params)
    assert (spikes.tolist(), voltages.tolist()) == expect([(current, 0) for current in currents])
    spikes, voltages = al.lif_run(12, leak_k, gain_k, currents[0], noises[0], **params)
    assert (spikes.tolist(), voltages.tolist()) == expect([(currents[0], noises[0])] * 12)
    spikes, voltages = al.lif_run_multi(12, leak_k, gain_k, currents, noises[0], **params)
    assert spikes.shape == voltages.shape == (len(currents), 12)
    for i, current in enumerate(currents):
        assert (spikes[i].tolist(), voltages[i].tolist()) == expect([(current, noises[0])] * 12)

    neuron = al.FixedPointLif(**params)
    steps = [neuron.step(leak_k, gain_k, *step) for step in zip(currents, noises)]
    assert tuple(map(list, zip(*steps))) == expect(list(zip(currents, noises)))
    neuron.reset()
    assert (neuron.v, neuron.refractory_counter) == (params["v_rest"], 0)
    assert repr(neuron) == f"FixedPointLif({', '.join(f'{k}={v}' for k, v in params.items())})"


def test_empty_runs() -> None:
    assert al.lif_run(0, 1, 1, 1)[0].shape == (0,)
    assert al.lif_run_multi(0, 1, 1, [1, 2])[1].shape == (2, 0)
    assert al.lif_run_multi(5, 1, 1, [])[0].shape == (0, 5)
    assert al.lif_run_varying(1, 1, [])[0].shape == (0,)
