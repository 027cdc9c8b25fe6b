"""Block FP8, the form of the original release: e4m3 values with one scale per block of the matrix."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed, is_finite
from engine.checkpoint.stored import FLOATS, Get, Headers, Stored, check, checked
from engine.errors import WeightsError

LARGEST = 448.0
"""The largest e4m3 value."""
_NAN = 0x7F
_BIAS = 256.0
"""2 to the difference of the exponent biases of float16 and e4m3."""
_LARGEST_SCALE = 1e30
"""What is above is damage, and would overflow on the way to float32."""


@dataclass(frozen=True)
class BlockFp8(Packed):
    """``weight`` [out, in] (float8_e4m3fn) times ``scale_inv`` [ceil(out / rows), ceil(in / columns)], block by block.

    The scale is multiplied, whatever its name in the file (``weight_scale_inv``) says.
    """

    weight: Tensor
    scale_inv: Tensor
    block: tuple[int, int] = (128, 128)

    @property
    def shape(self) -> tuple[int, int]:
        """``(out, in)``."""
        return self.weight.shape[0], self.weight.shape[1]

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix [out, in]: computed in float32, rounded once to ``dtype``."""
        (outs, ins), (rows, columns) = self.shape, self.block
        scale = (self.scale_inv.float() * _BIAS).repeat_interleave(columns, 1)[:, :ins]
        wide = _as_half(self.weight).float()
        for start, row in zip(range(0, outs, rows), scale, strict=True):
            wide[start : start + rows].mul_(row)
        return wide.to(dtype)

    def problem(self) -> str | None:
        """What is wrong with the numbers in it, in words that follow its name; None if nothing is."""
        if int((self.weight.view(torch.uint8) & _NAN).max()) == _NAN:
            return "has values that are not finite"
        if not is_finite(self.scale_inv):
            return "has scales that are not finite"
        low, high = (float(bound) for bound in self.scale_inv.float().aminmax())
        if low < 0 or high > _LARGEST_SCALE:
            return f"has scales outside 0..{_LARGEST_SCALE:g}"
        return None


@dataclass(frozen=True)
class BlockFp8Form:
    """Matrix ``NAME`` in e4m3 beside its scales ``NAME_scale_inv``."""

    block: tuple[int, int]

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it lies in this form. Raises ``WeightsError`` if it does so wrongly."""
        scale = f"{name}_scale_inv"
        is_packed = name in headers and headers[name].dtype == torch.float8_e4m3fn
        if not is_packed and scale not in headers:
            return None
        if len(shape) != 2:
            raise WeightsError(f"{name} is FP8, but no matrix")
        check(name, headers, shape, (torch.float8_e4m3fn,))
        check(scale, headers, scale_shape(shape, self.block), FLOATS)
        return _Stored(name, scale, self.block)


@dataclass(frozen=True)
class _Stored(Stored):
    weight: str
    scale: str
    block: tuple[int, int]

    @property
    def parts(self) -> tuple[str, ...]:
        return self.weight, self.scale

    def read(self, name: str, get: Get) -> Packed:
        return checked(name, BlockFp8(get(self.weight), get(self.scale), self.block))


def scale_shape(shape: tuple[int, ...], block: tuple[int, int]) -> tuple[int, ...]:
    """Shape of the scales of a matrix of ``shape``."""
    return tuple(-(-size // step) for size, step in zip(shape, block, strict=True))


def quantise_block_fp8(matrix: Tensor, block: tuple[int, int] = (128, 128)) -> BlockFp8:
    """``matrix`` [out, in] rounded to block FP8, each block's largest value to the largest there is."""
    (outs, ins), (rows, columns) = matrix.shape, block
    wide = torch.nn.functional.pad(matrix.float(), (0, -ins % columns, 0, -outs % rows))
    blocks = wide.view(wide.shape[0] // rows, rows, -1, columns)
    scale = (blocks.abs().amax((1, 3)) / LARGEST).clamp(min=1e-12)
    codes = (blocks / scale[:, None, :, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return BlockFp8(codes.reshape(wide.shape)[:outs, :ins].contiguous(), scale, block)


def _as_half(codes: Tensor) -> Tensor:
    """e4m3 ``codes`` as float16, all too small by the factor ``_BIAS``, subnormal ones included.

    The bits are moved to where float16 has them; torch's own conversion takes fifteen times as long on a CPU.
    """
    bits = codes.view(torch.int8).to(torch.int16) << 7
    return (bits & ~0x4000).view(torch.float16)
