import asyncio

import pytest

from clients.sdk import AudioEvent, DiscardEvent, DoneEvent, HeardReport, TextError, Word, WordsEvent
from clients.sdk.inbox import Inbox

AUDIO = AudioEvent(bytes(100), 0, 24_000)
DONE = DoneEvent(1.0, 1, None, 0)
REPORT = HeardReport(10.0, "a", "b", "exact")


async def test_order_and_end() -> None:
    inbox = Inbox(1000)
    for event in (AUDIO, WordsEvent(()), DONE):
        inbox.put(event)
    assert [await inbox.get() for _ in range(3)] == [AUDIO, WordsEvent(()), DONE]
    with pytest.raises(StopAsyncIteration):
        await inbox.get()


async def test_nothing_follows_the_last_event() -> None:
    inbox = Inbox(1000)
    inbox.put(DONE)
    inbox.put(AUDIO)
    inbox.fail(TextError("late"))
    assert await inbox.get() == DONE
    with pytest.raises(StopAsyncIteration):
        await inbox.get()


async def test_what_came_before_a_failure_is_handed_out() -> None:
    inbox = Inbox(1000)
    inbox.put(AUDIO)
    inbox.fail(TextError("torn"))
    assert await inbox.get() == AUDIO
    for _ in range(2):
        with pytest.raises(TextError, match="torn"):
            await inbox.get()


async def test_an_error_that_was_put_ends_nothing() -> None:
    inbox = Inbox(1000)
    inbox.put(TextError("one message"))
    inbox.put(AUDIO)
    with pytest.raises(TextError):
        await inbox.get()
    assert await inbox.get() == AUDIO


async def test_room_is_bounded_by_audio() -> None:
    inbox = Inbox(150)
    inbox.put(AUDIO)
    await asyncio.wait_for(inbox.room(), 1)
    inbox.put(AUDIO)
    waiting = asyncio.create_task(inbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await inbox.get()
    await asyncio.wait_for(waiting, 1)


async def test_cutting_makes_room_and_leaves_the_report_to_come() -> None:
    inbox = Inbox(100)
    for event in (AUDIO, WordsEvent(()), DONE):
        inbox.put(event)
    inbox.cut()
    assert not inbox.is_closed
    await asyncio.wait_for(inbox.room(), 1)
    inbox.put(REPORT)
    assert await inbox.get() == REPORT
    with pytest.raises(StopAsyncIteration):
        await inbox.get()


async def test_cutting_after_done_was_taken_keeps_it_closed() -> None:
    inbox = Inbox(100)
    inbox.put(DONE)
    await inbox.get()
    inbox.cut()
    with pytest.raises(StopAsyncIteration):
        await inbox.get()


async def test_get_waits() -> None:
    inbox = Inbox(100)
    taking = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    inbox.put(AUDIO)
    assert await asyncio.wait_for(taking, 1) == AUDIO


async def test_audio_that_was_revised_is_forgotten() -> None:
    inbox = Inbox(150)
    inbox.put(AUDIO)
    inbox.put(AudioEvent(bytes(100), 50, 24_000))
    waiting = asyncio.create_task(inbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.discard(30)
    await asyncio.wait_for(waiting, 1)
    inbox.put(DiscardEvent(1.25))
    assert [await inbox.get() for _ in range(2)] == [AudioEvent(bytes(60), 0, 24_000), DiscardEvent(1.25)]


async def test_words_that_were_revised_are_forgotten() -> None:
    inbox = Inbox(150)
    words = tuple(Word("w", "w", 0, 1, start, start + 1) for start in (0, 2, 4))
    inbox.put(WordsEvent(words[:2]))
    inbox.put(WordsEvent(words[2:]))
    inbox.forget_words(2)
    inbox.put(DONE)
    assert [await inbox.get() for _ in range(2)] == [WordsEvent(words[:1]), DONE]
