"""Real sockets: the server with the fake engine, the `websockets` client at the other end."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from realtime.crew import WorkerSettings
from realtime.limits import LimitSettings
from realtime.protocol import (
    MAX_CLIENT_MESSAGE_BYTES,
    SUBPROTOCOL,
    AudioDiscard,
    AudioFormat,
    AudioMessage,
    AudioStart,
    Cancel,
    Cancelled,
    ContextOpen,
    Done,
    Error,
    Heard,
    Ping,
    Played,
    Pong,
    SessionStart,
    TextAppend,
    TextEnd,
    TextFlush,
    TextRevise,
    TextRevised,
    decode_server,
    encode,
)
from tests.realtime.running import Client, Heap, RunningServer, client, running, until

PATIENCE_S = 30.0
"""For what takes a moment, on a machine that has other things to do."""
TEXT = "Good evening, this costs $20 — and that is all."


@pytest.fixture(scope="module")
def slow() -> Iterator[RunningServer]:
    with running(worker=WorkerSettings(arguments={"step_s": 0.03}, has_standby=False)) as made:
        yield made


async def spoken(server: RunningServer, pieces: list[str], start: SessionStart | None = None) -> Heap:
    async with client(server, start) as peer:
        await peer.send(*(TextAppend(piece) for piece in pieces), TextEnd())
        heap: Heap = await peer.end_of()
        return heap


class TestSpeaking:
    async def test_one_message(self, server: RunningServer) -> None:
        heap = await spoken(server, [TEXT])
        assert heap.words == [word for word in TEXT.split() if word != "—"]
        assert isinstance(heap.end, Done)
        assert heap.end.audio_ms == len(heap.pcm) / 2 / 24 == 9 * 200
        assert heap.end.audio_messages == len(heap.audio)
        assert max(heap.pcm) > 0

    @pytest.mark.parametrize("rate", [24_000, 8_000])
    async def test_cuts_change_nothing(self, server: RunningServer, rate: int) -> None:
        start = SessionStart(1, audio=AudioFormat(sample_rate=rate))
        whole = await spoken(server, [TEXT], start)
        characters = await spoken(server, list(TEXT), start)
        assert characters.pcm == whole.pcm
        assert characters.words == whole.words
        assert isinstance(whole.end, Done)
        assert len(whole.pcm) == 2 * 9 * rate // 5

    async def test_audio_comes_before_the_text_is_complete(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend("Hello "))
            await peer.read_until(AudioMessage)
            await peer.send(TextAppend("world"), TextFlush())
            while peer.heaps["main"].words != ["Hello", "world"]:
                await peer.read()
            await peer.send(TextEnd())
            assert isinstance((await peer.end_of()).end, Done)

    async def test_audio_messages_have_the_promised_length(self, server: RunningServer) -> None:
        heap = await spoken(server, [TEXT])
        lengths_ms = [len(audio.payload) / 2 / 24 for audio in heap.audio]
        assert all(20 <= ms <= 100 for ms in lengths_ms[:-1])

    @pytest.mark.parametrize("text", ["", " \n", "🙂", "— … *"])
    async def test_nothing_to_speak(self, server: RunningServer, text: str) -> None:
        heap = await spoken(server, [text])
        assert heap.pcm == bytes(2 * 24 * 40)
        assert isinstance(heap.end, Done)
        assert heap.end.characters == len(text)

    async def test_the_end_of_a_text_that_never_began(self, server: RunningServer) -> None:
        heap = await spoken(server, [])
        assert heap.pcm == bytes(2 * 24 * 40)
        assert isinstance(heap.end, Done)
        assert (heap.end.characters, heap.end.ttfa_ms) == (0, None)

    async def test_contexts_share_a_socket_and_nothing_else(self, server: RunningServer) -> None:
        texts = {f"npc-{number}": f"I am number {number} " * number for number in range(1, 9)}
        async with client(server) as peer:
            await peer.send(*(ContextOpen(name, voice="bella") for name in texts))
            for name, text in texts.items():
                await peer.send(TextAppend(text, name), TextEnd(name))
            for name, text in texts.items():
                heap = await peer.end_of(name)
                assert heap.words == text.split()
        alone = await spoken(server, [texts["npc-3"]], SessionStart(1, voice="bella"))
        assert peer.heaps["npc-3"].pcm == alone.pcm

    async def test_a_socket_is_used_again_and_again(self, server: RunningServer) -> None:
        async with client(server) as peer:
            for number in range(3):
                name = f"turn {number}"
                await peer.send(ContextOpen(name), TextAppend("one two", name), TextEnd(name))
                assert isinstance((await peer.end_of(name)).end, Done)


class TestCancel:
    """One case per moment."""

    async def cancel(self, peer: Client, **arguments: float) -> Cancelled:
        await peer.send(Cancel(**arguments))  # type: ignore[arg-type]
        report = await peer.read_until(Cancelled)
        assert isinstance(report, Cancelled)
        await peer.send(Ping("after"))
        assert isinstance(await peer.read(), Pong)
        return report

    async def test_before_the_first_step(self, slow: RunningServer) -> None:
        async with client(slow) as peer:
            await peer.send(TextAppend("one two "))
            report = await self.cancel(peer)
            assert (report.spoken, report.unspoken) == ("", "one two ")
        await until(lambda: slow.gateway.bridge.open_utterances == 0)

    async def test_in_the_middle_of_a_step(self, slow: RunningServer) -> None:
        async with client(slow) as peer:
            await peer.send(TextAppend("one two three four "))
            await peer.read_until(AudioMessage)
            await asyncio.sleep(0.01)
            report = await self.cancel(peer, played_ms=10)
            assert (report.spoken, report.unspoken) == ("", "one two three four ")

    async def test_while_audio_is_being_sent(self, slow: RunningServer) -> None:
        async with client(slow) as peer:
            await peer.send(TextAppend("one two three four "), TextEnd())
            while len(peer.heaps.setdefault("main", Heap()).pcm) < 2 * 24 * 350:
                await peer.read()
            await peer.send(Played(300))
            report = await self.cancel(peer)
            assert (report.spoken, report.unspoken) == ("one two", " three four ")
            assert (report.played_ms, report.char_end, report.precision) == (300.0, 7, "exact")

    async def test_twice_and_after_the_end(self, slow: RunningServer) -> None:
        async with client(slow) as peer:
            await peer.send(TextAppend("one "), Cancel(), Cancel())
            heap = await peer.end_of()
            heard = await peer.read_until(Heard)
            assert isinstance(heap.end, Cancelled)
            assert heard.unspoken == "one "

    async def test_after_done_while_the_listener_still_listens(self, slow: RunningServer) -> None:
        async with client(slow) as peer:
            await peer.send(TextAppend("one two three "), TextEnd())
            await peer.end_of()
            await peer.send(Cancel(played_ms=310))
            heard = await peer.read_until(Heard)
            assert (heard.spoken, heard.unspoken) == ("one two", " three ")

    async def test_at_many_moments(self, slow: RunningServer) -> None:
        """Client and server race; whoever wins, the account is right and nothing follows it."""
        text = "one two three "
        async with client(slow) as peer:
            for number in range(10):
                name = f"c{number}"
                await peer.send(ContextOpen(name), TextAppend(text, name), TextEnd(name))
                reading = asyncio.create_task(peer.end_of(name))
                await asyncio.sleep(0.05 * number)
                await peer.send(Cancel(name))
                end = (await reading).end
                report = end if isinstance(end, Cancelled) else await peer.read_until(Heard, name)
                assert report.spoken + report.unspoken == text
        await until(lambda: slow.gateway.bridge.open_utterances == 0)

    async def test_the_engine_stops_within_a_step(self, slow: RunningServer) -> None:
        before = slow.metric("stop_seconds_count")
        async with client(slow) as peer:
            await peer.send(TextAppend("word " * 200))
            await peer.read_until(AudioMessage)
            await self.cancel(peer)
            await until(lambda: slow.metric("stop_seconds_count") > before)
        total_s = slow.metric("stop_seconds_sum")
        assert total_s / slow.metric("stop_seconds_count") < 0.3


class TestSockets:
    async def test_pings_are_answered_during_synthesis(self) -> None:
        with running(worker=WorkerSettings(arguments={"step_s": 1.0}, has_standby=False)) as busy:
            async with client(busy) as peer:
                await peer.send(TextAppend("word " * 50))
                await peer.read_until(AudioMessage)
                for number in range(10):
                    started_s = time.perf_counter()
                    await peer.send(Ping(str(number)))
                    assert (await peer.read_until(Pong)).id == str(number)
                    pong = await peer.connection.ping()
                    await pong
                    assert time.perf_counter() - started_s < 0.5

    async def test_a_vanished_client_frees_the_engine(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(ContextOpen("a"), ContextOpen("b"))
            await peer.send(TextAppend("word " * 2000, "a"), TextAppend("word " * 2000, "b"))
            await peer.read_until(AudioMessage)
            assert server.gateway.bridge.open_utterances == 2
            peer.connection.transport.abort()
            started_s = time.perf_counter()
            await until(lambda: server.gateway.bridge.open_utterances == 0)
            assert time.perf_counter() - started_s < 1
        await until(lambda: server.gateway.admission.sessions == 0)

    async def test_a_half_open_socket_is_given_up(self) -> None:
        with running(worker=WorkerSettings(has_standby=False), ping_s=0.3) as impatient:
            raw = socket.create_connection(("127.0.0.1", impatient.port))
            key = "dGhlIHNhbXBsZSBub25jZQ=="
            raw.sendall(
                f"GET /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            await until(lambda: impatient.gateway.admission.sessions == 1)
            await until(lambda: impatient.gateway.admission.sessions == 0, 3)
            raw.close()

    @pytest.mark.parametrize("head", [b"", b"GET /v1/stream HTTP/1.1\r\nHost: 127"])
    @pytest.mark.parametrize("is_second", [False, True])
    async def test_a_request_that_does_not_come_is_not_awaited(
        self, server: RunningServer, monkeypatch: pytest.MonkeyPatch, head: bytes, is_second: bool
    ) -> None:
        monkeypatch.setattr("realtime.app.REQUEST_S", 0.3)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        if is_second:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b"}")
        writer.write(head)
        with contextlib.suppress(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 8)
        writer.close()

    async def test_a_client_that_froze_amid_its_audio_is_given_up(self) -> None:
        with running(worker=WorkerSettings(arguments={"step_s": 0.002}, has_standby=False), ping_s=1.0) as impatient:
            async with client(impatient, sock=narrow_socket(impatient)) as frozen:
                # It freezes before a sound has come, so that no ping has to be answered in time on a busy machine.
                frozen.connection.transport.pause_reading()
                await frozen.send(TextAppend("word " * 200))
                await until(lambda: impatient.metric("audio_seconds_total") > 0, PATIENCE_S)
                await until(lambda: impatient.gateway.admission.sessions == 0, PATIENCE_S)
                await until(lambda: impatient.gateway.bridge.open_utterances == 0, PATIENCE_S)
                frozen.connection.transport.abort()

    async def test_many_contexts_leave_nothing_behind(self, server: RunningServer) -> None:
        async with client(server) as peer:

            async def round_trip(number: int) -> None:
                name = f"c{number}"
                await peer.send(ContextOpen(name), TextAppend("one two three ", name))
                if number % 3 == 0:
                    await peer.send(TextEnd(name))
                elif number % 3 == 1:
                    await peer.read_until(AudioStart, name)
                    await peer.send(Cancel(name))
                else:
                    await peer.send(Cancel(name))
                await peer.end_of(name)
                peer.heaps.clear()

            for number in range(50):
                await round_trip(number)
            before = resident_bytes()
            for number in range(50, 250):
                await round_trip(number)
            assert resident_bytes() - before < 8 * 1024 * 1024
            assert server.gateway.bridge.open_utterances == 0
            assert len(server.gateway.bridge._aborted_at_s) <= 1
            (driver,) = server.gateway._drivers
            assert len(driver._session._contexts._by_index) == len(driver._session._contexts._ended) == 32

    async def test_a_slow_reader_waits_alone(self) -> None:
        limits = LimitSettings(outbox_high_bytes=20_000, outbox_low_bytes=5_000, lead_ms=600_000)
        with running(worker=WorkerSettings(arguments={"step_s": 0.002}, has_standby=False), limits=limits) as hasty:
            start = SessionStart(1, audio=AudioFormat(sample_rate=48_000))
            async with client(hasty, start, max_queue=1, sock=narrow_socket(hasty)) as slow:
                await slow.send(TextAppend("word " * 200), TextEnd())
                await until(lambda: hasty.metric("pauses_total", cause="reader") >= 1)
                heap = await spoken(hasty, ["word " * 20])
                assert isinstance(heap.end, Done)
                made_s = hasty.metric("audio_seconds_total")
                await asyncio.sleep(0.2)
                assert hasty.metric("audio_seconds_total") == made_s < 20
                heap = await slow.end_of()
                assert isinstance(heap.end, Done)
                assert len(heap.pcm) == 2 * 48 * 200 * 200

    async def test_the_lead_is_bounded(self) -> None:
        limits = LimitSettings(lead_ms=1000)
        with running(worker=WorkerSettings(arguments={"step_s": 0.005}, has_standby=False), limits=limits) as measured:
            async with client(measured) as peer:
                started_s = time.perf_counter()
                await peer.send(TextAppend("word " * 12), TextEnd())
                heap = await peer.end_of()
                waited_s = time.perf_counter() - started_s
                assert isinstance(heap.end, Done)
                assert heap.end.audio_ms == 2400
                assert 1.1 < waited_s < 4.0


def narrow_socket(server: RunningServer) -> socket.socket:
    """A connected socket that takes in little while nobody reads."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    made.connect(("127.0.0.1", server.port))
    made.setblocking(False)
    return made


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class TestWorkerLoss:
    async def test_kill_9_is_an_error_for_those_who_speak_and_the_socket_lives(self) -> None:
        with running(worker=WorkerSettings(arguments={"step_s": 0.01})) as victim:
            async with client(victim) as peer, client(victim) as other:
                await peer.send(ContextOpen("a"), ContextOpen("b"))
                await peer.send(TextAppend("word " * 500, "a"), TextAppend("word " * 500, "b"))
                await other.send(TextAppend("word " * 500))
                for context in ("a", "b"):
                    await peer.read_until(AudioStart, context)
                await other.read_until(AudioStart)
                pid = victim.gateway.bridge.worker_pid
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                killed_s = time.perf_counter()
                for heap in [await peer.end_of("a"), await peer.end_of("b"), await other.end_of()]:
                    assert isinstance(heap.end, Error)
                    assert (heap.end.code, heap.end.retryable, heap.end.terminal) == ("worker_lost", True, True)
                await peer.send(ContextOpen("c"), TextAppend("hello again", "c"), TextEnd("c"))
                assert isinstance((await peer.end_of("c")).end, Done)
                assert time.perf_counter() - killed_s < 3
                assert victim.metric("worker_restarts_total") == 1
                await other.send(ContextOpen("main"), TextAppend("and I"), TextEnd())
                other.heaps.clear()
                assert isinstance((await other.end_of()).end, Done)


