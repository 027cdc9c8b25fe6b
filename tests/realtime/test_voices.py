"""Voices over HTTP, with an engine that makes them of nothing: who may, what is refused, who learns of it."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from typing import Any

import httpx
import pytest

from engine.core import ClonedVoice, Recording, Utterance
from realtime import voices, worker
from realtime.actions import Send
from realtime.commands import Add, AddVoice, LookAtVoices, Probe, RemoveVoice, Report, Stop, VoiceAnswer
from realtime.crew import WorkerSettings
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.protocol import ContextOpen, Done, Error, SessionStart, TextAppend, TextEnd
from realtime.session import Session
from realtime.voice_desk import VoiceDesk
from realtime.voices import describe
from tests.realtime.fake_engine import FakeEngine, MadeOfNothing
from tests.realtime.running import RunningServer, client, running, until

KEY = "open-sesame"


@pytest.fixture(scope="module")
def studio() -> Iterator[RunningServer]:
    limits = LimitSettings(voice_bytes=100_000)
    with running(worker=WorkerSettings(arguments={"step_s": 0.001}, has_standby=False), limits=limits) as made:
        yield made


@pytest.fixture
async def http(studio: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=studio.url, trust_env=False, timeout=20) as made:
        yield made


def form(name: str, *recordings: tuple[bytes, str]) -> dict[str, Any]:
    """Arguments of a request that asks for a voice."""
    files: list[tuple[str, Any]] = [("name", (None, name))]
    for audio, transcript in recordings or [(b"a recording", "What is said.")]:
        files += [("audio", ("clip.wav", audio, "audio/wav")), ("transcript", (None, transcript))]
    return {"files": files}


async def ids(http: httpx.AsyncClient) -> list[str]:
    return [voice["id"] for voice in (await http.get("/v1/voices")).json()["voices"]]


class TestRequests:
    async def test_a_voice_comes_and_goes(self, http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/voices", **form("ada", (b"one", "One."), (b"three", "Three.")))
        assert answer.status_code == 201
        assert answer.json()["id"] == "ada"
        assert "agreed" in answer.json()["notice"]
        assert answer.json()["notes"] == []
        listed = (await http.get("/v1/voices")).json()
        assert listed["voices"][-1] == {"id": "ada", "recordings": 1, "seconds": 8.0}
        assert (await http.delete("/v1/voices/ada")).status_code == 204
        assert "ada" not in await ids(http)
        gone = await http.delete("/v1/voices/ada")
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_voice")

    async def test_what_will_be_heard_is_noted(self, http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/voices", **form("dull", (b"dull", "x")))
        assert answer.json()["notes"] == ["it sounds like a telephone"]
        await http.delete("/v1/voices/dull")

    async def test_the_next_context_speaks_with_it(self, studio: RunningServer, http: httpx.AsyncClient) -> None:
        async with client(studio) as peer:
            await peer.send(ContextOpen("before", voice="eve"))
            heap = await peer.end_of("before")
            assert isinstance(heap.end, Error)
            assert heap.end.code == "unknown_voice"
            assert (await http.post("/v1/voices", **form("eve"))).status_code == 201
            await peer.send(ContextOpen("after", voice="eve"), TextAppend("one two", "after"), TextEnd("after"))
            assert isinstance((await peer.end_of("after")).end, Done)
        await http.delete("/v1/voices/eve")

    @pytest.mark.parametrize(("audio", "status", "code"), [(b"bad", 422, "bad_clip"), (b"bug secret", 500, "internal")])
    async def test_what_the_engine_refuses(
        self, http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, audio: bytes, status: int, code: str
    ) -> None:
        answer = await http.post("/v1/voices", **form("ada", (audio, "x")))
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert "secret" not in answer.text + caplog.text
        assert "ada" not in await ids(http)

    @pytest.mark.parametrize(
        "request_of",
        [
            {"content": b"raw bytes"},
            {"content": b"", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
            {"content": b"--x\r\nnonsense", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
            {"content": b"--x", "headers": {"Content-Type": "multipart/form-data"}},
            {"data": {"name": "ada", "audio": "text", "transcript": "x"}},
            {"files": [("name", (None, "ada"))]},
            {"files": [("name", (None, "ada")), ("audio", ("a.wav", b"x"))]},
            {"files": [("audio", ("a.wav", b"x")), ("transcript", (None, "x"))]},
            {"files": [("name", ("n", b"ada")), ("audio", ("a.wav", b"x")), ("transcript", (None, "x"))]},
            form("ada", *[(b"x", "x")] * 9),
            form("ada", (b"x", "x" * 20_000)),
        ],
        ids=range(11),
    )
    async def test_forms_that_are_none(self, http: httpx.AsyncClient, request_of: dict[str, Any]) -> None:
        answer = await http.post("/v1/voices", **request_of)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_message")

    async def test_too_large_a_body(self, http: httpx.AsyncClient) -> None:
        answer = await http.post("/v1/voices", **form("ada", (bytes(100_001), "x")))
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "message_too_large")

    async def test_a_body_that_never_ends_is_cut_off(self, http: httpx.AsyncClient) -> None:
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            yield b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\n'
            while sent < 50_000_000:
                sent += 10_000
                yield bytes(10_000)

        headers = {"Content-Type": "multipart/form-data; boundary=x"}
        try:
            answer = await http.post("/v1/voices", content=endless(), headers=headers)
            assert answer.status_code == 413
        except httpx.TransportError:
            # The server may close before it was sent all of it.
            assert sent < 50_000_000
        assert "heart" in await ids(http)

    async def test_one_at_a_time(self, studio: RunningServer, http: httpx.AsyncClient) -> None:
        first = asyncio.create_task(http.post("/v1/voices", **form("slowly", (b"slow", "x"))))
        await until(lambda: studio.gateway.voices._is_busy)
        second = await http.post("/v1/voices", **form("ada"))
        assert (second.status_code, second.json()["error"]["code"]) == (429, "busy")
        assert (await first).status_code == 201
        await http.delete("/v1/voices/slowly")

    @pytest.mark.parametrize("leaves", [False, True])
    async def test_a_body_that_does_not_come_holds_nobody_up(
        self,
        studio: RunningServer,
        http: httpx.AsyncClient,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        leaves: bool,
    ) -> None:
        monkeypatch.setattr(voices, "STALL_S", 30.0 if leaves else 0.3)
        reader, writer = await asyncio.open_connection("127.0.0.1", studio.port)
        writer.write(
            b"POST /v1/voices HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )
        await writer.drain()
        if not leaves:
            assert b"did not arrive in time" in await asyncio.wait_for(reader.read(), 10)
        writer.close()
        await writer.wait_closed()

        async def is_made() -> bool:
            return (await http.post("/v1/voices", **form("next"))).status_code == 201

        for _ in range(50):
            if await is_made():
                break
            await asyncio.sleep(0.1)
        else:
            pytest.fail("voices are still held up")
        await http.delete("/v1/voices/next")
        assert "Traceback" not in caplog.text

    async def test_others_are_heard_meanwhile(self, studio: RunningServer, http: httpx.AsyncClient) -> None:
        async with client(studio) as peer:
            making = asyncio.create_task(http.post("/v1/voices", **form("slowly", (b"slow", "x"))))
            await until(lambda: studio.gateway.voices._is_busy)
            started_s = time.perf_counter()
            await peer.send(TextAppend("one"), TextEnd())
            await peer.end_of()
            assert time.perf_counter() - started_s < 0.4
            assert not making.done()
            assert (await making).status_code == 201
        await http.delete("/v1/voices/slowly")

    async def test_names_are_no_paths(self, http: httpx.AsyncClient) -> None:
        for path in ("/v1/voices/..%2f..%2fetc%2fpasswd", "/v1/voices/", "/v1/voices/a/b"):
            assert (await http.delete(path)).status_code in (404, 405)


def test_a_voice_that_cannot_be_used_says_why() -> None:
    problem = ClonedVoice("ada", 1.0, 1, "it was made for another model (old)")
    info = replace(FakeEngine().info, cloned=(problem,))
    assert describe(info)["unusable_voices"] == [{"id": "ada", "problem": "it was made for another model (old)"}]
    session = Session("s", info, LimitSettings(), time.monotonic, Metrics())
    session.receive(SessionStart(1))
    (action,) = session.receive(ContextOpen("c", voice="ada"))
    assert isinstance(action, Send)
    assert isinstance(action.message, Error)
    assert action.message.code == "bad_voice"
    assert action.message.message == "voice 'ada' cannot be used: it was made for another model (old)"
    session.model_changed(FakeEngine().info)
    (action,) = session.receive(ContextOpen("c", voice="ada"))
    assert isinstance(action, Send)
    assert isinstance(action.message, Error)
    assert action.message.code == "unknown_voice"


class TestWhoMay:
    async def test_only_with_the_key(self) -> None:
        with running(worker=WorkerSettings(has_standby=False), api_key=KEY) as guarded:
            async with httpx.AsyncClient(base_url=guarded.url, trust_env=False) as http:
                for answer in (
                    await http.get("/v1/voices"),
                    await http.post("/v1/voices", **form("ada")),
                    await http.delete("/v1/voices/heart"),
                    await http.post("/v1/voices", **form("ada"), headers={"Authorization": "Bearer wrong"}),
                ):
                    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
                right = {"Authorization": f"Bearer {KEY}"}
                assert (await http.post("/v1/voices", **form("ada"), headers=right)).status_code == 201
                assert (await http.delete("/v1/voices/ada", headers=right)).status_code == 204

    async def test_pages_of_other_origins_may_not(self, http: httpx.AsyncClient) -> None:
        """A form of any web page could otherwise post to a server on its reader's own machine."""
        foreign = {"Origin": "https://evil.example"}
        for answer in (
            await http.post("/v1/voices", **form("ada"), headers=foreign),
            await http.delete("/v1/voices/heart", headers=foreign),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "bad_origin")
        own = {"Origin": str(http.base_url).rstrip("/")}
        assert (await http.delete("/v1/voices/nobody", headers=own)).status_code == 404


