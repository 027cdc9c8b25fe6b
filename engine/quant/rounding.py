"""How the codes of a matrix are chosen: one interface, and the plain way.

Axes: O outputs, I inputs.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.quant.integer import IntegerMatrix, round_to_nearest
from engine.quant.scheme import PartScheme

MOST_OUTPUTS = 8192
"""Outputs that are quantised at a time: a large head in float32 would take more memory than the rest of the work."""


class Rounding(Protocol):
    """How the codes of a matrix are chosen."""

    def __call__(self, name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
        """Quantise tensor ``name``, ``weight`` [O, I] of any floating type."""


def to_nearest(name: str, weight: Tensor, part: PartScheme) -> IntegerMatrix:
    """Every value to the nearest of its grid."""
    group = part.group_for(name, weight.shape[1])
    return by_outputs(weight, lambda piece: round_to_nearest(piece, part.bits, group))


def by_outputs(weight: Tensor, quantise: Callable[[Tensor], IntegerMatrix]) -> IntegerMatrix:
    """What ``quantise`` makes of ``weight`` [O, I], some outputs at a time: they do not know of each other."""
    pieces = [quantise(piece).tensors() for piece in torch.split(weight, MOST_OUTPUTS)]
    joined = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0] if name != "gains"}
    return IntegerMatrix(**joined, gains=pieces[0].get("gains"))
