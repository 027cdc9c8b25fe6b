"""How unlike two takes are, whatever their pace: dynamic time warping over mel spectra.

A stand-in for a recogniser, which would be too large for every run of the tests: the teacher's takes of the same
sentences lie beside this file, and what was said is told by whose take is nearest. They are made again, after the
sentences or the rules of reading have changed, with::

    python -m tests.understudy.alike

Axes: N samples, T frames of 25 ms, M mel bands.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).with_name("teacher.npz")
RATE, WINDOW, HOP, BANDS = 24_000, 1024, 600, 24
LOWEST_HZ, HIGHEST_HZ = 100.0, 8000.0
RANGE_DB = 50.0
"""Below the loudest band of a take nothing is told apart."""
STEPS_PER_DB = 2
"""Of what is stored."""

Spectra = NDArray[np.float32]
"""[T, M] in dB, the loudest band at 0."""


def spectra(samples: NDArray[np.float32]) -> Spectra:
    """Mel spectra of ``samples`` [N] at 24 kHz, without the silence around them."""
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(samples, (0, WINDOW)), WINDOW)[::HOP]
    power = np.square(np.abs(np.fft.rfft(frames * np.hanning(WINDOW)))) @ _bands()
    db = 10 * np.log10(np.maximum(power, 1e-9))
    db = np.maximum(db - db.max(), -RANGE_DB)
    sounding = np.flatnonzero(db.max(axis=1) > -RANGE_DB + 10)
    return np.asarray(db[sounding[0] : sounding[-1] + 1], np.float32)


def unlikeness(a: Spectra, b: Spectra) -> float:
    """Mean distance along the best alignment of ``a`` [T, M] and ``b`` [T', M], in dB for each band."""
    shapes = [take - take.mean(axis=1, keepdims=True) for take in (a, b)]
    loud = [take.mean(axis=1) for take in (a, b)]
    costs = np.abs(shapes[0][:, None] - shapes[1][None]).mean(axis=2) + 0.5 * np.abs(loud[0][:, None] - loud[1][None])
    totals = np.full((len(a) + 1, len(b) + 1), np.inf)
    totals[0, 0] = 0
    for i in range(len(a)):
        for j in range(len(b)):
            # Both ways of moving on alone cost as much as moving together twice.
            before = min(totals[i, j] + costs[i, j], totals[i, j + 1], totals[i + 1, j])
            totals[i + 1, j + 1] = before + costs[i, j]
    return float(totals[-1, -1] / (len(a) + len(b)))


def load() -> Mapping[str, Spectra]:
    """The teacher's takes, by text."""
    with np.load(FILE) as stored:
        return {str(text): stored[f"take_{i}"] / -STEPS_PER_DB for i, text in enumerate(stored["texts"])}


def _bands() -> NDArray[np.float64]:
    """Triangles [WINDOW / 2 + 1, M], evenly spread over mels."""
    hertz = np.fft.rfftfreq(WINDOW, 1 / RATE)
    mels = np.linspace(1127 * np.log1p(LOWEST_HZ / 700), 1127 * np.log1p(HIGHEST_HZ / 700), BANDS + 2)
    edges = 700 * np.expm1(mels / 1127)
    rising = (hertz[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hertz[:, None]) / (edges[2:] - edges[1:-1])
    return np.asarray(np.maximum(np.minimum(rising, falling), 0))


def main() -> None:
    """Let the teacher read the sentences, with the phonemes that the understudy gets."""
    from clients.bench.assets import KOKORO, require
    from clients.bench.peers import TEACHER_VOICE
    from engine.text.front import explain
    from engine.train.teacher import TEACHER_IDS, Teacher
    from tests.understudy.test_takes import SENTENCES, VOICES

    folder = require(KOKORO) / "kokoro"
    teacher = Teacher(folder / "kokoro.onnx", folder)
    takes = {}
    for i, text in enumerate(SENTENCES):
        phonemes = " ".join(word.phonemes for word in explain(text))
        samples, _ = teacher.speak("".join(s for s in phonemes if s in TEACHER_IDS), TEACHER_VOICE[VOICES[i % 3]])
        stored = np.round(spectra(np.asarray(samples, np.float32).reshape(-1)) * -STEPS_PER_DB)
        takes[f"take_{i}"] = stored.astype(np.uint8)
    np.savez_compressed(FILE, allow_pickle=False, texts=np.array(SENTENCES), **takes)


if __name__ == "__main__":
    main()
