"""Mixture of experts: every row is sent to its best experts, one more is shared by all rows.

Axes: N rows, E experts, K experts per row, I expert width, H hidden.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.feed_forward import FeedForward, swiglu


@dataclass(frozen=True)
class Routing:
    """What one layer's router decided: ``logits`` [B, T, E] before softmax and the experts ``chosen`` [B, T, K]."""

    logits: Tensor
    chosen: Tensor


def load_balance_loss(routing: Routing, mask: Tensor) -> Tensor:
    """Switch-style balance loss over the rows of ``mask`` [B, T] (bool): 1 when all experts are used alike.

    ``E * sum_e(share of choices that fell on e * mean probability of e)``.
    """
    logits, chosen = routing.logits[mask].float(), routing.chosen[mask]
    experts = logits.shape[-1]
    shares = torch.bincount(chosen.flatten(), minlength=experts) / max(chosen.numel(), 1)
    return experts * (shares * logits.softmax(-1).mean(0)).sum()


class _Rearrange(torch.autograd.Function):
    """Rows picked by index when every input row is picked equally often, with a backward pass free of scatters.

    ``index`` lists the input row of each output row; ``inverse`` the output rows of input row 0, of input row 1, ..
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(inverse)
        ctx.rows = x.shape[0]
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (inverse,) = ctx.saved_tensors
        picked = gradient.index_select(0, inverse)
        copies = picked.shape[0] // ctx.rows
        return picked if copies == 1 else picked.view(ctx.rows, copies, -1).sum(1), None, None


def rearrange(x: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
    """``x[index]``; see ``_Rearrange``."""
    out: Tensor = _Rearrange.apply(x, index, inverse)  # type: ignore[no-untyped-call]
    return out


class ExpertMixture(nn.Module, ABC):
    """Sends rows to their experts and sums what comes back. How an expert computes is a subclass's affair."""

    @property
    @abstractmethod
    def count(self) -> int:
        """E."""

    @abstractmethod
    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        """``weight`` times what one expert makes of ``x`` [1, H]."""

    @abstractmethod
    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each expert makes of its part [n, H]; those without rows are left out."""

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Weighted sum over the ``chosen`` [N, K] experts of each row of ``x`` [N, H]; ``weights`` [N, K]."""
        if x.shape[0] == 1 and not torch.is_grad_enabled():
            pairs = zip(chosen[0].tolist(), weights[0].tolist(), strict=True)
            return reduce(torch.add, [self.single(expert, x, weight) for expert, weight in pairs])
        per_row = chosen.shape[1]
        order = chosen.flatten().argsort(stable=True)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.shape[0], device=order.device)
        counts = torch.bincount(chosen.flatten(), minlength=self.count).tolist()
        parts = rearrange(x, order // per_row, inverse).split_with_sizes(counts)
        outputs = rearrange(torch.cat(self.grouped(parts)), inverse, order).view(x.shape[0], per_row, -1)
        return torch.bmm(weights.to(outputs.dtype)[:, None], outputs)[:, 0]


class Experts(ExpertMixture):
    """Experts with plain weights, stacked: ``gate_up`` [E, 2I, H], ``down`` [E, H, I]."""

    def __init__(self, experts: int, hidden: int, intermediate: int) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.empty(experts, 2 * intermediate, hidden))
        self.down = nn.Parameter(torch.empty(experts, hidden, intermediate))

    @property
    def count(self) -> int:
        """E."""
        return self.gate_up.shape[0]

    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        """``weight`` times what one expert makes of ``x`` [1, H]."""
        inner = swiglu(F.linear(x, self.gate_up.select(0, expert))) * weight
        return F.linear(inner, self.down.select(0, expert))

    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each expert makes of its part [n, H]; those without rows are left out."""
        # Unbinding once gives one gradient for the stack; picking expert by expert would add up E of its size.
        weights = zip(self.gate_up.unbind(0), self.down.unbind(0), strict=True)
        return [
            F.linear(swiglu(F.linear(part, gate_up)), down)
            for part, (gate_up, down) in zip(parts, weights, strict=True)
            if part.shape[0]
        ]


class MixtureOfExperts(nn.Module):
    """Routed experts plus one shared expert behind a sigmoid gate.

    ``router`` [E + 1, H]: a row per expert, then the shared expert's gate. It is computed in float32.
    """

    def __init__(self, hidden: int, experts: int, per_row: int, intermediate: int, shared_intermediate: int) -> None:
        super().__init__()
        self.per_row = per_row
        self.router = nn.Parameter(torch.empty(experts + 1, hidden))
        self.experts: ExpertMixture = Experts(experts, hidden, intermediate)
        self.shared = FeedForward(hidden, shared_intermediate)

    def forward(self, x: Tensor) -> tuple[Tensor, Routing]:
        """``x`` [B, T, H] -> the same, and how it was routed."""
        batch, rows, hidden = x.shape
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.float(), self.router.float())
        logits, shared_gate = scores[..., :-1], scores[..., -1:]
        best, chosen = logits.topk(self.per_row, -1)
        # Softmax over all experts, renormalised over the best, is the softmax of the best.
        weights = best.softmax(-1)
        routed = self.experts(x.view(-1, hidden), chosen.view(-1, self.per_row), weights.view(-1, self.per_row))
        out = routed.view(batch, rows, hidden) + torch.sigmoid(shared_gate).to(x.dtype) * self.shared(x)
        return out, Routing(logits, chosen)
