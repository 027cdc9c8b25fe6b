"""The WebSocket driver of `/v1/stream`: frames to messages, actions to frames. All rules are in `Session`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import MutableMapping

from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.core import ModelInfo
from realtime.actions import Action, Close, DropAudio, Send, SendAudio, Submit
from realtime.bridge import Bridge
from realtime.commands import WorkerEvent
from realtime.limits import LimitSettings
from realtime.outbox import Closing, Outbox, Outgoing
from realtime.protocol import ClientMessage, CloseCode, Error, ErrorCode, ProtocolError, decode_client, encode
from realtime.session import Session

logger = logging.getLogger(__name__)


class SessionLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the session id before each line."""

    def process(self, msg: object, kwargs: MutableMapping[str, object]) -> tuple[str, MutableMapping[str, object]]:
        """As `logging.LoggerAdapter.process`."""
        session_id = self.extra["session_id"] if self.extra else "-"
        return f"[{session_id}] {msg}", kwargs


class StreamDriver:
    """Runs one session on one accepted WebSocket."""

    def __init__(self, websocket: WebSocket, session: Session, bridge: Bridge, limits: LimitSettings) -> None:
        self._websocket = websocket
        self._session = session
        self._bridge = bridge
        self._limits = limits
        self._outbox = Outbox(limits)
        self._wakeup: asyncio.TimerHandle | None = None
        self._patience = asyncio.timeout(None)
        self._log = SessionLog(logger, {"session_id": session.session_id})

    async def run(self) -> None:
        """Serves until the client leaves or the session closes; then all its work is aborted."""
        self._log.info("session opened")
        started_s = time.monotonic()
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(self._limits.start_s, self._require_start)
        try:
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(self._write(), name=f"write-{self._session.session_id}")
                await self._read()
                # Before anything else: the accelerator is not to work for a listener who is gone.
                self._perform(self._session.connection_lost())
                writer.cancel()
        finally:
            deadline.cancel()
            self._perform(self._session.connection_lost())
            if self._wakeup is not None:
                self._wakeup.cancel()
            totals = self._session.totals
            self._log.info(
                "session ended after %.1f s: %d contexts, %d characters, %.1f s of audio, %d cancels, %d errors",
                time.monotonic() - started_s,
                totals.contexts,
                totals.characters,
                totals.audio_ms / 1000,
                totals.cancels,
                totals.errors,
            )

    def shut(self, code: ErrorCode, text: str, close_code: int) -> None:
        """Ends the session from the server's side; the client may try again."""
        self._perform(self._session.shut(code, text, close_code, is_retryable=True))

    def model_changed(self, info: ModelInfo) -> None:
        """The model has other voices now."""
        self._session.model_changed(info)

    # ------------------------------------------------------------------------------------------ in

    async def _read(self) -> None:
        # A client that was told to go and does not even read that is left to the kernel.
        with contextlib.suppress(TimeoutError):
            async with self._patience:
                while (frame := await self._websocket.receive())["type"] != "websocket.disconnect":
                    self._perform(self._session.receive(_decode(frame.get("text"))))
                    # A burst of messages lies ready without any waiting: the writer and the others get their turn.
                    await asyncio.sleep(0)

    def _on_event(self, event: WorkerEvent) -> None:
        self._perform(self._session.engine_event(event))

    def _require_start(self) -> None:
        if not self._session.is_started:
            text = f"no session.start within {self._limits.start_s:g} s"
            self._perform(self._session.shut(ErrorCode.BAD_STATE, text, CloseCode.POLICY))

    # ------------------------------------------------------------------------------------------ out

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(message):
                    self._outbox.put(Outgoing(encode(message)))
                case SendAudio(audio):
                    self._outbox.put(Outgoing(audio.encode(), audio))
                case DropAudio(index, first_sample):
                    self._outbox.drop_audio(index, first_sample)
                case Submit(command):
                    self._bridge.submit(command, self._on_event)
                case Close(code, reason):
                    self._outbox.put(Closing(code, reason))
                    self._patience.reschedule(asyncio.get_running_loop().time() + self._limits.close_s)
        if self._session.is_closed:
            return
        if self._outbox.is_overflowing:
            text = "the client does not read what it is sent"
            self._perform(self._session.shut(ErrorCode.SLOW_READER, text, CloseCode.POLICY))
        self._check_congestion()
        self._arm()

    def _check_congestion(self) -> None:
        change = self._outbox.congestion_change()
        if change is not None:
            self._perform(self._session.set_congested(change))

    def _arm(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        wakeup_s = self._session.next_wakeup_s()
        if wakeup_s is not None:
            delay_s = max(0.0, wakeup_s - time.monotonic())
            self._wakeup = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._perform(self._session.tick())

    async def _write(self) -> None:
        try:
            while True:
                item = await self._outbox.get()
                if isinstance(item, Closing):
                    await self._websocket.close(item.code, item.reason)
                    return
                if item.audio is not None:
                    self._session.audio_sent(item.audio)
                if isinstance(item.data, str):
                    await self._websocket.send_text(item.data)
                else:
                    await self._websocket.send_bytes(item.data)
                self._check_congestion()
        except WebSocketDisconnect:
            # The reader sees the same and ends the session.
            return


def _decode(text: str | None) -> ClientMessage | ProtocolError:
    if text is None:
        return ProtocolError(
            ErrorCode.BAD_MESSAGE, "clients send text messages; binary ones come from the server alone"
        )
    try:
        return decode_client(text)
    except ProtocolError as error:
        return error


async def refuse(websocket: WebSocket, code: ErrorCode, text: str, close_code: int) -> None:
    """Answers an accepted socket with a retryable error and closes it."""
    try:
        await websocket.send_text(encode(Error(code, text, retryable=True, terminal=True)))
        await websocket.close(close_code, text)
    except WebSocketDisconnect:
        return
