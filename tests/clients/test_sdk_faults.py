"""The client against servers that refuse, lie, lose audio or vanish. The true server is in test_sdk.py."""

import asyncio
import contextlib
import http
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from clients.sdk import (
    AnswerError,
    AudioEvent,
    AuthenticationError,
    BusyError,
    ClientError,
    ConnectError,
    ConnectionLostError,
    ContextStateError,
    DoneEvent,
    HeardReport,
    ServerError,
    TextError,
    UnknownVoiceError,
    connect,
)
from clients.sdk.session import stream_url
from realtime.protocol import (
    SUBPROTOCOL,
    AudioMessage,
    AudioStart,
    Cancel,
    Cancelled,
    ClientMessage,
    CloseCode,
    ContextOpen,
    Done,
    Error,
    Heard,
    Limits,
    Ping,
    Pong,
    ServerMessage,
    SessionReady,
    TextAppend,
    TextEnd,
    decode_client,
    encode,
)

READY = SessionReady(
    1, "s", "fake", ("heart",), ("en",), "pcm_s16le", 24_000, 50.0, Limits(65_536, 1000, 4, 30_000, 100), "none"
)


class Peer:
    """The server's end of a connection, written out by each test."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket

    async def send(self, *messages: ServerMessage | AudioMessage) -> None:
        for message in messages:
            await self.socket.send(message.encode() if isinstance(message, AudioMessage) else encode(message))

    async def receive(self) -> ClientMessage:
        return decode_client(await self.socket.recv())

    async def until(self, kind: type[ClientMessage]) -> ClientMessage:
        while not isinstance(message := await self.receive(), kind):
            pass
        return message

    async def greet(self) -> None:
        await self.receive()
        await self.send(READY)

    async def start(self) -> str:
        """Greets, takes the opening of a context and begins its audio; gives its id."""
        await self.greet()
        opening = await self.until(ContextOpen)
        assert isinstance(opening, ContextOpen)
        await self.send(AudioStart(opening.context, 7, "u", "heart", "pcm_s16le", 24_000))
        return opening.context


def audio(sequence: int, samples: int = 100) -> AudioMessage:
    return AudioMessage(7, sequence, sequence * samples, bytes(2 * samples))


@contextlib.asynccontextmanager
async def server(
    script: Callable[[Peer], Awaitable[None]],
    process_request: Callable[[ServerConnection, Request], Response | None] | None = None,
) -> AsyncIterator[str]:
    async def handle(socket: ServerConnection) -> None:
        await script(Peer(socket))

    async with serve(
        handle,
        "127.0.0.1",
        0,
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        process_request=process_request,
    ) as running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}"


async def hang(peer: Peer) -> None:
    await peer.socket.wait_closed()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:8060", "ws://localhost:8060/v1/stream"),
        ("http://host:1", "ws://host:1/v1/stream"),
        ("https://host/", "wss://host/v1/stream"),
        ("wss://host/tts/v1/stream", "wss://host/tts/v1/stream"),
    ],
)
def test_addresses_people_type(given: str, expected: str) -> None:
    assert stream_url(given) == expected


# ---------------------------------------------------------------------------------------------- opening


async def test_nobody_there() -> None:
    with pytest.raises(ConnectError, match="no server answers at ws://127.0.0.1:9"):
        async with connect("127.0.0.1:9"):
            pass


async def test_not_an_address() -> None:
    with pytest.raises(ConnectError, match="not the address"):
        async with connect("ftp://host"):
            pass


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (http.HTTPStatus.UNAUTHORIZED, AuthenticationError),
        (http.HTTPStatus.TOO_MANY_REQUESTS, BusyError),
        (http.HTTPStatus.SERVICE_UNAVAILABLE, BusyError),
        (http.HTTPStatus.FORBIDDEN, ConnectError),
        (http.HTTPStatus.NOT_FOUND, ConnectError),
    ],
)
@pytest.mark.parametrize("body", ["because\n", '{"error": {"code": "x", "message": "because"}}'])
async def test_refused_handshakes(status: http.HTTPStatus, error: type[ClientError], body: str) -> None:
    async with server(hang, lambda socket, _: socket.respond(status, body)) as url:
        with pytest.raises(error, match=r"\(because\)") as caught:
            async with connect(url):
                pass
    assert caught.value.retryable is (error is BusyError)


async def test_the_key_goes_into_the_header() -> None:
    seen: list[str | None] = []

    def look(socket: ServerConnection, request: Request) -> None:
        seen.append(request.headers.get("Authorization"))

    async with server(Peer.greet, look) as url:
        async with connect(url, api_key="secret"):
            pass
        async with connect(url):
            pass
    assert seen == ["Bearer secret", None]


async def test_no_greeting() -> None:
    async with server(hang) as url:
        with pytest.raises(ConnectError, match="does not greet"):
            async with connect(url, open_timeout_s=0.2):
                pass


async def test_closed_as_busy() -> None:
    async def script(peer: Peer) -> None:
        await peer.socket.close(CloseCode.BUSY, "64 sessions")

    async with server(script) as url:
        with pytest.raises(BusyError, match="64 sessions"):
            async with connect(url):
                pass


async def test_an_error_instead_of_a_greeting() -> None:
    async def script(peer: Peer) -> None:
        await peer.send(Error("unknown_voice", "no voice 'x'; there are: heart"))
        await hang(peer)

    async with server(script) as url:
        with pytest.raises(UnknownVoiceError, match="heart"):
            async with connect(url, voice="x"):
                pass


@pytest.mark.parametrize("greeting", ["hello", encode(Pong())])
async def test_a_stranger(greeting: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.socket.send(greeting)
        await hang(peer)

    async with server(script) as url:
        with pytest.raises(AnswerError):
            async with connect(url):
                pass


# ---------------------------------------------------------------------------------------------- while speaking


async def test_the_server_vanishes() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.send(audio(0))
        peer.socket.transport.abort()

    async with server(script) as url, connect(url) as session, session.context() as context:
        assert isinstance(await anext(context), AudioEvent)
        with pytest.raises(ConnectionLostError):
            await anext(context)
        with pytest.raises(ConnectionLostError):
            await context.append("more")
        with pytest.raises(ConnectionLostError):
            await session.ping()


async def test_a_restart_is_retryable() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.socket.close(CloseCode.RESTART, "restarting")

    async with server(script) as url, connect(url) as session, session.context() as context:
        with pytest.raises(ConnectionLostError, match="restarting") as caught:
            await anext(context)
        assert caught.value.retryable


async def test_a_session_error_reaches_every_context() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.until(ContextOpen)
        await peer.send(Error("worker_lost", "the engine died", retryable=True, terminal=True))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as one, session.context() as two:
        for context in (one, two):
            with pytest.raises(ServerError, match="died") as caught:
                await anext(context)
            assert caught.value.retryable


async def test_lost_audio_is_noticed() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.send(audio(0), audio(2))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        await anext(context)
        with pytest.raises(AnswerError, match="audio message 1 is missing"):
            await anext(context)


async def test_lost_audio_at_the_end_is_noticed() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.send(audio(0), Done(context, 100.0, 2, 5))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        await anext(context)
        with pytest.raises(AnswerError, match="2 audio messages were sent, 1 arrived"):
            await anext(context)


async def test_messages_of_later_versions_are_ignored() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.socket.send('{"type": "mouth.shape", "context": "context-1"}')
        await peer.send(Pong("stale"), Error("bad_message", "one of yours"), audio(0), Done(context, 4.2, 1, 5))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        events = [event async for event in context]
    assert [type(event) for event in events] == [AudioEvent, DoneEvent]


async def test_a_message_that_cannot_be_read_ends_the_session() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.socket.send(b"\1")
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        with pytest.raises(AnswerError, match="cannot be read"):
            await anext(context)


async def test_an_error_about_one_message_leaves_the_context_alive() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.send(Error("text_too_long", "too long", context), audio(0), Done(context, 4.2, 1, 5))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        with pytest.raises(TextError):
            await anext(context)
        assert [type(event) async for event in context] == [AudioEvent, DoneEvent]


async def test_text_is_cut_into_messages_and_arrives_verbatim() -> None:
    text = "\u0001\U0001f600 x" * 9_000
    received: list[str] = []

    async def script(peer: Peer) -> None:
        context = await peer.start()
        while not isinstance(message := await peer.receive(), TextEnd):
            assert isinstance(message, TextAppend)
            received.append(message.text)
        await peer.send(Done(context, 0.0, 0, 5))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        await context.append(text)
        await context.end()
        await anext(context)
    assert "".join(received) == text
    assert len(received) > 1


COUNT = 1000  # of 48 kB: more than the kernel's own buffers hold


async def test_a_full_buffer_stops_reading_until_some_is_taken() -> None:
    sent = 0

    async def script(peer: Peer) -> None:
        nonlocal sent
        context = await peer.start()
        for sequence in range(COUNT):
            await peer.send(audio(sequence, 24_000))
            sent += 1
        await peer.send(Done(context, 0.0, COUNT, 5))
        await hang(peer)

    async with server(script) as url, connect(url, buffer_s=1.0) as session, session.context() as context:
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        assert sent < COUNT
        events = [event async for event in context]
    assert len(events) == COUNT + 1


async def test_leaving_a_full_context_does_not_hang() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.send(audio(0, 24_000), audio(1, 24_000))
        await peer.until(Cancel)
        await peer.send(Cancelled(context, 0.0, "", "", 0, "exact"))
        await peer.until(Ping)
        await peer.send(Pong("ping-2"))
        await hang(peer)

    async with asyncio.timeout(5), server(script) as url, connect(url, buffer_s=0.5) as session:
        async with session.context() as context:
            await anext(context)
        assert await session.ping() < 5


# ---------------------------------------------------------------------------------------------- cancelling


async def test_audio_sent_before_the_answer_is_not_heard() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.send(audio(0))
        cancel = await peer.until(Cancel)
        assert isinstance(cancel, Cancel)
        assert cancel.played_ms == 3.5
        await peer.send(audio(1), Cancelled(context, 3.5, "One", " two", 3, "exact"))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        await anext(context)
        report = await context.cancel(3.5)
        assert report == HeardReport(3.5, "One", " two", "exact")
        assert [event async for event in context] == [report]
        assert await context.cancel() == report


async def test_a_cancellation_that_meets_the_end() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.send(audio(0), Done(context, 4.2, 1, 7))
        await peer.until(Cancel)
        await peer.send(Heard(context, 1.0, "", "One two", 0, "exact"))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        await asyncio.sleep(0.05)
        report = await context.cancel(1.0)
        assert report.unspoken == "One two"
        assert [event async for event in context] == [report]


async def test_a_cancellation_that_is_refused() -> None:
    async def script(peer: Peer) -> None:
        context = await peer.start()
        await peer.until(Cancel)
        await peer.send(Error("unknown_context", "never heard of it", context))
        await hang(peer)

    async with server(script) as url, connect(url) as session, session.context() as context:
        with pytest.raises(ContextStateError):
            await context.cancel()


async def test_a_failing_source_cancels_and_is_named() -> None:
    cancelled = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.start()
        await peer.until(Cancel)
        cancelled.set()
        await hang(peer)

    async def broken() -> AsyncIterator[str]:
        yield "One "
        raise OSError("the model hung up")

    async with server(script) as url, connect(url) as session, session.context() as context:
        context.speak(broken())
        with pytest.raises(ClientError, match="the model hung up") as caught:
            await anext(context)
        assert isinstance(caught.value.__cause__, OSError)
        await asyncio.wait_for(cancelled.wait(), 1)


async def test_closing_the_session_ends_the_iteration() -> None:
    async def script(peer: Peer) -> None:
        await peer.start()
        await hang(peer)

    async with server(script) as url, connect(url) as session:
        context = await session.context().__aenter__()
        taking = asyncio.create_task(anext(context))
        await session.close()
        with pytest.raises(ConnectionLostError, match="session was closed"):
            await taking


async def test_an_id_cannot_be_open_twice() -> None:
    async def script(peer: Peer) -> None:
        await peer.greet()
        await hang(peer)

    async with server(script) as url, connect(url) as session:
        session.context("npc")
        with pytest.raises(ValueError, match="open already"):
            session.context("npc")
