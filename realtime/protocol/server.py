"""What a server says: its messages, and the table of their types."""

import dataclasses
from dataclasses import dataclass

from realtime.protocol.terms import Encoding, Precision


@dataclass(frozen=True)
class Limits:
    """What the server will not exceed or accept."""

    message_bytes: int
    context_characters: int
    contexts: int
    lead_ms: int
    """Audio is sent at most this far ahead of the acknowledged, else of the earliest possible, play-out."""
    audio_message_ms: int
    """Longest audio message."""


@dataclass(frozen=True)
class SessionReady:
    """Answer to `SessionStart`. ``sample_rate`` (Hz) and ``encoding`` hold for every audio message."""

    protocol: int
    session: str
    model: str
    voices: tuple[str, ...]
    languages: tuple[str, ...]
    encoding: Encoding
    sample_rate: int
    frame_ms: float
    limits: Limits
    licence: str


@dataclass(frozen=True)
class AudioStart:
    """Before the first audio of a context: binary messages with ``index`` belong to it."""

    context: str
    index: int
    utterance: str
    voice: str
    encoding: Encoding
    sample_rate: int


@dataclass(frozen=True)
class Word:
    """One word of the original text: ``appended[char_start:char_end]``. Times in ms from the context's start."""

    text: str
    spoken: str
    start_ms: float
    end_ms: float
    char_start: int
    char_end: int
    estimated: bool | None = None
    """True: a time is a guess."""


@dataclass(frozen=True)
class Words:
    """Words whose audio follows; sent before the first sample of each of them."""

    context: str
    words: tuple[Word, ...]


@dataclass(frozen=True)
class AudioDiscard:
    """Drop what is buffered from ``from_ms`` on: it was revised. The next audio starts exactly there."""

    context: str
    from_ms: float


@dataclass(frozen=True)
class TextRevised:
    """What became of one or more `TextRevise`; ``from_char`` is the lowest of theirs.

    The text of the context is now: its first ``kept_to`` characters as they were, then the client's own from
    ``resumes_at`` on. ``late``: some of what was to be replaced had to stay. Words sent before with ``char_start >=
    kept_to`` are void. ``revision``: how many `TextRevise` of this context are answered by now.
    """

    context: str
    from_char: int = dataclasses.field(metadata={"name": "from"})
    kept_to: int
    resumes_at: int
    late: bool
    revision: int


@dataclass(frozen=True)
class TextSkipped:
    """The context's lag was ``lag_ms``: what lay between was left out. As `TextRevised`, without being asked."""

    context: str
    kept_to: int
    resumes_at: int
    skipped: str
    lag_ms: float


@dataclass(frozen=True)
class SpeedChanged:
    """The context's lag is ``lag_ms``: what is made from now on is spoken ``speed`` times as fast as asked for."""

    context: str
    speed: float
    lag_ms: float


@dataclass(frozen=True)
class Account:
    """What was heard of a context. ``spoken + unspoken`` is the text that was appended.

    ``char_end == len(spoken)`` in Unicode code points. ``precision`` is ``exact`` if the listener told the position
    and the words have times, else ``estimated``.
    """

    context: str
    played_ms: float
    spoken: str
    unspoken: str
    char_end: int
    precision: Precision


@dataclass(frozen=True)
class Cancelled(Account):
    """Terminal answer to `Cancel`."""


@dataclass(frozen=True)
class Heard(Account):
    """Answer to a `Cancel` of a context that had ended: the same account; not a second end."""


@dataclass(frozen=True)
class TextNotice:
    """Something that the text asks for (a tag of SSML) is done otherwise, or not at all; speech goes on."""

    context: str
    message: str


@dataclass(frozen=True)
class Done:
    """Terminal: all text was spoken and all audio sent (not: heard)."""

    context: str
    audio_ms: float
    audio_messages: int
    characters: int
    ttfa_ms: float | None = None
    """From the first speakable text received to the first audio sent."""
    retries: int = 0


@dataclass(frozen=True)
class Error:
    """Something failed. ``terminal``: this ended the context, or without ``context`` the session.

    ``terminal: false`` is about one message alone: whatever it named goes on as if that message had not been sent.
    """

    code: str
    message: str
    context: str | None = None
    retryable: bool = False
    terminal: bool = False


@dataclass(frozen=True)
class Pong:
    """Answer to `Ping`."""

    id: str | None = None


ServerMessage = (
    SessionReady
    | AudioStart
    | Words
    | AudioDiscard
    | TextRevised
    | TextSkipped
    | SpeedChanged
    | TextNotice
    | Cancelled
    | Heard
    | Done
    | Error
    | Pong
)


SERVER_MESSAGES: dict[str, type[ServerMessage]] = {
    "session.ready": SessionReady,
    "audio.start": AudioStart,
    "words": Words,
    "audio.discard": AudioDiscard,
    "text.revised": TextRevised,
    "text.skipped": TextSkipped,
    "speed.changed": SpeedChanged,
    "text.notice": TextNotice,
    "cancelled": Cancelled,
    "heard": Heard,
    "done": Done,
    "error": Error,
    "pong": Pong,
}
