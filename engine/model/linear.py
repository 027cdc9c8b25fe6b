"""Linear layers and tables that start without numbers: weights are loaded, or drawn by ``initialise``."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Linear(nn.Module):
    """``x @ weight.T + bias`` with ``weight`` [outputs, inputs]."""

    __call__: Callable[..., Tensor]

    def __init__(self, inputs: int, outputs: int, has_bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs)) if has_bias else None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., inputs] -> [..., outputs]."""
        return F.linear(x, self.weight, self.bias)


class Embedding(nn.Module):
    """A table [rows, dim] looked up by row."""

    __call__: Callable[..., Tensor]

    def __init__(self, rows: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, dim))

    def forward(self, index: Tensor) -> Tensor:
        """``index`` [...] (int64) -> [..., dim]."""
        return F.embedding(index, self.weight)
