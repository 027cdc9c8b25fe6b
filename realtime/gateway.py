"""What all connections of a server share, and the requests they make of it."""

import asyncio
import secrets
import time

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.websockets import WebSocket

from engine.core import ModelInfo
from realtime.bridge import Bridge
from realtime.crew import WorkerStartError
from realtime.explain import ExplainRoute
from realtime.limits import Admission
from realtime.metrics import Metrics
from realtime.protocol import SUBPROTOCOL, CloseCode, ErrorCode
from realtime.session import Session
from realtime.settings import Settings
from realtime.voices import VoiceRoutes
from realtime.websocket import StreamDriver, refuse

SHUT_S = 0.5
"""Time for the last messages of sessions that are shut when the server stops."""


class Gateway:
    """What all connections share. One per server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.bridge = Bridge(settings.worker, self.metrics)
        self.bridge.on_info = self._tell_sessions
        self.voices = VoiceRoutes(self.bridge, settings.limits)
        self.explain = ExplainRoute(self.bridge)
        self.admission = Admission(settings.limits.sessions)
        self.start_error: WorkerStartError | None = None
        self._drivers: dict[StreamDriver, asyncio.Task[object]] = {}

    @property
    def open_contexts(self) -> int:
        """Utterances in work."""
        return self.bridge.open_utterances

    async def stream(self, websocket: WebSocket) -> None:
        """`/v1/stream`."""
        offers = websocket.scope.get("subprotocols", ())
        await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offers else None)
        info = self.bridge.info
        if self.admission.is_draining:
            self.metrics.sessions_refused.labels("shutting_down").inc()
            await refuse(websocket, ErrorCode.SHUTTING_DOWN, "the server is shutting down", CloseCode.RESTART)
        elif info is None:
            self.metrics.sessions_refused.labels("warming").inc()
            await refuse(websocket, ErrorCode.BUSY, "the model is still being loaded", CloseCode.BUSY)
        elif not self.admission.try_enter():
            self.metrics.sessions_refused.labels("busy").inc()
            text = f"all {self.settings.limits.sessions} sessions are taken; try again later"
            await refuse(websocket, ErrorCode.BUSY, text, CloseCode.BUSY)
        else:
            limits = self.settings.limits
            session = Session(secrets.token_hex(8), info, limits, time.monotonic, self.metrics)
            driver = StreamDriver(websocket, session, self.bridge, limits)
            task = asyncio.current_task()
            assert task is not None
            self._drivers[driver] = task
            try:
                with self.metrics.sessions.track_inprogress():
                    await driver.run()
            finally:
                del self._drivers[driver]
                self.admission.leave()

    def _tell_sessions(self, info: ModelInfo) -> None:
        for driver in self._drivers:
            driver.model_changed(info)

    async def shut_sessions(self) -> None:
        """Tells every session that the server stops, and gives the messages time to leave."""
        for driver in list(self._drivers):
            driver.shut(ErrorCode.SHUTTING_DOWN, "the server is shutting down", CloseCode.RESTART)
        if self._drivers:
            await asyncio.wait(self._drivers.values(), timeout=SHUT_S)

    async def health(self, request: Request) -> Response:
        """`/healthz`: the gateway itself answers."""
        return JSONResponse({"status": "ok", "worker_restarts": self.bridge.restarts})

    async def readiness(self, request: Request) -> Response:
        """`/readyz`: 200 while new sessions are welcome, else 503."""
        if self.admission.is_draining:
            return JSONResponse({"status": "shutting_down"}, 503)
        if not self.bridge.is_ready or self.bridge.info is None:
            return JSONResponse({"status": "warming"}, 503)
        return JSONResponse({"status": "ready", "model": self.bridge.info.name})

    async def show_metrics(self, request: Request) -> Response:
        """`/metrics`: Prometheus text."""
        return Response(self.metrics.render(), media_type=self.metrics.content_type)
