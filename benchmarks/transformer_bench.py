"""Times Hugging Face transformers on torch for comparison with `aleatron bench transformer`: the same shapes, random weights, one machine.

    python benchmarks/transformer_bench.py                               torch alone
    python benchmarks/transformer_bench.py --program target/release/aleatron    the program first, then torch

Both take the best of several prompts and the mean of many steps, greedily chosen, with a cache.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(num_hidden_layers=2, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=176, vocab_size=256),
    "tinyllama": dict(num_hidden_layers=22, hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, intermediate_size=5632, vocab_size=32000),
    "llama-8b": dict(num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336, vocab_size=128256),
}


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


@torch.inference_mode()  # type: ignore[untyped-decorator,unused-ignore]
def measure(size: str, prompt: int, steps: int, batches: list[int]) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    config = LlamaConfig(**SIZES[size], max_position_embeddings=4096)
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model: Any = LlamaForCausalLM(config).eval()
    tokens = torch.arange(prompt, device=device)[None] * 7919 % config.vocab_size
    best = float("inf")
    for _ in range(10):
        synchronize(device)
        start = time.perf_counter()
        model(tokens, use_cache=True, logits_to_keep=1)
        synchronize(device)
        best = min(best, time.perf_counter() - start)
    print(f"torch {torch.__version__}, {dtype}, {device}: prompt of {prompt} tokens {best * 1e3:.2f} ms")
    for batch in batches:
        state = model(tokens[:, :32].repeat(batch, 1), use_cache=True, logits_to_keep=1)
        cache, token = state.past_key_values, state.logits[:, -1:].argmax(-1)
        for step in range(steps + 4):
            if step == 4:
                synchronize(device)
                start = time.perf_counter()
            state = model(token, past_key_values=cache, use_cache=True)
            token = state.logits[:, -1:].argmax(-1)
        synchronize(device)
        seconds = (time.perf_counter() - start) / steps
        print(f"torch: {batch} sequences {seconds * 1e3:.3f} ms per step, {batch / seconds:.1f} tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="tinyllama")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 16])
    parser.add_argument("--program", help="the aleatron program, to be run first")
    options = parser.parse_args()
    if options.program:
        command = [options.program, "bench", "transformer", "--size", options.size, "--prompt", str(options.prompt), "--profile"]
        subprocess.run([*command, "--batch", ",".join(map(str, options.batch))], check=False)
    measure(options.size, options.prompt, options.steps, options.batch)


if __name__ == "__main__":
    main()
