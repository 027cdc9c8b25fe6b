"""One server with a fast fake engine, shared by the tests that leave it as it was."""

from collections.abc import Iterator

import anyio
import pytest

from realtime.crew import WorkerSettings
from tests.realtime.running import RunningServer, running

# Imports anyio's lazy parts here and now: pytest rewrites them, which a server's thread must not do meanwhile.
assert all((anyio.open_file, anyio.to_thread, anyio.create_task_group))


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running(worker=WorkerSettings(arguments={"step_s": 0.001}, has_standby=False)) as made:
        yield made
