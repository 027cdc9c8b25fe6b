"""One context heard in real time. Audio waits here until it is due, so that a revision can still recall it."""

import asyncio
import time
from collections.abc import Callable

from clients.commands.playout import RESUME_MS
from clients.commands.sinks import BYTES_PER_SAMPLE, Sink
from clients.commands.timeline import Timeline
from clients.sdk import AudioEvent, Context, DiscardEvent, Event

TICK_S = 0.02
LEAD_MS = RESUME_MS + 10.0
"""Audio given to the sink ahead of its play-out: what has been given cannot be recalled, and speakers that ran dry wait
for less than this."""
ACKNOWLEDGE_EVERY_S = 0.15


class Listener:
    """Plays one context into a sink at the pace it sounds, files included, and tells the server how far it is.

    `run` is to be a task; `take` every event. ``heard_ms`` counts audio of the context, silences not counted;
    ``timeline`` tells when it was heard, counted from when the listener was made. ``keeps_time``: a file holds the
    silence too, from the wait before the first sound on, and the timeline gives places in it. The clock of other files
    stands still while there is nothing to hear.
    """

    def __init__(
        self, context: Context, sink: Sink, clock: Callable[[], float] = time.monotonic, *, keeps_time: bool = False
    ) -> None:
        self.heard_ms = 0.0
        self.timeline = Timeline()
        self._context = context
        self._sink = sink
        self._clock = clock
        self._keeps_time = keeps_time
        self._base_ms = sink.played_ms
        self._bytes_per_ms = 0.0
        self._waiting = bytearray()
        self._given_ms = 0.0
        self._written_ms = 0.0
        """As ``_given_ms``, and silence and what was recalled too late."""
        self._started_s = clock()
        self._told_s = 0.0
        self._was_dry = True
        self._sounding_from_ms: float | None = None
        """Speakers that were silent were given audio from here on, and it has not been heard yet."""
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
                if from_ms < self._given_ms:
                    # It sounds nevertheless, and what replaces it comes after it.
                    self.timeline.place(from_ms, self.timeline.behind_ms + self._given_ms - from_ms)
                    self._given_ms = from_ms

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
        while not (self._has_all.is_set() and not self._waiting):
            await self.tick()
            await asyncio.sleep(TICK_S)
        await self._sink.drain()
        self.heard_ms = self._given_ms

    async def tick(self) -> None:
        """Gives what is due to the sink, and tells the server."""
        if not self._sink.is_live:
            await self._fall_silent()
        await self._give()
        self.heard_ms = min(self._given_ms, max(self.heard_ms, self._given_ms - self._unheard_ms()))
        if self._sounding_from_ms is not None and self.heard_ms > self._sounding_from_ms:
            self.timeline.place(self._sounding_from_ms, self._now_ms() - self.heard_ms)
            self._sounding_from_ms = None
        if self.heard_ms and self._clock() - self._told_s >= ACKNOWLEDGE_EVERY_S and not self._has_all.is_set():
            self._told_s = self._clock()
            await self._context.played(self.heard_ms)

    async def _fall_silent(self) -> None:
        """Time in which a file had nothing to hear: silence, or none at all."""
        silence_ms = self._now_ms() - self._written_ms
        if silence_ms <= 0 or not self._was_dry:
            return
        if not self._keeps_time:
            self._started_s += silence_ms / 1000
        elif self._bytes_per_ms:
            # Not before the first audio has come: a text that is refused costs nobody a file.
            await self._write(bytes(self._whole_samples(silence_ms)))
            self.timeline.place(self._given_ms, self._written_ms - self._given_ms)

    async def _give(self) -> None:
        ahead_ms = self._sink.buffered_ms if self._sink.is_live else self._written_ms - self._now_ms()
        count = self._whole_samples(LEAD_MS - ahead_ms) if self._waiting else 0
        if count > 0:
            if self._sink.is_live and not ahead_ms:
                self._sounding_from_ms = self._given_ms
            pcm = bytes(self._waiting[:count])
            del self._waiting[:count]
            self._given_ms += len(pcm) / self._bytes_per_ms
            await self._write(pcm)
        self._was_dry = not self._waiting

    async def _write(self, pcm: bytes) -> None:
        self._written_ms += len(pcm) / self._bytes_per_ms
        await self._sink.write(pcm)

    def _whole_samples(self, ms: float) -> int:
        return int(ms * self._bytes_per_ms) // BYTES_PER_SAMPLE * BYTES_PER_SAMPLE

    def _now_ms(self) -> float:
        return 1000 * (self._clock() - self._started_s)

    def _unheard_ms(self) -> float:
        heard_ms = self._sink.played_ms - self._base_ms if self._sink.is_live else self._now_ms()
        return max(0.0, self._written_ms - heard_ms)
