"""Trains a small language model on bytes and writes it in Hugging Face's files.

    apt-get install r-cran-janeaustenr
    pip install torch transformers tokenizers safetensors
    python examples/language/train.py --out model
    aleatron eval model --text model/held_out.txt --lengths 64,128,256,512,1024

Without --text, the text is that of Debian's package r-cran-janeaustenr (MIT licence): the six novels
of Jane Austen, published 1811 to 1818, whose copyright has expired. The last tenth of the text is not
trained on; its beginning is written next to the model, as held_out.txt. A token is a byte. Weights are
written as 16-bit floats. The same arguments give the same model on the same machine and version of
torch.

The model in the program was written with

    python examples/language/train.py --out crates/aleatron-transformer/assets/bytes
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import time

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM


def package_text() -> str:
    """Returns the text of the Debian package."""
    print_text = "writeLines(enc2utf8(as.character(janeaustenr::austen_books()$text)), useBytes = TRUE)"
    command = ["Rscript", "--vanilla", "-e", print_text]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"no text ({error}): give a file with --text, or run apt-get install r-cran-janeaustenr")


def tokenizer() -> Tokenizer:
    """Returns a tokenizer with a token for each byte, in the order of bytes."""
    # The characters that represent bytes in files of byte-level tokenizers: printable bytes as themselves, the others from 256 on.
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
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="the threads of torch")
    parser.add_argument("--held-out", type=int, default=40_000, help="the most bytes of held_out.txt")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
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
    config.save_pretrained(options.out)
    tensors = {name: tensor.half().contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, options.out / "model.safetensors", metadata={"format": "pt"})
    tokenizer().save(str(options.out / "tokenizer.json"))
    excerpt = data[cut:][: options.held_out]
    (options.out / "held_out.txt").write_bytes(excerpt[: excerpt.rfind(b"\n") + 1])


if __name__ == "__main__":
    main()
