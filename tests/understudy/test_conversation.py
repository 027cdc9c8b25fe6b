"""Conversation with the understudy over a real socket: text that changes, speech that is cut short."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from clients.sdk import AudioEvent, Context, DiscardEvent, HeardReport, RevisedEvent, Word, WordsEvent, connect
from tests.realtime.running import RunningServer, running

TEXT = "Good evening, your table costs $20 tonight, and **the soup** is cold."
AUDIBLE = 200
"""Of 32768: -44 dB."""


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(factory="engine.engine:load_engine", start_s=120) as made:
        yield made


@dataclass
class Ear:
    """What is left of what came, by the rules of the protocol."""

    pcm: bytearray = field(default_factory=bytearray)
    words: dict[int, Word] = field(default_factory=dict)
    revised: list[RevisedEvent] = field(default_factory=list)
    report: HeardReport | None = None

    async def listen(self, context: Context, until_ms: float = float("inf")) -> None:
        async for event in context:
            match event:
                case AudioEvent():
                    assert event.first_sample == len(self.pcm) // 2
                    self.pcm += event.pcm
                    if event.end_ms >= until_ms:
                        return
                case WordsEvent(words=words):
                    self.words.update((word.char_start, word) for word in words)
                case DiscardEvent(from_ms=from_ms):
                    del self.pcm[2 * round(from_ms * 24) :]
                case RevisedEvent(kept_to=kept_to):
                    self.revised.append(event)
                    self.words = {start: word for start, word in self.words.items() if start < kept_to}
                case HeardReport():
                    self.report = event

    @property
    def in_order(self) -> list[Word]:
        return [word for _, word in sorted(self.words.items())]


async def test_the_final_speech_is_the_final_text(server: RunningServer) -> None:
    async with connect(server.url) as session, session.context() as context:
        ear = Ear()
        await context.append(TEXT)
        await ear.listen(context, until_ms=900)
        await context.played(100)
        await context.revise(TEXT.index("costs"), "is free, and the soup is hot.")
        await context.end()
        await ear.listen(context)
        wanted = "Good evening, your table is free, and the soup is hot."
        assert [word.text for word in ear.in_order] == wanted.split()
        assert context.spoken_text == context.text == wanted
        starts = [word.start_ms for word in ear.in_order]
        assert starts == sorted(starts)
        assert ear.in_order[-1].end_ms <= len(ear.pcm) / 48


async def test_what_was_heard_stays(server: RunningServer) -> None:
    async with connect(server.url) as session, session.context() as context:
        ear = Ear()
        await context.append(TEXT)
        await ear.listen(context, until_ms=1200)
        before = bytes(ear.pcm)[: 2 * 24 * 700]
        await context.played(700)
        await context.revise(0, "Welcome, your room is free.")
        await context.end()
        await ear.listen(context)
        assert bytes(ear.pcm).startswith(before)
        assert [event.is_late for event in ear.revised] == [True]
        assert context.spoken_text.startswith("Good evening,")
        # "your table" was heard where it now says "your room".
        assert context.spoken_text.endswith(" is free.")
        assert "".join(word.text for word in ear.in_order) == "".join(context.spoken_text.split())


async def test_reports_are_right_to_the_word(server: RunningServer) -> None:
    """Against the exact times of words, which the same text has when it is spoken to its end."""
    async with connect(server.url) as session:
        async with session.context() as context:
            whole = Ear()
            await context.append(TEXT)
            await context.end()
            await whole.listen(context)
        generator = random.Random(3)
        for _ in range(20):
            cut_ms = generator.uniform(0, 2500)
            async with session.context() as context:
                await context.append(TEXT)
                await context.end()
                await Ear().listen(context, until_ms=cut_ms)
                report = await context.cancel(cut_ms)
            assert report.spoken + report.unspoken == TEXT
            heard = [word for word in whole.in_order if (word.start_ms + word.end_ms) / 2 <= report.played_ms]
            said = [word for word in whole.in_order if word.char_end <= len(report.spoken)]
            assert abs(len(said) - len(heard)) <= 1


async def test_the_last_word_lasts_as_long_as_it_sounds(server: RunningServer) -> None:
    async with connect(server.url) as session, session.context() as context:
        ear = Ear()
        await context.append(TEXT)
        await context.end()
        await ear.listen(context)
        samples = np.abs(np.frombuffer(bytes(ear.pcm), "<i2").astype(int))
        audible_ms = (np.nonzero(samples > AUDIBLE)[0][-1] + 1) / 24
        assert not ear.in_order[-1].estimated
        assert audible_ms - 40 <= ear.in_order[-1].end_ms <= len(ear.pcm) / 48
