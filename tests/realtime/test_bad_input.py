"""What nobody should send and somebody will, over real sockets: a typed error or what is documented, never a hang."""

import asyncio
import time

import pytest

from realtime.protocol import (
    AudioMessage,
    Cancel,
    Cancelled,
    ContextOpen,
    Done,
    Error,
    Heard,
    Ping,
    Played,
    Pong,
    Pronunciation,
    TextAppend,
    TextEnd,
    TextFlush,
    TextRevise,
    TextRevised,
)
from tests.realtime.running import Client, Heap, RunningServer, client

ONE = "one two three "
STORM = 1000


async def answers(peer: Client, *raw: str) -> list[tuple[str, bool]]:
    """Code and ``terminal`` of the errors that these messages are answered with, in order."""
    for each in raw:
        await peer.connection.send(each)
    await peer.send(Ping("all"))
    errors = list[tuple[str, bool]]()
    while not isinstance(message := await peer.read(), Pong):
        if isinstance(message, Error):
            errors.append((message.code, message.terminal))
    return errors


async def goes_on(peer: Client, text: str) -> None:
    """The context ``main`` is spoken to its end, and ``text`` is what was."""
    await peer.send(TextEnd())
    heap = await peer.end_of()
    assert isinstance(heap.end, Done)
    assert heap.end.characters == len(text)
    assert heap.words == text.split()


async def has_sound(peer: Client, ms: float, context: str = "main") -> None:
    while len(peer.heaps.setdefault(context, Heap()).pcm) < 2 * 24 * ms:
        await peer.read()


