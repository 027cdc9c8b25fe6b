"""How a take is spoken, apart from its words: pitch, energy, pauses. Classical measures of the samples alone, so that
teacher and understudy are measured by the same rule, whatever made them.

Axes: N samples, T frames of 5 ms.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FRAME_S = 0.005
PITCH_HZ = (71.0, 500.0)
"""Below, the tracker takes soft rumble for a voice."""
WINDOW_S = 0.025
SILENT_DB = -40.0
"""Below the loud frames of the take: a pause."""
LOUD_PERCENTILE = 95
RANGE_PERCENTILES = (10, 90)
SHORTEST_PAUSE_S = 0.05
"""The closure of a stop consonant is shorter, or nearly so."""
PAUSE_MARKS = ",;:.?!"

Pitch = NDArray[np.float64]
"""[T] in Hz, 0 where there is none."""


@dataclass(frozen=True)
class Prosody:
    """Figures of one take. Pitch is None where nothing is voiced."""

    pitch_hz: float | None
    """Median."""
    pitch_range: float | None
    """Semitones between the 10th and the 90th percentile."""
    energy_range: float
    """Decibels between the same percentiles of the frames that are no pause."""
    level_db: float
    """RMS of the whole, full scale = 0 dB."""
    before_s: float
    """Silence before the speech."""
    after_s: float
    pauses_s: list[float]
    """At each mark within the text, in no particular order; 0 where there is no pause."""


def pitch(samples: NDArray[np.float32], sample_rate: int) -> Pitch:
    """Pitch of ``samples`` [N] by WORLD's dio and stonemask (pyworld, of the ``eval`` extra)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyworld
    sound = samples.astype(np.float64)
    low, high = PITCH_HZ
    rough, times = pyworld.dio(sound, sample_rate, f0_floor=low, f0_ceil=high, frame_period=1000 * FRAME_S)
    contour: Pitch = pyworld.stonemask(sound, rough, times, sample_rate)
    return contour


def levels(samples: NDArray[np.float32], sample_rate: int) -> NDArray[np.float64]:
    """RMS of windows of 25 ms around each frame of ``samples`` [N] in dB: [T]."""
    window, hop = round(WINDOW_S * sample_rate), round(FRAME_S * sample_rate)
    power = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    centres = np.arange(0, len(samples), hop)
    starts, ends = np.maximum(centres - window // 2, 0), np.minimum(centres + window // 2, len(samples))
    means = (power[ends] - power[starts]) / np.maximum(ends - starts, 1)
    return np.asarray(10 * np.log10(np.maximum(means, 1e-10)))


def marks(text: str) -> int:
    """Places within ``text`` where a reader pauses: punctuation followed by a space and more text."""
    stripped = text.strip()
    return sum(a in PAUSE_MARKS and b == " " for a, b in zip(stripped, stripped[1:], strict=False))


def prosody(text: str, samples: NDArray[np.float32], sample_rate: int, contour: Pitch) -> Prosody:
    """Figures of ``samples`` [N], which say ``text`` and are not all zero; ``contour`` is their pitch.

    Which of the pauses belongs to which mark is not told by the samples: the longest are taken, one for each mark.
    """
    db = levels(samples, sample_rate)
    is_sound = db > np.percentile(db, LOUD_PERCENTILE) + SILENT_DB
    first, last = int(np.argmax(is_sound)), len(is_sound) - 1 - int(np.argmax(is_sound[::-1]))
    silences = sorted(_runs(~is_sound[first : last + 1]), reverse=True)
    pauses = [length * FRAME_S for length in silences[: marks(text)] if length * FRAME_S >= SHORTEST_PAUSE_S]
    voiced = contour[contour > 0]
    low, high = np.percentile(db[is_sound], RANGE_PERCENTILES)
    return Prosody(
        pitch_hz=float(np.median(voiced)) if len(voiced) else None,
        pitch_range=_semitones(voiced) if len(voiced) else None,
        energy_range=float(high - low),
        level_db=float(10 * np.log10(np.mean(np.square(samples, dtype=np.float64)))),
        before_s=first * FRAME_S,
        after_s=max(0.0, len(samples) / sample_rate - (last + 1) * FRAME_S),
        pauses_s=[*pauses, *[0.0] * (marks(text) - len(pauses))],
    )


def _semitones(voiced: Pitch) -> float:
    low, high = np.percentile(voiced, RANGE_PERCENTILES)
    return float(12 * np.log2(high / low))


def _runs(flags: NDArray[np.bool_]) -> list[int]:
    """Lengths of the runs of true in ``flags`` [T]."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [int(end - start) for start, end in zip(edges[::2], edges[1::2], strict=True)]
