"""GPTQ: codes chosen so that the errors of one input are made good by the inputs that are quantised after it.

Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers". Inputs go in
the order of their energy, the groups stay neighbours, so that nothing has to be stored of the order.
"""

import torch
from torch import Tensor

from engine.quant.integer import Grid, IntegerMatrix, round_to_nearest

DAMPING = 0.01
"""Share of the mean energy that is added to that of every input."""
BLOCK = 128
"""Inputs whose errors are spread among themselves before the rest gets them all at once."""


def gptq(weight: Tensor, inputs: Tensor, bits: int, group: int) -> IntegerMatrix:
    """``weight`` [O, I] for inputs like ``inputs`` [N, I]; without any, every value goes to the nearest."""
    if not len(inputs):
        return round_to_nearest(weight, bits, group)
    x = inputs.float()
    energy = x.t() @ x / len(x)
    diagonal = energy.diagonal()
    # Of inputs that were never seen nothing is known, so nothing may be made good by them.
    energy.diagonal().add_(DAMPING * diagonal.mean().clamp(min=1e-8))
    order = diagonal.argsort(descending=True)
    spread = _spread(energy[order][:, order])
    grid = Grid.of(weight, bits, group)
    left = weight.float()[:, order]
    codes = torch.empty_like(left)
    for start in range(0, left.shape[1], BLOCK):
        stop = min(start + BLOCK, left.shape[1])
        errors = torch.zeros(left.shape[0], stop - start)
        for j in range(start, stop):
            column = _column(grid, int(order[j]) // group)
            codes[:, j : j + 1] = column.codes(left[:, j : j + 1])
            error = (left[:, j] - column.values(codes[:, j : j + 1])[:, 0]) / spread[j, j]
            left[:, j + 1 : stop] -= error[:, None] * spread[j, j + 1 : stop]
            errors[:, j - start] = error
        left[:, stop:] -= errors @ spread[start:stop, stop:]
    return grid.pack(codes[:, order.argsort()])


def _column(grid: Grid, group: int) -> Grid:
    """The grid of one input of ``group``."""
    offsets = None if grid.offsets is None else grid.offsets[:, group : group + 1]
    return Grid(grid.scales[:, group : group + 1], offsets)


def _spread(energy: Tensor) -> Tensor:
    """Upper Cholesky factor of the inverse of ``energy`` [I, I]: row j tells how the error of input j is made good."""
    lower: Tensor = torch.linalg.cholesky(energy.double())
    upper: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(lower), upper=True)
    return upper.float()
