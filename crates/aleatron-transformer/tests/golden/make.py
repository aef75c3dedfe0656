"""Makes the golden files of this folder with Hugging Face transformers and peft: `python make.py [FOLDER]`.

Each model is small, random and saved as Hugging Face saves it. `golden.safetensors` next to it holds, for a prompt of token ids:

- `tokens`: the prompt;
- `logits`: the logits of every position, computed in float64 from the weights in the files;
- `greedy`: 64 tokens, each the one with the largest logit. The seed of a model is chosen so that the two largest logits of
  every step differ by more than LEAST_GAP, some hundred times what float32 moves them.

How far logits may be off is derived in `../common/reference.rs`.
"""

import json
import pathlib
import shutil
import sys

import tokenizer
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

PROMPT = 11
STEPS = 64
LEAST_GAP = 2e-3

COMMON = dict(vocab_size=131, hidden_size=64, intermediate_size=96, num_hidden_layers=2, initializer_range=0.25, bos_token_id=1,
              eos_token_id=2, max_position_embeddings=256)

MODELS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**COMMON, num_attention_heads=4, num_key_value_heads=2), torch.float32),
    "llama-scaled": (
        LlamaForCausalLM,
        LlamaConfig(**{**COMMON, "num_hidden_layers": 3}, num_attention_heads=8, num_key_value_heads=8, tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="llama3", rope_theta=50000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=32)),
        torch.bfloat16,
    ),
    "llama-yarn": (
        LlamaForCausalLM,
        LlamaConfig(**COMMON, num_attention_heads=4, num_key_value_heads=1, head_dim=24, attention_bias=True, mlp_bias=True,
                    rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)),
        torch.float16,
    ),
    "llama-linear": (
        LlamaForCausalLM,
        LlamaConfig(**COMMON, num_attention_heads=8, num_key_value_heads=4, head_dim=10,
                    rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)),
        torch.float16,
    ),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**COMMON, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True), torch.bfloat16),
    "gpt2": (
        GPT2LMHeadModel,
        GPT2Config(vocab_size=131, n_embd=64, n_layer=2, n_head=4, n_positions=128, initializer_range=0.25, bos_token_id=1, eos_token_id=2),
        torch.float32,
    ),
}

# Base model, options, as PEFT takes them.
ADAPTERS = {
    "llama-lora": ("llama", dict(r=4, lora_alpha=8, target_modules="all-linear")),
    "llama-lora-qkv": ("llama", dict(r=3, lora_alpha=5, use_rslora=True, target_modules=["q_proj", "k_proj", "v_proj"])),
    "gpt2-lora": ("gpt2", dict(r=2, lora_alpha=4, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
}


@torch.no_grad()
def golden(model, seed):
    """The golden tensors of a model, or None if two tokens are too close."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, 131, (1, PROMPT), generator=generator)
    logits = model(tokens).logits
    text, gaps = tokens, []
    for _ in range(STEPS):
        last = model(text).logits[0, -1]
        best = last.topk(2).values
        gaps.append(best[0] - best[1])
        text = torch.cat([text, last.argmax().reshape(1, 1)], 1)
    if min(gaps) < LEAST_GAP or len(set(text[0, PROMPT:].tolist())) < 12:
        return None
    result = dict(tokens=tokens[0].to(torch.int64), logits=logits[0].float(), greedy=text[0, PROMPT:].to(torch.int64))
    return {name: value.contiguous() for name, value in result.items()}


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            base = 1.0 if "weight" in name else 0.0
            parameter.data = base + 0.2 * torch.randn(parameter.shape, generator=generator)
        else:
            parameter.data = 0.25 * torch.randn(parameter.shape, generator=generator)
    return model


def main(folder):
    torch.set_num_threads(1)
    for name, (kind, config, dtype) in MODELS.items():
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        for seed in range(1000):
            model = randomise(kind(config), seed).to(dtype)
            model.tie_weights()
            found = golden(kind.from_pretrained(None, config=config, state_dict=model.state_dict()), seed)
            if found is not None:
                break
        # One model comes in several files.
        size = "60KB" if name == "llama-scaled" else "5GB"
        model.save_pretrained(target, max_shard_size=size)
        (target / "generation_config.json").unlink(missing_ok=True)
        save_file(found, target / "golden.safetensors")
        print(name, "seed", seed)
    for name, (base, options) in ADAPTERS.items():
        target = folder / name
        shutil.rmtree(target, ignore_errors=True)
        for seed in range(1000):
            model = MODELS[base][0].from_pretrained(folder / base)
            model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **options))
            generator = torch.Generator().manual_seed(seed)
            for parameter_name, parameter in model.named_parameters():
                if "lora_" in parameter_name:
                    parameter.data = 0.2 * torch.randn(parameter.shape, generator=generator)
            model.save_pretrained(target)
            found = golden(model.merge_and_unload(), seed)
            if found is not None:
                break
        (target / "README.md").unlink(missing_ok=True)
        described = json.loads((target / "adapter_config.json").read_text())
        described["base_model_name_or_path"] = base
        (target / "adapter_config.json").write_text(json.dumps(described, indent=2) + "\n")
        save_file(found, target / "golden.safetensors")
        print(name, "seed", seed)
    tokenizer.main(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
