"""Readers and judges without models."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clients.bench.judges import Judges, Verdict
from clients.bench.takes import Take, expected_s
from clients.bench.words import word_errors

RATE = 16_000


@dataclass
class FakeReader:
    """Tones as long as expected. ``says``: what a listener would hear instead of the text."""

    name: str = "Fake"
    folder: str = "fake-1"
    identity: str = "fake-1-a"
    about: str = "a tone"
    voices: tuple[str, ...] = ("heart", "bella")
    says: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, float] = field(default_factory=dict)
    """Of a text's audio, in expected lengths."""
    silent: tuple[str, ...] = ()
    failures: dict[str, str] = field(default_factory=dict)
    read_texts: list[tuple[str, str, int]] = field(default_factory=list)
    dies_after: int | None = None

    def read(self, text: str, voice: str, seed: int) -> Take:
        if len(self.read_texts) == self.dies_after:
            raise KeyboardInterrupt
        self.read_texts.append((voice, text, seed))
        length = int(expected_s(text) * self.lengths.get(text, 1.0) * RATE)
        level = 0.0 if text in self.silent else 0.1
        return Take(np.full(length, level, np.float32), RATE, 1.0, 0.5, self.failures.get(text))


class FakeJudges(Judges):
    """Hear what the reader is told to say; every take is worth 4.0 in one voice's ears, 3.0 in another's."""

    def __init__(self, reader: FakeReader) -> None:
        self._reader = reader
        self.judged = 0

    def judge(self, text: str, samples: NDArray[np.float32], sample_rate: int) -> Verdict:
        self.judged += 1
        voice = self._reader.read_texts[-1][0]
        heard = self._reader.says.get(text, text)
        return Verdict(heard, word_errors(text, heard), 4.0 if voice == "heart" else 3.0)
