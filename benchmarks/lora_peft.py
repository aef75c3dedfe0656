"""Compares `aleatron finetune` with PEFT: the same model, first adapter, batches and AdamW; the loss of every step side by side.

    python benchmarks/lora_peft.py --program target/release/aleatron
    python benchmarks/lora_peft.py --program target/release/aleatron --size tinyllama --steps 3 --batch 2 --length 32 --no-double

PEFT creates the adapter and trains it twice, in float32 and in float64. The losses of both float32 trainings differ from those in float64 by
rounding, which AdamW amplifies from step to step. The script fails if the program's differ by more than ten times what torch's do
(with --no-double, by more than 1e-5 of the largest loss), and if PEFT
reads the program's adapter and computes other logits with it than with its own. Needs torch, transformers and peft.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZES: dict[str, dict[str, Any]] = {
    "tiny": dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=176, vocab_size=256),
    # TinyLlama's proportions with an eighth of its width and fewer layers.
    "small": dict(num_hidden_layers=4, hidden_size=256, num_attention_heads=32, num_key_value_heads=4, intermediate_size=704, vocab_size=4000),
    "tinyllama": dict(num_hidden_layers=22, hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, intermediate_size=5632, vocab_size=32000),
}
IGNORED = -100


def sequences(count: int, length: int, vocabulary: int) -> list[dict[str, list[int]]]:
    """Sequences of different lengths that count upwards in random steps, the beginning of every second one ignored."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for index in range(count):
        size = length - index % 3
        start, step = (int(torch.randint(1, vocabulary, (1,), generator=generator)) for _ in range(2))
        tokens = [(start + k * (step % 7 + 1)) % vocabulary for k in range(size)]
        ignored = size // 3 if index % 2 else 0
        found.append({"tokens": tokens, "labels": [IGNORED] * ignored + tokens[ignored:]})
    return found


def batches(data: list[dict[str, list[int]]], batch: int, steps: int) -> list[dict[str, torch.Tensor]]:
    """The batches of the steps, padded at the right."""
    found = []
    for step in range(steps):
        chosen = [data[index % len(data)] for index in range(step * batch, (step + 1) * batch)]
        longest = max(len(one["tokens"]) for one in chosen)

        def padded(name: str, by: int) -> torch.Tensor:
            return torch.tensor([one[name] + [by] * (longest - len(one[name])) for one in chosen])

        mask = torch.tensor([[1] * len(one["tokens"]) + [0] * (longest - len(one["tokens"])) for one in chosen])
        found.append(dict(input_ids=padded("tokens", 0), labels=padded("labels", IGNORED), attention_mask=mask))
    return found


def loss_of(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """The loss of Hugging Face transformers; in float64 the same by hand, since theirs rounds logits to float32."""
    found = model(**batch)
    if found.logits.dtype != torch.float64:
        return found.loss
    logits, labels = found.logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED)


def train(model: Any, steps: list[dict[str, torch.Tensor]], rate: float, clip: float | None) -> tuple[list[float], float]:
    """Trains the adapter; returns the losses and the seconds."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=rate)
    losses, start = [], time.perf_counter()
    for batch in steps:
        loss = loss_of(model, batch)
        loss.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--clip", type=float)
    parser.add_argument("--targets", default="q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj")
    parser.add_argument("--rslora", action="store_true")
    parser.add_argument("--no-double", action="store_true", help="leave out the training in float64, for models that do not fit")
    options = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = LlamaConfig(**SIZES[options.size], max_position_embeddings=2048)
        LlamaForCausalLM(config).save_pretrained(folder / "model")
        lora = LoraConfig(r=8, lora_alpha=16, target_modules=options.targets.split(","), use_rslora=options.rslora, task_type="CAUSAL_LM")
        base = LlamaForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
        get_peft_model(base, lora).save_pretrained(folder / "start")
        del base
        data = sequences(options.batch * 3, options.length, config.vocab_size)
        (folder / "data.jsonl").write_text("".join(json.dumps(one) + "\n" for one in data))

        command = [options.program, "finetune", folder / "model", "--adapter", folder / "start", "--data", folder / "data.jsonl"]
        command += ["--out", folder / "trained", "--order", "sequential", "--schedule", "constant", "--length", options.length, "--json"]
        command += ["--steps", options.steps, "--batch", options.batch, "--learning-rate", options.rate]
        if options.clip is not None:
            command += ["--clip-norm", options.clip]
        ran = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
        report = json.loads(ran.stdout)
        ours = [step["loss"] for step in report["steps"]]

        steps = batches(data, options.batch, options.steps)

        def peft(dtype: torch.dtype, adapter: str) -> Any:
            model = LlamaForCausalLM.from_pretrained(folder / "model", dtype=dtype)
            found = PeftModel.from_pretrained(model, folder / adapter, is_trainable=True, autocast_adapter_dtype=False)
            return found.to(dtype)

        single = peft(torch.float32, "start")
        torchs, seconds = train(single, steps, options.rate, options.clip)
        with torch.no_grad():
            expected = single(**steps[0]).logits
            actual = peft(torch.float32, "trained")(**steps[0]).logits
            start = peft(torch.float32, "start")(**steps[0]).logits
        del single
        exact = torchs if options.no_double else train(peft(torch.float64, "start"), steps, options.rate, options.clip)[0]

    print(f"{options.size}, {options.steps} steps of {options.batch} sequences: aleatron {report['seconds']:.1f} s, torch {seconds:.1f} s")
    with_double = not options.no_double
    header = f"{'step':>4} {'aleatron':>12} {'torch':>12} {'difference':>12}"
    print(header + (f" {'aleatron - f64':>16} {'torch - f64':>16}" if with_double else ""))
    for step, (a, t, e) in enumerate(zip(ours, torchs, exact, strict=True), 1):
        row = f"{step:4} {a:12.7f} {t:12.7f} {a - t:12.1e}"
        print(row + (f" {a - e:16.1e} {t - e:16.1e}" if with_double else ""))
    far = [max(abs(x - e) for x, e in zip(losses, exact, strict=True)) for losses in (ours, torchs)]
    moved, apart = ((one - expected).abs().max().item() for one in (start, actual))
    if with_double:
        print(f"largest difference of losses from float64: aleatron {far[0]:.1e}, torch {far[1]:.1e}")
    else:
        print(f"largest difference of losses from torch: {far[0]:.1e}")
    print(f"logits with both trained adapters in PEFT: {apart:.1e} apart; training moved them by {moved:.1e}")
    # Without float64, the rounding of a loss, amplified by a few steps.
    limit = 10 * far[1] if with_double else 1e-5 * max(ours)
    is_good = far[0] <= limit and apart <= 1e-2 * moved and len(ours) == options.steps
    print("equal within rounding" if is_good else "DIFFERENT")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
