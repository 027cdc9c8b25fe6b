"""The events of one context between the socket and the one who takes them, bounded by the audio they hold."""

import asyncio
from collections import deque
from dataclasses import replace

from clients.sdk.errors import ClientError
from clients.sdk.events import BYTES_PER_SAMPLE, AudioEvent, DoneEvent, Event, HeardReport, WordsEvent


class Inbox:
    """One reader, one writer, on one event loop. The writer awaits `room` after each `put`."""

    def __init__(self, max_audio_bytes: int) -> None:
        self._max_audio_bytes = max_audio_bytes
        self._entries: deque[Event | ClientError] = deque()
        self._audio_bytes = 0
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._failure: ClientError | None = None
        self.is_closed = False
        """The last event has been put: nothing may follow."""

    def put(self, entry: Event | ClientError) -> None:
        """Add an event, or an error that `get` raises once and that ends nothing."""
        if self.is_closed:
            return
        self._entries.append(entry)
        self.is_closed = isinstance(entry, DoneEvent | HeardReport)
        self._count(entry, 1)
        self._arrived.set()

    def fail(self, error: ClientError) -> None:
        """The last event is an error: what was put before is still handed out, then every `get` raises it."""
        if not self.is_closed:
            self.is_closed = True
            self._failure = error
            self._arrived.set()

    def cut(self) -> None:
        """Forget what was not taken, for it will not be heard; a `HeardReport` is still to be put."""
        if any(isinstance(entry, DoneEvent) for entry in self._entries):
            self.is_closed = False
        self._entries = deque(entry for entry in self._entries if isinstance(entry, HeardReport | ClientError))
        self._audio_bytes = 0
        self._has_room.set()

    def discard(self, first_sample: int) -> None:
        """Forget the audio from that sample on: it was revised."""
        entries, self._entries = self._entries, deque()
        for entry in entries:
            self._count(entry, -1)
            kept = _before(entry, first_sample) if isinstance(entry, AudioEvent) else entry
            if kept is not None:
                self._entries.append(kept)
                self._count(kept, 1)

    def forget_words(self, char_start: int) -> None:
        """Forget the words from that character on: the text was revised."""
        entries = [
            WordsEvent(tuple(word for word in entry.words if word.char_start < char_start))
            if isinstance(entry, WordsEvent)
            else entry
            for entry in self._entries
        ]
        self._entries = deque(entry for entry in entries if not isinstance(entry, WordsEvent) or entry.words)

    async def room(self) -> None:
        """Returns when there is less audio than the bound."""
        await self._has_room.wait()

    async def get(self) -> Event:
        """The next event.

        Raises:
            ClientError: an error that was put, or that of `fail`.
            StopAsyncIteration: the last event has been taken.
        """
        while not self._entries:
            if self._failure is not None:
                raise self._failure
            if self.is_closed:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        entry = self._entries.popleft()
        self._count(entry, -1)
        if isinstance(entry, ClientError):
            raise entry
        return entry

    def _count(self, entry: Event | ClientError, sign: int) -> None:
        if isinstance(entry, AudioEvent):
            self._audio_bytes += sign * len(entry.pcm)
            if self._audio_bytes < self._max_audio_bytes:
                self._has_room.set()
            else:
                self._has_room.clear()


def _before(event: AudioEvent, first_sample: int) -> AudioEvent | None:
    """The event without the samples from that one on; None if none is left."""
    kept = (first_sample - event.first_sample) * BYTES_PER_SAMPLE
    return replace(event, pcm=event.pcm[:kept]) if kept > 0 else None