class TestLosses:
    async def test_a_worker_that_dies_over_a_recording(self) -> None:
        with running(worker=WorkerSettings()) as victim:
            await until(lambda: victim.gateway.bridge.standby_pid is not None, 20)
            async with httpx.AsyncClient(base_url=victim.url, trust_env=False, timeout=20) as http:
                answer = await http.post("/v1/voices", **form("ada", (b"exit", "x")))
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "worker_lost")
                await until(lambda: victim.gateway.bridge.is_ready, 20)
                assert (await http.post("/v1/voices", **form("ada"))).status_code == 201
                assert "ada" in await ids(http)


class TestDesk:
    def test_it_answers_and_tells_the_model(self) -> None:
        engine = FakeEngine()
        desk = VoiceDesk(engine)
        ours, theirs = Pipe()
        desk.take(AddVoice(1, "ada", (Recording(b"x", "x"),)))
        assert not desk.wait(theirs, 5)
        answers, info = desk.collect()
        assert answers == (VoiceAnswer(1),)
        assert info is not None
        assert info.voices[-1] == "ada"
        assert desk.collect() == ((), None)
        desk.take(RemoveVoice(2, "ada"))
        desk.take(RemoveVoice(3, "ada"))
        assert not desk.wait(theirs, None)
        answers, info = desk.collect()
        assert answers == (VoiceAnswer(2), VoiceAnswer(3, "unknown_voice", "no voice 'ada'"))
        assert info is not None
        assert info.voices == ("heart", "michael", "bella")
        ours.send(Probe(1))
        assert desk.wait(theirs, None)
        ours.close()
        theirs.close()

    def test_asked_it_always_tells_the_model(self) -> None:
        desk = VoiceDesk(FakeEngine())
        desk.look()
        assert desk.collect() == ((), None)
        desk.take(LookAtVoices())
        assert desk.collect()[1] == FakeEngine().info

    def test_what_others_changed_is_told_with_a_probe(self) -> None:
        class Watched(FakeEngine):
            def refresh_voices(self) -> bool:
                self.keep_voice(MadeOfNothing(ClonedVoice("new", 1.0, 1)))
                return True

        desk = VoiceDesk(Watched())
        desk.look()
        info = desk.collect()[1]
        assert info is not None
        assert "new" in info.voices


