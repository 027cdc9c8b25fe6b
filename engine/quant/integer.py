"""A matrix as small integers: 8 bits with a scale per output, or 4 bits with a scale and an offset per group of inputs.

Axes: O outputs, I inputs, G groups of I / G neighbouring inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed, is_finite

SMALLEST_SCALE = 1e-12
MIDDLE = 8
"""The 4-bit code that stands for the offset alone."""
LARGEST_8, LARGEST_4 = 127, 15


@dataclass(frozen=True)
class IntegerMatrix(Packed):
    """8 bits: ``codes * scales``. 4 bits: ``(code - 8) * scales + offsets``, two codes a byte.

    ``codes`` [O, I] int8, or [O, I / 2] uint8 with the first input in the low half; ``scales`` and ``offsets`` [O, G]
    bfloat16, which is what the kernels read; 8 bits have one group and no offsets. ``gains`` [I] bfloat16, positive, or
    None: the codes are those of a matrix whose inputs were multiplied with them before.
    """

    codes: Tensor
    scales: Tensor
    offsets: Tensor | None = None
    gains: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """``(O, I)``."""
        return self.codes.shape[0], self.codes.shape[1] * (2 if self.codes.dtype is torch.uint8 else 1)

    @property
    def bits(self) -> int:
        """4 or 8."""
        return 4 if self.codes.dtype is torch.uint8 else 8

    @property
    def group(self) -> int:
        """Inputs that share a scale."""
        return self.shape[1] // self.scales.shape[1]

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix [O, I]: computed in float32, rounded once to ``dtype``."""
        scales = self.scales.float()[..., None]
        if self.offsets is None:
            grouped = self.codes.float().view(*self.scales.shape, -1) * scales
        else:
            codes = unpack_nibbles(self.codes).view(*self.scales.shape, -1)
            grouped = (codes.float() - MIDDLE) * scales + self.offsets.float()[..., None]
        matrix = grouped.view(self.shape)
        return (matrix if self.gains is None else matrix * self.gains.float()).to(dtype)

    def problem(self) -> str | None:
        """What is wrong with the numbers in it, in words that follow its name; None if nothing is."""
        if not is_finite(self.scales):
            return "has scales that are not finite"
        if self.offsets is not None and not is_finite(self.offsets):
            return "has offsets that are not finite"
        if self.gains is not None and not (is_finite(self.gains) and bool((self.gains > 0).all())):
            return "has gains that are not positive numbers"
        return None


@dataclass(frozen=True)
class Grid:
    """The values that the weights of a group may take: ``scales`` and ``offsets`` [O, G] (float32 of bfloat16 values).

    ``offsets`` None: 8 bits around zero.
    """

    scales: Tensor
    offsets: Tensor | None

    @classmethod
    def of(cls, weight: Tensor, bits: int, group: int, shrink: Tensor | float = 1.0) -> "Grid":
        """The grid that spans ``weight`` [O, I], or ``shrink`` (a number, or [O, G]) of it.

        Rounded to bfloat16 before it is used, so that the rounding costs nothing.
        """
        grouped = weight.float().reshape(*weight.shape[:-1], -1, group)
        if bits == 8:
            return cls(_short(grouped.abs().amax(-1) * shrink / LARGEST_8), None)
        low, high = (edge.mul(shrink) for edge in grouped.aminmax(dim=-1))
        scales = _short((high - low) / LARGEST_4)
        return cls(scales, (low + MIDDLE * scales).to(torch.bfloat16).float())

    def codes(self, weight: Tensor) -> Tensor:
        """Nearest codes of ``weight`` [O, I] in float32: -127 .. 127, or 0 .. 15."""
        grouped = weight.float().reshape(*self.scales.shape, -1)
        if self.offsets is None:
            return (grouped / self.scales[..., None]).round_().clamp_(-LARGEST_8, LARGEST_8).flatten(-2)
        steps = (grouped - self.offsets[..., None]) / self.scales[..., None]
        return steps.round_().add_(MIDDLE).clamp_(0, LARGEST_4).flatten(-2)

    def values(self, codes: Tensor) -> Tensor:
        """What ``codes`` [O, I] stand for."""
        grouped = codes.reshape(*self.scales.shape, -1)
        if self.offsets is None:
            return (grouped * self.scales[..., None]).flatten(-2)
        return ((grouped - MIDDLE) * self.scales[..., None] + self.offsets[..., None]).flatten(-2)

    def pack(self, codes: Tensor) -> IntegerMatrix:
        """A matrix of ``codes`` [O, I]."""
        scales = self.scales.to(torch.bfloat16)
        if self.offsets is None:
            return IntegerMatrix(codes.to(torch.int8), scales)
        return IntegerMatrix(pack_nibbles(codes.to(torch.uint8)), scales, self.offsets.to(torch.bfloat16))


def round_to_nearest(weight: Tensor, bits: int, group: int) -> IntegerMatrix:
    """``weight`` [O, I] of any type, every value to the nearest of its group's grid. ``bits`` 8: ``group`` is I."""
    grid = Grid.of(weight, bits, group)
    return grid.pack(grid.codes(weight))


def pack_nibbles(codes: Tensor) -> Tensor:
    """``codes`` [.., I] (uint8, 0..15) two a byte, the first in the low half: [.., I / 2]."""
    return codes[..., ::2] | codes[..., 1::2] << 4


def unpack_nibbles(packed: Tensor) -> Tensor:
    """The inverse of ``pack_nibbles``."""
    return torch.stack((packed & 15, packed >> 4), -1).flatten(-2)


def _short(scales: Tensor) -> Tensor:
    return scales.clamp(min=SMALLEST_SCALE).to(torch.bfloat16).float()
