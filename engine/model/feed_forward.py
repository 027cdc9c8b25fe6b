"""The gated feed-forward block of the tower and of the shared expert."""

import torch.nn.functional as F
from torch import Tensor

from engine.model.linear import Leaf, Linear


def swiglu(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` of ``[gate | up]`` [..., 2I] -> [..., I]."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


class FeedForward(Leaf):
    """``down(silu(gate x) * up x)``, gate and up in one projection."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_up = Linear(hidden, 2 * intermediate)
        self.down = Linear(intermediate, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., H] -> [..., H]."""
        return self.down(swiglu(self.gate_up(x)))
