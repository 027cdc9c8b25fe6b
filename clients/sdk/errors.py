"""What can go wrong for a client. ``code`` is the wire code; ``retryable``: the same request may succeed later.

ClientError
├── ConnectError            no server there, or it refuses the connection
│   └── AuthenticationError the API key is missing or wrong
├── ConnectionLostError     the connection ended while something was still to come
├── BusyError               the server cannot keep another voice fed now
├── TextError               text that cannot be spoken as given
├── UnknownVoiceError       the message lists the voices
├── UnknownLanguageError    the message lists the languages
├── ContextStateError       text after the end, an id used twice, too many contexts
├── ServerError             the server failed
└── AnswerError             an answer that breaks the protocol
"""

from realtime.protocol import Error, ErrorCode


class ClientError(Exception):
    """Base of everything the client raises on purpose."""

    def __init__(self, message: str, *, code: str = "", context: str | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.context = context
        self.retryable = retryable


class ConnectError(ClientError):
    """No server there, or it refuses the connection."""


class AuthenticationError(ConnectError):
    """The API key is missing or wrong."""


class ConnectionLostError(ClientError):
    """The connection ended while something was still to come."""


class BusyError(ClientError):
    """The server cannot keep another voice fed now; ``retryable`` is True."""


class TextError(ClientError):
    """Text that cannot be spoken as given."""


class UnknownVoiceError(ClientError):
    """No such voice; the message lists those there are."""


class UnknownLanguageError(ClientError):
    """A language the model does not speak; the message lists those it does."""


class ContextStateError(ClientError):
    """An operation the context's state forbids."""


class ServerError(ClientError):
    """The server failed; ``code`` says how."""


class AnswerError(ClientError):
    """An answer that breaks the protocol: lost audio, a message that cannot be read."""


_CLASSES: dict[str, type[ClientError]] = {
    ErrorCode.BUSY: BusyError,
    ErrorCode.BAD_TEXT: TextError,
    ErrorCode.STRUCTURAL_TOKEN: TextError,
    ErrorCode.TEXT_TOO_LONG: TextError,
    ErrorCode.BAD_REVISION: TextError,
    ErrorCode.UNKNOWN_VOICE: UnknownVoiceError,
    ErrorCode.UNKNOWN_LANGUAGE: UnknownLanguageError,
    ErrorCode.UNKNOWN_CONTEXT: ContextStateError,
    ErrorCode.BAD_STATE: ContextStateError,
    ErrorCode.TOO_MANY_CONTEXTS: ContextStateError,
}


def error_from(message: Error) -> ClientError:
    """The exception for an error message of the server; codes of later versions become `ServerError`."""
    cls = _CLASSES.get(message.code, ServerError)
    return cls(message.message, code=message.code, context=message.context, retryable=message.retryable)
