"""Four-bit GPTQ, the form of ``drama-3-int4``: integers with a scale per group of inputs.

On disk a matrix [out, in] is ``qweight`` [in / 8, out] (int32, eight inputs in a word, the lowest bits first),
``scales`` [groups, out], ``qzeros`` [groups, out / 8] (int32, zero points packed the same way along the outputs) and,
where inputs were quantised in another order than their own, ``g_idx`` [in], the group of each input. Marlin is what
kernels make of it in memory, not a layout of the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from engine.checkpoint.packed import Packed, is_finite
from engine.checkpoint.stored import FLOATS, Get, Headers, Stored, check, checked
from engine.errors import ConfigError, WeightsError

_PER_WORD = 8
_SYMMETRIC_ZERO = 8


@dataclass(frozen=True)
class GroupedInt4(Packed):
    """``(code - zero) * scale``: codes 0..15, a scale and a zero point per output and group of inputs.

    ``zeros`` None: 8 everywhere. ``group_of`` None: groups are consecutive inputs.
    """

    words: Tensor
    """[in / 8, out] int32: the codes as on disk."""
    scales: Tensor
    """[groups, out]"""
    zeros: Tensor | None = None
    """[groups, out] uint8"""
    group_of: Tensor | None = None
    """[in] int32"""

    @property
    def shape(self) -> tuple[int, int]:
        """``(out, in)``."""
        return self.words.shape[1], self.words.shape[0] * _PER_WORD

    @property
    def group_size(self) -> int:
        """Inputs that share a scale."""
        return self.shape[1] // self.scales.shape[0]

    def codes(self) -> Tensor:
        """The codes [out, in] as uint8."""
        return _unpack(self.words, 0).t().contiguous()

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The matrix [out, in]: computed in float32, rounded once to ``dtype``."""
        outs, ins = self.shape
        codes, scales = _unpack(self.words, 0).float(), self.scales.float()
        zeros = None if self.zeros is None else self.zeros.float()
        if self.group_of is not None:
            scales = scales[self.group_of.long()]
            zeros = None if zeros is None else zeros[self.group_of.long()]
        grouped = codes.view(scales.shape[0], -1, outs)
        grouped = (grouped - (_SYMMETRIC_ZERO if zeros is None else zeros[:, None])) * scales[:, None]
        return grouped.view(ins, outs).t().to(dtype).contiguous()

    def problem(self) -> str | None:
        """What is wrong with the numbers in it, in words that follow its name; None if nothing is."""
        if not is_finite(self.scales):
            return "has scales that are not finite"
        if self.group_of is not None:
            low, high = self.group_of.aminmax()
            if int(low) < 0 or int(high) >= self.scales.shape[0]:
                return f"has groups outside 0..{self.scales.shape[0] - 1}"
        return None


