"""Models from the hub: a server of this test speaks its protocol, the real client library fetches from it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from engine.checkpoint.source import Repository, find_model, model_name, repository
from engine.errors import DownloadError
from engine.manifest import Manifest

FIRST, SECOND = "a" * 40, "b" * 40
NAME = "fishaudio/drama-3"
FIRST_SHARD = "model-00001-of-00002.safetensors"
WRITTEN = 10 << 20
"""The library writes a download down whenever it has this many bytes."""
FILES = {
    "config.json": b'{"architectures": ["FishOmniModel"]}',
    FIRST_SHARD: bytes(range(256)) * (WRITTEN // 256 + 1000),
    "model-00002-of-00002.safetensors": b"second" * 1000,
    "model.safetensors.index.json": b"{}",
    "tokenizer.json": b"{}",
    "codec.pth": b"codec" * 500,
    "LICENSE": b"Fish Audio Community License",
    "modeling_fish.py": b"raise SystemExit('never run')",
    "pytorch_model.bin": b"never fetched",
}


@dataclass
class Hub:
    """What the server has, how it behaves, and what it was asked for."""

    url: str = ""
    main: str = FIRST
    status: int = 200
    error_code: str | None = None
    cut_after: int | None = None
    """Bytes of the first shard after which its connection breaks, once."""
    is_held: bool = False
    """The first shard does not come before ``go_on`` is set."""
    go_on: threading.Event = field(default_factory=threading.Event)
    requests: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def downloads(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.requests if path.startswith("GET") and "/resolve/" in path]


def handler_for(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:  # noqa: N802
            self.answer(with_body=False)

        def do_GET(self) -> None:  # noqa: N802
            self.answer(with_body=True)

        def answer(self, with_body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path}")
            if hub.status != 200:
                headers = {"X-Error-Code": hub.error_code} if hub.error_code else {}
                return self.send(hub.status, b"{}", headers, with_body)
            if path.startswith(f"/api/models/{NAME}/revision/"):
                sha = {"main": hub.main, "v1": FIRST, FIRST: FIRST, SECOND: SECOND}.get(path.rpartition("/")[2])
                if sha is None:
                    return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"}, with_body)
                siblings = [{"rfilename": n, "size": hub.sizes.get(n, len(c))} for n, c in FILES.items()]
                return self.json({"id": NAME, "modelId": NAME, "sha": sha, "siblings": siblings, "tags": []}, with_body)
            if path.startswith(f"/api/models/{NAME}/tree/"):
                entries = [{"type": "file", "path": n, "size": len(c), "oid": etag(c)} for n, c in FILES.items()]
                return self.json(entries, with_body)
            if path.startswith(f"/{NAME}/resolve/"):
                return self.file(path.split("/")[4], path.rpartition("/")[2], with_body)
            return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"}, with_body)

        def file(self, sha: str, name: str, with_body: bool) -> None:
            content, status = FILES[name], 200
            headers = {"ETag": f'"{etag(content)}"', "X-Repo-Commit": sha, "Accept-Ranges": "bytes"}
            if (asked := self.headers.get("Range")) and with_body:
                hub.ranges.append(f"{name} {asked}")
                start = int(asked.removeprefix("bytes=").partition("-")[0])
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
                content, status = content[start:], 206
            return self.send(status, content, headers, with_body)

        def json(self, value: object, with_body: bool) -> None:
            self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"}, with_body)

        def send(self, status: int, content: bytes, headers: dict[str, str], with_body: bool) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            for header, value in headers.items():
                self.send_header(header, value)
            self.end_headers()
            if not with_body:
                return
            is_first_shard = len(content) == len(FILES[FIRST_SHARD])
            if is_first_shard and hub.is_held:
                hub.go_on.wait(60)
            if is_first_shard and hub.cut_after is not None:
                content, hub.cut_after, self.close_connection = content[: hub.cut_after], None, True
            self.wfile.write(content)

    return Handler


def etag(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Result:
    folder: Path | None
    out: str
    error: str


def start(model: str, hub: Hub, home: Path, **environment: str) -> subprocess.Popen[str]:
    """Run ``find_model`` in a process of its own: the client library reads its settings when it is imported."""
    code = (
        "import sys\nfrom engine.checkpoint.source import find_model\nfrom engine.errors import DownloadError\n"
        "try:\n    print('FOLDER', find_model(sys.argv[1]))\n"
        "except DownloadError as error:\n    sys.exit(f'ERROR {error}')\n"
    )
    settings = {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return subprocess.Popen(
        [sys.executable, "-c", code, model],
        cwd=Path(__file__).parents[2],
        env={**clean, **settings, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def fetch(model: str, hub: Hub, home: Path, **environment: str) -> Result:
    process = start(model, hub, home, **environment)
    out, error = process.communicate(timeout=200)
    folders = [line.removeprefix("FOLDER ") for line in out.splitlines() if line.startswith("FOLDER ")]
    assert bool(folders) == (process.returncode == 0), error
    return Result(Path(folders[0]) if folders else None, out, error)


def test_a_model_is_fetched_once_and_stays_at_its_commit(hub: Hub, tmp_path: Path) -> None:
    result = fetch(NAME, hub, tmp_path)
    assert result.folder is not None
    assert f"fetching {NAME} at commit {FIRST}" in result.out
    assert "Fetching" in result.error or "%" in result.error, "no progress bar"
    names = {path.name for path in result.folder.iterdir()}
    assert names == set(FILES) - {"modeling_fish.py", "pytorch_model.bin"}
    assert all((result.folder / name).read_bytes() == FILES[name] for name in names)
    assert model_name(result.folder) == "drama-3"
    assert Manifest.from_folder(result.folder).name == "drama-3"

    hub.main, hub.status = SECOND, 500
    hub.requests.clear()
    assert fetch(NAME, hub, tmp_path).folder == result.folder
    assert hub.requests == [], "the hub was asked although the model is here"
    hub.status = 200
    newer = fetch(f"{NAME}@{SECOND}", hub, tmp_path)
    assert newer.folder is not None
    assert newer.folder.name == SECOND
    assert fetch(f"{NAME}@v1", hub, tmp_path).folder == result.folder


def test_a_broken_connection_is_taken_up_again(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after = WRITTEN + 1000
    result = fetch(NAME, hub, tmp_path)
    assert result.folder is not None, result.error
    assert (result.folder / FIRST_SHARD).read_bytes() == FILES[FIRST_SHARD]
    assert any(asked.startswith(f"{FIRST_SHARD} bytes={WRITTEN}-") for asked in hub.ranges), hub.ranges


def test_after_a_kill_files_that_had_arrived_are_kept(hub: Hub, tmp_path: Path) -> None:
    hub.is_held = True
    process = start(NAME, hub, tmp_path)
    others = set(FILES) - {FIRST_SHARD, "modeling_fish.py", "pytorch_model.bin"}
    deadline = time.monotonic() + 100
    while {path.name for path in tmp_path.glob("**/snapshots/*/*")} != others:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.communicate()
    hub.go_on.set()
    hub.requests.clear()
    result = fetch(NAME, hub, tmp_path)
    assert result.folder is not None
    assert (result.folder / FIRST_SHARD).read_bytes() == FILES[FIRST_SHARD]
    assert hub.downloads() == [FIRST_SHARD]


@pytest.mark.parametrize(
    ("model", "status", "code", "says"),
    [
        (NAME, 401, "GatedRepo", "accepted its licence.*https://huggingface.co/fishaudio/drama-3.*HF_TOKEN"),
        ("nobody/nothing", 200, None, "no folder 'nobody/nothing', and no such model"),
        (f"{NAME}@v9", 200, None, "has no revision 'v9'"),
        (NAME, 500, None, "could not be fetched"),
    ],
)
def test_what_cannot_be_fetched(hub: Hub, tmp_path: Path, model: str, status: int, code: str | None, says: str) -> None:
    hub.status, hub.error_code = status, code
    result = fetch(model, hub, tmp_path)
    assert result.folder is None
    message = result.error.split("ERROR ")[1]
    assert re.search(says, message), message


def test_without_a_network(hub: Hub, tmp_path: Path) -> None:
    result = fetch(NAME, hub, tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert f"{NAME}@main could not be fetched from the hub" in result.error
    assert "Traceback" not in result.error


def test_a_model_larger_than_the_disk(hub: Hub, tmp_path: Path) -> None:
    hub.sizes[FIRST_SHARD] = 1 << 60
    result = fetch(NAME, hub, tmp_path)
    assert "needs 1152921504.6 GB" in result.error
    assert hub.downloads() == []


@pytest.mark.parametrize("model", ["./drama-3", "../a/b", "/models/drama-3", "drama-3", "a/b/c", "~/drama-3", "a b/c"])
def test_paths_are_not_looked_up(model: str) -> None:
    assert repository(model) is None
    assert find_model(model) == Path(model).expanduser()


def test_a_folder_that_is_here_comes_before_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert repository("fishaudio/drama-3@v1.0") == Repository("fishaudio/drama-3", "v1.0")
    assert repository(Path("fishaudio/drama-3")) == Repository("fishaudio/drama-3", "main")
    (tmp_path / "fishaudio/drama-3").mkdir(parents=True)
    assert repository("fishaudio/drama-3") is None
    assert model_name(tmp_path / "fishaudio/drama-3") == "drama-3"


@pytest.mark.parametrize("name", ["org/two..dots", "org/name.git", "org/name-"])
def test_a_name_the_hub_does_not_allow(name: str) -> None:
    with pytest.raises(DownloadError, match="no folder .* the hub has no such names"):
        find_model(name)
