"""Minutes of speech in one utterance: its context is renewed again and again, and the voice stays what it was."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core import AudioChunk, Finished, Utterance
from engine.engine import load_engine
from tests.understudy.test_takes import SENTENCES

Samples = NDArray[np.float32]

RATE = 24_000
HOP = RATE // 20
WINDOW = RATE // 25
LAGS = (RATE // 400, RATE // 60)
"""Of 400 and 60 Hz."""
PLAIN = " ".join(text for text in SENTENCES if text[-1] in ".?!" and "*" not in text and "Hmm" not in text)


def loudness_db(samples: Samples) -> float:
    """Of the half of the pieces that are the louder ones: pauses do not count."""
    power = np.mean(samples[: len(samples) // HOP * HOP].reshape(-1, HOP) ** 2, axis=1)
    return float(10 * np.log10(np.mean(np.sort(power)[len(power) // 2 :])))


def median_pitch_hz(samples: Samples) -> float:
    """Of pieces that repeat themselves, by autocorrelation."""
    pitches = list[float]()
    first, last = LAGS
    for start in range(0, len(samples) - WINDOW - last, HOP):
        piece = samples[start : start + WINDOW + last].astype(np.float64)
        if np.sqrt(np.mean(piece**2)) < 0.02:
            continue
        lagged = np.lib.stride_tricks.sliding_window_view(piece, WINDOW)[first:]
        norms = np.linalg.norm(lagged, axis=1) * np.linalg.norm(piece[:WINDOW])
        likeness = lagged @ piece[:WINDOW] / np.maximum(norms, 1e-9)
        # The shortest of the lags that are nearly best: twice the period is as alike.
        if likeness.max() > 0.8:
            near = np.flatnonzero(likeness > 0.95 * likeness.max())[0]
            while near + 1 < len(likeness) and likeness[near + 1] > likeness[near]:
                near += 1
            pitches.append(RATE / (first + near))
    assert len(pitches) > 100
    return float(np.median(pitches))


@pytest.mark.parametrize("hertz", [90.0, 180.0, 300.0])
def test_the_pitch_of_a_buzz_is_found(hertz: float) -> None:
    phase = 2 * np.pi * hertz * np.arange(8 * RATE) / RATE
    buzz = sum(0.1 * np.cos(n * phase) / n for n in range(1, 6))
    assert median_pitch_hz(np.asarray(buzz, np.float32)) == pytest.approx(hertz, rel=0.02)


@pytest.mark.slow
def test_two_minutes_without_a_drift() -> None:
    engine = load_engine(is_warm=False)
    engine.add(Utterance("u", "heart"))
    # The same sentences in each third, so that what is said makes no difference.
    for _ in range(3):
        engine.append_text("u", PLAIN + " ")
    engine.finish("u")
    track = engine._sequences["u"].track
    chunks, renewals, rows, ending = list[Samples](), 0, 0, None
    while engine.has_work():
        for event in engine.step():
            if isinstance(event, AudioChunk):
                chunks.append(event.samples)
            else:
                ending = event
        if engine._sequences:
            renewals += track.rows < rows
            rows = track.rows
    samples = np.concatenate(chunks)
    assert isinstance(ending, Finished)
    assert len(samples) > 110 * RATE
    assert renewals >= 3
    third = len(samples) // 3
    first, last = samples[:third], samples[-third:]
    assert median_pitch_hz(last) == pytest.approx(median_pitch_hz(first), rel=0.1)
    assert loudness_db(last) == pytest.approx(loudness_db(first), abs=2)
