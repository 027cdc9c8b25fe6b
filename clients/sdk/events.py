"""What a context yields while it speaks. Times are in milliseconds from the context's first sample."""

from dataclasses import dataclass
from typing import Literal

from realtime.protocol import Cancelled, Done, Heard, Word

BYTES_PER_SAMPLE = 2


@dataclass(frozen=True)
class AudioEvent:
    """Samples in order, without gaps: ``pcm`` is pcm_s16le, mono (``numpy.frombuffer(event.pcm, "<i2")``)."""

    pcm: bytes
    first_sample: int
    sample_rate: int

    @property
    def start_ms(self) -> float:
        """When the first sample is due."""
        return 1000 * self.first_sample / self.sample_rate

    @property
    def end_ms(self) -> float:
        """When the last sample is over."""
        return self.start_ms + 1000 * len(self.pcm) / BYTES_PER_SAMPLE / self.sample_rate


@dataclass(frozen=True)
class WordsEvent:
    """Words that start in the next `AudioEvent`."""

    words: tuple[Word, ...]


@dataclass(frozen=True)
class DoneEvent:
    """Last event of a context that was spoken to its end. ``ttfa_ms``: as the server measured it."""

    audio_ms: float
    characters: int
    ttfa_ms: float | None
    retries: int

    @classmethod
    def from_message(cls, message: Done) -> "DoneEvent":
        """The event for the server's message."""
        return cls(message.audio_ms, message.characters, message.ttfa_ms, message.retries)


@dataclass(frozen=True)
class HeardReport:
    """What was heard of a context that was cut short: ``spoken + unspoken`` is the text as it was to be spoken.

    The last event of a cancelled context, and the answer of `Context.cancel`. ``precision`` is ``exact`` if the
    position was told (``played_ms``) and the words have times.
    """

    played_ms: float
    spoken: str
    unspoken: str
    precision: Literal["exact", "estimated"]

    @classmethod
    def from_message(cls, message: Cancelled | Heard) -> "HeardReport":
        """The report in the server's message."""
        return cls(message.played_ms, message.spoken, message.unspoken, message.precision)


@dataclass(frozen=True)
class DiscardEvent:
    """Drop what was taken from ``from_ms`` on and not played yet: it was revised. The next audio starts there."""

    from_ms: float


@dataclass(frozen=True)
class RevisedEvent:
    """The text that is spoken has changed: its first ``kept_to`` characters are as they were.

    Words taken before with ``char_start >= kept_to`` are void. ``is_late``: some of what was to be replaced had been
    heard. ``skipped``: what was left out since the speech was too far behind its text.
    """

    text: str
    """All of it, as it is spoken."""
    kept_to: int
    is_late: bool = False
    skipped: str = ""


@dataclass(frozen=True)
class NoticeEvent:
    """Something that the text asks for is done otherwise, or not at all; speech goes on."""

    message: str


@dataclass(frozen=True)
class SpeedEvent:
    """The speech is ``lag_ms`` behind its text: from now on it is ``speed`` times as fast as asked for."""

    speed: float
    lag_ms: float


Event = AudioEvent | WordsEvent | DiscardEvent | RevisedEvent | NoticeEvent | SpeedEvent | DoneEvent | HeardReport
