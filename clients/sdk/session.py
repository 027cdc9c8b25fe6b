"""A connection to a server: contexts are opened on it, as many at once as the server's limits allow."""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from clients.sdk.context import Context
from clients.sdk.errors import (
    AnswerError,
    AuthenticationError,
    BusyError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    error_from,
)
from clients.sdk.events import BYTES_PER_SAMPLE
from realtime.protocol import (
    MAX_SERVER_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    SUBPROTOCOL,
    AudioFormat,
    AudioStart,
    ClientMessage,
    CloseCode,
    ContextOpen,
    Error,
    ErrorCode,
    LagPolicy,
    Ping,
    PolicyName,
    Pong,
    Pronunciation,
    ProtocolError,
    ServerMessage,
    SessionReady,
    SessionStart,
    TextFormatName,
    decode_audio,
    decode_server,
    encode,
)

DEFAULT_URL = "ws://127.0.0.1:8060/v1/stream"
STREAM_PATH = "/v1/stream"

logger = logging.getLogger(__name__)


def connect(
    url: str = DEFAULT_URL,
    *,
    voice: str | None = None,
    language: str | None = None,
    sample_rate: int | None = None,
    words: bool = True,
    policy: PolicyName = "eager",
    text_format: TextFormatName = "markdown",
    lexicon: Sequence[Pronunciation] = (),
    speed: float | None = None,
    api_key: str | None = None,
    buffer_s: float = 60.0,
    open_timeout_s: float = 10.0,
) -> "Session":
    """A session, to be used as ``async with connect(..) as session``.

    Args:
        url: ``ws://host:port/v1/stream``; ``http://host:port`` and ``host:port`` do as well.
        voice: default voice of the contexts; None: the server's.
        sample_rate: of the audio, in Hz; None: the model's own.
        words: whether word times are sent.
        policy: how much text to wait for before speaking it.
        text_format: what is markup in the text.
        lexicon: how words are said, before what the server has for them.
        speed: 0.5 to 2 times the usual one, at the same pitch; None: the usual one.
        api_key: sent as a bearer token.
        buffer_s: audio a context may hold that nobody takes. When it is full nothing more is read from the socket,
            for any context, until some is taken.
        open_timeout_s: for the connection and the server's greeting.

    Raises (on entering):
        AuthenticationError, BusyError, ConnectError, UnknownVoiceError, UnknownLanguageError.
    """
    audio = AudioFormat(sample_rate=sample_rate)
    entries = tuple(lexicon) or None
    start = SessionStart(PROTOCOL_VERSION, voice, audio, language, words, policy, text_format, entries, speed)
    return Session(stream_url(url), start, api_key, buffer_s=buffer_s, open_timeout_s=open_timeout_s)


def stream_url(url: str) -> str:
    """The WebSocket address for what people type: scheme and path are filled in."""
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    path = parts.path if parts.path.strip("/") else STREAM_PATH
    return urlunsplit((scheme, parts.netloc, path, parts.query, ""))


