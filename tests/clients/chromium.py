"""A headless Chromium for tests, driven over its DevTools socket: no driver program, no driver library."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "about:blank",
)
START_S = 20.0
ANSWER_S = 15.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class PageError(AssertionError):
    """The page raised, or was refused something."""


class Page:
    """One tab. ``complaints``: uncaught errors and everything the console reports as an error."""

    def __init__(self, socket: ClientConnection) -> None:
        self.complaints: list[str] = []
        self._socket = socket
        self._session: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read())

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command; gives its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": number, "method": method, "params": parameters, **self._session}))
        return await asyncio.wait_for(answer, ANSWER_S)

    async def attach(self) -> None:
        """Make the tab that the other commands go to."""
        target = await self.command("Target.createTarget", url="about:blank")
        attached = await self.command("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = {"sessionId": attached["sessionId"]}

    async def before_every_page(self, script: str) -> None:
        """Run a script in each page before its own."""
        await self.command("Page.enable")
        await self.command("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.command(f"{domain}.enable")
        await self.command("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def run(self, script: str) -> Any:
        """The value of a JavaScript expression, promises awaited."""
        result = await self.command("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise PageError(f"{script}: {result['exceptionDetails']['exception'].get('description')}")
        return result["result"].get("value")

    async def until(self, script: str, seconds: float = 10.0) -> Any:
        """Waits until the expression is true; gives its value."""
        try:
            async with asyncio.timeout(seconds):
                while not (value := await self.run(script)):  # noqa: ASYNC110 - the page cannot call us
                    await asyncio.sleep(0.02)
                return value
        except TimeoutError:
            raise PageError(f"not within {seconds} s: {script}; complaints: {self.complaints}") from None

    async def type(self, text: str, pause_s: float = 0.0) -> None:
        """Type into what has the focus, key by key."""
        for character in text:
            await self.command("Input.dispatchKeyEvent", type="char", text=character)
            await asyncio.sleep(pause_s)

    async def key(self, key: str, code: int, modifiers: int = 0) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            await self.command(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=modifiers
            )

    async def click(self, selector: str) -> None:
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def resize(self, width: int, height: int, *, scheme: str = "dark", is_phone: bool = False) -> None:
        await self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=is_phone
        )
        await self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, path: Path) -> None:
        picture = await self.command("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(picture["data"]))

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def _read(self) -> None:
        async for data in self._socket:
            message = json.loads(data)
            match message.get("method"):
                case "Runtime.exceptionThrown":
                    details = message["params"]["exceptionDetails"]
                    self.complaints.append(details.get("exception", {}).get("description") or details["text"])
                case "Log.entryAdded" if message["params"]["entry"]["level"] == "error":
                    self.complaints.append(message["params"]["entry"]["text"])
                case None:
                    answer = self._answers.pop(message["id"])
                    if "error" in message:
                        answer.set_exception(PageError(message["error"]["message"]))
                    elif not answer.done():
                        answer.set_result(message["result"])


def find_chromium() -> str:
    """The program, from CHROMIUM or the usual names.

    Raises:
        PageError: none is installed; the message says what to do.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise PageError(
            "the browser tests need Chromium: apt-get install chromium, or name one in CHROMIUM, "
            "or leave them out with: pytest -m 'not browser'"
        )
    return found


@contextlib.asynccontextmanager
async def open_browser(folder: Path) -> AsyncIterator[str]:
    """Where a new browser that keeps its profile in ``folder`` listens."""
    program = find_chromium()
    process = await asyncio.to_thread(
        subprocess.Popen,
        [program, *FLAGS, f"--user-data-dir={folder}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield await _socket_url(folder / "DevToolsActivePort", lambda: process.poll() is None)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


@contextlib.asynccontextmanager
async def open_tab(browser: str) -> AsyncIterator[Page]:
    """A new tab of a browser."""
    async with connect(browser, max_size=MAX_ANSWER_BYTES, proxy=None, compression=None) as socket:
        page = Page(socket)
        try:
            await page.attach()
            yield page
            await page.command("Page.close")
        finally:
            await page.close()


async def _socket_url(file: Path, is_alive: Callable[[], bool]) -> str:
    """Where the browser listens: it writes port and path to ``file`` once it does."""
    async with asyncio.timeout(START_S):
        while len(lines := await asyncio.to_thread(_lines, file)) < 2:
            if not is_alive():
                raise PageError("Chromium ended at once: run it by hand to see why")
            await asyncio.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
