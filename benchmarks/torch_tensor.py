"""torch's figures for the rows of `cargo bench -p aleatron-tensor --bench tensor_kernels`.

    python benchmarks/torch_tensor.py [--cpu]

Everything stays on the device, calls follow each other in one stream, and the shortest of several batches of calls counts. f32 products
are f32 products: TF32 is off.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def seconds(device: str, operation: Callable[[], Any]) -> float:
    """The shortest time of one call, of batches of about 30 ms."""
    best, repeats = float("inf"), 1
    for _ in range(7):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            operation()
        if device == "cuda":
            torch.cuda.synchronize()
        took = (time.perf_counter() - start) / repeats
        best = min(best, took)
        repeats = int(min(200, max(1, 0.03 / took)))
    return best


def row(name: str, took: float, flops: int) -> None:
    print(f"{name:<40} {took * 1e6:>12.1f} us {flops / took / 1e12:>10.3f} TFLOP/s", flush=True)


def gpu() -> None:
    device = "cuda"
    print(torch.__version__, torch.cuda.get_device_name())
    x = torch.randn(1024, 1024, device=device)
    start = time.perf_counter()
    # Until the clocks have risen.
    while time.perf_counter() - start < 1.5:
        x @ x
        torch.cuda.synchronize()
    for dtype, name in [(torch.float32, "f32"), (torch.float16, "f16")]:
        for n in [1024, 2048, 4096]:
            a, b = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
            row(f"{name} matmul {n}", seconds(device, lambda: a @ b), 2 * n**3)
    a, b = (torch.randn(64, 512, 512, device=device) for _ in range(2))
    row("f32 batched 64 x 512", seconds(device, lambda: a @ b), 2 * 64 * 512**3)
    n = 4096
    weights = torch.randn(n, n, device=device)
    for m in [1, 2, 8, 16, 64]:
        x = torch.randn(m, n, device=device)
        row(f"f32 {m} x {n} x {n}", seconds(device, lambda: x @ weights), 2 * m * n * n)
    for images, channels, size, kernel, out in [
        (32, 64, 56, 3, 64),
        (32, 256, 14, 1, 256),
        (32, 256, 14, 3, 256),
        (1, 512, 7, 3, 512),
    ]:
        x = torch.randn(images, channels, size, size, device=device)
        w = torch.randn(out, channels, kernel, kernel, device=device)
        bias = torch.randn(out, device=device)
        took = seconds(device, lambda: torch.nn.functional.conv2d(x, w, bias, padding=kernel // 2))
        flops = 2 * images * out * size * size * channels * kernel * kernel
        row(f"f32 conv {channels}>{out} {kernel}x{kernel} {size}x{size} b{images}", took, flops)
    for n in [512, 2048]:
        q, k, v = (torch.randn(32, n, 128, device=device) for _ in range(3))
        took = seconds(device, lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
        row(f"f32 attention 32 x {n} x 128", took, 4 * 32 * n * n * 128)


def cpu() -> None:
    for n in [512, 1024]:
        a, b = torch.randn(n, n), torch.randn(n, n)
        row(f"cpu matmul {n}, torch", seconds("cpu", lambda: a @ b), 2 * n**3)
        x, y = a.numpy(), b.numpy()
        row(f"cpu matmul {n}, numpy", seconds("cpu", lambda: x @ y), 2 * n**3)


if __name__ == "__main__":
    cpu()
    if "--cpu" not in sys.argv[1:]:
        gpu()
