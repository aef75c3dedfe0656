"""Language models as streams."""

from __future__ import annotations

import concurrent.futures
import json
import math
import multiprocessing
import pathlib
from typing import Any

import pytest

import aleatron as al
from aleatron.cluster import WorkersLost

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "crates" / "aleatron-transformer" / "tests" / "golden"
MODEL = GOLDEN / "qwen2"
TEXT = "the cat and the hat: 5 € for the naïve, and then the cat sat on the mat with a hat. "


@pytest.fixture
def text(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "cats.txt"
    path.write_text(TEXT * 2, encoding="utf-8")
    return path


def test_rows_have_losses(text: pathlib.Path) -> None:
    found = al.evaluate_language_model(MODEL, text, lengths=[32, 256], seeds=2)
    assert [(row.generator, row.length, len(row.losses)) for row in found.rows] == [
        ("bernoulli", 32, 2),
        ("bernoulli", 256, 2),
        ("sobol", 32, 1),
        ("sobol", 256, 1),
    ]
    for row in found.rows:
        assert row.low <= row.loss <= row.high
        assert row.added_loss == pytest.approx(row.loss - found.float_loss)
        assert row.perplexity == pytest.approx(math.exp(row.loss))
    assert found.rows[3].agreement > found.rows[2].agreement
    assert found.float_perplexity == pytest.approx(math.exp(found.float_loss))
    assert json.loads(found.to_json())["predicted_tokens"] == found.predicted_tokens
    assert found.sensitivity == {}


def test_embedded_model_needs_no_files() -> None:
    found = al.evaluate_language_model(lengths=[64, 512], generators="sobol", max_tokens=200, margins=[0, 1e6])
    # The frequencies of letters alone need about 3 nats for a byte.
    assert found.float_loss < 1.8
    assert [row.width for row in found.rows] == [5, 8]
    first, last = found.rows[0].head
    assert (first.mean_cycles, first.saved, first.stopped) == (8, 1 - 8 / 64, 1)
    assert (last.mean_cycles, last.stopped, last.changed) == (64, 0, 0)
    model = al.Transformer.from_pretrained("bytes", device="cpu")
    assert model.generate_text("Anne was", max_tokens=5)
    with pytest.raises(ValueError, match="text is missing"):
        al.evaluate_language_model(MODEL)


def test_executors_have_the_same_losses(text: pathlib.Path) -> None:
    def timeless(found: al.LanguageEvaluation) -> object:
        value = json.loads(found.to_json())
        for row in value["rows"]:
            del row["tokens_per_second"]
            for run in row["seeds"]:
                del run["seconds"]
        return value

    def run(given: tuple[str | pathlib.Path, pathlib.Path | None], **options: Any) -> object:
        found = al.evaluate_language_model(
            *given, lengths=[16, 32], seeds=2, context=8, sensitivity=True, margins=[1.0], max_tokens=40, device="cpu", **options
        )
        return timeless(found)

    spawn = multiprocessing.get_context("spawn")
    cases: list[tuple[str | pathlib.Path, pathlib.Path | None]] = [("bytes", None), (MODEL, text)]
    for given in cases:
        whole = run(given)
        calls: list[tuple[object, ...]] = []
        with concurrent.futures.ThreadPoolExecutor(3) as threads:
            assert run(given, executor=threads, progress=lambda *call: calls.append(call)) == whole
        assert calls[-1][0] == calls[-1][1] == len(calls)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as processes:
            assert run(given, executor=processes) == whole
    with pytest.raises(TypeError, match="Executor"):
        al.evaluate_language_model(max_tokens=9, executor=3)  # type: ignore[arg-type]


class Losing(concurrent.futures.Executor):
    """Runs tasks in this process, and loses those of all passes from one on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if arguments[0].task[0] >= self.first:
            future.set_exception(ConnectionResetError("gone"))
        else:
            future.set_result(fn(*arguments, **named))
        return future


@pytest.mark.parametrize("first", [0, 1, 2])
def test_finished_runs_are_found_when_workers_stay_lost(text: pathlib.Path, first: int) -> None:
    options: dict[str, Any] = {"lengths": [16, 32], "generators": "sobol", "context": 8, "max_tokens": 40, "device": "cpu"}
    whole = al.evaluate_language_model(MODEL, text, **options)
    with pytest.raises(WorkersLost, match="lost with its worker 3 times: ConnectionResetError: gone") as lost:
        al.evaluate_language_model(MODEL, text, executor=Losing(first), **options)
    found = lost.value.found
    # The pass in floating point is the first one; without it, it runs in this process.
    assert isinstance(found, al.LanguageEvaluation) and found.float_loss == whole.float_loss
    finished = whole.rows[: max(first - 1, 0)]
    assert [(row.length, row.losses) for row in found.rows] == [(row.length, row.losses) for row in finished]


def test_options_reach_the_evaluation(text: pathlib.Path) -> None:
    def run(**options: object) -> al.LanguageEvaluation:
        return al.evaluate_language_model(MODEL, text, lengths=64, generators="sobol", device="cpu", **options)  # type: ignore[arg-type]

    plain = run()
    assert run().rows == plain.rows
    assert run(layers={"head": {"length": 16}}).rows[0].loss != plain.rows[0].loss
    assert run(precision="int8").float_loss != plain.float_loss
    few = run(max_tokens=7, calibration_tokens=9, context=4, sensitivity=True)
    assert (few.predicted_tokens, few.calibration_tokens, len(few.sensitivity)) == (7, 9, 9)
    assert ("sobol", "layers.1.down") in few.sensitivity


def test_progress_ends_the_run(text: pathlib.Path) -> None:
    class Enough(Exception):
        pass

    seen: list[tuple[int, int, str, int, int]] = []

    def progress(*at: int | str) -> None:
        seen.append(at)  # type: ignore[arg-type]
        if at[2] == "sobol":
            raise Enough

    with pytest.raises(Enough):
        al.evaluate_language_model(MODEL, text, lengths=64, generators="sobol", progress=progress)
    assert seen[0][2:] == ("float", 0, 0)
    assert seen[-1][2:] == ("sobol", 64, 0)


def test_errors_name_the_value(text: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        al.evaluate_language_model(MODEL, text, context=257)
    with pytest.raises(ValueError, match="quantile: 2"):
        al.evaluate_language_model(MODEL, text, quantile=2.0)
    with pytest.raises(ValueError, match="tokenizer.json"):
        al.evaluate_language_model(GOLDEN / "llama", text)
    with pytest.raises(ValueError, match="is unknown"):
        al.evaluate_language_model(MODEL, text, layers={"lm": {"length": 3}})
    with pytest.raises(FileNotFoundError):
        al.evaluate_language_model(MODEL, tmp_path / "none.txt")
    with pytest.raises(FileNotFoundError, match="config.json"):
        al.evaluate_language_model(tmp_path / "none", text)
    with pytest.raises(FileNotFoundError, match="adapter_config.json"):
        al.evaluate_language_model(MODEL, text, lora=tmp_path / "none")
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    with pytest.raises(ValueError, match="empty"):
        al.evaluate_language_model(MODEL, empty)
