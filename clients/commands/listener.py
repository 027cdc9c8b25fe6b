"""One context heard in real time. Audio waits here until it is due, so that a revision can still recall it."""

import asyncio
import time
from collections.abc import Callable

from clients.commands.sinks import BYTES_PER_SAMPLE, Sink
from clients.sdk import AudioEvent, Context, DiscardEvent, Event

LEAD_MS = 120.0
"""Audio given to the sink ahead of its play-out: what has been given cannot be recalled."""
TICK_S = 0.02
ACKNOWLEDGE_EVERY_S = 0.15


class Listener:
    """Plays one context into a sink at the pace it sounds, files included, and tells the server how far it is.

    `run` is to be a task; `take` every event. ``heard_ms`` counts audio of the context, silences not counted.
    """

    def __init__(self, context: Context, sink: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        self.heard_ms = 0.0
        self._context = context
        self._sink = sink
        self._clock = clock
        self._base_ms = sink.played_ms
        self._bytes_per_ms = 0.0
        self._waiting = bytearray()
        self._given_ms = 0.0
        self._started_s: float | None = None
        self._has_all = asyncio.Event()

    def take(self, event: Event) -> None:
        """Audio waits for its time; what is recalled is dropped, as far as it was not given on."""
        match event:
            case AudioEvent():
                self._bytes_per_ms = BYTES_PER_SAMPLE * event.sample_rate / 1000
                self._waiting += event.pcm
            case DiscardEvent(from_ms=from_ms):
                keep = max(0, round((from_ms - self._given_ms) * self._bytes_per_ms / BYTES_PER_SAMPLE))
                del self._waiting[keep * BYTES_PER_SAMPLE :]
                self._given_ms = min(self._given_ms, from_ms)

    def finish(self) -> None:
        """No more audio comes: `run` returns when all was heard."""
        self._has_all.set()

    def stop(self) -> float:
        """Silence, now. Returns how much was heard, in ms."""
        self._waiting.clear()
        self._sink.stop()
        self._has_all.set()
        return self.heard_ms

    async def run(self) -> None:
        """Plays and acknowledges until all was heard."""
        told_s = 0.0
        while not (self._has_all.is_set() and not self._waiting):
            await self._give()
            self.heard_ms = min(self._given_ms, self._played_ms())
            if self.heard_ms and self._clock() - told_s >= ACKNOWLEDGE_EVERY_S and not self._has_all.is_set():
                told_s = self._clock()
                await self._context.played(self.heard_ms)
            await asyncio.sleep(TICK_S)
        await self._sink.drain()
        self.heard_ms = self._given_ms

    async def _give(self) -> None:
        if not self._waiting:
            # The clock of a file stands still while there is nothing to hear.
            self._started_s = None
            return
        if self._started_s is None:
            self._started_s = self._clock() - self._given_ms / 1000
        due_ms = self._due_ms() + LEAD_MS
        count = int((due_ms - self._given_ms) * self._bytes_per_ms) // BYTES_PER_SAMPLE * BYTES_PER_SAMPLE
        if count > 0:
            pcm = bytes(self._waiting[:count])
            del self._waiting[:count]
            self._given_ms += len(pcm) / self._bytes_per_ms
            await self._sink.write(pcm)

    def _due_ms(self) -> float:
        if self._sink.is_live:
            return self._given_ms - self._sink.buffered_ms
        assert self._started_s is not None
        return 1000 * (self._clock() - self._started_s)

    def _played_ms(self) -> float:
        if self._sink.is_live:
            return max(0.0, self._sink.played_ms - self._base_ms)
        return max(0.0, self._due_ms()) if self._started_s is not None else self._given_ms
