"""``IntegerMatrix`` in a checkpoint's files: ``X.weight`` as ``X.codes``, ``X.scales``, ``X.offsets``, ``X.gains``."""

from dataclasses import dataclass

import torch

from engine.checkpoint.packed import Packed
from engine.checkpoint.stored import Get, Headers, Stored, check, checked
from engine.quant.integer import IntegerMatrix
from engine.quant.scheme import Scheme


def component_names(name: str) -> tuple[str, str, str, str]:
    """Names of codes, scales, offsets and gains of tensor ``name``."""
    base = name.removesuffix(".weight")
    return f"{base}.codes", f"{base}.scales", f"{base}.offsets", f"{base}.gains"


@dataclass(frozen=True)
class IntegerForm:
    """The form that ``footlights quantize`` writes."""

    scheme: Scheme

    def find(self, name: str, shape: tuple[int, ...], headers: Headers) -> Stored | None:
        """Where tensor ``name`` is, if the scheme quantises it. Raises ``WeightsError`` if it is not as it says."""
        part = self.scheme.of_tensor(name)
        if not part.is_packed:
            return None
        outputs, inputs = shape
        codes, scales, offsets, gains = component_names(name)
        grid = (outputs, inputs // part.group_for(name, inputs))
        check(scales, headers, grid, (torch.bfloat16,))
        if part.bits == 8:
            check(codes, headers, (outputs, inputs), (torch.int8,))
            return _Stored((codes, scales))
        check(codes, headers, (outputs, inputs // 2), (torch.uint8,))
        check(offsets, headers, grid, (torch.bfloat16,))
        if not part.has_gains:
            return _Stored((codes, scales, offsets))
        check(gains, headers, (inputs,), (torch.bfloat16,))
        return _Stored((codes, scales, offsets, gains))


@dataclass(frozen=True)
class _Stored(Stored):
    names: tuple[str, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        return self.names

    def read(self, name: str, get: Get) -> Packed:
        return checked(name, IntegerMatrix(*(get(part) for part in self.names)))
