"""Speaks a text through a session into a sink, shows how it goes, and says what was heard when it is cut short."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from clients.commands.sinks import Sink
from clients.commands.status import StatusLine
from clients.commands.text_source import Portions
from clients.sdk import AudioEvent, Context, DoneEvent, HeardReport, NoticeEvent, Session, Word, WordsEvent

FLUSH_AFTER_S = 0.3
TICK_S = 0.05
ACKNOWLEDGE_EVERY_TICKS = 4
HELD_BACK_CHARACTERS = 40
"""The end of a text that is still growing may wait for what follows."""


@dataclass
class Figures:
    """What was measured, on the listener's side of the connection."""

    ttfa_ms: float | None = None
    """From the start, when the first text was at hand, to the first audio."""
    speech_s: float = 0.0
    wall_s: float = 0.0
    underruns: int = 0

    @property
    def real_time_factor(self) -> float:
        """Seconds needed per second of speech."""
        return self.wall_s / self.speech_s if self.speech_s else 0.0


class Speaking:
    """One run of `say`. ``words``: where the words go as they are heard, if anywhere."""

    def __init__(
        self, session: Session, sink: Sink, status: StatusLine, words: TextIO | None, voice: str | None = None
    ) -> None:
        self.figures = Figures()
        self._session = session
        self._sink = sink
        self._status = status
        self._words_out = words
        self._voice = voice
        self._stop = asyncio.Event()
        self._unheard: list[Word] = []
        self._printed_char = -1
        self._base_ms = 0.0
        self._last_char = 0
        self._dry_seen = 0

    def stop(self) -> None:
        """Cut it short: `run` returns what was heard. Safe to call at any time, also twice."""
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.is_set()

    async def run(self, portions: Portions) -> HeardReport | None:
        """Speak everything; None when it was heard to its end. No text at all is one without anything to speak.

        Raises:
            ClientError: see `clients.sdk.errors`.
        """
        is_first = True
        while await self._has_more(portions) or (is_first and not self.is_stopped):
            is_first = False
            self._base_ms = self._sink.played_ms
            self._printed_char = -1
            self._last_char = 0
            async with self._session.context(voice=self._voice, acknowledge=not self._sink.is_live) as context:
                report = await self._speak(context, portions)
            if report is not None:
                return report
        return None

    async def _has_more(self, portions: Portions) -> bool:
        more = asyncio.ensure_future(portions.has_more())
        stop = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([more, stop], return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not more.done():
            more.cancel()
            return False
        return more.result()

    async def _speak(self, context: Context, portions: Portions) -> HeardReport | None:
        started = time.monotonic()
        context.speak(portions.portion(), flush_after_s=FLUSH_AFTER_S)
        ticking = asyncio.create_task(self._tick(context, portions), name="say: tick")
        stopping = asyncio.create_task(self._cancel_on_stop(context), name="say: stop")
        try:
            report = await self._take(context, started)
            if report is None:
                report = await self._drain(stopping)
            return report
        finally:
            for task in (ticking, stopping):
                task.cancel()
            await asyncio.wait([ticking, stopping])
            self._print_words(is_over=True)
            self._status.clear()

    async def _take(self, context: Context, started: float) -> HeardReport | None:
        is_first = self.figures.ttfa_ms is None
        async for event in context:
            match event:
                case AudioEvent():
                    if self.figures.ttfa_ms is None:
                        self.figures.ttfa_ms = 1000 * (time.monotonic() - started)
                    await self._sink.write(event.pcm)
                case WordsEvent(words=words):
                    self._note(words)
                    self._last_char = words[-1].char_end
                case NoticeEvent(message=message):
                    self._status.tell(message)
                case DoneEvent():
                    self.figures.speech_s += event.audio_ms / 1000
                    self.figures.wall_s += time.monotonic() - started
                    if is_first and event.ttfa_ms is None:
                        self.figures.ttfa_ms = None
                case HeardReport():
                    return event
        return None

    async def _drain(self, stopping: "asyncio.Task[HeardReport]") -> HeardReport | None:
        draining = asyncio.create_task(self._sink.drain(), name="say: drain")
        await asyncio.wait([draining, stopping], return_when=asyncio.FIRST_COMPLETED)
        if draining.done():
            return None
        draining.cancel()
        return await stopping

    async def _cancel_on_stop(self, context: Context) -> HeardReport:
        await self._stop.wait()
        heard_ms = self._heard_ms
        self._sink.stop()
        self._unheard = [word for word in self._unheard if word.start_ms < heard_ms]
        return await context.cancel(heard_ms)

    @property
    def _heard_ms(self) -> float:
        return max(0.0, self._sink.played_ms - self._base_ms)

    async def _tick(self, context: Context, portions: Portions) -> None:
        tick = 0
        while True:
            self._count_underruns(portions)
            self._print_words()
            self._status.show(self._line())
            if self._sink.is_live and tick % ACKNOWLEDGE_EVERY_TICKS == 0 and self._heard_ms > 0:
                await context.played(self._heard_ms)
            tick += 1
            await asyncio.sleep(TICK_S)

    def _count_underruns(self, portions: Portions) -> None:
        dry = self._sink.dry_count
        has_unspoken_text = portions.is_over or len(portions.text) - self._last_char > HELD_BACK_CHARACTERS
        if dry > self._dry_seen and has_unspoken_text:
            self.figures.underruns += dry - self._dry_seen
        self._dry_seen = dry

    def _note(self, words: Sequence[Word]) -> None:
        """Queue words for printing; one that comes again, now with its exact end, takes its own place."""
        known = {word.char_start: word for word in self._unheard}
        known.update((word.char_start, word) for word in words if word.char_start > self._printed_char)
        self._unheard = [known[start] for start in sorted(known)]

    def _print_words(self, is_over: bool = False) -> None:
        """Print words that are over: heard to their end, or, where nobody listens yet, followed by another."""
        heard_ms = self._heard_ms
        while self._unheard and (
            is_over or (self._unheard[0].end_ms <= heard_ms if self._sink.is_live else len(self._unheard) > 1)
        ):
            word = self._unheard.pop(0)
            self._printed_char = word.char_start
            if self._words_out is not None:
                self._status.clear()
                start_s, end_s = ((self._base_ms + ms) / 1000 for ms in (word.start_ms, word.end_ms))
                spoken = "" if _letters(word.spoken) == _letters(word.text) else f"\t{word.spoken}"
                print(f"{start_s:.3f}\t{end_s:.3f}\t{word.text}{spoken}", file=self._words_out, flush=True)

    def _line(self) -> str:
        ttfa_ms = self.figures.ttfa_ms
        parts = ["waiting for text" if ttfa_ms is None else f"first sound {ttfa_ms:.0f} ms"]
        parts.append(f"{self._sink.played_ms / 1000:.1f} s")
        if self._sink.is_live:
            parts.append(f"buffer {self._sink.buffered_ms / 1000:.1f} s")
            parts.append(f"underruns {self.figures.underruns}")
        return " · ".join(parts)


def _letters(text: str) -> str:
    """What distinguishes a spoken form from the written one: no punctuation, no capitals."""
    return "".join(filter(str.isalnum, text)).casefold()
