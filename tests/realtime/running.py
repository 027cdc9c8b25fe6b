"""A real server on a free port in a thread of its own, and a small client of the native protocol."""

import asyncio
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from realtime.app import Server, make_server
from realtime.crew import WorkerSettings
from realtime.gateway import Gateway
from realtime.limits import LimitSettings
from realtime.protocol import (
    SUBPROTOCOL,
    AudioDiscard,
    AudioMessage,
    AudioStart,
    Cancelled,
    ClientMessage,
    Done,
    Error,
    Heard,
    ServerMessage,
    SessionReady,
    SessionStart,
    Words,
    decode_audio,
    decode_server,
    encode,
)
from realtime.settings import ServerSettings, Settings

FACTORY = "tests.realtime.fake_engine:make"


@dataclass(frozen=True)
class RunningServer:
    """``server`` lives in another thread: what is not a method here is to be read only."""

    port: int
    server: Server

    @property
    def gateway(self) -> Gateway:
        return self.server.gateway

    def stop(self) -> None:
        self.server.should_exit = True

    def drain(self) -> None:
        self.server.handle_exit(signal.SIGTERM, None)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def stream_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/stream"

    def metric(self, name: str, **labels: str) -> float:
        return self.gateway.metrics.registry.get_sample_value(f"footlights_{name}", labels) or 0.0


@contextmanager
def running(
    *,
    limits: LimitSettings | None = None,
    worker: WorkerSettings | None = None,
    api_key: str | None = None,
    factory: str = FACTORY,
    start_s: float = 20,
    **server: Any,
) -> Iterator[RunningServer]:
    """A server until the end of the block, its model, which ``factory`` makes within ``start_s``, warm."""
    settings = Settings(
        ServerSettings(port=0, **server),
        limits or LimitSettings(),
        replace(worker or WorkerSettings(), factory=factory),
        api_key,
    )
    uvicorn_server, listener = make_server(settings)
    thread = threading.Thread(target=uvicorn_server.run, args=([listener],))
    thread.start()
    try:
        wait_for(lambda: uvicorn_server.started and uvicorn_server.gateway.bridge.is_ready, start_s)
        yield RunningServer(listener.getsockname()[1], uvicorn_server)
    finally:
        uvicorn_server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def wait_for(condition: Any, timeout_s: float = 5.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.005)


async def until(condition: Any, timeout_s: float = 5.0) -> None:
    await asyncio.to_thread(wait_for, condition, timeout_s)


@dataclass
class Heap:
    """Everything received for one context."""

    audio: list[AudioMessage] = field(default_factory=list)
    """What was not recalled."""
    sequence: int = 0
    messages: list[ServerMessage] = field(default_factory=list)
    end: Done | Cancelled | Error | None = None

    @property
    def pcm(self) -> bytes:
        return b"".join(message.payload for message in self.audio)

    @property
    def words(self) -> list[str]:
        return [word.text for message in self.messages if isinstance(message, Words) for word in message.words]


class Client:
    """Reads in the order of arrival and checks what holds for every connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.sample_rate = 0
        self.heaps: dict[str, Heap] = {}
        self.other: list[ServerMessage] = []
        self._by_index: dict[int, Heap] = {}

    async def send(self, *messages: ClientMessage) -> None:
        for message in messages:
            await self.connection.send(encode(message))

    async def read(self) -> ServerMessage | AudioMessage:
        data = await asyncio.wait_for(self.connection.recv(), 20)
        if isinstance(data, bytes):
            audio = decode_audio(data)
            heap = self._by_index[audio.index]
            assert heap.end is None, "audio after the end"
            assert audio.sequence == heap.sequence
            heap.sequence += 1
            assert audio.first_sample == len(heap.pcm) // 2
            heap.audio.append(audio)
            return audio
        message = decode_server(data)
        context = getattr(message, "context", None)
        if context is None:
            self.other.append(message)
            return message
        heap = self.heaps.setdefault(context, Heap())
        if isinstance(message, AudioStart):
            self._by_index[message.index] = heap
        if isinstance(message, AudioDiscard):
            position = round(message.from_ms * self.sample_rate / 1000)
            heap.audio = [kept for audio in heap.audio if (kept := audio.until(position)) is not None]
        if isinstance(message, Done | Cancelled) or (isinstance(message, Error) and message.terminal):
            assert heap.end is None, "a second end"
            heap.end = message
        elif heap.end is not None:
            assert isinstance(message, Heard | Error), message
        heap.messages.append(message)
        return message

    async def read_until(self, message_type: type, context: str | None = None) -> Any:
        while True:
            message = await self.read()
            if isinstance(message, message_type) and context in (None, getattr(message, "context", None)):
                return message

    async def end_of(self, context: str = "main") -> Heap:
        while self.heaps.setdefault(context, Heap()).end is None:
            await self.read()
        return self.heaps[context]


@asynccontextmanager
async def client(server: RunningServer, start: SessionStart | None = None, **options: Any) -> Any:
    """A connected client whose session has started."""
    options = {"subprotocols": [SUBPROTOCOL], "compression": None, "proxy": None, **options}
    async with connect(server.stream_url, **options) as connection:
        made = Client(connection)
        await made.send(start or SessionStart(1))
        ready = await made.read()
        assert isinstance(ready, SessionReady)
        made.sample_rate = ready.sample_rate
        yield made
