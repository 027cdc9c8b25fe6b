"""Asks a running server how a text would be read."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

from clients.sdk import ClientError, ConnectError, Pronunciation
from clients.sdk.session import stream_url

TIMEOUT_S = 40.0
PATH = "/v1/explain"


def ask(
    server: str, text: str, text_format: str, lexicon: Sequence[Pronunciation], api_key: str | None
) -> dict[str, Any]:
    """The server's explanation: ``pieces``, ``notices``, ``spoken``.

    Raises:
        ClientError: it cannot be reached, or refuses.
    """
    parts = urlsplit(stream_url(server))
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    url = urlunsplit((scheme, parts.netloc, parts.path.removesuffix("/v1/stream") + PATH, "", ""))
    entries = [{name: value for name, value in asdict(entry).items() if value is not None} for entry in lexicon]
    body = json.dumps({"text": text, "text_format": text_format, "lexicon": entries}).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
    request = Request(url, body, headers)
    opener = build_opener(ProxyHandler({})) if parts.hostname in ("127.0.0.1", "localhost", "::1") else build_opener()
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            read: dict[str, Any] = json.load(answer)
            return read
    except HTTPError as error:
        raise ClientError(f"{url} refuses: {_said(error.read())}", code=str(error.code)) from error
    except (URLError, OSError, ValueError) as error:
        raise ConnectError(f"cannot reach {url}: {error}") from error


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
