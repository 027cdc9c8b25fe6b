"""Who may talk to the server: API key, Origin of whatever changes things, and the Host header where there is no key."""

import hmac
import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from realtime.protocol import key_from_subprotocols

HARMLESS_METHODS = ("GET", "HEAD", "OPTIONS")
"""They change nothing, and without our leave no page of another origin can read what they answer."""


def is_loopback(host: str) -> bool:
    """Does the name or address, without port, reach this machine alone?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Guard:
    """ASGI middleware. Refusals are HTTP responses with ``{"error": {"code", "message"}}``, for WebSockets too.

    Without a key only pages of this machine get in: the Host header must be a loopback name or one of
    ``allowed_hosts``, else any web page could reach the server through a name of its own that points here.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        api_key: str | None,
        public_paths: Collection[str],
        allowed_origins: Collection[str] = (),
        allowed_hosts: Collection[str] = (),
    ) -> None:
        self._app = app
        self._api_key = api_key
        self._public_paths = frozenset(public_paths)
        self._allowed_origins = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on or answers 401 or 403."""
        refusal = self._refusal(scope) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, code, message = refusal
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        response = JSONResponse({"error": {"code": code, "message": message}}, status, headers)
        if scope["type"] == "websocket":
            await receive()
        await response(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_host_allowed(host):
            return 403, "bad_host", "this host name is not served without an API key; see allowed_hosts"
        is_change = scope["type"] == "websocket" or scope["method"] not in HARMLESS_METHODS
        if is_change and not self._is_origin_allowed(headers.get("origin"), host):
            return 403, "bad_origin", "pages of this origin may not connect; see allowed_origins"
        if scope["path"] not in self._public_paths and not self._is_key_right(scope, headers):
            return 401, "unauthorized", "the API key is missing or wrong"
        return None

    def _is_host_allowed(self, host: str) -> bool:
        if self._api_key is not None:
            return True
        name = _host_name(host)
        return is_loopback(name) or name in self._allowed_hosts

    def _is_origin_allowed(self, origin: str | None, host: str) -> bool:
        # Browsers always send it; programs need not.
        if origin is None:
            return True
        _, _, place = origin.lower().partition("://")
        return place == host.lower() or origin.lower() in self._allowed_origins

    def _is_key_right(self, scope: Scope, headers: Headers) -> bool:
        if self._api_key is None:
            return True
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            # Headers are bytes: they come decoded as Latin-1, whatever they were.
            presented = credentials.strip().encode("latin-1")
        elif scope["type"] == "websocket":
            presented = (key_from_subprotocols(scope.get("subprotocols", ())) or "").encode()
        else:
            return False
        return hmac.compare_digest(presented, self._api_key.encode())


def _host_name(host: str) -> str:
    """The name in a Host header, without port; empty if there is none to find."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
