"""Trains a small language model on bytes, for experiments with streams, and writes it in Hugging Face's files.

    pip install torch transformers tokenizers
    python examples/language/train.py --out model
    aleatron eval model --text model/held_out.txt --max-tokens 8192 --lengths 64,128,256,512,1024

Without --text, the text is that of Debian's package bible-kjv (apt-get install bible-kjv): the King James Version of 1611, whose copyright has
expired. The last tenth of the text is not trained on; it is written beside the model, as held_out.txt. A token is a byte. The same
arguments give the same model on the same machine and version of torch.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import time

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM


def package_text() -> str:
    """Returns the text of the Debian package, one verse in a line, without the numbers of verses."""
    program = shutil.which("bible") or "/usr/bin/bible"
    if not pathlib.Path(program).exists():
        sys.exit("there is no text: give a file with --text, or install one with: apt-get install bible-kjv")
    verses = subprocess.run([program, "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    return "\n".join(line.partition(" ")[2] for line in verses.splitlines() if line)


def tokenizer() -> Tokenizer:
    """Returns a tokenizer with a token for each byte, in the order of bytes."""
    # The characters that stand for bytes in files of byte-level tokenizers: printable ones for themselves, the others from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in printable)
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + k) for k, byte in enumerate(others)}
    made = Tokenizer(models.BPE(vocab={characters[byte]: byte for byte in range(256)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder of the model")
    parser.add_argument("--text", type=pathlib.Path, help="a file of text in UTF-8")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    text = options.text.read_text(encoding="utf-8") if options.text else package_text()
    data = text.encode()
    # Cut at a line, so that no character is cut.
    cut = data.rfind(b"\n", 0, len(data) * 9 // 10) + 1
    training, held_out = (torch.frombuffer(bytearray(part), dtype=torch.uint8).long() for part in (data[:cut], data[cut:]))
    if min(len(training), len(held_out)) <= options.context:
        sys.exit(f"the text has {len(data)} bytes: a tenth of it must be longer than the context of {options.context}")

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=options.hidden * 8 // 3 // 8 * 8,
        max_position_embeddings=options.context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    print(f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters, {len(training):,} bytes for training")
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=options.steps, pct_start=0.05)
    start = time.perf_counter()
    for step in range(1, options.steps + 1):
        first = torch.randint(len(training) - options.context, (options.batch,))
        batch = torch.stack([training[k : k + options.context] for k in first.tolist()])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == options.steps:
            print(f"step {step}: {loss.item():.3f} nats per byte, {time.perf_counter() - start:.0f} s", flush=True)

    model.eval()
    with torch.no_grad():
        rows = held_out[: 64 * options.context].unfold(0, options.context, options.context)
        print(f"held-out text: {model(input_ids=rows, labels=rows).loss.item():.3f} nats per byte")
    model.save_pretrained(options.out)
    tokenizer().save(str(options.out / "tokenizer.json"))
    (options.out / "held_out.txt").write_bytes(data[cut:])


if __name__ == "__main__":
    main()
