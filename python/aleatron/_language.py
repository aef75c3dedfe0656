"""Evaluation of language models as streams: loss against length and generator."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from aleatron import _core
from aleatron._evaluation import Progress, integer, read_plan, shown
from aleatron._journal import Journal
from aleatron._tasks import WorkersLost, run_job

if TYPE_CHECKING:
    from aleatron._tasks import Executors
    from aleatron._types import DeviceNames, LayerSettings, Sharing, Width


@dataclasses.dataclass(frozen=True)
class HeadStop:
    """The bits that early termination of the head of a language model saves at a decision margin.

    Attributes
    ----------
    margin
        The lead of the best token at which a position stops, in standard deviations.
    mean_cycles
        The mean cycles of the head at a position.
    saved
        The share of the bits of the head that are not computed.
    stopped
        The share of positions that stopped before the end.
    changed
        The share of positions whose most probable token is not that of the full length.
    """

    margin: float
    mean_cycles: float
    saved: float
    stopped: float
    changed: float


@dataclasses.dataclass(frozen=True)
class LanguageRow:
    """The loss of a language model as streams of one generator and length.

    Attributes
    ----------
    generator, length
        The generator, and the bits of a stream.
    width
        The bits of the sequences that streams share; None for Bernoulli streams, which share none.
    loss, low, high
        The mean loss in nats per token, and its 95 % interval over seeds.
    added_loss
        The difference to the loss in floating point.
    bits_per_byte
        The loss in bits per byte of text; None if the tokens have no bytes of text.
    perplexity
        The exponential of the loss.
    agreement
        The share of positions whose most probable token is the same as in floating point.
    saturated
        The share of inputs of linear products that saturated.
    losses
        The loss of each seed.
    head
        Early termination of the head, for each margin.
    """

    generator: str
    length: int
    width: int | None
    loss: float
    low: float
    high: float
    added_loss: float
    bits_per_byte: float | None
    perplexity: float
    agreement: float
    saturated: float
    losses: tuple[float, ...]
    head: tuple[HeadStop, ...]


@dataclasses.dataclass(frozen=True)
class LanguageEvaluation:
    """The result of `evaluate_language_model`.

    Attributes
    ----------
    rows
        The losses as streams, by generator and length.
    float_loss, float_bits_per_byte, float_perplexity
        The loss in floating point: in nats per token, in bits per byte, and its exponential.
    calibration_tokens, predicted_tokens
        The tokens at the beginning of the text that input scales were measured on, and those after them that were predicted.
    sensitivity
        The loss with one linear product as streams at a time, by (generator, product); empty unless requested.
    warnings
        What a reader must know.
    """

    rows: tuple[LanguageRow, ...]
    float_loss: float
    float_bits_per_byte: float | None
    float_perplexity: float
    calibration_tokens: int
    predicted_tokens: int
    sensitivity: Mapping[tuple[str, str], float]
    warnings: tuple[str, ...]
    _json: str = dataclasses.field(repr=False)

    def to_json(self) -> str:
        """Returns everything that was measured, as `aleatron eval --json` prints it."""
        return self._json


def evaluate_language_model(
    model: str | os.PathLike[str] = "bytes",
    text: str | os.PathLike[str] | None = None,
    *,
    lengths: SupportsIndex | Sequence[SupportsIndex] = (64, 256, 1024),
    generators: str | Sequence[str] = ("bernoulli", "sobol"),
    seeds: SupportsIndex = 3,
    width: Width = "auto",
    sharing: Sharing = "all",
    layers: Mapping[str, LayerSettings] | None = None,
    context: SupportsIndex | None = None,
    calibration_tokens: SupportsIndex | None = None,
    max_tokens: SupportsIndex | None = None,
    quantile: float = 0.9995,
    sensitivity: bool = False,
    precision: Literal["f32", "f16", "int8"] = "f32",
    lora: str | os.PathLike[str] | None = None,
    margins: Sequence[float] = (),
    device: DeviceNames = "auto",
    progress: bool | Progress = False,
    executor: Executors | None = None,
) -> LanguageEvaluation:
    """Evaluates a language model with every linear product as streams: loss against length and generator.

    Parameters
    ----------
    model
        A folder with config.json, .safetensors files and tokenizer.json, or "bytes", a small model in the package.
    text
        A file of text in UTF-8. Its first tokens are for calibration, the others are predicted. If not given, a text in the
        package, which "bytes" was not trained on.
    lengths, generators, seeds, sharing, device, progress
        As for `evaluate`.
    width
        The bits of the sequences that streams share; "auto" for n - 1 at 2^n bits and at most 8: 5 for 64 bits.
    layers
        Settings of linear products, by name: "layers.0.qkv", "layers.0.output", "layers.0.up", "layers.0.down", ..., "head".
    context
        The positions of a sequence; those of the model and at most 512 if not given.
    calibration_tokens
        The tokens for calibration; a tenth of the text and at most 4096 if not given.
    max_tokens
        The largest number of tokens to predict; all if not given.
    quantile
        The share of inputs that the scale of a product covers; the others saturate.
    sensitivity
        Whether the loss with one product as streams at a time is measured as well.
    precision
        How weights are rounded before they are encoded.
    lora
        The folder of a LoRA adapter that is added to the weights.
    margins
        Decision margins in standard deviations at which early termination of the head is measured; it is not without any.
    executor
        A `concurrent.futures.Executor` whose workers run the sequences of the text, or a function that creates one, as for `evaluate`.
        Workers read the model from the same path. The result is the same as without an executor, except for times.

    Examples
    --------
    >>> import aleatron as al
    >>> found = al.evaluate_language_model(lengths=[256], generators="sobol", max_tokens=256)
    >>> [(row.generator, row.length) for row in found.rows]
    [('sobol', 256)]
    >>> found.rows[0].loss - found.float_loss < 0.1
    True
    """

    def optional(value: SupportsIndex | None, name: str) -> int | None:
        return None if value is None else integer(value, name)

    plan = read_plan(seeds, width, sharing, layers, "float", False, device, lengths, generators)
    arguments = (
        os.fspath(model),
        None if text is None else os.fspath(text),
        plan,
        optional(context, "context"),
        optional(calibration_tokens, "calibration_tokens"),
        optional(max_tokens, "max_tokens"),
        quantile,
        sensitivity,
        precision,
        None if lora is None else os.fspath(lora),
        [float(margin) for margin in margins],
    )
    if executor is not None:
        job = _core._LanguageJob(*arguments)
        with shown(progress) as callback, Journal(None, job, resume=False) as journal:
            try:
                run_job(job, executor, journal, callback)
            except WorkersLost as error:
                error.found = _read(job.finish())
                raise
        found = _read(job.finish())
        for warning in found.warnings:
            warnings.warn(warning, UserWarning, stacklevel=2)
        return found
    with shown(progress, "token") as callback:
        text_found, raised = _core._evaluate_language_model(*arguments, callback)
    if raised is not None:
        raise raised
    return _read(text_found)


def _read(text: str) -> LanguageEvaluation:
    """Returns the evaluation of a JSON text."""
    found: dict[str, Any] = json.loads(text)
    float_ = found["float"]
    return LanguageEvaluation(
        rows=tuple(_row(row) for row in found["rows"]),
        float_loss=float_["loss"],
        float_bits_per_byte=float_["bits_per_byte"],
        float_perplexity=float_["perplexity"],
        calibration_tokens=found["calibration_tokens"],
        predicted_tokens=found["predicted_tokens"],
        sensitivity={(row["generator"], row["product"]): row["loss"] for row in found["sensitivity"]},
        warnings=tuple(found["warnings"]),
        _json=text,
    )


def _row(row: dict[str, Any]) -> LanguageRow:
    """Returns a row of the JSON form."""
    names = ["generator", "length", "width", "added_loss", "bits_per_byte", "perplexity", "agreement", "saturated"]
    loss = row["loss"]
    losses = tuple(run["loss"] for run in row["seeds"])
    head = tuple(HeadStop(**stop) for stop in row["head"])
    return LanguageRow(
        **{name: row[name] for name in names}, loss=loss["mean"], low=loss["low"], high=loss["high"], losses=losses, head=head
    )