async def test_a_standby_in_service_knows_the_voices_added_since() -> None:
    """Its engine looks into the folder (here: it forgets); until it has answered, the list stays as it was."""
    with running(worker=WorkerSettings(is_standby_warm=True)) as server:
        await until(lambda: server.gateway.bridge.standby_pid is not None, 20)
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=20) as http:
            await http.post("/v1/voices", **form("ada"))
        bridge = server.gateway.bridge
        assert bridge.info is not None
        assert "ada" in bridge.info.voices
        reports: list[Report] = []
        deliver = bridge._deliver
        crew = bridge._crew
        assert crew is not None

        def watch(report: Report) -> None:
            reports.append(report)
            deliver(report)

        crew._on_report = watch
        async with client(server) as peer:
            await peer.send(TextAppend("!exit "))
            await peer.end_of()
        await until(lambda: any(report.info is not None for report in reports), 20)
        assert "ada" not in next(report.info.voices for report in reports if report.info is not None)
        await until(lambda: bridge.info is not None and "ada" not in bridge.info.voices)


def test_commands_of_voices_do_not_disturb_the_loop() -> None:
    """Nothing is sent for a look that finds nothing new, and a stop still stops."""
    ours, theirs = Pipe()
    loop = threading.Thread(target=worker.run, args=(theirs, FakeEngine()))
    loop.start()
    ours.send(Add(Utterance("u", "heart")))
    ours.send(AddVoice(5, "ada", (Recording(b"x", "x"),)))
    assert ours.poll(5)
    report = ours.recv()
    assert report.answers == (VoiceAnswer(5),)
    ours.send(Stop())
    loop.join(5)
    assert not loop.is_alive()
    ours.close()
    theirs.close()
