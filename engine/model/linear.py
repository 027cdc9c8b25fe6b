"""Linear layers and tables that start without numbers: weights are loaded, or drawn by ``initialise``."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Leaf(nn.Module):
    """A module whose call is its ``forward`` and nothing else: hooks are ignored.

    A step of a small model calls hundreds of leaves, and looking for hooks costs as much as some of them compute.
    """

    def __call__(self, *args: Any) -> Tensor:
        """``forward``."""
        out: Tensor = self.forward(*args)
        return out


class Linear(Leaf):
    """``x @ weight.T + bias`` with ``weight`` [outputs, inputs]."""

    def __init__(self, inputs: int, outputs: int, has_bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., inputs] -> [..., outputs]."""
        # Vectors stay float32 where matrices are bfloat16.
        return F.linear(x, self.weight, None if self.bias is None else self.bias.to(x.dtype))


class Embedding(Leaf):
    """A table [rows, dim] looked up by row."""

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, dim))

    def forward(self, index: Tensor) -> Tensor:
        """``index`` [...] (int64) -> [..., dim]."""
        return F.embedding(index, self.weight)
