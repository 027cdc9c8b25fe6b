"""A real server with the engine that speaks in tones: real sockets, real worker process."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from realtime.app import make_server
from realtime.crew import WorkerSettings
from realtime.limits import LimitSettings
from realtime.settings import ServerSettings, Settings

FAKE_ENGINE = "tests.realtime.fake_engine:make"
START_S = 30.0


def settings_for(
    *, step_s: float = 0.0, api_key: str | None = None, limits: LimitSettings | None = None, frames_per_word: int = 4
) -> Settings:
    """``step_s``: how long the engine takes for a frame of 50 ms."""
    return Settings(
        server=ServerSettings(port=0),
        limits=limits or LimitSettings(),
        worker=WorkerSettings(
            factory=FAKE_ENGINE, arguments={"step_s": step_s, "frames_per_word": frames_per_word}, has_standby=False
        ),
        api_key=api_key,
    )


@contextlib.contextmanager
def running(settings: Settings) -> Iterator[str]:
    """The address of a server that runs in a thread of its own, ready."""
    server, listener = make_server(settings)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + START_S
        while not (server.started and server.gateway.bridge.is_ready):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A server that takes 5 ms for 50 ms of speech, and 200 ms of speech for each word."""
    with running(settings_for(step_s=0.005)) as url:
        yield url


@pytest.fixture(scope="session")
def locked_server() -> Iterator[str]:
    """A server that wants the key ``open sesame``."""
    with running(settings_for(api_key="open sesame")) as url:
        yield url


@pytest.fixture
def impatient_server() -> Iterator[str]:
    """A fast server that runs at most a second ahead of its listeners."""
    with running(settings_for(limits=LimitSettings(lead_ms=1000))) as url:
        yield url


@pytest.fixture
def small_server() -> Iterator[str]:
    """A server whose contexts take 60 characters of text."""
    with running(settings_for(limits=LimitSettings(context_characters=60))) as url:
        yield url
