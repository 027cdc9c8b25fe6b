"""Weight-only int8: matrices as int8 with one scale per output, activations in bfloat16.

A step of a small batch reads every weight once and does little with it, so its time is the bytes it reads: an eighth to
a quarter of float32's here. What stays as it is: norms, routers, the a/b projections of DeltaNet, convolutions,
embeddings and the pointer.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.model.decoder import Decoder
from engine.model.feed_forward import swiglu
from engine.model.linear import Leaf, Linear
from engine.model.moe import ExpertMixture, Experts

MOST_PACKED_ROWS = 32
"""Rows up to which the packed kernel, whose time grows with each row, is faster than unpacking the weights."""

_KEPT = ("ba_proj", "pointer")


def quantise_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """``weight`` [..., out, in] as int8 and its scales [..., out] in bfloat16, so that ``weight ~ int8 * scale``."""
    largest = weight.float().abs().amax(-1)
    # Rounded before use, so that the rounding of the scale costs nothing.
    scale = (largest / 127).clamp(min=1e-12).to(torch.bfloat16)
    return (weight.float() / scale.float()[..., None]).round().clamp(-127, 127).to(torch.int8), scale


def int8_linear(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """``x`` [N, in] times the transposed quantised ``weight`` [out, in] -> [N, out], in ``x``'s dtype.

    Up to ``MOST_PACKED_ROWS`` rows the result for a row does not depend on the other rows, to the bit.
    """
    if x.shape[0] <= MOST_PACKED_ROWS and x.device.type == "cpu":
        return torch._weight_int8pack_mm(x.to(torch.bfloat16), weight, scale).to(x.dtype)
    return int8_linear_reference(x, weight, scale)


def int8_linear_reference(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    """The same with the weights unpacked."""
    return (F.linear(x.to(torch.bfloat16), weight.to(torch.bfloat16)) * scale).to(x.dtype)


class Int8Linear(Leaf):
    """A quantised ``Linear``."""

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        weight, scale = quantise_rows(linear.weight.detach())
        self.weight: Tensor
        self.scale: Tensor
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [..., in] -> [..., out]."""
        out = int8_linear(x.reshape(-1, x.shape[-1]), self.weight, self.scale).view(*x.shape[:-1], -1)
        return out if self.bias is None else out + self.bias


class Int8Experts(ExpertMixture):
    """Quantised experts: ``gate_up`` [E, 2I, H], ``down`` [E, H, I] and their scales."""

    def __init__(self, experts: Experts) -> None:
        super().__init__()
        for name in ("gate_up", "down"):
            weight, scale = quantise_rows(experts.get_parameter(name).detach())
            self.register_buffer(name, weight)
            self.register_buffer(f"{name}_scale", scale)

    @property
    def count(self) -> int:
        """E."""
        return self.get_buffer("down").shape[0]

    def _compute(self, expert: int, x: Tensor, weight: float) -> Tensor:
        names = ("gate_up", "gate_up_scale", "down", "down_scale")
        gate_up, gate_up_scale, down, down_scale = (self.get_buffer(name).select(0, expert) for name in names)
        inner = swiglu(int8_linear(x, gate_up, gate_up_scale))
        return int8_linear(inner if weight == 1 else inner * weight, down, down_scale)

    def single(self, expert: int, x: Tensor, weight: float) -> Tensor:
        """``weight`` times what one expert makes of ``x`` [1, H]."""
        return self._compute(expert, x, weight)

    def grouped(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """What each expert makes of its part [n, H]; those without rows are left out."""
        return [self._compute(expert, part, 1.0) for expert, part in enumerate(parts) if part.shape[0]]


def quantise_int8(decoder: Decoder) -> Decoder:
    """Quantise the large matrices of ``decoder`` in place, for inference; it cannot be trained or saved any more."""
    for path, module in list(decoder.named_modules()):
        replacement: nn.Module
        if isinstance(module, Linear) and not path.endswith(_KEPT):
            replacement = Int8Linear(module)
        elif isinstance(module, Experts):
            replacement = Int8Experts(module)
        else:
            continue
        parent, _, name = path.rpartition(".")
        setattr(decoder.get_submodule(parent), name, replacement)
    return decoder
