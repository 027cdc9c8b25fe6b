"""What a client says: its messages, and the table of their types."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from realtime.protocol.terms import (
    DEFAULT_CONTEXT,
    MAX_CONTEXT_ID_CHARACTERS,
    MAX_LAG_MS,
    MAX_NAME_CHARACTERS,
    MAX_PRONUNCIATION_CHARACTERS,
    MAX_SAMPLE_RATE,
    MAX_SPEED,
    MIN_LAG_MS,
    MIN_SAMPLE_RATE,
    MIN_SPEED,
    Encoding,
    LagPolicy,
    PolicyName,
    TextFormatName,
)
from realtime.strict import bounded


def _context(default: Any = dataclasses.MISSING) -> Any:
    return bounded(default, low=1, high=MAX_CONTEXT_ID_CHARACTERS)


def _name(default: Any = dataclasses.MISSING) -> Any:
    return bounded(default, low=1, high=MAX_NAME_CHARACTERS)


@dataclass(frozen=True)
class AudioFormat:
    """What the session's audio is to be; ``sample_rate`` None: the model's own."""

    encoding: Encoding = "pcm_s16le"
    sample_rate: int | None = bounded(None, low=MIN_SAMPLE_RATE, high=MAX_SAMPLE_RATE)


@dataclass(frozen=True)
class Pronunciation:
    """How one word is said: respelled in words of letters, or in the International Phonetic Alphabet."""

    word: str = bounded(low=1, high=MAX_NAME_CHARACTERS)
    say: str | None = bounded(None, low=1, high=MAX_PRONUNCIATION_CHARACTERS)
    ipa: str | None = bounded(None, low=1, high=MAX_PRONUNCIATION_CHARACTERS)


@dataclass(frozen=True)
class SessionStart:
    """First message of a socket. The rest are defaults for its contexts; ``words``: send word times."""

    protocol: int
    voice: str | None = _name(None)
    audio: AudioFormat = AudioFormat()
    language: str | None = _name(None)
    words: bool = True
    policy: PolicyName = "eager"
    text_format: TextFormatName = "markdown"
    lexicon: tuple[Pronunciation, ...] | None = None
    speed: float | None = bounded(None, low=MIN_SPEED, high=MAX_SPEED)


@dataclass(frozen=True)
class ContextOpen:
    """Opens a context: one utterance with its own text, voice and end.

    ``max_lag_ms``: how far its speech may fall behind its text before ``lag_policy`` (absent: ``skip``) is applied.
    """

    context: str = _context()
    voice: str | None = _name(None)
    language: str | None = _name(None)
    policy: PolicyName | None = None
    max_lag_ms: float | None = bounded(None, low=MIN_LAG_MS, high=MAX_LAG_MS)
    lag_policy: LagPolicy | None = None
    text_format: TextFormatName | None = None
    lexicon: tuple[Pronunciation, ...] | None = None
    """Before those of the session."""
    speed: float | None = bounded(None, low=MIN_SPEED, high=MAX_SPEED)
    """How much faster than usual, at the same pitch."""


@dataclass(frozen=True)
class TextAppend:
    """More text, verbatim: nothing is added or stripped between two appends."""

    text: str
    context: str = _context(DEFAULT_CONTEXT)


@dataclass(frozen=True)
class TextRevise:
    """Replace everything from character ``from_char`` of the client's own text on. Answered by `TextRevised`."""

    text: str
    from_char: int = dataclasses.field(metadata={"name": "from", "low": 0, "high": None})
    context: str = _context(DEFAULT_CONTEXT)


@dataclass(frozen=True)
class TextFlush:
    """Speak what was appended so far without waiting for more; the context stays open."""

    context: str = _context(DEFAULT_CONTEXT)


@dataclass(frozen=True)
class TextEnd:
    """No more text will come: speak the rest, then `Done`."""

    context: str = _context(DEFAULT_CONTEXT)


@dataclass(frozen=True)
class Played:
    """Play-out acknowledgement: the listener has heard the first ``ms`` of the context."""

    ms: float = bounded(low=0)
    context: str = _context(DEFAULT_CONTEXT)


@dataclass(frozen=True)
class Cancel:
    """Stop now. Answered by `Cancelled`, or by `Heard` if the context had ended already."""

    context: str = _context(DEFAULT_CONTEXT)
    played_ms: float | None = bounded(None, low=0)


@dataclass(frozen=True)
class Ping:
    """Answered by `Pong` with the same ``id``, also during synthesis."""

    id: str | None = bounded(None, high=MAX_NAME_CHARACTERS)


ClientMessage = SessionStart | ContextOpen | TextAppend | TextRevise | TextFlush | TextEnd | Played | Cancel | Ping


CLIENT_MESSAGES: dict[str, type[ClientMessage]] = {
    "session.start": SessionStart,
    "context.open": ContextOpen,
    "text.append": TextAppend,
    "text.revise": TextRevise,
    "text.flush": TextFlush,
    "text.end": TextEnd,
    "played": Played,
    "cancel": Cancel,
    "ping": Ping,
}
