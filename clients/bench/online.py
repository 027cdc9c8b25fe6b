"""Streams over real connections: text goes in at the pace of a language model, arrivals are timed at the client."""

import asyncio
import json
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from clients.bench.spread import percentiles
from clients.bench.timeline import PREBUFFER_S, Arrival, Timeline, replay
from clients.sdk import AudioEvent, ClientError, DoneEvent, Session, connect
from engine.core import real_time_factor

THIRD_WORD = 3
BUFFER_S = 600.0
_TOKEN = re.compile(r"\s*(?:\w{1,7}|[^\w\s])")
"""Pieces of about the size of a language model's tokens: 1.3 a word."""


def tokens(text: str) -> list[str]:
    """``text`` in the pieces it is sent in; together they are ``text`` without white space at its end."""
    return _TOKEN.findall(text)


def token_of_word(pieces: Sequence[str], word: int) -> int:
    """Index of the piece that ends the ``word``-th word (from 1), or of the last piece of a shorter text."""
    text = "".join(pieces)
    found = list(re.finditer(r"\S+", text))[:word]
    needed = found[-1].end() if found else 0
    length = 0
    for index, piece in enumerate(pieces):
        length += len(piece)
        if length >= needed:
            return index
    return max(0, len(pieces) - 1)


async def stream_text(session: Session, text: str, tokens_per_s: float, voice: str | None = None) -> Timeline:
    """Send ``text`` at an even pace and take all audio of it. A failed stream gives what arrived, not ``is_done``."""
    timeline = Timeline(session.sample_rate)
    pieces = tokens(text)

    async def source() -> AsyncIterator[str]:
        started_s = time.perf_counter()
        third = token_of_word(pieces, THIRD_WORD)
        for index, piece in enumerate(pieces):
            await asyncio.sleep(max(0.0, started_s + index / tokens_per_s - time.perf_counter()))
            now_s = time.perf_counter()
            if index == 0:
                timeline.first_text_s = now_s
            if index == third:
                timeline.third_word_s = now_s
            timeline.last_text_s = now_s
            yield piece

    try:
        async with session.context(voice=voice) as context:
            context.speak(source())
            async for event in context:
                match event:
                    case AudioEvent(pcm=pcm):
                        now_s = time.perf_counter()
                        samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
                        timeline.arrivals.append(Arrival(now_s, samples))
                    case DoneEvent():
                        timeline.is_done = True
    except ClientError:
        timeline.is_done = False
    return timeline


async def one_by_one(
    url: str, texts: Sequence[str], tokens_per_s: float, voice: str | None, advance: Callable[[], None]
) -> list[Timeline]:
    """Each text on a connection that is open already, after one that warms everything up."""
    timelines = []
    async with connect(url, voice=voice, buffer_s=BUFFER_S) as session:
        await stream_text(session, "One, two, three.", tokens_per_s)
        for text in texts:
            timelines.append(await stream_text(session, text, tokens_per_s))
            advance()
    return timelines


async def at_once(url: str, texts: Sequence[str], tokens_per_s: float, voices: Sequence[str | None]) -> list[Timeline]:
    """All texts at the same moment, the worst case, each on a connection of its own."""
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(connect(url, voice=voices[i % len(voices)], buffer_s=BUFFER_S))
            for i in range(len(texts))
        ]
        async with asyncio.TaskGroup() as group:
            streams = [
                group.create_task(stream_text(session, text, tokens_per_s))
                for session, text in zip(sessions, texts, strict=True)
            ]
        return [stream.result() for stream in streams]


@asynccontextmanager
async def server_for(model: Path | None, text_stream: str | None) -> AsyncIterator[str]:
    """The address of a server of our own with the checkpoint in folder ``model``, while the block runs.

    None: the built-in one. Raises ``ClientError`` if it cannot be loaded.
    """
    from clients.commands.private_server import private_server

    with tempfile.TemporaryDirectory() as folder:
        async with private_server(_configuration(folder, model, text_stream)) as url:
            yield url


