"""One reading of one text, and what may be wrong with it before anybody listens."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.core import real_time_factor

S_PER_CHARACTER, S_PER_TEXT = 0.0633, 0.442
"""Length of the teacher's speech by length of its text, a least-squares fit over 1,111 utterances (99 %: 0.81-1.28)."""
TOO_LONG = 2.0
GIVE_UP = 4.0
GIVE_UP_S = 2.0


@dataclass(frozen=True)
class Take:
    """Samples [N] of one text, and what they cost. ``failure``: why nothing usable was made, None if it was."""

    samples: NDArray[np.float32]
    sample_rate: int
    compute_s: float
    cpu_s: float
    """Processor time; unlike ``compute_s`` it does not count waiting for others on a busy machine."""
    failure: str | None = None
    step_ms: list[float] = field(default_factory=list)
    """Of each engine step, where there are such steps."""

    @property
    def audio_s(self) -> float:
        """Length of the audio."""
        return len(self.samples) / self.sample_rate

    @property
    def rtf(self) -> float:
        """Real-time factor, by the wall clock."""
        return real_time_factor(self.compute_s, self.audio_s)


class Reader(Protocol):
    """Something that reads texts aloud: the engine, or a peer of it."""

    @property
    def name(self) -> str:
        """For tables and files."""

    @property
    def folder(self) -> str:
        """Name of the folder for what was measured of it: of its weights and settings."""

    @property
    def identity(self) -> str:
        """Changes whenever its output may: of its weights, settings and code."""

    @property
    def about(self) -> str:
        """One line: version, precision, threads."""

    @property
    def voices(self) -> tuple[str, ...]:
        """What it was asked to read with."""

    def read(self, text: str, voice: str, seed: int) -> Take:
        """Read all of ``text`` with one of ``voices``."""


def expected_s(text: str) -> float:
    """About how long ``text`` takes to say."""
    return S_PER_TEXT + S_PER_CHARACTER * len(text.strip())


def most_s(text: str) -> float:
    """Speech of ``text`` that is longer than this will not end."""
    return GIVE_UP * expected_s(text) + GIVE_UP_S
