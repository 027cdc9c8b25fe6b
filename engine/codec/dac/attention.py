"""Causal attention over a window of time steps, with the window's keys and values carried from call to call.

Axes: B streams, N channels, T time steps of a piece, H heads, D head dimension, W window.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.codec.dac.config import TransformerConfig
from engine.codec.dac.memory import Remembering, StreamMemory

ROPE_BASE = 10_000.0
NORM_EPS = 1e-5


class Scale(nn.Module):
    """A gain per channel on what a layer adds."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., N] -> the same shape."""
        return x * self.gamma


class WindowedAttention(Remembering):
    """Self-attention in which a step sees itself and the W - 1 steps before it."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.carried = config.heads, config.window - 1
        self.wqkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.wo = nn.Linear(config.width, config.width, bias=False)

    def empty(self, batch_size: int) -> Tensor:
        """Rotated keys, and values, of the last steps [B, 2, H, W - 1, D]."""
        weight = self.wo.weight
        return weight.new_zeros(batch_size, 2, self.heads, self.carried, weight.shape[0] // self.heads)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, T, N] -> the same shape; ``rotation`` and ``mask`` as ``Transformer`` makes them."""
        batch, steps, width = x.shape
        queries, keys, values = self.wqkv(x).view(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        window = self.recall(memory)
        new = torch.stack((rotate(keys, rotation), values), 1)
        seen = torch.cat((window, new), 3)
        if self.carried:
            window.copy_(seen[:, :, :, -self.carried :])
        mixed = F.scaled_dot_product_attention(rotate(queries, rotation), seen[:, 0], seen[:, 1], mask)
        out: Tensor = self.wo(mixed.transpose(1, 2).reshape(batch, steps, width))
        return out


class FeedForward(nn.Module):
    """Gated block: ``w2(silu(w1 x) * w3 x)``."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., N] -> the same shape."""
        out: Tensor = self.w2(F.silu(self.w1(x)) * self.w3(x))
        return out


class TransformerLayer(nn.Module):
    """Attention and feed-forward block, each on the norm of its input and scaled per channel."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.attention = WindowedAttention(config)
        self.attention_layer_scale = Scale(config.width)
        self.ffn_norm = nn.RMSNorm(config.width, eps=NORM_EPS)
        self.feed_forward = FeedForward(config.width, config.hidden)
        self.ffn_layer_scale = Scale(config.width)

    def forward(self, x: Tensor, rotation: Tensor, mask: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, T, N] -> the same shape."""
        x = x + self.attention_layer_scale(self.attention(self.attention_norm(x), rotation, mask, memory))
        out: Tensor = x + self.ffn_layer_scale(self.feed_forward(self.ffn_norm(x)))
        return out


class Transformer(Remembering):
    """Layers of windowed attention. Streams of a batch may be at different positions."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=NORM_EPS)

    def empty(self, batch_size: int) -> Tensor:
        """Steps heard so far [B] (int64)."""
        return torch.zeros(batch_size, dtype=torch.int64, device=self.norm.weight.device)

    def forward(self, x: Tensor, memory: StreamMemory) -> Tensor:
        """``x`` [B, N, T] -> the same shape."""
        x, heard = x.transpose(1, 2), self.recall(memory)
        rotation = rotations(heard, x.shape[1], self.config.width // self.config.heads).to(x.dtype)
        mask = visible(heard, x.shape[1], self.config.window)
        for layer in self.layers:
            x = layer(x, rotation, mask, memory)
        heard += x.shape[1]
        out: Tensor = self.norm(x).transpose(1, 2)
        return out


def rotations(heard: Tensor, steps: int, head_dim: int) -> Tensor:
    """Cosines and sines [2, B, 1, T, D / 2] for ``steps`` positions from ``heard`` [B] on.

    Angles are float64: a stream may run for hours, and in float32 its positions would blur.
    """
    positions = heard[:, None] + torch.arange(steps, device=heard.device)
    powers = torch.arange(0, head_dim, 2, dtype=torch.float64, device=heard.device) / head_dim
    angles = positions[:, None, :, None] * ROPE_BASE**-powers
    return torch.stack((angles.cos(), angles.sin())).float()


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the pairs (2j, 2j + 1) of ``x`` [B, H, T, D] by ``rotation`` [2, B, 1, T, D / 2]."""
    cosine, sine = rotation
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(3)


def visible(heard: Tensor, steps: int, window: int) -> Tensor:
    """Which of the W - 1 remembered and T new steps each new step sees [B, 1, T, W - 1 + T] (bool).

    A stream that has heard less than a window must not see what was never there.
    """
    new = torch.arange(steps, device=heard.device)[:, None]
    seen = torch.arange(window - 1 + steps, device=heard.device)
    near = (seen >= new) & (seen < new + window)
    return (near & (seen >= window - 1 - heard[:, None, None]))[:, None]
