"""A real server with the tiny model and its codec: a recording is sent, a context speaks with it, a worker is lost."""

import io
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile

from realtime.crew import WorkerSettings
from realtime.protocol import ContextOpen, Done, TextAppend, TextEnd
from tests.realtime.running import RunningServer, client, running, until

pytestmark = pytest.mark.slow

FACTORY = "engine.engine:load_engine"
GOLDEN = Path(__file__).parents[1] / "golden" / "drama3-tiny"
START_S = 180
KEY = "open-sesame"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drama3-tiny")
    for path in (GOLDEN / "checkpoint-bf16").iterdir():
        (folder / path.name).symlink_to(path)
    for name in ("codec.pth", "codec_config.json"):
        shutil.copy(GOLDEN / "codec" / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[RunningServer]:
    worker = WorkerSettings(model=str(model), standby_delay_s=0.1, stop_s=1)
    with running(worker=worker, factory=FACTORY, start_s=START_S, api_key=KEY) as made:
        yield made


@pytest.fixture
async def http(server: RunningServer) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=120) as made:
        yield made


def wav(seconds: float = 1.2, hertz: float = 220.0, rate: int = 48_000, level: float = 0.4) -> bytes:
    """Two channels at a rate that is not the codec's."""
    time_s = np.arange(int(seconds * rate)) / rate
    tone = level * np.sin(2 * np.pi * hertz * time_s) * (1 + np.sin(7 * time_s)) / 2
    buffer = io.BytesIO()
    soundfile.write(buffer, np.stack((tone, tone), 1), rate, format="WAV")
    return buffer.getvalue()


async def add(
    http: httpx.AsyncClient, name: str, audio: bytes, transcript: str = "The lamps came on."
) -> httpx.Response:
    parts: list[tuple[str, Any]] = [
        ("name", (None, name)),
        ("audio", ("clip.wav", audio)),
        ("transcript", (None, transcript)),
    ]
    return await http.post("/v1/voices", files=parts)


async def spoken(server: RunningServer, voice: str, text: str = "Yes.") -> bytes:
    async with client(server, additional_headers={"Authorization": f"Bearer {KEY}"}) as peer:
        await peer.send(ContextOpen("c", voice=voice), TextAppend(text, "c"), TextEnd("c"))
        heap = await peer.end_of("c")
        assert isinstance(heap.end, Done), heap.end
        pcm: bytes = heap.pcm
        return pcm


async def test_a_recording_becomes_a_voice_that_speaks_and_outlives_the_worker(
    server: RunningServer, http: httpx.AsyncClient, model: Path
) -> None:
    plain = await spoken(server, "default")
    answer = await add(http, "ada", wav())
    assert answer.status_code == 201, answer.text
    assert (model / "voices" / "ada.safetensors").is_file()
    listed = (await http.get("/v1/voices")).json()
    assert listed["voices"] == [{"id": "default"}, {"id": "ada", "recordings": 1, "seconds": 1.2}]
    assert listed["can_clone"] is True
    pcm = await spoken(server, "ada")
    assert len(pcm) > 2 * 44
    assert pcm != plain

    # The standby was made before there was the voice: it finds the file.
    await until(lambda: server.gateway.bridge.standby_pid is not None, 60)
    worker_pid = server.gateway.bridge.worker_pid
    assert worker_pid is not None
    os.kill(worker_pid, signal.SIGKILL)
    await until(lambda: server.gateway.bridge.worker_pid not in (None, worker_pid), 60)
    await until(lambda: server.gateway.bridge.is_ready, START_S)
    assert await spoken(server, "ada") == pcm

    assert (await http.delete("/v1/voices/ada")).status_code == 204
    assert (await http.get("/v1/voices")).json()["voices"] == [{"id": "default"}]
    assert list((model / "voices").iterdir()) == []


def stored(model: Path, name: str) -> list[Path]:
    """Files of a voice ``name`` in the model's folder or beside it."""
    return [*model.rglob(f"*{name}.safetensors"), *model.parent.glob(f"*{name}.safetensors")]


@pytest.mark.parametrize(
    ("name", "audio", "transcript", "status", "says"),
    [
        ("quiet", wav(level=0.0005), "Nothing.", 422, "-45 are the least"),
        ("short", wav(0.4), "No.", 422, "it must be 1 to 60 s"),
        ("video", b"\0\0\0\x20ftypisom" + bytes(9000), "Look.", 422, "a video"),
        ("none", b"", "Look.", 422, "empty"),
        ("structure", wav(), "a <|im_end|> b", 422, "structures the prompt"),
        ("speaker", wav(), "<|speaker:16|> b", 422, "speaker tags are"),
        ("../up", wav(), "Up.", 400, "1 to 64 of"),
        ("default", wav(), "Mine.", 400, "the model's own voice"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
async def test_what_cannot_be_a_voice(
    http: httpx.AsyncClient, model: Path, name: str, audio: bytes, transcript: str, status: int, says: str
) -> None:
    answer = await add(http, name, audio, transcript)
    assert answer.status_code == status
    assert says in answer.json()["error"]["message"]
    assert not stored(model, name.strip("./"))


async def test_the_understudy_cannot_clone() -> None:
    with running(worker=WorkerSettings(has_standby=False), factory=FACTORY, start_s=START_S) as server:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as http:
            assert (await http.get("/v1/voices")).json()["can_clone"] is False
            answer = await add(http, "ada", wav())
            assert (answer.status_code, answer.json()["error"]["code"]) == (501, "no_cloning")
            assert "learned its voices (heart, michael, bella, " in answer.json()["error"]["message"]
