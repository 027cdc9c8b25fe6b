"""Voices of a server: listed, made of recordings, deleted. Plain calls that wait, of the standard library alone."""

import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import ProxyHandler, Request, build_opener

from clients.sdk.errors import AuthenticationError, ClientError, ConnectError, error_from
from realtime.protocol import Error

PATH = "/v1/voices"
TIMEOUT_S = 300.0
"""For a voice to be made: encoding and reading a minute of sound takes a while on small machines."""


@dataclass(frozen=True)
class Voice:
    """A voice of the server. ``recordings`` is 0 for the model's own; ``problem`` says why it cannot be used."""

    name: str
    recordings: int = 0
    duration_s: float = 0.0
    problem: str | None = None


def list_voices(server: str, api_key: str | None = None) -> list[Voice]:
    """All voices, those included that cannot be used. Raises `ClientError`."""
    answer = _call(server, api_key, "GET", PATH)
    usable = [Voice(v["id"], v.get("recordings", 0), v.get("seconds", 0.0)) for v in answer["voices"]]
    return [*usable, *(Voice(v["id"], problem=v["problem"]) for v in answer.get("unusable_voices", ()))]


def add_voice(server: str, name: str, recordings: Sequence[tuple[bytes, str]], api_key: str | None = None) -> list[str]:
    """Make a voice of recordings, each a sound file's bytes and exactly what is said in it.

    Returns notes: what was allowed but will be heard. Raises `ClientError`; ``code`` is the wire code.
    """
    boundary = secrets.token_hex(16)
    body = b"".join(_form(boundary, name, recordings))
    answer = _call(server, api_key, "POST", PATH, body, f"multipart/form-data; boundary={boundary}")
    return [str(note) for note in answer.get("notes", ())]


def remove_voice(server: str, name: str, api_key: str | None = None) -> None:
    """Delete a voice that was made of recordings. Raises `ClientError`."""
    _call(server, api_key, "DELETE", f"{PATH}/{quote(name, safe='')}")


def _form(boundary: str, name: str, recordings: Sequence[tuple[bytes, str]]) -> Iterator[bytes]:
    def part(field: str, content: bytes, more: str = "") -> bytes:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"{more}\r\n\r\n'
        return head.encode() + content + b"\r\n"

    yield part("name", name.encode())
    for audio, transcript in recordings:
        yield part("audio", audio, '; filename="recording"')
        yield part("transcript", transcript.encode())
    yield f"--{boundary}--\r\n".encode()


def _call(
    server: str, api_key: str | None, method: str, path: str, body: bytes | None = None, content_type: str = ""
) -> Any:
    url = _http_url(server)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    if content_type:
        headers["Content-Type"] = content_type
    is_local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    opener = build_opener(*([ProxyHandler({})] if is_local else []))
    try:
        with opener.open(Request(url + path, body, headers, method=method), timeout=TIMEOUT_S) as answer:
            content = answer.read()
        return json.loads(content) if content else None
    except HTTPError as error:
        with error:
            raise _refusal(url, error.code, error.read()) from None
    except (URLError, HTTPException, OSError, ValueError) as error:
        raise ConnectError(f"no server answers at {url}: {error}") from error


def _refusal(url: str, status: int, body: bytes) -> ClientError:
    if status == 401:
        return AuthenticationError(f"{url} wants a valid API key", code=str(status))
    try:
        said = json.loads(body)["error"]
        return error_from(Error(said["code"], said["message"], retryable=status in (429, 503)))
    except (ValueError, KeyError, TypeError):
        return ConnectError(f"{url} answers with HTTP status {status}; is it a Footlights server?", code=str(status))


def _http_url(server: str) -> str:
    parts = urlsplit(server if "://" in server else f"http://{server}")
    scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
    return urlunsplit((scheme, parts.netloc, "", "", ""))
