"""Transformers against the golden files that Hugging Face transformers and peft made."""

from __future__ import annotations

import errno
import json
import pathlib
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aleatron as al

GOLDEN = pathlib.Path(__file__).parents[2] / "crates" / "aleatron-transformer" / "tests" / "golden"
# Of the last row of logits, derived by the tests of the crate.
BOUNDS = json.loads((GOLDEN / "bounds.json").read_text())
MODELS = ["llama", "llama-scaled", "llama-yarn", "llama-linear", "qwen2", "gpt2"]


def golden(name: str) -> dict[str, npt.NDArray[Any]]:
    """The tensors of a golden file, read by hand: a length, JSON, and bytes."""
    data = (GOLDEN / name / "golden.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    types = {"F32": np.float32, "I64": np.int64}
    return {
        key: np.frombuffer(
            data[8 + length + info["data_offsets"][0] : 8 + length + info["data_offsets"][1]], types[info["dtype"]]
        ).reshape(info["shape"])
        for key, info in header.items()
        if key != "__metadata__"
    }


def load(name: str, **options: Any) -> al.Transformer:
    return al.Transformer.from_pretrained(GOLDEN / name, **{"device": "cpu", "precision": "f32", **options})


@pytest.mark.parametrize("name", MODELS)
def test_logits(name: str) -> None:
    expected = golden(name)
    for precision in ["f32", "f16", "int8"]:
        logits = load(name, precision=precision).forward(expected["tokens"])
        assert logits.shape == expected["logits"].shape
        assert np.abs(logits - expected["logits"])[-1].max() <= BOUNDS[name][precision]


@pytest.mark.parametrize("name", MODELS)
def test_greedy(name: str) -> None:
    expected = golden(name)
    greedy = expected["greedy"].tolist()
    # A text ends with its end token.
    end = greedy.index(2) + 1 if 2 in greedy else len(greedy)
    assert list(load(name).generate(expected["tokens"].tolist(), max_tokens=64)) == greedy[:end]


def test_adapters() -> None:
    expected, plain = golden("llama-lora"), golden("llama")
    model = load("llama")
    bound = BOUNDS["llama-lora"]["f32"]
    for _ in range(2):
        logits = model.forward(expected["tokens"], lora=GOLDEN / "llama-lora")
        assert np.abs(logits - expected["logits"])[-1].max() <= bound
        assert np.abs(model.forward(plain["tokens"]) - plain["logits"])[-1].max() <= BOUNDS["llama"]["f32"]
    merged = load("llama", merge=GOLDEN / "llama-lora").forward(expected["tokens"])
    assert np.abs(merged - expected["logits"])[-1].max() <= bound


def test_text() -> None:
    model = load("qwen2")
    text = "the café, 漢字 and 😀!"
    tokens = model.encode(text)
    assert tokens[0] == 1 and model.decode(tokens) == text
    prompt = model.encode("the cat")
    new = list(model.generate(prompt, max_tokens=60))
    assert model.generate_text("the cat", max_tokens=60) == model.decode(new) != ""


def test_broken_tokenizer(tmp_path: pathlib.Path) -> None:
    for file in ["config.json", "model.safetensors"]:
        (tmp_path / file).write_bytes((GOLDEN / "qwen2" / file).read_bytes())
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="tokenizer.json"):
        al.Transformer.from_pretrained(tmp_path, device="cpu")


def test_iterators_may_alternate() -> None:
    expected = golden("qwen2")
    model = load("qwen2")
    tokens = expected["tokens"].tolist()
    alone = [list(model.generate(tokens[:n], max_tokens=8)) for n in (5, 11)]
    both = [model.generate(tokens[:n], max_tokens=8) for n in (5, 11)]
    assert [list(pair) for pair in zip(*zip(*both))] == alone


def test_sampling_repeats_with_its_seed() -> None:
    model, tokens = load("llama"), golden("llama")["tokens"]
    texts = [list(model.generate(tokens, max_tokens=16, temperature=2.0, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    # Without a seed, every call draws anew.
    drawn = [tuple(model.generate(tokens, max_tokens=16, temperature=2.0)) for _ in range(4)]
    assert len(set(drawn)) > 1


def copy(name: str, folder: pathlib.Path, **generation: Any) -> pathlib.Path:
    """A golden model with a generation_config.json."""
    for file in ["config.json", "model.safetensors"]:
        (folder / file).write_bytes((GOLDEN / name / file).read_bytes())
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder


def test_generation_config_gives_the_defaults(tmp_path: pathlib.Path) -> None:
    tokens = golden("llama")["tokens"]
    plain = load("llama")
    defaults = {"temperature": 0.0, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0, "eos_token_id": [2]}
    assert plain.generation_config == defaults
    model = al.Transformer.from_pretrained(
        copy("llama", tmp_path, do_sample=True, temperature=1.5, top_k=20, top_p=0.5, repetition_penalty=1.25),
        device="cpu",
        precision="f32",
    )
    given: dict[str, Any] = {"temperature": 1.5, "top_k": 20, "top_p": 0.5, "repetition_penalty": 1.25}
    assert model.generation_config == {**given, "eos_token_id": []}
    found = list(model.generate(tokens, max_tokens=16, seed=3))
    assert found == list(model.generate(tokens, max_tokens=16, seed=3, **given))
    greedy = list(plain.generate(tokens, max_tokens=16))
    assert found[: len(greedy)] != greedy
    # Each option is the caller's if it is given.
    for option, value in {"temperature": 0.0, "top_k": 1, "top_p": 1e-6}.items():
        options = {option: value, "repetition_penalty": 1.0}
        assert list(model.generate(tokens, max_tokens=len(greedy), seed=3, **options)) == greedy, option


def test_generation_options_that_are_not_supported_warn(tmp_path: pathlib.Path) -> None:
    copy("llama", tmp_path, num_beams=4)
    with pytest.warns(UserWarning, match="generation_config.json: num_beams: 4 is not supported"):
        al.Transformer.from_pretrained(tmp_path, device="cpu")


def test_errors() -> None:
    model = load("llama")
    with pytest.raises(ValueError, match="no tokens"):
        model.forward([])
    with pytest.raises(ValueError, match="token 1 is 500; the vocabulary has 131"):
        model.forward([3, 500])
    with pytest.raises(ValueError, match="token 0 is -1"):
        model.forward([-1])
    with pytest.raises(TypeError, match="sequence of integers"):
        model.forward([0.5])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="max_tokens is -1"):
        model.generate([1], max_tokens=-1)
    with pytest.raises(ValueError, match="top_k is 4294967296"):
        model.generate([1], top_k=2**32)
    with pytest.raises(ValueError, match="top_p"):
        model.generate([3], top_p=1.5)
    with pytest.raises(ValueError, match="repetition_penalty: 0 is not a finite number above 0"):
        model.generate([3], repetition_penalty=0.0)
    with pytest.raises(ValueError, match="no tokenizer.json"):
        model.encode("text")
    with pytest.raises(ValueError, match="token 1 is 18446744073709551616, not in"):
        model.forward([3, 2**64])
    with pytest.raises(FileNotFoundError, match="config.json") as missing:
        al.Transformer.from_pretrained("nowhere")
    assert missing.value.errno == errno.ENOENT
    with pytest.raises(FileNotFoundError, match="adapter_config.json"):
        model.forward([3], lora="nowhere")
    with pytest.raises(ValueError, match="f64"):
        load("llama", precision="f64")
    assert model.device == "cpu" and model.precision == "f32" and model.vocabulary == 131
