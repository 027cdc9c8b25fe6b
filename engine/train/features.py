"""The frame grid the understudy lives on, and analysed speech read back.

Axes: S subframes (150 samples, 6.25 ms), U units (600 samples, the teacher's duration unit = 4 subframes),
F frames (1200 samples = 2 units = 8 subframes).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.codec.vocoder import SAMPLE_RATE_HZ, SUBFRAME_SAMPLES
from engine.train.verdicts import dropped

SUBFRAMES_PER_UNIT = 4
SAMPLES_PER_UNIT = SUBFRAME_SAMPLES * SUBFRAMES_PER_UNIT
UNITS_PER_HOUR = 3600 * SAMPLE_RATE_HZ // SAMPLES_PER_UNIT
LEADING_UNITS = 1
"""Silence kept before the first phoneme: the teacher leaves some 350 ms, which a listener would wait for."""


@dataclass(frozen=True)
class Take:
    """One utterance on the frame grid: features [S, NUM_FEATURES] and durations in units of [SIL, *phonemes, SIL]."""

    voice: str
    text: str
    phonemes: str
    durations: tuple[int, ...]
    features: NDArray[np.float32]
    shard: str = ""
    """File of the speech it is from."""


def load_takes(folder: Path) -> list[Take]:
    """Takes of the analysed shards in ``folder`` (``*.npz``, ``features.jsonl``), without those the judge dropped."""
    takes = []
    wrong = dropped(folder)
    arrays: dict[str, NDArray[np.float16]] = {}
    for line in (folder / "features.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if (entry["shard"], entry["text"]) in wrong:
            continue
        if entry["file"] not in arrays:
            with np.load(folder / entry["file"]) as stored:
                arrays[entry["file"]] = stored["features"]
        features = arrays[entry["file"]][entry["start"] : entry["stop"]].astype(np.float32)
        durations = tuple(entry["durations"])
        takes.append(Take(entry["voice"], entry["text"], entry["phonemes"], durations, features, entry["shard"]))
    return takes
