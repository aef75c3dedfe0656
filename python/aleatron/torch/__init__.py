"""Layers of torch whose products run as streams, with gradients: fine-tuning for short streams in torch itself.

- `StreamLinear` and `StreamConv2d`: `torch.nn.Linear` and `torch.nn.Conv2d` as streams, with the same parameters and state dict;
- `to_streams` and `to_float`: a copy of any module with its layers as streams, and back.

The forward pass is the engine's, bit for bit that of `aleatron.DenseLayer` and `aleatron.ConvLayer`. The backward pass has the gradient of the product that
the streams estimate, with inputs and weights clipped to the interval that streams encode (the straight-through estimator).

>>> import torch
>>> from aleatron.torch import to_streams
>>> _ = torch.manual_seed(0)
>>> model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
>>> x = torch.rand(5, 64)
>>> streams = to_streams(model, length=64, calibration=x)
>>> bool((streams(x) - model(x)).abs().max() < 0.2)
True
>>> streams(x).sum().backward()
>>> streams[0].weight.grad.shape
torch.Size([32, 64])
"""

try:
    import torch as _torch  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"aleatron.torch needs PyTorch, which cannot be imported: {_error}. Install it with: pip install torch"
    ) from _error

from aleatron.torch._convert import to_float, to_streams
from aleatron.torch._modules import StreamConv2d, StreamLinear

__all__ = ["StreamConv2d", "StreamLinear", "to_float", "to_streams"]
