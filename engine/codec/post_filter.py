"""The post-filter of synthesised speech: formants sharper than measured, levels a shade steadier.

Analysis smooths the envelope, quantising smooths it once more, and a filter with broad formants sounds muffled.
Larger cepstra of fine structure are deeper valleys between formants (decision 0024 has the figures).

Axes: B sequences, S = 8 subframes of a frame, D parameters.
"""

import torch
from torch import Tensor

from engine.codec.vocoder import NUM_CEPSTRA

FIRST_SHARPENED = 5
"""Below it lie loudness and the tilt of the spectrum, which say who speaks and how loudly."""
SHARPNESS = 1.3
NEIGHBOUR_SHARE = 0.2
"""Of each of the two subframes around: a step of the codes from one subframe to the next is heard as roughness."""


def sharpen(parameters: Tensor) -> Tensor:
    """``parameters`` [B, S, D] of one frame with a sharper envelope; source parameters stay as they are.

    A frame by itself: its first and last subframe are their own outer neighbours. So nothing has to be remembered,
    and no sound waits for the frame after.
    """
    cepstra, source = parameters[..., :NUM_CEPSTRA], parameters[..., NUM_CEPSTRA:]
    before = torch.cat([cepstra[:, :1], cepstra[:, :-1]], 1)
    after = torch.cat([cepstra[:, 1:], cepstra[:, -1:]], 1)
    steady = torch.lerp(cepstra, (before + after) / 2, 2 * NEIGHBOUR_SHARE)
    return torch.cat([steady[..., :FIRST_SHARPENED], SHARPNESS * steady[..., FIRST_SHARPENED:], source], -1)