class TestRevision:
    @pytest.mark.parametrize("start", ["-1", "1.0", "1.5", '"3"', "true", "null", "NaN", "1e999", "9" * 40, "[]"])
    async def test_an_offset_that_is_none(self, server: RunningServer, start: str) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            raw = f'{{"type":"text.revise","from":{start},"text":"no"}}'
            assert await answers(peer, raw) == [("bad_message", False)]
            await goes_on(peer, ONE)

    async def test_fields_that_are_missing(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            raw = '{"type":"text.revise","text":"no"}', '{"type":"text.revise","from":3}'
            assert await answers(peer, *raw) == [("bad_message", False)] * 2
            await goes_on(peer, ONE)

    @pytest.mark.parametrize("start", [len(ONE) + 1, 10**6])
    async def test_beyond_the_end(self, server: RunningServer, start: int) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            raw = f'{{"type":"text.revise","from":{start},"text":"no"}}'
            assert await answers(peer, raw) == [("bad_revision", False)]
            await goes_on(peer, ONE)

    async def test_offsets_count_characters_and_not_units_of_utf_16(self, server: RunningServer) -> None:
        before = "😀😀😀 " + "word " * 20
        async with client(server) as peer:
            # In units of UTF-16 the text is three longer than that.
            await peer.send(TextAppend(before + "two "), TextRevise("three", len(before) + 4 + 3))
            assert (await peer.read_until(Error)).code == "bad_revision"
            await peer.send(TextRevise("three ", len(before)), TextEnd())
            heap = await peer.end_of()
            assert isinstance(heap.end, Done)
            assert heap.end.characters == len(before + "three ")
            assert heap.words[-1] == "three"

    async def test_of_what_was_heard_already(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            await has_sound(peer, 400)
            await peer.send(Played(400), TextRevise("four five six ", 0), TextEnd())
            heap = await peer.end_of()
            revised = next(message for message in heap.messages if isinstance(message, TextRevised))
            assert revised.late
            assert revised.kept_to >= len("one two")
            assert isinstance(heap.end, Done)
            assert heap.end.characters == revised.kept_to + len("four five six ") - revised.resumes_at


class TestSurrogates:
    @pytest.mark.parametrize("half", [r"\ud83d", r"\ude00", r"\ude00\ud83d"])
    async def test_half_a_pair_is_no_text_anywhere(self, server: RunningServer, half: str) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            raw = (
                f'{{"type":"text.append","text":"{half}"}}',
                f'{{"type":"text.revise","from":0,"text":"{half}"}}',
                f'{{"type":"text.append","context":"{half}","text":"no"}}',
                f'{{"type":"ping","id":"{half}"}}',
            )
            assert await answers(peer, *raw) == [("bad_message", False)] * len(raw)
            await goes_on(peer, ONE)

    async def test_a_pair_cut_into_two_messages_is_two_errors_and_a_whole_one_is_text(
        self, server: RunningServer
    ) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            raw = (
                r'{"type":"text.append","text":"\ud83d"}',
                r'{"type":"text.append","text":"\ude00"}',
                r'{"type":"text.append","text":"\ud83d\ude00"}',
            )
            assert await answers(peer, *raw) == [("bad_message", False)] * 2
            await peer.send(TextEnd())
            heap = await peer.end_of()
            assert isinstance(heap.end, Done)
            assert heap.end.characters == len(ONE) + 1


class TestPlayed:
    async def test_backwards_counts_as_where_it_was(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            await has_sound(peer, 400)
            await peer.send(Played(400), Played(100), Played(0), Cancel(played_ms=50))
            report = await peer.read_until(Cancelled)
            assert (report.played_ms, report.spoken, report.precision) == (400.0, "one two", "exact")

    async def test_past_what_was_sent_counts_as_all_of_it(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            await has_sound(peer, 200)
            await peer.send(Played(1e9), Cancel())
            report = await peer.read_until(Cancelled)
            assert 200 <= report.played_ms <= len(peer.heaps["main"].pcm) / 2 / 24
            assert report.spoken + report.unspoken == ONE

    async def test_before_the_first_audio_and_of_no_context(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(Played(100, "nobody"))
            assert (await peer.read_until(Error)).code == "unknown_context"
            await peer.send(TextAppend("on"), Played(100), Cancel(played_ms=100))
            report = await peer.read_until(Cancelled)
            assert (report.played_ms, report.spoken, report.unspoken) == (0.0, "", "on")


class TestCancel:
    async def test_a_thousand_contexts_in_a_second_end_and_nobody_else_notices(self, server: RunningServer) -> None:
        async def speak(peer: Client) -> Heap:
            await peer.send(TextAppend("word " * 50), TextEnd())
            heap = await peer.end_of()
            assert isinstance(heap.end, Done)
            return heap

        async with client(server) as stormy, client(server) as quiet:
            alone = asyncio.create_task(speak(quiet))
            began_s = time.monotonic()
            for number in range(STORM):
                context = f"c{number}"
                await stormy.send(ContextOpen(context), TextAppend(ONE, context), Cancel(context))
            for number in range(STORM):
                assert isinstance((await stormy.end_of(f"c{number}")).end, Cancelled)
            assert time.monotonic() - began_s < 15
            assert (await alone).words == ["word"] * 50

    async def test_the_same_context_a_thousand_times(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE))
            await peer.read_until(AudioMessage)
            await peer.send(*(Cancel() for _ in range(STORM)))
            first = await peer.read_until(Cancelled)
            for _ in range(STORM - 1):
                again = await peer.read_until(Heard)
                assert (again.spoken, again.unspoken) == (first.spoken, first.unspoken)

    async def test_text_for_a_cancelled_context(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend(ONE), Cancel())
            await peer.read_until(Cancelled)
            await peer.send(TextAppend("more"), TextFlush(), TextEnd(), TextRevise("other", 0), Ping())
            codes = list[tuple[str, bool]]()
            while not isinstance(message := await peer.read(), Pong):
                assert isinstance(message, Error)
                codes.append((message.code, message.terminal))
            assert codes == [("bad_state", False)] * 4
            peer.heaps.clear()
            await peer.send(ContextOpen("main"), TextAppend(ONE))
            await goes_on(peer, ONE)


@pytest.mark.parametrize(
    "entries",
    [
        [("a", "a")],
        [("a", "b"), ("b", "a")],
        [("x", "y"), ("y", "z"), ("z", "x")],
        [("x", "very x")],
    ],
)
async def test_a_lexicon_that_leads_back_to_itself(server: RunningServer, entries: list[tuple[str, str]]) -> None:
    lexicon = tuple(Pronunciation(word, say=say) for word, say in entries)
    async with client(server) as peer:
        await peer.send(ContextOpen("main", lexicon=lexicon))
        error = await peer.read_until(Error)
        assert (error.code, error.context, error.terminal) == ("bad_lexicon", "main", True)
        peer.heaps.clear()
        await peer.send(ContextOpen("main"), TextAppend(ONE))
        await goes_on(peer, ONE)
