"""A soft limit for samples: what is loud comes near full scale and never beyond, without an edge in the wave.

Each sample by itself, so that frames, batches and revisions change nothing.
"""

import numpy as np
from numpy.typing import NDArray

KNEE = 0.8
"""-1.9 dBFS: up to here samples stay as they are. All but some in 100 000 of the understudy's do."""
CEILING = 0.98
"""Room for what a resampler adds between samples."""


def soft_limit(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """``samples`` of any shape, those above ``KNEE`` bent towards ``CEILING``; the slope has no step."""
    level = np.abs(samples)
    if level.max(initial=0) <= KNEE:
        return samples
    room = CEILING - KNEE
    bent = np.copysign(KNEE + room * np.tanh((level - KNEE) / room), samples)
    return np.where(level > KNEE, bent, samples)
