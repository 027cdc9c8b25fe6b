"""HTTP beside the stream: voices, health, metrics, the page; starts that fail."""

import logging
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from engine.core import Tally
from engine.errors import ConfigError
from realtime.app import WEB_FOLDER, make_server
from realtime.crew import WorkerSettings
from realtime.metrics import Metrics
from realtime.protocol import AudioMessage, Cancel, SessionStart, TextAppend, TextEnd
from realtime.settings import ServerSettings, Settings
from tests.realtime.running import RunningServer, client, until


@pytest.fixture
async def http(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as made:
        yield made


async def test_voices(http: httpx.AsyncClient) -> None:
    answer = (await http.get("/v1/voices")).json()
    assert answer["voices"] == [{"id": "heart"}, {"id": "michael"}, {"id": "bella"}]
    assert (answer["model"], answer["sample_rate"]) == ("fake", 24_000)


async def test_health(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json()["status"] == "ok"
    assert (await http.get("/readyz")).json() == {"status": "ready", "model": "fake"}


async def test_metrics_follow_a_session(server: RunningServer, http: httpx.AsyncClient) -> None:
    names = ("text_characters_total", "audio_seconds_total", "ttfa_seconds_count", "step_frame_share_count")
    before = {name: server.metric(name) for name in names}
    cancels = server.metric("cancels_total", cause="client")
    async with client(server) as peer:
        assert server.metric("sessions") == 1
        await peer.send(TextAppend("word " * 500))
        await peer.read_until(AudioMessage)
        assert server.metric("contexts") == 1
        await peer.send(Cancel())
        await peer.end_of()
        assert server.metric("contexts") == 0
    await until(lambda: server.metric("sessions") == 0)
    assert all(server.metric(name) > before[name] for name in names)
    assert server.metric("cancels_total", cause="client") == cancels + 1
    text = (await http.get("/metrics")).text
    assert "footlights_worker_ready 1.0" in text
    assert "footlights_ttfa_seconds_bucket" in text


def test_metrics_of_two_servers_are_apart() -> None:
    one, two = Metrics(), Metrics()
    one.worker_restarts.inc()
    assert b"footlights_worker_restarts_total 1.0" in one.render()
    assert b"footlights_worker_restarts_total 0.0" in two.render()


def test_what_an_engine_did_again_adds_up() -> None:
    metrics = Metrics()
    before = Tally(retries=1, duds=2)
    now = Tally(
        retries=3,
        revisions=4,
        discarded_frames=5,
        withdrawn_guesses=6,
        spliced_guesses=7,
        duds=9,
        runaways=8,
        heard_faults=7,
    )
    for tally in (before, now.since(before)):
        metrics.add_tally(tally)
    for name, value in {
        "turn_retries_total": 3,
        "engine_revisions_total": 4,
        "discarded_frames_total": 5,
        "withdrawn_guesses_total": 6,
        "spliced_guesses_total": 7,
        'speech_faults_total{kind="dud"}': 9,
        "heard_faults_total": 7,
        'speech_faults_total{kind="runaway"}': 8,
    }.items():
        assert f"footlights_{name} {value}.0\n".encode() in metrics.render()


class TestPage:
    async def test_it_is_served_with_its_types_and_headers(self, http: httpx.AsyncClient) -> None:
        for path in sorted(WEB_FOLDER.iterdir()):
            answer = await http.get("/" + path.name)
            assert answer.content == path.read_bytes()
            kinds = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}
            assert answer.headers["Content-Type"].split(";")[0] == kinds[path.suffix]
        answer = await http.get("/")
        assert answer.text == (WEB_FOLDER / "index.html").read_text()
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    @pytest.mark.parametrize(
        "path",
        [
            "/../app.py",
            "/..%2f..%2fpyproject.toml",
            "/%2e%2e/%2e%2e/pyproject.toml",
            "/....//pyproject.toml",
            "/%2fetc/passwd",
            "//etc/passwd",
            "/..\\..\\pyproject.toml",
            "/index.html%00.js",
            "/no-such-file.js",
        ],
    )
    def test_nothing_else_is(self, server: RunningServer, path: str) -> None:
        # By hand: clients tidy such paths up before they send them.
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.split(b" ", 2)[1] in (b"400", b"404")
        assert b"footlights" not in answer.lower().split(b"\r\n\r\n", 1)[1]
        assert b"root:" not in answer

    async def test_it_is_read_only(self, http: httpx.AsyncClient) -> None:
        assert (await http.post("/index.html")).status_code == 405


class TestLogs:
    async def test_a_session_leaves_two_lines_and_no_text(
        self, server: RunningServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            async with client(server, SessionStart(1)) as peer:
                await peer.send(TextAppend("confidential words"), TextEnd())
                await peer.end_of()
            await until(lambda: server.gateway.admission.sessions == 0)
        lines = [record for record in caplog.records if record.name == "realtime.websocket"]
        assert [record.levelname for record in lines] == ["INFO", "INFO"]
        assert "session opened" in lines[0].getMessage()
        assert "1 contexts, 18 characters, 0.4 s of audio, 0 cancels, 0 errors" in lines[1].getMessage()
        ours = [record.getMessage() for record in caplog.records if record.name.startswith(("realtime", "uvicorn"))]
        assert not [message for message in ours if "confidential" in message]


class TestStarts:
    def test_a_model_that_cannot_be_loaded_ends_the_server(self) -> None:
        settings = Settings(ServerSettings(port=0), worker=WorkerSettings("tests.realtime.fake_engine:broken"))
        server, listener = make_server(settings)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
        assert "no such checkpoint" in str(server.gateway.start_error)

    def test_an_address_that_is_taken(self, server: RunningServer) -> None:
        with pytest.raises(ConfigError, match="cannot listen on 127.0.0.1"):
            make_server(Settings(ServerSettings(port=server.port)))

    def test_open_addresses_without_a_key_are_refused_again_here(self) -> None:
        with pytest.raises(ConfigError, match="without an API key"):
            make_server(Settings(ServerSettings(host="0.0.0.0", port=0)))


def test_the_page_is_where_it_is_expected() -> None:
    assert (Path(WEB_FOLDER) / "index.html").is_file()