class TestRefusals:
    @pytest.mark.parametrize(
        "data",
        ["", "garbage", "[" * 60_000, '{"a":' * 12_000, "null", '{"type":"text.append","text":7}', b"\x00\xff", b"{}"],
    )
    async def test_garbage_is_answered_and_the_session_goes_on(self, server: RunningServer, data: str | bytes) -> None:
        async with client(server) as peer:
            await peer.connection.send(data)
            error = await peer.read()
            assert isinstance(error, Error)
            assert (error.code, error.terminal) == ("bad_message", False)
            await peer.send(TextAppend("fine"), TextEnd())
            assert isinstance((await peer.end_of()).end, Done)

    async def test_a_message_that_is_too_large(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.connection.send("x" * (MAX_CLIENT_MESSAGE_BYTES + 1))
            error = await peer.read()
            assert isinstance(error, Error)
            assert error.code == "message_too_large"

    async def test_a_message_that_is_far_too_large_is_not_even_read(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.connection.send("x" * (3 * MAX_CLIENT_MESSAGE_BYTES))
            await peer.connection.wait_closed()
            assert peer.connection.close_code == 1009
        await until(lambda: server.gateway.admission.sessions == 0)

    @pytest.mark.parametrize("frames", [[b"\xff"], [b'{"type":', b'"\xe2\x82', b'\xac\xed\xa0\x80"}']])
    async def test_text_that_is_not_utf_8(
        self, server: RunningServer, frames: list[bytes], caplog: pytest.LogCaptureFixture
    ) -> None:
        async with client(server) as peer:
            await peer.connection.send(frames if len(frames) > 1 else frames[0], text=True)
            with pytest.raises(ConnectionClosed):
                await peer.read()
            assert peer.connection.close_code == 1007
            assert "not UTF-8" in str(peer.connection.close_reason)
        await until(lambda: server.gateway.admission.sessions == 0)
        assert [record for record in caplog.records if record.levelname == "ERROR" or record.exc_info] == []

    async def test_a_character_may_be_cut_by_fragments(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.connection.send([b'{"type":"ping","id":"\xe2\x82', b'\xac"}'], text=True)
            assert await peer.read() == Pong("€")

    async def test_an_unknown_version(self, server: RunningServer) -> None:
        async with connect(server.stream_url, proxy=None) as connection:
            await connection.send('{"type":"session.start","protocol":9}')
            error = decode_server(await connection.recv())
            assert isinstance(error, Error)
            assert (error.code, error.terminal) == ("unsupported_protocol", True)
            await connection.wait_closed()
            assert connection.close_code == 1002

    async def test_text_limit_and_structural_tokens(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(*(TextAppend("x" * 50_000) for _ in range(2)), TextAppend("y"))
            assert (await peer.read_until(Error)).code == "text_too_long"
            await peer.send(ContextOpen("a"), TextAppend("one <|im_end|>", "a"), TextAppend("two", "a"), TextEnd("a"))
            error = await peer.read_until(Error)
            assert (error.code, error.context, error.terminal) == ("structural_token", "a", False)
            heap = await peer.end_of("a")
            assert heap.words == ["two"]
            assert isinstance(heap.end, Done)
            assert heap.end.characters == 3

    async def test_a_revision_beyond_the_end(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(TextAppend("one "), TextRevise("two ", 5), TextEnd())
            error = await peer.read_until(Error)
            assert (error.code, error.terminal) == ("bad_revision", False)
            assert (await peer.end_of()).words == ["one"]

    async def test_contexts_of_a_session(self, server: RunningServer) -> None:
        async with client(server) as peer:
            await peer.send(*(ContextOpen(f"c{number}") for number in range(33)))
            error = await peer.read_until(Error)
            assert (error.code, error.context, error.terminal) == ("too_many_contexts", "c32", True)

    async def test_sessions_of_a_server_and_late_starters(self) -> None:
        limits = LimitSettings(sessions=2, start_s=0.3, bad_messages=2)
        with running(worker=WorkerSettings(has_standby=False), limits=limits) as small:
            async with client(small), connect(small.stream_url, proxy=None) as silent:
                async with connect(small.stream_url, proxy=None) as third:
                    error = decode_server(await third.recv())
                    assert isinstance(error, Error)
                    assert (error.code, error.retryable, error.terminal) == ("busy", True, True)
                    await third.wait_closed()
                    assert third.close_code == 1013
                error = decode_server(await silent.recv())
                assert isinstance(error, Error)
                assert (error.code, error.terminal) == ("bad_state", True)
                await silent.wait_closed()
                assert silent.close_code == 1008
            await until(lambda: small.gateway.admission.sessions == 0)
            async with client(small) as rude:
                for _ in range(3):
                    await rude.connection.send("what?")
                await rude.connection.wait_closed()
                assert rude.connection.close_code == 1008
            assert small.metric("sessions_refused_total", reason="busy") == 1

    async def test_a_client_that_only_asks_is_shut_out(self) -> None:
        limits = LimitSettings(outbox_max_bytes=64 * 1024, close_s=0.2)
        with running(worker=WorkerSettings(has_standby=False), limits=limits) as small:
            async with client(small, max_queue=1, sock=narrow_socket(small)) as greedy:

                async def ask_on() -> None:
                    while True:
                        await greedy.connection.send(encode(Ping("x" * 128)))

                with pytest.raises(ConnectionClosed):
                    await asyncio.wait_for(ask_on(), 20)
            await until(lambda: small.gateway.admission.sessions == 0, 10)
            assert small.metric("errors_total", code="slow_reader") == 1


class TestConversation:
    @pytest.mark.parametrize("sample_rate", [24_000, 44_100])
    async def test_a_revision_recalls_what_was_sent(self, server: RunningServer, sample_rate: int) -> None:
        async with client(server, SessionStart(1, audio=AudioFormat(sample_rate=sample_rate))) as peer:
            await peer.send(TextAppend("one two three four five six "))
            while len(peer.heaps.get("main", Heap()).words) < 6:
                await peer.read()
            await peer.send(Played(100), TextRevise("seven eight", 14), TextEnd())
            heap = await peer.end_of()
            discard = next(message for message in heap.messages if isinstance(message, AudioDiscard))
            assert discard.from_ms == pytest.approx(600, abs=0.1)
            revised = next(message for message in heap.messages if isinstance(message, TextRevised))
            assert (revised.kept_to, revised.resumes_at, revised.late) == (14, 14, False)
            assert heap.words[-2:] == ["seven", "eight"]
            assert isinstance(heap.end, Done)
            assert heap.end.characters == len("one two three seven eight")
            assert heap.end.audio_ms == pytest.approx(1000, abs=0.1)
            assert heap.sequence == heap.end.audio_messages
            assert len(heap.pcm) // 2 == round(sample_rate * 1.0)

    async def test_a_cancel_is_answered_within_a_tenth_of_a_second(self, server: RunningServer) -> None:
        took_s = []
        async with client(server) as peer:
            for number in range(40):
                context = f"c{number}"
                await peer.send(ContextOpen(context), TextAppend("word " * 200, context))
                while not peer.heaps.get(context, Heap()).audio:
                    await peer.read()
                asked_s = time.monotonic()
                await peer.send(Cancel(context, played_ms=50))
                report = await peer.read_until(Cancelled, context)
                took_s.append(time.monotonic() - asked_s)
                assert report.spoken + report.unspoken == "word " * 200
            # A late byte would break a rule that the client checks on every message.
            await peer.send(TextAppend("end"), TextEnd())
            await peer.end_of()
        # 19 of 20: a machine that has other things to do may be late once or twice.
        assert sorted(took_s)[37] < 0.1
        await until(lambda: server.gateway.bridge.open_utterances == 0)

    async def test_a_storm_of_one_session_disturbs_no_other(self, server: RunningServer) -> None:
        async def storm() -> None:
            async with client(server) as peer:
                await peer.send(TextAppend("start "))
                for number in range(300):
                    await peer.send(TextRevise(f"word{number} " * 20, 0))
                    await asyncio.sleep(0.005)
                await peer.send(TextEnd())
                heap = await peer.end_of()
                assert isinstance(heap.end, Done)
                answers = [message for message in heap.messages if isinstance(message, TextRevised)]
                assert answers[-1].revision == 300
                assert len(answers) < 100

        async with client(server) as quiet:
            storming = asyncio.create_task(storm())
            for number in range(10):
                context = f"c{number}"
                await quiet.send(ContextOpen(context), TextAppend("one two", context), TextEnd(context))
                heap = await asyncio.wait_for(quiet.end_of(context), 5)
                assert heap.words == ["one", "two"]
            await storming


class TestStop:
    async def test_sessions_are_told(self) -> None:
        with running(worker=WorkerSettings(arguments={"step_s": 0.02}, has_standby=False)) as server:
            async with client(server) as peer:
                await peer.send(TextAppend("word " * 500))
                await peer.read_until(AudioMessage)
                server.stop()
                heap = await peer.end_of()
                assert isinstance(heap.end, Error)
                assert (heap.end.code, heap.end.retryable) == ("shutting_down", True)
                await peer.connection.wait_closed()
                assert peer.connection.close_code == 1012

    async def test_draining_lets_speech_end_and_nobody_in(self) -> None:
        with running(worker=WorkerSettings(arguments={"step_s": 0.02}, has_standby=False)) as server:
            async with client(server) as peer:
                await peer.send(TextAppend("word " * 10), TextEnd())
                await peer.read_until(AudioMessage)
                server.drain()
                async with connect(server.stream_url, subprotocols=[Subprotocol(SUBPROTOCOL)], proxy=None) as late:
                    assert json.loads(await late.recv())["code"] == "shutting_down"
                    await late.wait_closed()
                    assert late.close_code == 1012
                heap = await peer.end_of()
                assert isinstance(heap.end, Done)
                assert heap.end.audio_ms == 2000
