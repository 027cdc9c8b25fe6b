"""A server of our own for one command: on a free loopback port, in a thread, with the same code that `serve` runs."""

import argparse
import asyncio
import dataclasses
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clients.sdk import ClientError
from engine.checkpoint.source import find_model
from engine.errors import FootlightsError
from engine.manifest import Manifest
from realtime import settings
from realtime.app import Server, make_server

POLL_S = 0.02


@asynccontextmanager
async def private_server(config: str | None = None, model: str | None = None) -> AsyncIterator[str]:
    """Its address, once the model is ready, until the block ends.

    Args:
        config: a configuration file of `footlights serve`; the environment counts too. Addresses in them do not.
        model: folder of the checkpoint; None: what the configuration says.

    Raises:
        ClientError: a bad configuration, or a model that cannot be loaded.
    """
    try:
        server, listener = make_server(_settings(config, model))
    except FootlightsError as error:
        raise ClientError(str(error), code=error.code) from error
    # Not a task of this loop: uvicorn would take over Ctrl-C there.
    thread = threading.Thread(target=server.run, args=([listener],), name="private server", daemon=True)
    thread.start()
    try:
        await _ready(server, thread)
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await asyncio.to_thread(thread.join)
        listener.close()


def find_voice_model(model: str, is_quiet: bool) -> str:
    """The folder of a model, fetched from the hub if need be; tells its licence on standard error.

    Raises:
        ClientError: it cannot be had.
    """
    try:
        folder = find_model(model)
        if not is_quiet:
            print(Manifest.from_folder(folder).credit, file=sys.stderr)
    except FootlightsError as error:
        raise ClientError(str(error), code=error.code) from error
    return str(folder)


async def _ready(server: Server, thread: threading.Thread) -> None:
    gateway = server.gateway
    while not (server.started and gateway.bridge.is_ready):  # noqa: ASYNC110 - the other loop cannot set our events
        if gateway.start_error is not None:
            raise ClientError(str(gateway.start_error), code=gateway.start_error.code) from gateway.start_error
        if not thread.is_alive():
            raise ClientError("the server ended before it was ready")
        await asyncio.sleep(POLL_S)


def _settings(config: str | None, model: str | None) -> settings.Settings:
    parser = argparse.ArgumentParser()
    settings.add_arguments(parser)
    options = (["--config", config] if config else []) + (["--model", model] if model else [])
    given = settings.load(parser.parse_args(options), os.environ)
    return dataclasses.replace(
        given,
        server=settings.ServerSettings(port=0),
        worker=dataclasses.replace(given.worker, has_standby=False),
        api_key=None,
    )
