"""Half-precision weights, float32 arithmetic: matrices as float16, activations and sums in float32.

A step of a small batch reads every weight once and does little with it, so its time is the bytes it reads: half of
float32's here, laid out for the processor's vectors. Checkpoints are bfloat16 or float16, and weights between 2^-14 and
65504 lose nothing. The result for a row does not depend on the other rows, to the bit, so a sequence in a batch
computes what it computes alone.

x86 processors only (FBGEMM); elsewhere weights stay as they are.
"""

import warnings
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.feed_forward import swiglu
from engine.model.linear import Leaf, Linear
from engine.model.moe import ExpertMixture, Experts

LARGEST = torch.finfo(torch.float16).max
SMALLEST = torch.finfo(torch.float16).smallest_normal * 2**-11
"""Half a step of the smallest numbers."""


def is_supported() -> bool:
    """Whether this build of torch and this processor have the kernel."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def pack(weight: Tensor) -> Tensor:
    """``weight`` [out, in] in the kernel's own form: not to be looked into, moved or copied."""
    with warnings.catch_warnings():
        # The plain operators are marked as deprecated in favour of ones that take 12 us longer a call, which is more
        # than most of these products need. See docs/decisions; torch's version is pinned.
        warnings.simplefilter("ignore", UserWarning)
        packed = torch.fbgemm_pack_gemm_matrix_fp16(weight.detach().float().contiguous())
        half_linear(weight.new_zeros(1, weight.shape[1], dtype=torch.float32), packed)
    return packed


def fits(weight: Tensor) -> bool:
    """Whether ``weight`` is float32 on this processor and float16 can hold its numbers."""
    is_here = weight.device.type == "cpu" and weight.dtype is torch.float32
    return is_here and float(weight.abs().amax()) <= LARGEST


def is_exact(weight: Tensor) -> bool:
    """Whether float16 holds ``weight`` as it is, but for numbers too small to matter."""
    return fits(weight) and float((weight.half().float() - weight).abs().amax()) <= SMALLEST


def half_linear(x: Tensor, packed: Tensor, bias: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """``x`` [..., in] (float32) times a transposed packed weight, plus ``bias`` -> [..., out], or into ``out``."""
    if out is None:
        return torch.fbgemm_linear_fp16_weight_fp32_activation(x, packed, bias)
    return torch.fbgemm_linear_fp16_weight_fp32_activation(x, packed, bias, out)


MOST_SINGLE_ROWS = 16
"""Rows up to which experts are quicker row by row than gathering their rows."""


class Packed:
    """A module that holds packed weights, or tables made of weights."""

    nbytes: int
    """Bytes of them."""


class HalfLinear(Leaf, Packed):
    """A linear layer whose weight is packed."""

    def __init__(self, linear: Linear | nn.Linear) -> None:
        super().__init__()
        self.packed = pack(linear.weight)
        self.bias = linear.bias
        self.nbytes = 2 * linear.weight.numel()

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., in] (float32) -> [..., out]."""
        return half_linear(x, self.packed, self.bias)


class DoubleLinear(Leaf):
    """A linear layer in double precision: what rounding differs from batch to batch is cut off at the end."""

    def __init__(self, linear: Linear | nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight.detach().double()
        self.bias = None if linear.bias is None else linear.bias.detach().double()

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., in] (float32) -> [..., out]."""
        return F.linear(x.double(), self.weight, self.bias).float()


def steady_linear(linear: Linear | nn.Linear) -> Leaf:
    """A linear layer for inference in which a row's result does not depend on the rows beside it."""
    return HalfLinear(linear) if is_supported() else DoubleLinear(linear)


class HalfExperts(ExpertMixture, Packed):
    """Packed ``Experts``."""

    def __init__(self, experts: Experts) -> None:
        super().__init__()
        self._gate_up = [pack(weight) for weight in experts.gate_up]
        self._down = [pack(weight) for weight in experts.down]
        self._width = experts.gate_up.shape[1]
        self.nbytes = 2 * (experts.gate_up.numel() + experts.down.numel())

    @property
    def count(self) -> int:
        """E."""
        return len(self._down)

    def forward(self, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """Weighted sum over the ``chosen`` [N, K] experts of each row of ``x`` [N, H]; ``weights`` [N, K]."""
        count, per_row = chosen.shape
        if count > MOST_SINGLE_ROWS:
            return super().forward(x, chosen, weights)
        # Row by row, as a row alone is computed, but for what all rows' experts do in one operation.
        experts, rows = chosen.flatten().tolist(), x[:, None].unbind(0)
        inner = x.new_empty(count * per_row, 1, self._width)
        for i, (expert, out) in enumerate(zip(experts, inner.unbind(0), strict=True)):
            half_linear(rows[i // per_row], self._gate_up[expert], None, out)
        gate, up = inner.chunk(2, -1)
        inner = F.silu(gate).mul_(up).mul_(weights.reshape(-1, 1, 1))
        each = x.new_empty(count * per_row, 1, x.shape[1])
        for part, expert, out in zip(inner.unbind(0), experts, each.unbind(0), strict=True):
            half_linear(part, self._down[expert], None, out)
        return each.view(count, per_row, -1).sum(1)

    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        """``weight`` times what one expert makes of ``x`` [1, H]."""
        inner = swiglu(half_linear(x, self._gate_up[expert])) * weight
        return half_linear(inner, self._down[expert])

    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each expert makes of its part [n, H]; those without rows are left out."""
        return [
            half_linear(swiglu(half_linear(part, self._gate_up[expert])), self._down[expert])
            for expert, part in enumerate(parts)
            if part.shape[0]
        ]
