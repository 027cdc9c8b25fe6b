"""GPTQ: codes chosen so that the errors of one input are made good by the inputs that are quantised after it.

Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers". Inputs go in
the order of their energy, the groups stay neighbours, so that nothing has to be stored of the order.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from engine.quant.integer import Grid, IntegerMatrix, round_to_nearest

DAMPING = 0.01
"""Share of the mean energy that is added to that of every input."""
BLOCK = 128
"""Inputs whose errors are spread among themselves before the rest gets them all at once."""


@dataclass(frozen=True)
class Spread:
    """How the error of an input is made good: the same for all matrices with these inputs, and most of the work."""

    order: Tensor
    """Inputs [I] (int64) as they are gone through."""
    factor: Tensor
    """Upper Cholesky factor [I, I] of the inverse of their energy, in that order."""

    @classmethod
    def of(cls, inputs: Tensor) -> Self:
        """For inputs like ``inputs`` [N, I], of which there is at least one."""
        x = inputs.float()
        energy = x.t() @ x / len(x)
        diagonal = energy.diagonal()
        # Of inputs that were never seen nothing is known, so nothing may be made good by them.
        energy.diagonal().add_(DAMPING * diagonal.mean().clamp(min=1e-8))
        order = diagonal.argsort(descending=True)
        lower: Tensor = torch.linalg.cholesky(energy[order][:, order].double())
        upper: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(lower), upper=True)
        return cls(order, upper.float())


def gptq(weight: Tensor, spread: Spread | None, bits: int, group: int) -> IntegerMatrix:
    """``weight`` [O, I] for the inputs that ``spread`` is of; without any (None), every value goes to the nearest."""
    if spread is None:
        return round_to_nearest(weight, bits, group)
    order, factor = spread.order, spread.factor
    grid = Grid.of(weight, bits, group)
    left = weight.float()[:, order]
    codes = torch.empty_like(left)
    for start in range(0, left.shape[1], BLOCK):
        stop = min(start + BLOCK, left.shape[1])
        errors = torch.zeros(left.shape[0], stop - start)
        for j in range(start, stop):
            column = _column(grid, int(order[j]) // group)
            codes[:, j : j + 1] = column.codes(left[:, j : j + 1])
            error = (left[:, j] - column.values(codes[:, j : j + 1])[:, 0]) / factor[j, j]
            left[:, j + 1 : stop] -= error[:, None] * factor[j, j + 1 : stop]
            errors[:, j - start] = error
        left[:, stop:] -= errors @ factor[start:stop, stop:]
    return grid.pack(codes[:, order.argsort()])


def _column(grid: Grid, group: int) -> Grid:
    """The grid of one input of ``group``."""
    offsets = None if grid.offsets is None else grid.offsets[:, group : group + 1]
    return Grid(grid.scales[:, group : group + 1], offsets)
