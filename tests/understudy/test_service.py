"""The whole service with the understudy's checkpoint, over real sockets: gateway, worker process, engine."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator

import pytest

from realtime.protocol import AudioMessage, Cancel, Cancelled, ContextOpen, Done, Error, TextAppend, TextEnd, TextFlush
from tests.realtime.running import Client, Heap, RunningServer, client, running, until

FACTORY = "engine.engine:load_engine"
PATIENCE_S = 120
BACK_S = (3.0, 6.0)
"""A standby takes over at once; a spare loads the model first, about 1.5 s where it has a core to itself."""
TEXT = "Dr. Smith paid $20, *really*?"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(factory=FACTORY, start_s=PATIENCE_S) as made:
        yield made


async def say(mouth: Client, context: str, *messages: str | None, voice: str = "heart") -> Heap:
    """Speaks the texts; None is a flush."""
    await mouth.send(ContextOpen(context, voice=voice))
    for text in messages:
        await mouth.send(TextFlush(context) if text is None else TextAppend(text, context))
    await mouth.send(TextEnd(context))
    heap = await mouth.end_of(context)
    assert isinstance(heap.end, Done)
    return heap


async def speaking(mouth: Client, context: str, text: str) -> None:
    """Opens a context with text that does not end, and waits for its first audio."""
    await mouth.send(ContextOpen(context), TextAppend(text, context))
    while not isinstance(await mouth.read(), AudioMessage):
        pass


async def test_one_character_a_message_is_the_same_speech(server: RunningServer) -> None:
    async with client(server) as mouth:
        whole = await say(mouth, "whole", TEXT)
        pieces = await say(mouth, "pieces", *TEXT)
        assert pieces.pcm == whole.pcm
        assert pieces.words == whole.words
        flushed = await say(mouth, "flushed", "Good ev", None, "ening.")
        assert (await say(mouth, "flushed pieces", *"Good ev", None, *"ening.")).pcm == flushed.pcm


async def test_speech_begins_before_the_text_ends_and_a_cancel_tells_what_was_heard(server: RunningServer) -> None:
    text = "Good evening and welcome to the sh"
    async with client(server) as mouth:
        await speaking(mouth, "u", text)
        asked_s = time.monotonic()
        await mouth.send(Cancel("u", played_ms=0.0))
        cancelled = await mouth.read_until(Cancelled, "u")
        assert time.monotonic() - asked_s < 0.25
        assert (cancelled.spoken, cancelled.unspoken) == ("", text)


async def test_contexts_at_once_equal_contexts_alone(server: RunningServer) -> None:
    async with client(server) as mouth, client(server) as other:
        alone = (await say(mouth, "a", "Good evening.")).pcm, (await say(other, "b", "What now?", voice="michael")).pcm
        both = await asyncio.gather(
            say(mouth, "a at once", "Good evening."), say(other, "b at once", "What now?", voice="michael")
        )
        for before, after in zip(alone, both, strict=True):
            first, second = memoryview(before).cast("h"), memoryview(after.pcm).cast("h")
            assert len(first) == len(second)
            # One step of 16 bits is 3e-5.
            assert max(abs(x - y) for x, y in zip(first, second, strict=True)) <= 3


async def test_kill_9_twice_in_a_row_is_told_and_healed(server: RunningServer) -> None:
    crew = server.gateway.bridge._crew
    assert crew is not None
    await until(lambda: crew._spare is not None and crew._spare.imported.is_set(), PATIENCE_S)
    async with client(server) as mouth, client(server) as silent:
        for number, back_s in enumerate(BACK_S):
            context = f"killed {number}"
            await speaking(mouth, context, "It was a long way from here to there, and nobody knew it. ")
            pid = server.gateway.bridge.worker_pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed_s = time.monotonic()
            end = (await mouth.end_of(context)).end
            assert isinstance(end, Error)
            assert (end.code, end.retryable) == ("worker_lost", True)
            await speaking(mouth, f"again {number}", "Back again. And on")
            assert time.monotonic() - killed_s < back_s
            await mouth.send(Cancel(f"again {number}"))
        assert (await say(silent, "survivor", "Hello.")).pcm
