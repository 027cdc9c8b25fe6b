"""Where the text comes from: an argument, or standard input read as it arrives."""

import asyncio
import codecs
import os
import threading
from collections.abc import AsyncIterator

READ_BYTES = 4096
QUEUED_PIECES = 16
LATE_IN_PORTION = 0.8
"""From this share of a portion on, the end of a line or sentence is taken as its end."""


class TextError(Exception):
    """Standard input is no text; the message says where."""


async def given(text: str) -> AsyncIterator[str]:
    """A text that is there already."""
    yield text


async def read_text(file_descriptor: int) -> AsyncIterator[str]:
    """UTF-8 text of standard input, be it a file, pipe or terminal, as soon as any arrives.

    Raises:
        TextError: it is not UTF-8; what comes before that has been given.
    """
    loop = asyncio.get_running_loop()
    pieces: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(QUEUED_PIECES)

    def read() -> None:
        data = b"?"
        while data:
            data = os.read(file_descriptor, READ_BYTES)
            room.acquire()
            try:
                loop.call_soon_threadsafe(pieces.put_nowait, data)
            except RuntimeError:
                return  # the loop has ended

    # A daemon thread: a read that blocks on a terminal must not keep the program from ending.
    threading.Thread(target=read, name="read text", daemon=True).start()
    decoder = _Decoder()
    while data := await pieces.get():
        room.release()
        if text := decoder.decode(data):
            yield text
    decoder.decode(b"", is_last=True)


def read_whole_text(file_descriptor: int) -> str:
    """As `read_text`, at its end."""
    data = b"".join(iter(lambda: os.read(file_descriptor, READ_BYTES), b""))
    return _Decoder().decode(data, is_last=True)


class _Decoder:
    """UTF-8 in pieces, with or without a mark in front."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._count = 0

    def decode(self, data: bytes, is_last: bool = False) -> str:
        self._count += len(data)
        try:
            return self._decoder.decode(data, is_last)
        except UnicodeDecodeError as error:
            position = self._count - len(error.object) + error.start
            wrong = f"byte {position} is 0x{error.object[error.start]:02x}"
            raise TextError(f"standard input is not UTF-8 text: {wrong}") from error


class Portions:
    """Cuts a text of any length into portions that a context may hold, at white space and rather after sentences.

    ``text`` is what the current portion has handed out so far.
    """

    def __init__(self, source: AsyncIterator[str], max_characters: int) -> None:
        self._source = source
        self._max_characters = max_characters
        self._left = ""
        self.text = ""
        self.is_over = False
        """The current portion has been handed out whole."""

    async def has_more(self) -> bool:
        """Whether there is another portion; waits for its first piece."""
        while not self._left:
            piece = await anext(self._source, None)
            if piece is None:
                return False
            self._left = piece
        return True

    async def portion(self) -> AsyncIterator[str]:
        """The pieces of the next portion, as they come."""
        self.text = ""
        self.is_over = False
        while not self._is_full() and await self.has_more():
            room = self._max_characters - len(self.text)
            end = _cut(self._left, room)
            piece, self._left = self._left[:end], self._left[end:]
            self.text += piece
            yield piece
            if self._left:
                break
        self.is_over = True

    def _is_full(self) -> bool:
        if len(self.text) >= self._max_characters:
            return True
        is_late = len(self.text) >= LATE_IN_PORTION * self._max_characters
        return is_late and self.text.rstrip(" ").endswith((".", "!", "?", "\n"))


def _cut(text: str, room: int) -> int:
    """Where to cut ``text`` so that at most ``room`` characters come before: at the best place in the last fifth."""
    if len(text) <= room:
        return len(text)
    for places in ("\n", ".!?", " \t"):
        best = max(text.rfind(place, int(room * LATE_IN_PORTION), room) for place in places)
        if best >= 0:
            return best + 1
    return room