@dataclass(frozen=True)
class GptqForm:
    """Matrix ``BASE.weight`` as ``BASE.qweight``, ``BASE.scales``, ``BASE.qzeros`` and ``BASE.g_idx``."""

    group_size: int
    """Inputs per group; -1: all of them."""
    is_symmetric: bool
    zero_offset: int
    """What the first version of the format subtracts from zero points when it stores them: 1, or 0."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str) -> "GptqForm":
        """Read a GPTQ object of the configuration; raises ``ConfigError`` for what is not read here."""
        group = values.get("group_size")
        if values.get("bits") != 4:
            raise ConfigError(f"{where}.bits is {values.get('bits')!r}; 4 is read")
        if not isinstance(group, int) or isinstance(group, bool) or (group != -1 and (group < 8 or group % 8)):
            raise ConfigError(f"{where}.group_size is {group!r}; -1 or a multiple of 8 is read")
        form = values.get("checkpoint_format", values.get("format", "gptq"))
        if form not in ("gptq", "gptq_v2"):
            raise ConfigError(f"{where}.checkpoint_format is {form!r}; gptq and gptq_v2 are read")
        return cls(group, bool(values.get("sym", True)), zero_offset=1 if form == "gptq" else 0)

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if it lies in this form. Raises ``WeightsError`` if it does so wrongly."""
        base = name.removesuffix(".weight")
        words, scales, zeros, index = (f"{base}.{part}" for part in ("qweight", "scales", "qzeros", "g_idx"))
        if words not in headers and scales not in headers:
            return None
        outs, ins = shape if len(shape) == 2 else (0, 0)
        group = ins if self.group_size == -1 else self.group_size
        if not outs or ins % max(group, 1) or ins % _PER_WORD or outs % _PER_WORD:
            raise WeightsError(f"{name} of shape {list(shape)} cannot lie in groups of {group} inputs")
        groups = ins // group
        check(words, headers, (ins // _PER_WORD, outs), (torch.int32,))
        check(scales, headers, (groups, outs), FLOATS)
        if zeros in headers or not self.is_symmetric:
            check(zeros, headers, (groups, outs // _PER_WORD), (torch.int32,))
        if index in headers:
            check(index, headers, (ins,), (torch.int32,))
        optional = tuple(part for part in (zeros, index) if part in headers)
        return _Stored(words, scales, zeros, index, (words, scales, *optional), self)


@dataclass(frozen=True)
class _Stored(Stored):
    words: str
    scales: str
    zeros: str
    index: str
    present: tuple[str, ...]
    form: GptqForm

    @property
    def parts(self) -> tuple[str, ...]:
        return self.present

    def read(self, name: str, get: Get) -> Packed:
        words, scales = get(self.words), get(self.scales)
        zeros = self._zeros(name, get) if self.zeros in self.present else None
        group_of = get(self.index) if self.index in self.present else None
        if group_of is not None:
            ins = group_of.shape[0]
            in_order = torch.arange(ins, dtype=torch.int32) // (ins // scales.shape[0])
            group_of = None if torch.equal(group_of, in_order) else group_of
        return checked(name, GroupedInt4(words, scales, zeros, group_of))

    def _zeros(self, name: str, get: Get) -> Tensor | None:
        zeros = _unpack(get(self.zeros), 1)
        if not self.form.is_symmetric:
            return (zeros + self.form.zero_offset) & 15
        # Both spellings of 8 are found in symmetric files; kernels for them do not look.
        if not bool(((zeros == _SYMMETRIC_ZERO) | (zeros == _SYMMETRIC_ZERO - 1)).all()):
            raise WeightsError(
                f"{name} has zero points other than {_SYMMETRIC_ZERO}, though the config calls it symmetric"
            )
        return None


def _unpack(words: Tensor, axis: int) -> Tensor:
    """int32 ``words`` [m, n] as uint8 codes, the eight of a word following each other along ``axis``."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    split = words.unsqueeze(axis + 1) >> (shifts[:, None] if axis == 0 else shifts)
    return (split & 15).to(torch.uint8).flatten(axis, axis + 1)


def pack_words(codes: Tensor) -> Tensor:
    """Codes [m, n] (0..15) as int32 words [m / 8, n], eight rows in a word, the lowest bits first."""
    wide = codes.to(torch.int64).view(-1, _PER_WORD, codes.shape[1])
    words = (wide << torch.arange(0, 32, 4)[:, None]).sum(1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def quantise_gptq(matrix: Tensor, group_size: int) -> GroupedInt4:
    """``matrix`` [out, in] rounded to nearest in this form, symmetrically."""
    outs, ins = matrix.shape
    grouped = matrix.float().view(outs, ins // group_size, group_size)
    scales = (grouped.abs().amax(-1) / 7).clamp(min=1e-6).to(torch.float16)
    codes = (grouped / scales.float()[..., None]).round().clamp(-8, 7) + _SYMMETRIC_ZERO
    return GroupedInt4(pack_words(codes.view(outs, ins).t()), scales.t().contiguous())
