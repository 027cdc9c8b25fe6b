"""The driver alone, on a socket that is always ready."""

import asyncio
import time
from typing import Any, cast

from starlette.websockets import WebSocket

from realtime.bridge import Bridge
from realtime.crew import WorkerSettings
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.protocol import Ping, Pong, decode_server, encode
from realtime.session import Session
from realtime.websocket import StreamDriver
from tests.realtime.stage import INFO


class ReadySocket:
    """Gives its messages without ever waiting, takes all it is sent, then is gone."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.sent: list[str] = []

    async def receive(self) -> dict[str, Any]:
        if self.texts:
            return {"type": "websocket.receive", "text": self.texts.pop(0)}
        await asyncio.sleep(0.01)
        return {"type": "websocket.disconnect", "code": 1005}

    async def send_text(self, text: str) -> None:
        self.sent.append(text)


async def test_a_burst_of_messages_leaves_the_others_their_turn() -> None:
    metrics = Metrics()
    socket = ReadySocket([encode(Ping(str(number))) for number in range(500)])
    session = Session("s", INFO, LimitSettings(), time.monotonic, metrics)
    driver = StreamDriver(cast(WebSocket, socket), session, Bridge(WorkerSettings(), metrics), LimitSettings())
    running = asyncio.create_task(driver.run())
    turns = 0
    while socket.texts:
        turns += 1
        await asyncio.sleep(0)
    await running
    assert turns > 400
    assert [decode_server(text) for text in socket.sent] == [Pong(str(number)) for number in range(500)]
