"""`explore`: designs, checkpoints, errors."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import pathlib

import numpy as np
import pytest

import aleatron as al


def test_designs_have_the_scores_of_evaluations() -> None:
    found = al.explore(generators=["sobol"], lengths=[8, 16], lanes=[None, 4])
    assert found.is_finished and found.networks == ("noise_aware",)
    x, y = al.load_digits()
    network = al.Network.digits()
    for design in found.designs:
        layers = found.settings(design)
        streams = network.streams(1, design.generator, layers=layers, arithmetic="integer")
        assert np.mean(streams.predict(x) == y) == design.score
        circuit = network.circuit(1, design.generator, layers=layers, lanes=design.lanes)
        assert circuit.cost()["cycles"] == design.cycles
    assert {design.lanes for design in found.designs} == {None, 4}
    assert found.optimal and set(found.optimal) < set(found.designs)


def test_designs_that_stop_early_have_the_classes_of_their_circuit() -> None:
    found = al.explore(generators=["sobol"], lengths=[64], lanes=[None], early_margins=[None, 2])
    full, early = sorted(found.designs, key=lambda design: design.margin or 0)
    assert (full.margin, early.margin) == (None, 2.0) and early.energy < full.energy and "none" in str(found)
    x, y = al.load_digits()
    circuit = al.Network.digits().circuit(64, "sobol", output="class", early_margin=2)
    assert np.mean(circuit.trace(x)["early"]["classes"] == y) == early.score
    assert al.Exploration.from_json(found.to_json()).designs == found.designs


def test_designs_with_faults_have_the_scores_of_evaluations_with_them() -> None:
    found = al.explore(generators=["sobol"], lengths=[16], lanes=[None], faults=0.05, fault_site="memory", seeds=2)
    (row,) = al.evaluate(lengths=16, generators="sobol", arithmetic="integer", faults=0.05, fault_site="memory", seeds=2).rows
    (design,) = found.designs
    assert design.score == row["accuracy"]["mean"] and design.worst_score < found.float_score
    with pytest.raises(ValueError, match="early termination"):
        al.explore(generators=["sobol"], lengths=[16], faults=0.05, early_margins=[2])


def test_checkpoint_resumes(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "designs.json"

    def stop(done: int, *_: object) -> None:
        if done == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        al.explore(lengths=[8, 16], checkpoint=file, progress=stop)
    part = al.Exploration.from_json(file.read_text())
    assert part.trials == 2 and not part.is_finished
    found = al.explore(lengths=[8, 16], checkpoint=file)
    assert found.to_json() == al.explore(lengths=[8, 16]).to_json() == file.read_text().rstrip("\n")


def test_result_has_text_table_and_page() -> None:
    found = al.explore(generators=["sobol", "bernoulli"], lengths=[16], lanes=[None])
    assert "sobol" in str(found) and repr(found) == "<Exploration: 1 optimal of 1 designs>"
    assert found.to_csv().count("\n") == 2
    assert "Bernoulli" in found.to_html() and "aleatron rtl NETWORK --length 16" in found.to_html()
    assert len(found.to_pandas()) == 1


def test_variants_and_errors() -> None:
    networks = [al.Network.digits(), al.Network.digits("plain")]
    found = al.explore(networks, generators=["sobol"], lengths=[32], lanes=[None])
    assert [design.network for design in sorted(found.designs, key=lambda design: design.network)] == [0, 1]
    with pytest.raises(ValueError, match="x and y"):
        al.explore(x=np.zeros((1, 64)))
    with pytest.raises(ValueError, match="at least one network"):
        al.explore([])
    with pytest.raises(ValueError, match="lanes"):
        al.explore(lanes=[0])
    with pytest.raises(ValueError, match="margin"):
        al.explore(early_margins=[0.0])
    with pytest.raises(ValueError, match="nonsense"):
        al.explore(generators=["nonsense"])
    with pytest.raises(TypeError, match=r"not an aleatron\.Network"):
        al.explore(["noise_aware"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="exploration"):
        al.Exploration.from_json("{}")


class _Failing(concurrent.futures.ThreadPoolExecutor):
    """An executor whose later trials fail."""

    def submit(self, function, *arguments, **keywords):  # type: ignore[no-untyped-def, override]
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen > 2:
            return super().submit(lambda: 1 / 0)
        return super().submit(function, *arguments, **keywords)


def test_executors_find_the_designs_of_one_process(tmp_path: pathlib.Path) -> None:
    arguments = {"generators": ["sobol", "int8"], "lengths": [8, 16, 32]}
    alone = al.explore(**arguments)
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        assert al.explore(**arguments, executor=executor).to_json() == alone.to_json()
    file = tmp_path / "designs.json"
    with _Failing(1) as executor, pytest.raises(ZeroDivisionError):
        al.explore(**arguments, executor=executor, checkpoint=file)
    assert al.Exploration.from_json(file.read_text()).trials == 2
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        resumed = al.explore(**arguments, executor=executor, checkpoint=file)
    assert resumed.designs == alone.designs


def test_binary_circuits_are_designs() -> None:
    found = al.explore(generators=["int8", "int3"], lengths=[8], lanes=[None])
    assert {design.generator for design in found.designs} == {"int8", "int3"}
    wide, narrow = sorted(found.designs, key=lambda design: -design.area)
    assert (wide.generator, narrow.generator) == ("int8", "int3") and wide.energy > narrow.energy
    evaluated = al.evaluate(lengths=[8], generators=["int8"], arithmetic="integer")
    assert [row["accuracy"]["mean"] for row in evaluated.rows] == [wide.score]
