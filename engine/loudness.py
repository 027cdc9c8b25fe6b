"""How loud samples are."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

SILENCE_DB = -120.0


def loudness_db(samples: NDArray[np.float32], frames: int) -> tuple[float, ...]:
    """RMS in dB of full scale of each of ``frames`` equal parts of ``samples`` [N]; ``SILENCE_DB`` at least."""
    parts: Iterable[NDArray[np.float32]] = np.split(samples, frames) if frames else ()
    powers = [float(np.mean(part.astype(np.float64) ** 2)) for part in parts]
    return tuple(max(SILENCE_DB, 10 * float(np.log10(power))) if power else SILENCE_DB for power in powers)
