"""The client against the real server. What servers must not do is in test_sdk_faults.py."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest

from clients.sdk import (
    AudioEvent,
    AuthenticationError,
    ClientError,
    Context,
    ContextStateError,
    DiscardEvent,
    DoneEvent,
    Event,
    HeardReport,
    RevisedEvent,
    SpeedEvent,
    TextError,
    UnknownVoiceError,
    Word,
    WordsEvent,
    connect,
    speak,
    stream,
)
from tests.realtime.fake_engine import SAMPLE_RATE, tone

WORD_MS = 200
FRAMES_PER_WORD = 4


async def events_of(context: Context) -> list[Event]:
    return [event async for event in context]


def pcm_of(events: list[Event]) -> bytes:
    return b"".join(event.pcm for event in events if isinstance(event, AudioEvent))


def words_of(events: list[Event]) -> list[Word]:
    return [word for event in events if isinstance(event, WordsEvent) for word in event.words]


def tones(text: str, voice: str = "heart") -> bytes:
    """What the fake engine says for a text."""
    samples = np.concatenate([tone(word, voice, FRAMES_PER_WORD) for word in text.split()])
    return np.round(samples * 32767).astype("<i2").tobytes()


def is_close(pcm: bytes, expected: bytes) -> bool:
    """Equal but for rounding."""
    a, b = (np.frombuffer(each, "<i2").astype(int) for each in (pcm, expected))
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 2)


async def slowly(*pieces: str, pause_s: float = 0.05) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(pause_s)


async def test_text_in_sound_and_words_out(server: str) -> None:
    async with connect(server, voice="bella") as session, session.context(acknowledge=True) as context:
        await context.append("Hello, it ")
        await context.append("costs $20")
        await context.end()
        events = await events_of(context)
    assert is_close(pcm_of(events), tones("Hello, it costs $20", "bella"))
    assert [(word.text, word.spoken) for word in words_of(events)] == [
        ("Hello,", "Hello,"), ("it", "it"), ("costs", "costs"), ("$20", "twenty dollars"),
    ]  # fmt: skip
    assert [word.start_ms for word in words_of(events)] == [0, 200, 400, 600]
    done = events[-1]
    assert isinstance(done, DoneEvent)
    assert (done.audio_ms, done.characters) == (4 * WORD_MS, 19)
    assert done.ttfa_ms is not None


async def test_audio_is_contiguous_and_words_come_before_it(server: str) -> None:
    async with connect(server) as session, session.context(acknowledge=True) as context:
        context.speak(slowly("One two ", "three four."))
        events = await events_of(context)
    position = 0
    for event in events:
        if isinstance(event, AudioEvent):
            assert event.first_sample == position
            assert event.start_ms == 1000 * position / SAMPLE_RATE
            position += len(event.pcm) // 2
        if isinstance(event, WordsEvent):
            assert all(word.start_ms >= 1000 * position / SAMPLE_RATE for word in event.words)
    assert position == 4 * WORD_MS * SAMPLE_RATE // 1000


async def test_sound_comes_before_the_text_ends(server: str) -> None:
    may_end = asyncio.Event()

    async def source() -> AsyncIterator[str]:
        yield "One two "
        await may_end.wait()
        yield "three."

    async with asyncio.timeout(10), connect(server) as session, session.context() as context:
        context.speak(source())
        while not isinstance(await anext(context), AudioEvent):
            pass
        may_end.set()
        assert isinstance((await events_of(context))[-1], DoneEvent)


async def test_a_pausing_text_is_flushed(server: str) -> None:
    async with asyncio.timeout(10), connect(server) as session, session.context() as context:
        never = asyncio.Event()

        async def source() -> AsyncIterator[str]:
            yield "One."
            await never.wait()

        context.speak(source(), flush_after_s=0.05)
        while not isinstance(await anext(context), AudioEvent):
            pass


async def test_two_contexts_at_once_do_not_mix(server: str) -> None:
    async with (
        connect(server) as session,
        session.context("npc-1", voice="michael", acknowledge=True) as one,
        session.context("npc-2", acknowledge=True) as two,
    ):
        one.speak(slowly("Halt! ", "Who goes ", "there?"))
        two.speak(slowly("Only ", "me."))
        first, second = await asyncio.gather(events_of(one), events_of(two))
    assert is_close(pcm_of(first), tones("Halt! Who goes there?", "michael"))
    assert is_close(pcm_of(second), tones("Only me."))


async def test_cancelling_tells_what_was_heard(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.append("One two three four five ")
        while not (isinstance(event := await anext(context), AudioEvent) and event.end_ms >= 400):
            pass
        await context.append("six seven ")
        report = await context.cancel(played_ms=350)
        rest = await events_of(context)
        assert rest[-1] == report
        assert not pcm_of(rest)
    assert report == context.report
    # Words of 200 ms each: more than half of the second was heard.
    assert report == HeardReport(350, "One two", " three four five six seven ", "exact")


async def test_the_last_acknowledgement_counts(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.append("One two three four five ")
        await context.end()
        await events_of(context)
        await context.played(600)
        report = await context.cancel()
    assert report == HeardReport(600, "One two three", " four five ", "exact")


async def test_leaving_early_cancels(server: str) -> None:
    async with connect(server) as session:
        async with session.context("main") as context:
            await context.append("One two three four five ")
            await anext(context)
        assert context.report is not None
        # The id is free again.
        async with session.context("main", acknowledge=True) as context:
            await context.append("Six")
            await context.end()
            assert is_close(pcm_of(await events_of(context)), tones("Six"))


async def test_cancelled_audio_never_arrives_later(server: str) -> None:
    async with connect(server) as session:
        for number in range(20):
            async with session.context() as context:
                await context.append("One two three four five ")
                if number % 2:
                    await anext(context)
                await context.cancel(0)
                assert not pcm_of(await events_of(context))
        async with session.context(acknowledge=True) as context:
            await context.append("Six")
            await context.end()
            assert is_close(pcm_of(await events_of(context)), tones("Six"))


async def test_speech_for_files_does_not_keep_to_real_time(impatient_server: str) -> None:
    words = 50
    async with connect(impatient_server) as session, session.context(acknowledge=True) as context:
        await context.append("word " * words)
        await context.end()
        started = time.monotonic()
        events = await events_of(context)
        taken_s = time.monotonic() - started
    assert len(pcm_of(events)) == words * WORD_MS * SAMPLE_RATE // 1000 * 2
    assert taken_s < words * WORD_MS / 1000 / 3


async def test_nothing_to_say_is_done_at_once(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.end()
        assert isinstance((await events_of(context))[-1], DoneEvent)


async def test_another_sample_rate(server: str) -> None:
    async with connect(server, sample_rate=48_000) as session, session.context(acknowledge=True) as context:
        assert session.sample_rate == 48_000
        await context.append("One two")
        await context.end()
        events = await events_of(context)
    assert len(pcm_of(events)) == pytest.approx(2 * 2 * WORD_MS * 48, abs=200)


async def test_without_words(server: str) -> None:
    async with connect(server, words=False) as session, session.context(acknowledge=True) as context:
        await context.append("One two")
        await context.end()
        assert not words_of(await events_of(context))


async def test_ping_during_speech(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.append("One two three four five ")
        assert 0 < await session.ping() < 2


async def test_unknown_voices_are_named(server: str) -> None:
    with pytest.raises(UnknownVoiceError, match="heart, michael, bella"):
        async with connect(server, voice="nobody"):
            pass
    async with connect(server) as session, session.context(voice="nobody") as context:
        with pytest.raises(UnknownVoiceError, match="heart, michael, bella"):
            await anext(context)


async def test_text_that_cannot_be_spoken(server: str) -> None:
    async with connect(server) as session, session.context(acknowledge=True) as context:
        await context.append("<|im_end|>")
        with pytest.raises(TextError) as caught:
            await events_of(context)
        assert caught.value.code == "structural_token"
        # The context goes on as if that text had not been sent.
        await context.append("One")
        await context.end()
        assert is_close(pcm_of(await events_of(context)), tones("One"))


async def test_text_after_the_end(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.append("One")
        await context.end()
        await context.append("two")
        with pytest.raises(ContextStateError):
            await events_of(context)


async def test_the_key(locked_server: str) -> None:
    for key in (None, "open"):
        with pytest.raises(AuthenticationError):
            async with connect(locked_server, api_key=key):
                pass
    async with connect(locked_server, api_key="open sesame") as session:
        assert session.ready.model == "fake"


# ---------------------------------------------------------------------------------------------- without an event loop


def test_sync_speak(server: str) -> None:
    assert is_close(speak("One two", server=server, voice="michael"), tones("One two", "michael"))


def test_sync_stream_speaks_while_text_is_drawn(server: str) -> None:
    is_heard = False

    def text() -> Iterator[str]:
        yield "One two "
        deadline = time.monotonic() + 10
        while not is_heard and time.monotonic() < deadline:
            time.sleep(0.01)
        yield "three" if is_heard else "late"

    pieces = []
    for piece in stream(text(), server=server):
        is_heard = True
        pieces.append(piece)
    assert is_close(b"".join(pieces), tones("One two three"))


def test_sync_stream_can_be_left(server: str) -> None:
    pieces = stream("One two three four five " * 100, server=server)
    next(pieces)
    started = time.monotonic()
    pieces.close()
    assert time.monotonic() - started < 5


def test_sync_errors(server: str) -> None:
    with pytest.raises(UnknownVoiceError):
        speak("One", server=server, voice="nobody")
    with pytest.raises(ClientError, match="no server answers"):
        speak("One", server="127.0.0.1:9")


# ---------------------------------------------------------------------------------------------- imports


async def test_a_revision_recalls_what_was_not_heard(server: str) -> None:
    async with connect(server, voice="heart") as session, session.context() as context:
        pcm = bytearray()
        words: dict[int, Word] = {}
        await context.append("one two three four five six ")
        revised: RevisedEvent | None = None
        async for event in context:
            match event:
                case AudioEvent():
                    assert event.first_sample == len(pcm) // 2
                    pcm += event.pcm
                    if event.end_ms >= 900 and context.text.startswith("one two three four"):
                        await context.played(100)
                        await context.revise(8, "seven 😀 eight")
                        await context.end()
                case DiscardEvent(from_ms=from_ms):
                    del pcm[2 * round(from_ms * SAMPLE_RATE / 1000) :]
                case RevisedEvent():
                    revised = event
                    words = {start: word for start, word in words.items() if start < event.kept_to}
                case WordsEvent():
                    words.update((word.char_start, word) for word in event.words)
        assert revised == RevisedEvent("one two seven 😀 eight", 8)
        assert context.spoken_text == context.text == "one two seven 😀 eight"
        assert [word.text for word in words.values()] == ["one", "two", "seven", "eight"]
        assert is_close(bytes(pcm), tones("one two seven eight"))


async def test_captions_given_whole_each_time(server: str) -> None:
    async with connect(server) as session, session.context(acknowledge=True) as context:
        for text in ("one", "one two", "one three four", "one three four", "one three four five"):
            await context.change_to(text)
        await context.end()
        events = await events_of(context)
        assert isinstance(events[-1], DoneEvent)
        assert events[-1].characters == len("one three four five")
        assert context.spoken_text == "one three four five"


async def test_a_revision_from_nowhere_is_not_sent(server: str) -> None:
    async with connect(server) as session, session.context() as context:
        await context.append("one")
        with pytest.raises(ValueError, match="no character 4"):
            await context.revise(4, "x")


async def test_speech_that_lags_skips(server: str) -> None:
    async with connect(server) as session, session.context(acknowledge=True, max_lag_ms=1000) as context:
        await context.append("word " * 100)
        await context.end()
        events = await events_of(context)
        skips = [event for event in events if isinstance(event, RevisedEvent)]
        assert skips
        assert skips[0].skipped.startswith("word") or skips[0].skipped.startswith(" word")
        assert len(context.spoken_text) < len(context.text)


async def test_speech_that_lags_hurries_where_it_may(server: str) -> None:
    async with (
        connect(server, speed=1.25) as session,
        session.context(acknowledge=True, max_lag_ms=4000, lag_policy="speed") as context,
    ):
        for i in range(30):
            await context.append(f"word{i} ")
        await context.end()
        events = await events_of(context)
    told = [event for event in events if isinstance(event, SpeedEvent)]
    assert told[0].speed > 1
    assert told[0].lag_ms > 2000
    lengths_ms = [word.end_ms - word.start_ms for word in words_of(events)]
    # How soon it hurries depends on how fast the words were sent.
    assert max(lengths_ms) <= WORD_MS / 1.25 + 1
    assert min(lengths_ms) < WORD_MS / 1.25 - 1
    assert isinstance(events[-1], DoneEvent)


def test_importing_the_client_is_light() -> None:
    script = (
        "import sys, clients.sdk, clients.cli, clients.commands.say;"
        "print(sorted({'torch', 'transformers', 'numpy', 'starlette', 'uvicorn', 'engine'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
