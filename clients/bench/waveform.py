"""What can be measured of speech with nothing but its samples: pitch, loudness, and clicks where pieces of it meet.

Samples are mono float32 [N]. Unlike `prosody` it needs no other package, so the project's tests can use it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]

LOWEST_HZ, HIGHEST_HZ = 60, 400
WINDOW_S, HOP_S = 0.04, 0.05
AUDIBLE = 0.02
"""Of full scale: quieter pieces have no pitch."""
PERIODIC = 0.8
"""Likeness of a voiced piece to itself a period later."""
AROUND_S = 0.001
"""On each side of a join."""


def pitches_hz(samples: Samples, rate: int) -> NDArray[np.float64]:
    """Pitch of the pieces that repeat themselves, by autocorrelation; [K], K = 0 for silence."""
    window, hop = int(WINDOW_S * rate), int(HOP_S * rate)
    first, last = rate // HIGHEST_HZ, rate // LOWEST_HZ
    found = list[float]()
    for start in range(0, len(samples) - window - last, hop):
        piece = samples[start : start + window + last].astype(np.float64)
        if np.sqrt(np.mean(piece**2)) < AUDIBLE:
            continue
        lagged = np.lib.stride_tricks.sliding_window_view(piece, window)[first:]
        norms = np.linalg.norm(lagged, axis=1) * np.linalg.norm(piece[:window])
        likeness = lagged @ piece[:window] / np.maximum(norms, 1e-9)
        if likeness.max() <= PERIODIC:
            continue
        # The shortest of the lags that are nearly best: twice the period is as alike.
        near = np.flatnonzero(likeness > 0.95 * likeness.max())[0]
        while near + 1 < len(likeness) and likeness[near + 1] > likeness[near]:
            near += 1
        found.append(rate / (first + near))
    return np.array(found)


def loudness_db(samples: Samples, rate: int) -> float:
    """Level of the louder half of its pieces, below full scale: pauses do not count. -inf for digital silence."""
    hop = int(HOP_S * rate)
    power = np.mean(samples[: len(samples) // hop * hop].reshape(-1, hop).astype(np.float64) ** 2, axis=1)
    loud = np.mean(np.sort(power)[len(power) // 2 :]) if len(power) else 0.0
    return float(10 * np.log10(loud)) if loud else -np.inf


def steps_at(samples: Samples, joins: Sequence[int], rate: int) -> NDArray[np.float32]:
    """The largest difference of neighbouring samples around each of ``joins`` [J], sample positions."""
    around = max(1, int(AROUND_S * rate))
    return np.array([_steps(samples[max(0, at - around) : at + around]).max(initial=0) for at in joins], np.float32)


def voiced_step(samples: Samples, share: float = 0.999) -> float:
    """The difference of neighbouring samples that ``share`` of the audible samples do not exceed."""
    voiced = _steps(samples)[np.abs(samples[1:]) > AUDIBLE]
    return float(np.quantile(voiced, share)) if len(voiced) else 0.0


def _steps(samples: Samples) -> Samples:
    return np.abs(np.diff(samples))
