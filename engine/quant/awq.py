"""AWQ: inputs that are often large get weights that lie closer on the grid.

Lin et al. 2023, "AWQ: Activation-aware Weight Quantization". Weights are divided by the gain of their input before
they are rounded, and the input is multiplied with it when the model runs: what matters most is spread over more codes.
How far to go is tried out, and so is how much of each group's range to give up. Gains are kept beside the matrix, so
nothing else has to know of them.

Axes: O outputs, I inputs, G groups of inputs, N rows.
"""

from dataclasses import replace

import torch
from torch import Tensor

from engine.quant.integer import Grid, IntegerMatrix

POWERS = tuple(i / 10 for i in range(11))
"""Tried for the gains: 0 leaves all inputs alike, 1 makes them equally large."""
SHARES = tuple(1 - i / 20 for i in range(10))
"""Tried for the part of a group's range that its codes span."""
MOST_OUTPUTS = 1024
"""Outputs that a power is tried on, evenly chosen."""
MOST_RATIO = 1e4
"""Of gains: an input that was hardly ever seen is no reason to divide by nothing."""
BITS = 4


def find_gains(weight: Tensor, inputs: Tensor, group: int) -> Tensor:
    """Gains [I] (bfloat16) for ``weight`` [O, I] and inputs like ``inputs`` [N, I]; 1 if there are none."""
    if not len(inputs):
        return no_gains(weight.shape[1])
    x = inputs.float()
    sizes = x.abs().mean(0)
    sizes = sizes.clamp(min=max(float(sizes.max()) / MOST_RATIO, 1e-20))
    energy = x.t() @ x / len(x)
    sample = weight[:: -(-len(weight) // MOST_OUTPUTS)].float()
    best, least = no_gains(weight.shape[1]), float("inf")
    for power in POWERS:
        gains = sizes.pow(-power)
        # Their common factor changes nothing but how far they are from 1.
        gains = (gains / (gains.max() * gains.min()).sqrt()).to(torch.bfloat16)
        grid = Grid.of(sample / gains.float(), BITS, group)
        error = grid.values(grid.codes(sample / gains.float())) * gains.float() - sample
        lost = float(((error @ energy) * error).sum())
        if lost < least:
            best, least = gains, lost
    return best


def awq(weight: Tensor, inputs: Tensor, gains: Tensor, group: int) -> IntegerMatrix:
    """``weight`` [O, I] as 4 bits behind ``gains`` [I] (bfloat16), for inputs like ``inputs`` [N, I]."""
    scaled = weight.float() / gains.float()
    grid = Grid.of(scaled, BITS, group)
    if len(inputs):
        grid = Grid.of(scaled, BITS, group, _best_shares(scaled, inputs.float() * gains.float(), group))
    return replace(grid.pack(grid.codes(scaled)), gains=gains)


def no_gains(inputs: int) -> Tensor:
    """Gains [I] that change nothing."""
    return torch.ones(inputs, dtype=torch.bfloat16)


def _best_shares(weight: Tensor, x: Tensor, group: int) -> Tensor:
    """Of ``SHARES`` the one for each group of ``weight`` that changes its products with ``x`` [N, I] least: [O, G]."""
    parts = x.view(len(x), -1, group).transpose(0, 1)
    energy = parts.transpose(1, 2) @ parts
    best = torch.ones(len(weight), weight.shape[1] // group)
    least = torch.full_like(best, torch.inf)
    for share in SHARES:
        grid = Grid.of(weight, BITS, group, share)
        error = (grid.values(grid.codes(weight)) - weight).view(len(weight), -1, group).transpose(0, 1)
        lost = ((error @ energy) * error).sum(-1).t()
        best = torch.where(lost < least, share, best)
        least = torch.minimum(lost, least)
    return best
