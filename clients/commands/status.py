"""One line on a terminal that is written over: a spinner while something loads, figures while something plays."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TextIO

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPIN_EVERY_S = 0.08
ERASE = "\r\x1b[K"


class StatusLine:
    """Silent where the stream is no terminal. Whoever prints to the same terminal calls `clear` first."""

    def __init__(self, stream: TextIO, *, is_quiet: bool = False) -> None:
        self._stream = stream
        self._is_quiet = is_quiet
        self._is_shown = not is_quiet and stream.isatty()
        self._text = ""

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._is_shown and text != self._text:
            self._text = text
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(ERASE + text[:width])
            self._stream.flush()

    def tell(self, text: str) -> None:
        """A line that stays."""
        if not self._is_quiet:
            self.clear()
            self._stream.write(f"footlights: {text}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Leave an empty line."""
        if self._text:
            self._text = ""
            self._stream.write(ERASE)
            self._stream.flush()

    @asynccontextmanager
    async def spinning(self, text: str) -> AsyncIterator[None]:
        """A spinner before ``text`` while the block runs."""
        task = asyncio.create_task(self._spin(text))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])
            self.clear()

    async def _spin(self, text: str) -> None:
        turn = 0
        while True:
            self.show(f"{SPINNER[turn % len(SPINNER)]} {text}")
            turn += 1
            await asyncio.sleep(SPIN_EVERY_S)
