"""The native wire, version 1: messages as frozen dataclasses, one table of types, strict decode. Standard library only.

Text messages are JSON objects with a ``type``; audio messages are binary: `AudioMessage`. docs/protocol.md shows every
message; a test reads its examples with this module.
"""

import base64
import binascii
import dataclasses
import json
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, NoReturn, TypeVar

from realtime.strict import FieldError, bounded, read, wire_name

PROTOCOL_VERSION = 1
SUBPROTOCOL = "footlights.v1"
KEY_SUBPROTOCOL_PREFIX = "footlights.key."
DEFAULT_CONTEXT = "main"
"""The one context that the first `TextAppend` opens by itself."""

MAX_CLIENT_MESSAGE_BYTES = 64 * 1024
MAX_SERVER_MESSAGE_BYTES = 1024 * 1024
"""A report holds the whole text of its context, so server messages may be longer."""
MAX_JSON_DEPTH = 16
MAX_CONTEXT_ID_CHARACTERS = 64
MAX_NAME_CHARACTERS = 128
MAX_PRONUNCIATION_CHARACTERS = 256
MIN_SAMPLE_RATE, MAX_SAMPLE_RATE = 8_000, 48_000

Encoding = Literal["pcm_s16le"]
PolicyName = Literal["eager", "clause", "sentence", "whole"]
TextFormatName = Literal["plain", "markdown", "ssml"]
Precision = Literal["exact", "estimated"]
LagPolicy = Literal["skip", "speed"]
MIN_LAG_MS, MAX_LAG_MS = 500, 600_000

CONSENT_NOTICE = (
    "Make voices only of people who have agreed to it, and tell listeners that the speech is made by a machine."
)
"""Told to everybody who makes a voice from a recording."""
MAX_RECORDING_BYTES = 32 * 1024 * 1024


class ErrorCode(StrEnum):
    """Every ``code`` an `Error` may carry."""

    BAD_MESSAGE = "bad_message"
    MESSAGE_TOO_LARGE = "message_too_large"
    UNKNOWN_TYPE = "unknown_type"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    UNSUPPORTED = "unsupported"
    UNKNOWN_CONTEXT = "unknown_context"
    BAD_STATE = "bad_state"
    TOO_MANY_CONTEXTS = "too_many_contexts"
    TEXT_TOO_LONG = "text_too_long"
    BAD_TEXT = "bad_text"
    BAD_REVISION = "bad_revision"
    STRUCTURAL_TOKEN = "structural_token"
    BAD_LEXICON = "bad_lexicon"
    UNKNOWN_VOICE = "unknown_voice"
    BAD_VOICE = "bad_voice"
    FOREIGN_VOICE = "foreign_voice"
    VOICE_EXISTS = "voice_exists"
    NO_CLONING = "no_cloning"
    BAD_CLIP = "bad_clip"
    UNKNOWN_LANGUAGE = "unknown_language"
    UNKNOWN_UTTERANCE = "unknown_utterance"
    BAD_SPEECH = "bad_speech"
    BUSY = "busy"
    SLOW_READER = "slow_reader"
    WORKER_LOST = "worker_lost"
    SHUTTING_DOWN = "shutting_down"
    BAD_CONFIG = "bad_config"
    BAD_WEIGHTS = "bad_weights"
    UNSUPPORTED_FORMAT = "unsupported_format"
    DOWNLOAD_FAILED = "download_failed"
    BAD_MEMORY = "bad_memory"
    INTERNAL = "internal"


class CloseCode:
    """Why the server closes a WebSocket."""

    NORMAL = 1000
    RESTART = 1012
    """The server is shutting down: reconnect."""
    PROTOCOL = 1002
    """An unsupported protocol version."""
    NOT_UNICODE = 1007
    """A text message that is not UTF-8."""
    POLICY = 1008
    """No `SessionStart` in time, too many messages that cannot be read, or a client that stopped reading."""
    TOO_LARGE = 1009
    """A message over twice the allowed size: not even read."""
    INTERNAL = 1011
    BUSY = 1013
    """No session left: try again later."""


