"""Wiring: settings, bridge, routes, start and orderly stop."""

import asyncio
import contextlib
import logging
import mimetypes
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from engine.errors import ConfigError
from realtime.crew import WorkerStartError
from realtime.gateway import Gateway
from realtime.guard import Guard
from realtime.protocol import MAX_CLIENT_MESSAGE_BYTES, CloseCode
from realtime.settings import Settings, check

logger = logging.getLogger(__name__)

WEB_FOLDER = Path(__file__).resolve().parent.parent / "clients" / "web"
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
SOCKET_SEND_BYTES = 128 * 1024
"""Kernel buffer of a connection: what lies in it can no longer be dropped by a cancel."""
REQUEST_S = 10.0
"""In which the head of a request has to come, once its connection or its first byte has."""
ABORT_S = 1.0
"""After the end of a session: time to flush the connection before it is torn down."""


class PageFiles(StaticFiles):
    """The web page with its security headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """As `StaticFiles.get_response`."""
        response = await super().get_response(path, scope)
        response.headers.update(PAGE_HEADERS)
        return response


def create_app(settings: Settings) -> Starlette:
    """The ASGI application; its `Gateway` is ``app.state.gateway``.

    Raises:
        ConfigError: settings that must not be served.
    """
    check(settings)
    gateway = Gateway(settings)
    # Browsers refuse modules of another type, and what the system calls them varies.
    mimetypes.add_type("text/javascript", ".js")
    routes: list[Route | WebSocketRoute | Mount] = [
        WebSocketRoute("/v1/stream", gateway.stream),
        Route("/v1/voices", gateway.voices.collection, methods=["GET", "POST"]),
        Route("/v1/voices/{name:path}", gateway.voices.one, methods=["DELETE"]),
        Route("/v1/explain", gateway.explain.answer, methods=["POST"]),
        Route("/healthz", gateway.health),
        Route("/readyz", gateway.readiness),
        Route("/metrics", gateway.show_metrics),
        Mount("/", PageFiles(directory=WEB_FOLDER, html=True)),
    ]
    guard = Middleware(
        Guard,
        api_key=settings.api_key,
        public_paths={"/", "/healthz", "/readyz", *_page_paths()},
        allowed_origins=settings.server.allowed_origins,
        allowed_hosts=settings.server.allowed_hosts,
    )
    app = Starlette(routes=routes, middleware=[guard], lifespan=_lifespan)
    app.state.gateway = gateway
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    gateway: Gateway = app.state.gateway
    await gateway.bridge.start()
    warming = asyncio.create_task(_await_model(gateway), name="footlights-warming")
    try:
        yield
    finally:
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        await gateway.bridge.stop()


async def _await_model(gateway: Gateway) -> None:
    try:
        await gateway.bridge.wait_ready()
    except WorkerStartError as error:
        gateway.start_error = error


def _page_paths() -> list[str]:
    return ["/" + path.relative_to(WEB_FOLDER).as_posix() for path in WEB_FOLDER.rglob("*") if path.is_file()]


# ---------------------------------------------------------------------------------------------- the server process


class RequestProtocol(H11Protocol):
    """Uvicorn's HTTP that does not wait for ever for a request that has begun, or not even that."""

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection, and no request yet."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or all of it."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of it."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None


class SocketProtocol(WebSocketsSansIOProtocol):
    """Uvicorn's WebSocket, which waits for no peer who does not read any more, nor logs a peer's faults."""

    def send_receive_event_to_app(self) -> None:
        """A whole message. Text that is none is the peer's fault: it is told, and no traceback is logged."""
        try:
            if self.curr_msg_data_type == "text":
                b"".join(self.frames).decode()
        except UnicodeDecodeError:
            self.frames = []
            if not self.close_sent:
                self.conn.send_close(CloseCode.NOT_UNICODE, "a text message that is not UTF-8")
                self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def keepalive_timeout(self) -> None:
        """A ping was not answered: the peer is gone, whatever is still unsent."""
        super().keepalive_timeout()
        self.transport.abort()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        """The session has ended, and what it had to say has had its time."""
        super().on_task_complete(task)
        self.loop.call_later(ABORT_S, self.transport.abort)


class Server(uvicorn.Server):
    """Uvicorn that drains: a first signal lets open contexts end, a second one stops at once."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway
        self._drain_until_s: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal to stop."""
        if self._drain_until_s is not None:
            self.should_exit = True
            return
        logger.info("%s: draining", signal.Signals(sig).name)
        self.gateway.admission.is_draining = True
        self._drain_until_s = time.monotonic() + self.gateway.settings.server.drain_s

    async def on_tick(self, counter: int) -> bool:
        """Every 100 ms: is it time to stop?"""
        is_drained = self._drain_until_s is not None and (
            self.gateway.open_contexts == 0 or time.monotonic() >= self._drain_until_s
        )
        has_failed = self.gateway.start_error is not None
        return await super().on_tick(counter) or is_drained or has_failed

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tells the sessions, then stops."""
        await self.gateway.shut_sessions()
        await super().shutdown(sockets)


def make_server(settings: Settings) -> tuple[Server, socket.socket]:
    """The server and its bound socket: run it with ``await server.serve(sockets=[socket])``.

    Raises:
        ConfigError: settings that must not be served, or an address that cannot be bound.
    """
    app = create_app(settings)
    config = uvicorn.Config(
        app,
        http=RequestProtocol,
        ws=SocketProtocol,
        ws_max_size=2 * MAX_CLIENT_MESSAGE_BYTES,
        ws_ping_interval=settings.server.ping_s,
        ws_ping_timeout=settings.server.ping_s,
        ws_per_message_deflate=False,
        loop="uvloop",
        log_config=None,
        # Its debug lines quote every message and header: the users' text and keys.
        log_level="info",
        access_log=False,
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    return Server(config, app.state.gateway), _bind(settings)


def _bind(settings: Settings) -> socket.socket:
    server = settings.server
    try:
        family = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((server.host, server.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigError(f"cannot listen on {server.host} port {server.port}: {error}") from error
    # Accepted connections inherit it.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_SEND_BYTES)
    return listener


def serve(settings: Settings) -> int:
    """Serves until a signal to stop. Gives the exit status: 0, or 1 if the model could not be loaded.

    Raises:
        ConfigError: as `make_server`.
    """
    logging.basicConfig(
        level=settings.server.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    server, listener = make_server(settings)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    logger.info("listening on http://%s:%d (WebSocket: /v1/stream)", shown, port)
    server.run(sockets=[listener])
    if server.gateway.start_error is not None:
        logger.error("%s", server.gateway.start_error)
        return 1
    return 0
