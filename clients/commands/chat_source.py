"""Where a language model's answer comes from, token by token: an OpenAI-compatible server, or a recording of one."""

import asyncio
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

CONNECT_S = 30.0
"""For the first byte, and between two."""
_WAIT = re.compile(r": wait (\d+)$")


class ChatError(Exception):
    """The language model does not answer; the message says why."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


class ChatSource(Protocol):
    """What answers."""

    def answer(self, turns: list[Turn]) -> AsyncIterator[str]:
        """The answer to the conversation so far, in pieces as they come. Raises `ChatError`."""


class OpenAIChat:
    """``POST {base_url}/chat/completions`` with ``stream: true``."""

    def __init__(self, base_url: str, model: str, api_key: str | None = None) -> None:
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._model = model
        self._api_key = api_key

    async def answer(self, turns: list[Turn]) -> AsyncIterator[str]:
        """As `ChatSource.answer`. Ending the iteration early closes the connection, which stops the model."""
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        body = json.dumps({"model": self._model, "messages": messages, "stream": True}).encode()
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = urllib.request.Request(self._url, body, headers)
        try:
            response = await asyncio.to_thread(urllib.request.urlopen, request, timeout=CONNECT_S)
        except urllib.error.HTTPError as error:
            said = (await asyncio.to_thread(error.read, 300)).decode(errors="replace")
            error.close()
            raise ChatError(f"{self._url} answers {error.code}: {said}") from error
        except (OSError, ValueError) as error:
            raise ChatError(f"no language model at {self._url}: {error}") from error
        async for line in _lines(response):
            text = text_of(line)
            if text:
                yield text


class RecordedChat:
    """A recorded stream, at the pace at which it was recorded; answers every question the same."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def answer(self, turns: list[Turn]) -> AsyncIterator[str]:
        """As `ChatSource.answer`."""
        for line in (await asyncio.to_thread(self._path.read_text, encoding="utf-8")).splitlines():
            wait = _WAIT.match(line)
            if wait:
                await asyncio.sleep(int(wait.group(1)) / 1000)
            text = text_of(line)
            if text:
                yield text


def text_of(line: str) -> str:
    """The text in one line of a stream of server-sent events, empty if there is none.

    Raises:
        ChatError: the line reports an error, or cannot be read.
    """
    if not line.startswith("data:") or line.removeprefix("data:").strip() == "[DONE]":
        return ""
    try:
        body = json.loads(line.removeprefix("data:"))
        if "error" in body:
            raise ChatError(f"the language model failed: {body['error']}")
        return "".join(choice.get("delta", {}).get("content") or "" for choice in body.get("choices", []))
    except (ValueError, TypeError, AttributeError) as error:
        raise ChatError(f"not a chat stream: {line[:80]!r}") from error


async def _lines(response: IO[bytes]) -> AsyncIterator[str]:
    """Lines as they come, read in a thread so that speech goes on meanwhile."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError | None] = asyncio.Queue()

    def read() -> None:
        end: OSError | None = None
        try:
            for line in response:
                loop.call_soon_threadsafe(queue.put_nowait, line)
        except (OSError, ValueError) as error:
            end = error if isinstance(error, OSError) else None
        try:
            loop.call_soon_threadsafe(queue.put_nowait, end)
        except RuntimeError:
            return

    threading.Thread(target=read, name="read chat", daemon=True).start()
    try:
        while isinstance(line := await queue.get(), bytes):
            yield line.decode(errors="replace").rstrip("\r\n")
        if line is not None:
            raise ChatError(f"the language model fell silent: {line}")
    finally:
        response.close()
