"""The frame grid the understudy lives on, and analysed speech read back.

Axes: S subframes (150 samples, 6.25 ms), U units (600 samples, the teacher's duration unit = 4 subframes),
F frames (1200 samples = 2 units = 8 subframes).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


SAMPLE_RATE_HZ = 24_000
SUBFRAME_SAMPLES = 150
SUBFRAMES_PER_UNIT = 4
SUBFRAMES_PER_FRAME = 8
SAMPLES_PER_UNIT = SUBFRAME_SAMPLES * SUBFRAMES_PER_UNIT
NUM_CEPSTRA = 40
NUM_BANDS = 3
NUM_FEATURES = NUM_CEPSTRA + NUM_BANDS + 2
"""Per subframe: cepstra of the warped log envelope, coded band aperiodicity (dB / 10), log f0, voiced."""
FFT_SIZE = 1024
F0_RANGE_HZ = (50.0, 500.0)
ENVELOPE_FLOOR = 1e-8
LEADING_UNITS = 2


@dataclass(frozen=True)
class Take:
    """One utterance on the frame grid: features [S, NUM_FEATURES] and durations in units of [SIL, *phonemes, SIL]."""

    voice: str
    text: str
    phonemes: str
    durations: tuple[int, ...]
    features: NDArray[np.float32]


def load_takes(folder: Path) -> list[Take]:
    """Takes of the analysed shards under ``folder`` (``features-*.npz`` + ``features.jsonl``)."""
    takes = []
    arrays: dict[str, NDArray[np.float16]] = {}
    for line in (folder / "features.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["file"] not in arrays:
            with np.load(folder / entry["file"]) as stored:
                arrays[entry["file"]] = stored["features"]
        features = arrays[entry["file"]][entry["start"] : entry["stop"]].astype(np.float32)
        takes.append(Take(entry["voice"], entry["text"], entry["phonemes"], tuple(entry["durations"]), features))
    return takes
