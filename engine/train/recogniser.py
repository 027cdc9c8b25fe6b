"""The recogniser that listens to takes: Whisper, in training and in benchmarks."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000
Hear = Callable[[NDArray[np.float32]], str]
"""What is said in samples [N] at ``RATE_HZ``."""


def whisper(folder: Path) -> Hear:
    """Whisper (int8, greedy, one thread) from the CTranslate2 files in ``folder``."""
    from faster_whisper import WhisperModel

    model = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1, num_workers=1)

    def hear(sound: NDArray[np.float32]) -> str:
        segments, _ = model.transcribe(
            sound,
            language="en",
            beam_size=1,
            temperature=0.0,
            without_timestamps=True,
            condition_on_previous_text=False,
        )
        return " ".join(segment.text.strip() for segment in segments)

    return hear
