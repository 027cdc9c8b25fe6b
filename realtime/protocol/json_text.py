"""Messages to JSON text and back, strictly: what is too large, too deep or ill-typed is refused by name."""

import dataclasses
import json
import re
from typing import Any, NoReturn, TypeVar

from realtime.protocol.client import CLIENT_MESSAGES, ClientMessage
from realtime.protocol.errors import ErrorCode, ProtocolError
from realtime.protocol.server import SERVER_MESSAGES, ServerMessage
from realtime.protocol.terms import (
    MAX_CLIENT_MESSAGE_BYTES,
    MAX_CONTEXT_ID_CHARACTERS,
    MAX_JSON_DEPTH,
    MAX_SERVER_MESSAGE_BYTES,
    PROTOCOL_VERSION,
)
from realtime.strict import FieldError, read, wire_name

Message = ClientMessage | ServerMessage

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
        _refuse_type(type_name, CLIENT_MESSAGES, body)
    return _read(message_type, body)


def decode_server(data: str | bytes) -> ServerMessage:
    """A message from a server. A client should ignore those refused with `ErrorCode.UNKNOWN_TYPE`.

    Raises:
        ProtocolError: as `decode_client`.
    """
    body, type_name = _load(data, MAX_SERVER_MESSAGE_BYTES)
    message_type = SERVER_MESSAGES.get(type_name)
    if message_type is None:
        _refuse_type(type_name, SERVER_MESSAGES, body)
    return _read(message_type, body)


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
    except UnicodeError as error:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, "the message is not valid Unicode text") from error
    except (ValueError, RecursionError) as error:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, f"the message is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ProtocolError(ErrorCode.BAD_MESSAGE, "the message must be a JSON object")
    # An escaped lone surrogate is valid JSON and not text: it could never be sent back.
    if "\\u" in text and not _is_text(json.dumps(body, ensure_ascii=False)):
        raise ProtocolError(ErrorCode.BAD_MESSAGE, "the message is not valid Unicode text", _context_of(body))
    type_name = body.get("type")
    if not isinstance(type_name, str):
        raise ProtocolError(ErrorCode.BAD_MESSAGE, 'the message needs a string field "type"', _context_of(body))
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


def _refuse_type(type_name: str, table: dict[str, Any], body: dict[str, Any]) -> NoReturn:
    text = f"unknown message type '{type_name:.40}'; known: {', '.join(table)}"
    raise ProtocolError(ErrorCode.UNKNOWN_TYPE, text, _context_of(body))


def _read(message_type: type[M], body: dict[str, Any]) -> M:
    try:
        return read(message_type, body)
    except FieldError as error:
        raise ProtocolError(ErrorCode.BAD_MESSAGE, str(error), _context_of(body)) from error


def _context_of(body: dict[str, Any]) -> str | None:
    """The context that a message names, though the rest of it cannot be read."""
    context = body.get("context")
    is_name = isinstance(context, str) and 0 < len(context) <= MAX_CONTEXT_ID_CHARACTERS and _is_text(context)
    return context if is_name else None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((wire_name(field), getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _plain(entry) for name, entry in pairs if entry is not None}
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