class ProtocolError(Exception):
    """A message that cannot be accepted. ``code`` is an `ErrorCode`, the text is meant for the peer's developer."""

    def __init__(self, code: ErrorCode, message: str, context: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.context = context


def _context(default: Any = dataclasses.MISSING) -> Any:
    return bounded(default, low=1, high=MAX_CONTEXT_ID_CHARACTERS)


def _name(default: Any = dataclasses.MISSING) -> Any:
    return bounded(default, low=1, high=MAX_NAME_CHARACTERS)


# ---------------------------------------------------------------------------------------------- client to server


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


# ---------------------------------------------------------------------------------------------- server to client


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
class Cancelled:
    """Terminal answer to `Cancel`: what was heard. ``spoken + unspoken`` is the text that was appended.

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
class Heard:
    """Answer to a `Cancel` of a context that had ended: the same account; not a second end."""

    context: str
    played_ms: float
    spoken: str
    unspoken: str
    char_end: int
    precision: Precision


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


ClientMessage = SessionStart | ContextOpen | TextAppend | TextRevise | TextFlush | TextEnd | Played | Cancel | Ping
ServerMessage = (
    SessionReady
    | AudioStart
    | Words
    | AudioDiscard
    | TextRevised
    | TextSkipped
    | TextNotice
    | Cancelled
    | Heard
    | Done
    | Error
    | Pong
)
Message = ClientMessage | ServerMessage

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
SERVER_MESSAGES: dict[str, type[ServerMessage]] = {
    "session.ready": SessionReady,
    "audio.start": AudioStart,
    "words": Words,
    "audio.discard": AudioDiscard,
    "text.revised": TextRevised,
    "text.skipped": TextSkipped,
    "text.notice": TextNotice,
    "cancelled": Cancelled,
    "heard": Heard,
    "done": Done,
    "error": Error,
    "pong": Pong,
}
TYPE_NAMES: dict[type[Message], str] = {
    message_type: name for table in (CLIENT_MESSAGES, SERVER_MESSAGES) for name, message_type in table.items()
}


def encode(message: Message) -> str:
    """The message as JSON text; fields that are None are left out."""
    body = {"type": TYPE_NAMES[type(message)], **_plain(message)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def decode_client(data: str | bytes) -> ClientMessage:
    """A message from a client.

    Raises:
        ProtocolError: not JSON, too large, too deep, an unknown type or version, a missing or ill-typed field.
    """
    body, type_name = _load(data, MAX_CLIENT_MESSAGE_BYTES)
    if type_name == "session.start":
        # Before the other fields: a later version may have given them another form.
        _check_version(body.get("protocol"))
    message_type = CLIENT_MESSAGES.get(type_name)
    if message_type is None:
        _refuse_type(type_name, CLIENT_MESSAGES)
    return _read(message_type, body)


def decode_server(data: str | bytes) -> ServerMessage:
    """A message from a server. A client should ignore those refused with `ErrorCode.UNKNOWN_TYPE`.

    Raises:
        ProtocolError: as `decode_client`.
    """
    body, type_name = _load(data, MAX_SERVER_MESSAGE_BYTES)
    message_type = SERVER_MESSAGES.get(type_name)
    if message_type is None:
        _refuse_type(type_name, SERVER_MESSAGES)
    return _read(message_type, body)


# ---------------------------------------------------------------------------------------------- binary audio

AUDIO_HEADER = struct.Struct("<HHIQ")
AUDIO_HEADER_VERSION = 1
MAX_AUDIO_PAYLOAD_BYTES = 64 * 1024 - AUDIO_HEADER.size - 1


@dataclass(frozen=True)
class AudioMessage:
    """One binary message: 16 bytes of little-endian header ``<HHIQ``, then the samples (pcm_s16le, mono).

    Header: header version (1), context index (`AudioStart.index`), sequence number (0, 1, .. per context), position of
    the first sample in the context at the session's rate.
    """

    index: int
    sequence: int
    first_sample: int
    payload: bytes

    @property
    def end(self) -> int:
        """Position after the last sample."""
        return self.first_sample + len(self.payload) // 2

    def until(self, position: int) -> "AudioMessage | None":
        """Without the samples from that position on; None if none is left."""
        if position <= self.first_sample:
            return None
        return (
            self if position >= self.end else replace(self, payload=self.payload[: 2 * (position - self.first_sample)])
        )

    def encode(self) -> bytes:
        """The bytes on the wire."""
        header = AUDIO_HEADER.pack(AUDIO_HEADER_VERSION, self.index, self.sequence, self.first_sample)
        return header + self.payload


def decode_audio(data: bytes) -> AudioMessage:
    """The binary message.

    Raises:
        ProtocolError: too short, an unknown header version, half a sample.
    """
    if len(data) < AUDIO_HEADER.size or len(data) % 2:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, f"an audio message of {len(data)} bytes: no header or half a sample")
    version, index, sequence, first_sample = AUDIO_HEADER.unpack_from(data)
    if version != AUDIO_HEADER_VERSION:
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_PROTOCOL,
            f"audio header version {version} is not supported; supported: {AUDIO_HEADER_VERSION}",
        )
    return AudioMessage(index, sequence, first_sample, data[AUDIO_HEADER.size :])


# ---------------------------------------------------------------------------------------------- keys for browsers


def key_subprotocol(key: str) -> str:
    """The subprotocol by which a browser, which cannot set headers, presents an API key beside `SUBPROTOCOL`."""
    return KEY_SUBPROTOCOL_PREFIX + base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def key_from_subprotocols(offered: Iterable[str]) -> str | None:
    """The API key among the subprotocols a client offers, None without one that can be read."""
    for name in offered:
        if name.startswith(KEY_SUBPROTOCOL_PREFIX):
            encoded = name.removeprefix(KEY_SUBPROTOCOL_PREFIX)
            try:
                return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True).decode()
            except (binascii.Error, ValueError):
                return None
    return None


# ---------------------------------------------------------------------------------------------- JSON, strictly

M = TypeVar("M", ClientMessage, ServerMessage)

# Matches an unfinished string too: a pattern that could fail there would be tried again at each of its quotes.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)


def _load(data: str | bytes, max_bytes: int) -> tuple[dict[str, Any], str]:
    size = len(data) if isinstance(data, bytes) or data.isascii() else len(data.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise ProtocolError(ErrorCode.MESSAGE_TOO_LARGE, f"a message of {size} bytes; at most {max_bytes} are accepted")
    try:
        text = data.decode() if isinstance(data, bytes) else data
        _check_depth(text)
        body = json.loads(text, parse_constant=_refuse_constant)
        # An escaped lone surrogate is valid JSON and not text: it could never be sent back.
        if "\\u" in text:
            json.dumps(body, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, "the message is not valid Unicode text") from error
    except (ValueError, RecursionError) as error:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, f"the message is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ProtocolError(ErrorCode.BAD_MESSAGE, "the message must be a JSON object")
    type_name = body.get("type")
    if not isinstance(type_name, str):
        raise ProtocolError(ErrorCode.BAD_MESSAGE, 'the message needs a string field "type"')
    return body, type_name


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_JSON_DEPTH:
        return
    depth = 0
    for match in _STRUCTURE.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match.group()[:1], 0)
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _check_version(version: object) -> None:
    if version is not None and (version != PROTOCOL_VERSION or isinstance(version, bool)):
        shown = repr(version)[:40]
        raise ProtocolError(
            ErrorCode.UNSUPPORTED_PROTOCOL, f"protocol {shown} is not supported; supported: {PROTOCOL_VERSION}"
        )


def _refuse_type(type_name: str, table: dict[str, Any]) -> NoReturn:
    raise ProtocolError(ErrorCode.UNKNOWN_TYPE, f"unknown message type '{type_name:.40}'; known: {', '.join(table)}")


def _read(message_type: type[M], body: dict[str, Any]) -> M:
    try:
        return read(message_type, body)
    except FieldError as error:
        context = body.get("context")
        is_named = isinstance(context, str) and 0 < len(context) <= MAX_CONTEXT_ID_CHARACTERS
        raise ProtocolError(ErrorCode.BAD_MESSAGE, str(error), context if is_named else None) from error


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((wire_name(field), getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _plain(entry) for name, entry in pairs if entry is not None}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