class Session:
    """An open connection. ``ready`` holds the server's greeting: model, voices, limits."""

    ready: SessionReady

    def __init__(
        self, url: str, start: SessionStart, api_key: str | None, *, buffer_s: float, open_timeout_s: float
    ) -> None:
        self.url = url
        self._start = start
        self._api_key = api_key
        self._buffer_s = buffer_s
        self._open_timeout_s = open_timeout_s
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._failure: ClientError | None = None
        self._contexts: dict[str, Context] = {}
        self._speaking: dict[int, Context] = {}
        self._pings: dict[str, asyncio.Future[None]] = {}
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        self._socket = await self._open()
        try:
            async with asyncio.timeout(self._open_timeout_s):
                await self.send(self._start)
                self.ready = await self._greeting()
        except TimeoutError as error:
            await self._socket.close()
            raise ConnectError(f"{self.url} accepts connections but does not greet") from error
        except BaseException:
            await self._socket.close()
            raise
        self._reader = asyncio.create_task(self._read(), name=f"read {self.url}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sample_rate(self) -> int:
        """Of all audio of this session, in Hz."""
        return self.ready.sample_rate

    def context(
        self,
        context_id: str | None = None,
        *,
        voice: str | None = None,
        language: str | None = None,
        policy: PolicyName | None = None,
        text_format: TextFormatName | None = None,
        lexicon: Sequence[Pronunciation] = (),
        acknowledge: bool = False,
        speed: float | None = None,
        max_lag_ms: float | None = None,
        lag_policy: LagPolicy | None = None,
    ) -> Context:
        """A context, to be used as ``async with``.

        Args:
            context_id: unique among the open ones of the session; None: one is made up.
            voice, language, policy, text_format, speed: None: the session's.
            lexicon: how words are said, before those of the session.
            max_lag_ms: for live captions: when the speech falls that far behind its text, some is left out.
            lag_policy: ``speed``: it hurries before that, and leaves out only what haste cannot catch up with.
            acknowledge: count audio as heard when it is taken. For files, where the server need not keep to real time,
                and for sinks that block until it was heard. Without it call `Context.played`, or the server assumes
                that all is heard as early as can be.
        """
        if context_id is None:
            context_id = f"context-{next(self._numbers)}"
        if context_id in self._contexts:
            raise ValueError(f"context {context_id!r} is open already")
        context = Context(
            self,
            ContextOpen(
                context_id,
                voice,
                language,
                policy,
                max_lag_ms=max_lag_ms,
                lag_policy=lag_policy,
                speed=speed,
                text_format=text_format,
                lexicon=tuple(lexicon) or None,
            ),
            max_audio_bytes=int(self._buffer_s * self.sample_rate) * BYTES_PER_SAMPLE,
            acknowledge=acknowledge,
        )
        self._contexts[context_id] = context
        return context

    async def ping(self) -> float:
        """Seconds until the server answers a message."""
        ping_id = f"ping-{next(self._numbers)}"
        answered = self._pings[ping_id] = asyncio.get_running_loop().create_future()
        started = time.monotonic()
        try:
            await self.send(Ping(ping_id))
            await answered
        finally:
            self._pings.pop(ping_id, None)
        return time.monotonic() - started

    async def close(self) -> None:
        """Close the connection; whatever still speaks on it is cancelled by the server."""
        self._fail(ConnectionLostError("the session was closed"))
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            # A reader that waits for room would never see the end of the socket.
            self._reader.cancel()
            await asyncio.wait([self._reader])

    # -------------------------------------------------------------------------------------------- for contexts

    async def send(self, message: ClientMessage) -> None:
        """Send a message; waits while the server takes no more.

        Raises:
            ClientError: the connection is gone, and why.
        """
        if self._failure is not None:
            raise self._failure
        assert self._socket is not None, "use `async with`"
        try:
            await self._socket.send(encode(message))
        except ConnectionClosed as error:
            raise self._failure or _lost(error) from error

    def forget(self, context: Context) -> None:
        """Drop what still comes for this context."""
        self._contexts.pop(context.id, None)
        self._speaking = {index: other for index, other in self._speaking.items() if other is not context}

    # -------------------------------------------------------------------------------------------- connection

    async def _open(self) -> ClientConnection:
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        host = urlsplit(self.url).hostname
        try:
            return await open_socket(
                self.url,
                additional_headers=headers,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
                proxy=None if host in ("localhost", "127.0.0.1", "::1") else True,
                compression=None,
                max_size=MAX_SERVER_MESSAGE_BYTES,
                open_timeout=self._open_timeout_s,
            )
        except InvalidStatus as error:
            raise _refusal(self.url, error.response.status_code, bytes(error.response.body or b"")) from error
        except InvalidURI as error:
            raise ConnectError(f"{self.url} is not the address of a server; write ws://host:port") from error
        except (OSError, TimeoutError, InvalidHandshake) as error:
            raise ConnectError(f"no server answers at {self.url}: {error or type(error).__name__}") from error

    async def _greeting(self) -> SessionReady:
        assert self._socket is not None
        try:
            message = decode_server(await self._socket.recv())
        except ConnectionClosed as error:
            raise _lost(error) from error
        except ProtocolError as error:
            raise AnswerError(f"{self.url} does not speak our protocol: {error}", code=error.code) from error
        if isinstance(message, Error):
            raise error_from(message)
        if not isinstance(message, SessionReady):
            raise AnswerError(f"{self.url} greets with {type(message).__name__}")
        return message

    async def _read(self) -> None:
        assert self._socket is not None
        failure: ClientError
        try:
            while True:
                data = await self._socket.recv()
                context = self._receive_audio(data) if isinstance(data, bytes) else self._receive_text(data)
                if context is not None:
                    await context.room()
        except ConnectionClosed as error:
            failure = _lost(error)
        except ProtocolError as error:
            failure = AnswerError(f"a message that cannot be read: {error}", code=error.code)
        self._fail(failure)
        await self._socket.close()

    def _receive_audio(self, data: bytes) -> Context | None:
        message = decode_audio(data)
        context = self._speaking.get(message.index)
        if context is not None:
            context.receive_audio(message)
        return context

    def _receive_text(self, data: str) -> Context | None:
        try:
            message = decode_server(data)
        except ProtocolError as error:
            if error.code == ErrorCode.UNKNOWN_TYPE:
                return None
            raise
        return self._receive(message)

    def _receive(self, message: ServerMessage) -> Context | None:
        match message:
            case Pong(id=ping_id):
                answered = self._pings.get(ping_id or "")
                if answered is not None and not answered.done():
                    answered.set_result(None)
                return None
            case Error(context=None):
                error = error_from(message)
                if message.terminal:
                    self._fail(error)
                else:
                    logger.warning("the server refused a message: %s", error)
                return None
            case SessionReady():
                raise ProtocolError(ErrorCode.BAD_STATE, "a second session.ready")
        context = self._contexts.get(message.context or "")
        if context is None:
            return None
        if isinstance(message, Error):
            context.receive_error(message, error_from(message))
        else:
            if isinstance(message, AudioStart):
                self._speaking[message.index] = context
            context.receive(message)
        return context

    def _fail(self, failure: ClientError) -> None:
        self._failure = self._failure or failure
        for context in self._contexts.values():
            context.fail(self._failure)
        for answered in self._pings.values():
            if not answered.done():
                answered.set_exception(self._failure)


def _lost(error: ConnectionClosed) -> ClientError:
    if error.rcvd is None:
        return ConnectionLostError("the connection was lost", retryable=True)
    said = error.rcvd.reason or f"code {error.rcvd.code}"
    if error.rcvd.code == CloseCode.BUSY:
        return BusyError(f"the server is busy: {said}", code=ErrorCode.BUSY, retryable=True)
    return ConnectionLostError(
        f"the server closed the connection: {said}", retryable=error.rcvd.code == CloseCode.RESTART
    )


def _refusal(url: str, status: int, body: bytes) -> ClientError:
    said = _said(body)
    shown = f" ({said})" if said else ""
    if status == 401:
        return AuthenticationError(f"{url} wants a valid API key{shown}", code=str(status))
    if status in (429, 503):
        return BusyError(f"the server is busy{shown}", code=ErrorCode.BUSY, retryable=True)
    if status == 403:
        return ConnectError(f"{url} does not let us in{shown}", code=str(status))
    return ConnectError(f"{url} answers with HTTP status {status}{shown}; is it a Footlights server?", code=str(status))


def _said(body: bytes) -> str:
    """The message in an error's body: ``{"error": {"message"}}``, or else its text."""
    text = body.decode(errors="replace").strip()
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
