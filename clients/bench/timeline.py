"""What a listener would have heard, from when the audio arrived. Pure arithmetic: no sockets, no clock.

Times are seconds of one monotonic clock; positions are in samples of the stream.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

AUDIBLE = 1e-3
"""Of full scale (-60 dB); what is quieter is silence."""
PREBUFFER_S = 0.1


@dataclass(frozen=True)
class Arrival:
    """One audio message: when it was here, and its samples [N] in [-1, 1]."""

    at_s: float
    samples: NDArray[np.float32]


@dataclass(frozen=True)
class FirstSound:
    """When speech began, in three senses."""

    byte_s: float
    """The first audio message was here."""
    audible_s: float
    """The message was here that holds the first audible sample."""
    heard_s: float
    """That sample leaves a player which starts with the first message: silence takes its time, so do pauses."""
    silence_s: float
    """Audio before that sample."""


@dataclass
class Timeline:
    """One streamed utterance, as its client saw it."""

    sample_rate: int
    first_text_s: float = 0.0
    """Just before the first piece of text was sent."""
    third_word_s: float = 0.0
    """Just before the piece was sent that ended the third word, or the last one of a shorter text."""
    last_text_s: float = 0.0
    """Just before the last piece was sent."""
    arrivals: list[Arrival] = field(default_factory=list)
    is_done: bool = False
    """Whether all of it came, with the server's word for it."""

    @property
    def audio_s(self) -> float:
        """Length of all that arrived."""
        return sum(len(arrival.samples) for arrival in self.arrivals) / self.sample_rate

    @property
    def first_sound(self) -> "FirstSound | None":
        """The beginning of what was audible; None if nothing was."""
        position = 0
        delay_s = 0.0
        for arrival in self.arrivals:
            first_s = self.arrivals[0].at_s
            delay_s = max(delay_s, arrival.at_s - first_s - position / self.sample_rate)
            loud = np.flatnonzero(np.abs(arrival.samples) > AUDIBLE)
            if len(loud):
                silence_s = (position + int(loud[0])) / self.sample_rate
                return FirstSound(first_s, arrival.at_s, first_s + silence_s + delay_s, silence_s)
            position += len(arrival.samples)
        return None

    @property
    def gaps_s(self) -> list[float]:
        """Between one message and the next."""
        times = [arrival.at_s for arrival in self.arrivals]
        return [later - earlier for earlier, later in zip(times, times[1:], strict=False)]

    @property
    def lateness_s(self) -> list[float]:
        """By how much each gap is longer than the audio before it; below 0 the listener's buffer grows."""
        lengths = [len(arrival.samples) / self.sample_rate for arrival in self.arrivals]
        return [gap - length for gap, length in zip(self.gaps_s, lengths, strict=False)]


@dataclass(frozen=True)
class Playback:
    """What a player went through. Each starve is a pause nobody wrote, in seconds."""

    starves_s: list[float]
    is_applicable: bool
    """False for fewer than two messages, where nothing can run dry: no result rather than a good one."""

    @property
    def underruns(self) -> int:
        """Times the player ran dry."""
        return len(self.starves_s)

    @property
    def longest_s(self) -> float:
        """The longest pause."""
        return max(self.starves_s, default=0.0)


def replay(arrivals: Sequence[Arrival], sample_rate: int, prebuffer_s: float = 0.0) -> Playback:
    """Play what arrived: start ``prebuffer_s`` after the first message, and go on at once whenever it ran dry."""
    starves: list[float] = []
    if len(arrivals) < 2:
        return Playback(starves, is_applicable=False)
    empty_at_s = arrivals[0].at_s + prebuffer_s
    for arrival in arrivals:
        if arrival.at_s > empty_at_s:
            starves.append(arrival.at_s - empty_at_s)
            empty_at_s = arrival.at_s
        empty_at_s += len(arrival.samples) / sample_rate
    return Playback(starves, is_applicable=True)
