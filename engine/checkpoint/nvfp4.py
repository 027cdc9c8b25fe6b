"""NVFP4: e2m1 values, an e4m3 scale for every 16 of them, one float32 scale for the matrix.

Two spellings are in use. ModelOpt: ``weight`` [out, in / 2] (uint8, the first value in the low half of a byte),
``weight_scale`` [out, in / 16], ``weight_scale_2`` to multiply with, ``input_scale`` (for activations in FP4, not used
here). Compressed-tensors: ``weight_packed``, ``weight_scale``, ``weight_global_scale`` to divide by,
``input_global_scale``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed, is_finite
from engine.checkpoint.stored import Get, Headers, Stored, check, checked
from engine.errors import WeightsError

GROUP = 16
_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@dataclass(frozen=True)
class NvFp4(Packed):
    """``value(code) * group scale * matrix scale``."""

    codes: Tensor
    """[out, in / 2] uint8, the first of two values in the low half."""
    scales: Tensor
    """[out, in / 16] float8_e4m3fn"""
    scale: Tensor
    """Scalar float32 to multiply with."""

    @property
    def shape(self) -> tuple[int, int]:
        """``(out, in)``."""
        return self.codes.shape[0], 2 * self.codes.shape[1]

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix [out, in]: computed in float32, rounded once to ``dtype``."""
        outs, ins = self.shape
        values = torch.tensor(_VALUES)
        # One look-up per byte gives two values.
        pairs = torch.stack((values.repeat(16), values.repeat_interleave(16)), 1)
        wide = pairs.index_select(0, self.codes.view(-1).int()).view(outs, ins // GROUP, GROUP)
        return (wide * (self.scales.float() * self.scale)[..., None]).view(outs, ins).to(dtype)

    def problem(self) -> str | None:
        """What is wrong with the numbers in it, in words that follow its name; None if nothing is."""
        return None if is_finite(self.scales.float() * self.scale * _VALUES[7]) else "has scales that are not finite"


class NvFp4Form:
    """Matrices in NVFP4, in either spelling."""

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it lies in this form. Raises ``WeightsError`` if it does so wrongly."""
        base = name.removesuffix(".weight")
        scales = f"{base}.weight_scale"
        if f"{base}.weight_packed" in headers:
            codes, scale, unused, is_divisor = (
                f"{base}.weight_packed",
                "weight_global_scale",
                "input_global_scale",
                True,
            )
        elif scales in headers or (name in headers and headers[name].dtype == torch.uint8):
            codes, scale, unused, is_divisor = name, "weight_scale_2", "input_scale", False
        else:
            return None
        outs, ins = shape if len(shape) == 2 else (0, 0)
        if not outs or ins % GROUP:
            raise WeightsError(f"{name} of shape {list(shape)} cannot lie in groups of {GROUP} inputs")
        scale, unused = f"{base}.{scale}", f"{base}.{unused}"
        check(codes, headers, (outs, ins // 2), (torch.uint8,))
        check(scales, headers, (outs, ins // GROUP), (torch.float8_e4m3fn,))
        check(scale, headers, (1,) if scale in headers and headers[scale].shape == (1,) else (), (torch.float32,))
        ignored = (unused,) if unused in headers else ()
        return _Stored(codes, scales, scale, is_divisor, ignored)


@dataclass(frozen=True)
class _Stored(Stored):
    codes: str
    scales: str
    scale: str
    is_divisor: bool
    ignored: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return self.codes, self.scales, self.scale, *self.ignored

    def read(self, name: str, get: Get) -> Packed:
        scale = get(self.scale).reshape(())
        return checked(name, NvFp4(get(self.codes), get(self.scales), 1 / scale if self.is_divisor else scale))


def quantise_nvfp4(matrix: Tensor) -> NvFp4:
    """``matrix`` [out, in] rounded to nearest in this form."""
    outs, ins = matrix.shape
    grouped = matrix.float().view(outs, ins // GROUP, GROUP)
    # Scales of groups reach from the matrix's largest value down, as far as e4m3 does.
    scale = (grouped.abs().max() / (_VALUES[7] * 448)).clamp(min=1e-12)
    scales = (grouped.abs().amax(-1) / (_VALUES[7] * scale)).clamp(min=2.0**-9).to(torch.float8_e4m3fn)
    ratio = grouped / (scales.float() * scale)[..., None]
    middles = torch.tensor([(low + high) / 2 for low, high in zip(_VALUES[:7], _VALUES[1:8], strict=True)])
    codes = torch.bucketize(ratio.abs(), middles) + 8 * (ratio < 0)
    codes = codes.view(outs, ins).to(torch.uint8)
    return NvFp4(codes[:, ::2] | codes[:, 1::2] << 4, scales, scale)
