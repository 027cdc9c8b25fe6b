"""A context heard in real time, on a clock that the test moves: what is written when, and where its words are then."""

import asyncio
from typing import cast

import numpy as np
import pytest

from clients.commands.listener import TICK_S, Listener
from clients.commands.playout import PlayoutBuffer
from clients.commands.sinks import Sink
from clients.commands.timeline import Timeline
from clients.sdk import AudioEvent, Context, DiscardEvent

RATE = 8_000
PER_MS = RATE // 1000
TICK_MS = 1000 * TICK_S
LATENCY_MS = 20.0


class FakeClock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class FakeContext:
    def __init__(self) -> None:
        self.told_ms: list[float] = []

    async def played(self, ms: float) -> None:
        self.told_ms.append(ms)


class Memory:
    """A file."""

    is_live, dry_count = False, 0

    def __init__(self) -> None:
        self.pcm = b""

    @property
    def played_ms(self) -> float:
        return len(self.pcm) / 2 / PER_MS

    @property
    def buffered_ms(self) -> float:
        return 0.0

    async def write(self, pcm: bytes) -> None:
        self.pcm += pcm

    async def drain(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def close(self) -> None:
        pass


class Card(Memory):
    """Speakers; ``pcm`` is what has sounded, silence included."""

    is_live = True

    def __init__(self) -> None:
        super().__init__()
        self.buffer = PlayoutBuffer(RATE)

    @property
    def played_ms(self) -> float:
        return max(0.0, self.buffer.played_samples / PER_MS - LATENCY_MS)

    @property
    def buffered_ms(self) -> float:
        return self.buffer.buffered_samples / PER_MS

    async def write(self, pcm: bytes) -> None:
        self.buffer.write(pcm)

    def sound(self, ms: float) -> None:
        self.pcm += self.buffer.read(round(ms * PER_MS))


class Stage:
    """A listener and all it touches."""

    def __init__(self, sink: Memory, *, keeps_time: bool = True) -> None:
        self.clock, self.context, self.sink = FakeClock(), FakeContext(), sink
        self.listener = Listener(cast(Context, self.context), cast(Sink, sink), clock=self.clock, keeps_time=keeps_time)
        self._sent = 0

    def say(self, ms: int, value: int = 1) -> None:
        """Audio of a context: samples that all have this value."""
        pcm = np.full(ms * PER_MS, value, "<i2").tobytes()
        self.listener.take(AudioEvent(pcm, self._sent, RATE))
        self._sent += ms * PER_MS

    def discard(self, from_ms: int) -> None:
        self.listener.take(DiscardEvent(float(from_ms)))
        self._sent = from_ms * PER_MS

    async def pass_ms(self, ms: float) -> None:
        for _ in range(round(ms / TICK_MS)):
            await self.listener.tick()
            self.clock.now_s += TICK_S
            if isinstance(self.sink, Card):
                self.sink.sound(TICK_MS)

    def starts(self) -> dict[int, float]:
        """When each value is first heard, to the ms."""
        samples = np.frombuffer(self.sink.pcm, "<i2")
        return {int(value): round(float(np.argmax(samples == value)) / PER_MS) for value in np.unique(samples) if value}

    def length_ms(self) -> float:
        return len(self.sink.pcm) / 2 / PER_MS


async def test_a_file_that_keeps_time_holds_the_silence_before_and_between() -> None:
    stage = Stage(Memory())
    await stage.pass_ms(1000)
    assert not stage.sink.pcm, "nothing is written before there is speech"
    stage.say(300, 1)
    await stage.pass_ms(2000)
    stage.say(200, 2)
    await stage.pass_ms(400)
    assert stage.starts() == {1: 1000, 2: 3000}
    timeline = stage.listener.timeline
    times = [timeline.start_ms(0), timeline.end_ms(300), timeline.start_ms(300), timeline.end_ms(500)]
    assert times == pytest.approx([1000, 1300, 3000, 3200], abs=1)


async def test_a_file_grows_while_nothing_is_to_be_heard() -> None:
    stage = Stage(Memory())
    stage.say(100)
    await stage.pass_ms(5000)
    assert stage.length_ms() == pytest.approx(5000, abs=TICK_MS + 1)


async def test_the_clock_of_other_files_stands_still() -> None:
    stage = Stage(Memory(), keeps_time=False)
    await stage.pass_ms(1000)
    stage.say(300, 1)
    await stage.pass_ms(2000)
    stage.say(200, 2)
    await stage.pass_ms(400)
    assert stage.starts() == {1: 0, 2: 300}
    assert stage.length_ms() == 500


async def test_speech_that_comes_in_time_is_not_torn() -> None:
    stage = Stage(Memory())
    for number in range(1, 11):
        stage.say(80, number)
        await stage.pass_ms(80)
    assert stage.starts() == {number: 80 * (number - 1) for number in range(1, 11)}


async def test_a_client_that_was_held_up_catches_up_without_a_gap() -> None:
    stage = Stage(Memory())
    stage.say(1000, 1)
    await stage.pass_ms(100)
    stage.clock.now_s += 0.5
    await stage.pass_ms(300)
    stage.say(200, 2)
    await stage.pass_ms(400)
    assert stage.starts() == {1: 0, 2: 1000}


async def test_what_is_acknowledged_is_audio_of_the_context() -> None:
    stage = Stage(Memory())
    await stage.pass_ms(1000)
    assert stage.context.told_ms == []
    stage.say(300)
    await stage.pass_ms(200)
    assert 0 < stage.context.told_ms[-1] <= 200
    await stage.pass_ms(1000)
    assert stage.context.told_ms[-1] == pytest.approx(300)
    stage.say(400)
    await stage.pass_ms(300)
    assert 400 < stage.context.told_ms[-1] <= 600
    assert stage.context.told_ms == sorted(stage.context.told_ms)


async def test_recalled_audio_leaves_the_times_right() -> None:
    stage = Stage(Memory())
    await stage.pass_ms(500)
    stage.say(1000, 1)
    await stage.pass_ms(200)
    stage.discard(600)
    stage.say(200, 2)
    await stage.pass_ms(1500)
    stage.say(100, 3)
    await stage.pass_ms(200)
    assert stage.starts() == {1: 500, 2: 1100, 3: 2200}
    timeline = stage.listener.timeline
    assert [timeline.start_ms(600), timeline.start_ms(800)] == pytest.approx([1100, 2200], abs=1)


async def test_audio_recalled_after_it_was_written_stays_and_what_follows_is_placed_behind_it() -> None:
    stage = Stage(Memory())
    stage.say(1000, 1)
    await stage.pass_ms(200)
    written_ms = stage.length_ms()
    heard_ms = stage.listener.heard_ms
    from_ms = round(written_ms) - 50
    stage.discard(from_ms)
    stage.say(200, 2)
    await stage.pass_ms(TICK_MS)
    assert heard_ms <= stage.listener.heard_ms <= from_ms
    await stage.pass_ms(600)
    assert stage.starts() == {1: 0, 2: round(written_ms)}
    assert stage.listener.timeline.start_ms(from_ms) == pytest.approx(written_ms)
    assert stage.listener.heard_ms == pytest.approx(from_ms + 200)


async def test_from_speakers_come_the_times_at_which_it_sounded() -> None:
    stage = Stage(Card())
    await stage.pass_ms(1000)
    stage.say(600, 1)
    await stage.pass_ms(3000)
    stage.say(400, 2)
    await stage.pass_ms(1000)
    sounded = stage.starts()
    timeline = stage.listener.timeline
    tolerance_ms = LATENCY_MS + 2 * TICK_MS
    assert timeline.start_ms(0) == pytest.approx(sounded[1] + LATENCY_MS, abs=tolerance_ms)
    assert timeline.end_ms(600) == pytest.approx(sounded[1] + LATENCY_MS + 600, abs=tolerance_ms)
    assert timeline.start_ms(600) == pytest.approx(sounded[2] + LATENCY_MS, abs=tolerance_ms)


async def test_speakers_that_ran_dry_sound_again() -> None:
    stage = Stage(Card())
    stage.say(600, 1)
    await stage.pass_ms(2000)
    stage.say(600, 2)
    await stage.pass_ms(1000)
    assert stage.starts()[2] == pytest.approx(2000, abs=2 * TICK_MS)
    assert stage.listener.heard_ms == pytest.approx(1200 - LATENCY_MS)


async def test_run_ends_when_all_was_given() -> None:
    context, memory = FakeContext(), Memory()
    listener = Listener(cast(Context, context), cast(Sink, memory))
    listener.take(AudioEvent(bytes(2 * 100 * PER_MS), 0, RATE))
    listener.finish()
    await asyncio.wait_for(listener.run(), 5)
    assert listener.heard_ms == pytest.approx(100)


def test_a_timeline_without_silence_is_the_audio() -> None:
    timeline = Timeline()
    assert (timeline.start_ms(0), timeline.end_ms(700.5)) == (0, 700.5)


def test_what_is_placed_again_holds_as_it_was_placed_last() -> None:
    timeline = Timeline()
    timeline.place(100, 50)
    timeline.place(300, 80)
    timeline.place(200, 60)
    assert [timeline.start_ms(ms) for ms in (0, 50, 100, 250, 400)] == [0, 50, 150, 310, 460]


def test_a_word_at_the_edge_of_a_silence_does_not_reach_over_it() -> None:
    timeline = Timeline()
    timeline.place(395, 2000)
    assert (timeline.end_ms(400), timeline.start_ms(400)) == (400, 2400)
    timeline.place(405, 3000)
    assert (timeline.end_ms(400), timeline.start_ms(400)) == (400, 3400)