def _configuration(folder: str, model: Path | None, text_stream: str | None) -> str:
    """A file for `private_server`."""
    arguments = {"folder": str(model.resolve()) if model else None, "text_stream": text_stream}
    lines = ["[worker.arguments]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in arguments.items() if value is not None]
    path = Path(folder) / "bench.toml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@dataclass(frozen=True)
class Latency:
    """Times to first audio in ms, of streams of one pace: an entry for each stream that was whole and audible.

    See `FirstSound` for byte, audible and heard. From the third word they are below 0 if speech began before it.
    """

    tokens_per_s: float
    streams: int
    failed: int
    underruns: int
    byte_ms: list[float]
    audible_ms: list[float]
    heard_ms: list[float]
    third_word_byte_ms: list[float]
    third_word_audible_ms: list[float]
    third_word_heard_ms: list[float]
    leading_silence_ms: list[float]
    gap_ms: list[float]
    """Between audio messages."""
    late_ms: list[float]
    """Gaps minus the audio before them."""

    @classmethod
    def of(cls, timelines: Sequence[Timeline], tokens_per_s: float) -> "Latency":
        """From finished streams."""
        good = [(t, sound) for t in timelines if t.is_done and (sound := t.first_sound) is not None]
        return cls(
            tokens_per_s=tokens_per_s,
            streams=len(timelines),
            failed=len(timelines) - len(good),
            underruns=sum(replay(t.arrivals, t.sample_rate).underruns for t, _ in good),
            byte_ms=[1000 * (sound.byte_s - t.first_text_s) for t, sound in good],
            audible_ms=[1000 * (sound.audible_s - t.first_text_s) for t, sound in good],
            heard_ms=[1000 * (sound.heard_s - t.first_text_s) for t, sound in good],
            third_word_byte_ms=[1000 * (sound.byte_s - t.third_word_s) for t, sound in good],
            third_word_audible_ms=[1000 * (sound.audible_s - t.third_word_s) for t, sound in good],
            third_word_heard_ms=[1000 * (sound.heard_s - t.third_word_s) for t, sound in good],
            leading_silence_ms=[1000 * sound.silence_s for _, sound in good],
            gap_ms=[1000 * gap for t, _ in good for gap in t.gaps_s],
            late_ms=[1000 * late for t, _ in good for late in t.lateness_s],
        )

    def as_json(self) -> dict[str, object]:
        """For the JSON line: percentiles of every list."""
        return {name: percentiles(value) if isinstance(value, list) else value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Crowd:
    """How ``listeners`` streams at once went, over all repeats."""

    listeners: int
    streams: int
    failed: int
    """Not done, or too short to run dry: no result counts as a bad one."""
    underruns: int
    underruns_prebuffered: int
    """With a player that waits 100 ms first."""
    longest_ms: float
    shares: dict[str, float]
    """``C50``, ``C100``, ``C200``: share of streams whose longest pause was at most that many ms."""
    rtf: dict[str, float]
    """Percentiles of: from the first text to the last sample, per second of audio."""
    audible_ms: dict[str, float]

    @property
    def is_clean(self) -> bool:
        """Whether every stream was whole and none ran dry."""
        return self.failed == 0 and self.underruns == 0

    @classmethod
    def of(cls, timelines: Sequence[Timeline], listeners: int) -> "Crowd":
        """From streams that ran at once."""
        played = [(t, replay(t.arrivals, t.sample_rate)) for t in timelines]
        good = [(t, playback) for t, playback in played if t.is_done and playback.is_applicable]
        waited = [replay(t.arrivals, t.sample_rate, PREBUFFER_S) for t, _ in good]
        starves_ms = [1000 * playback.longest_s for _, playback in good]
        return cls(
            listeners=listeners,
            streams=len(timelines),
            failed=len(timelines) - len(good),
            underruns=sum(playback.underruns for _, playback in good),
            underruns_prebuffered=sum(playback.underruns for playback in waited),
            longest_ms=max(starves_ms, default=0.0),
            shares={f"C{limit}": sum(ms <= limit for ms in starves_ms) / len(timelines) for limit in (50, 100, 200)},
            rtf=percentiles(
                [real_time_factor(t.arrivals[-1].at_s - t.first_text_s, t.audio_s) for t, _ in good], (50, 95)
            ),
            audible_ms=percentiles(
                [1000 * (sound.audible_s - t.first_text_s) for t, _ in good if (sound := t.first_sound) is not None]
            ),
        )

    def as_json(self) -> dict[str, object]:
        """For the JSON line."""
        return dict(vars(self))


def real_time_streams(crowds: Sequence[Crowd]) -> int:
    """Most listeners at once without an underrun, fewer ones also having none. 0: not even one."""
    most = 0
    for crowd in sorted(crowds, key=lambda crowd: crowd.listeners):
        if not crowd.is_clean:
            break
        most = crowd.listeners
    return most
