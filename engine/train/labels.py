"""The teacher's durations made to fit its sound.

Each boundary the teacher tells lies ``LAG_SAMPLES`` behind the place where the sound changes, and the last sound before
a pause is given most of the pause (``docs/experiments.md``). Axes: U units, N symbols.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.train.features import LEADING_UNITS, SAMPLES_PER_UNIT

LAG_SAMPLES = 1560
"""65 ms: the median distance of fricatives from where their durations place them."""
SILENT_DB = -45.0
"""Units below it (RMS, full scale = 0 dB) are a pause."""
LONGEST_END_UNITS = 10
"""Pause kept behind the last sound; the teacher leaves some 600 ms, which would say when a text ends, but too late."""


def unit_levels(wave: NDArray[np.float64]) -> NDArray[np.float64]:
    """Level in dB of each whole unit of ``wave`` [samples]: [U]."""
    units = wave[: len(wave) // SAMPLES_PER_UNIT * SAMPLES_PER_UNIT].reshape(-1, SAMPLES_PER_UNIT)
    levels: NDArray[np.float64] = 10 * np.log10(np.square(units).mean(axis=1) + 1e-12)
    return levels


def fit_durations(durations: Sequence[int], phonemes: str, levels: NDArray[np.float64]) -> list[int]:
    """Durations [N] of [silence, *phonemes, silence] with pauses given to the symbols of pauses.

    ``levels`` [U] of the sound the durations describe. A sound ends one unit behind its last audible one; what is left
    of it goes to the pause that follows. The pause at the end is cut to ``LONGEST_END_UNITS``: the sum may be less.
    """
    fitted = list(durations)
    is_rest = [True, *(unicodedata.category(symbol)[0] in "PS" for symbol in phonemes), True]
    start = 0
    for i, count in enumerate(durations):
        if not is_rest[i] and i + 1 < len(fitted) and is_rest[i + 1]:
            audible = np.flatnonzero(levels[start : start + count] > SILENT_DB)
            kept = min(count, int(audible[-1]) + 2) if len(audible) else 1
            fitted[i], fitted[i + 1] = kept, fitted[i + 1] + count - kept
        start += count
    first_rest = len(fitted) - is_rest[::-1].index(False)
    surplus = sum(fitted[first_rest:]) - LONGEST_END_UNITS
    for i in range(first_rest, len(fitted)):
        cut = max(0, min(surplus, fitted[i] - 2))
        fitted[i], surplus = fitted[i] - cut, surplus - cut
    return fitted


def trim(wave: NDArray[np.float64], durations: Sequence[int], phonemes: str) -> tuple[NDArray[np.float64], list[int]]:
    """A take's sound [samples] without most of the silence around it, and the durations [N] that fit it exactly."""
    lead = min(durations[0], LEADING_UNITS)
    start = (durations[0] - lead) * SAMPLES_PER_UNIT
    wave = np.concatenate([np.zeros(LAG_SAMPLES), wave])[start:]
    fitted = fit_durations([lead, *durations[1:]], phonemes, unit_levels(wave))
    return wave[: sum(fitted) * SAMPLES_PER_UNIT], fitted
