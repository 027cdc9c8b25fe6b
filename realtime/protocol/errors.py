"""What can go wrong on the wire: codes of errors, codes of closing, and the exception that carries one."""

from enum import StrEnum


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
