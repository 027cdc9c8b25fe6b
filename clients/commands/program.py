"""What the programs for a server that runs have in common: arguments, exit statuses, errors told with advice."""

import argparse
import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from clients.commands.text_source import TextError
from clients.sdk import AuthenticationError, ClientError, ConnectError

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
DEFAULT_SERVER = "ws://127.0.0.1:8060"


def make_parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Of ``footlights NAME``; the epilog keeps its lines."""
    return argparse.ArgumentParser(
        prog=f"footlights {name}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_server(parser: argparse.ArgumentParser, default: str | None = DEFAULT_SERVER) -> None:
    """``--server`` and ``--api-key``, or the environment in their place; ``default`` None: there need be no server."""
    server = os.environ.get("FOOTLIGHTS_SERVER", default)
    text = "a running server" + ("; default: %(default)s" if default is not None else "")
    parser.add_argument("-s", "--server", metavar="URL", default=server, help=text)
    parser.add_argument("--api-key", metavar="KEY", default=os.environ.get("FOOTLIGHTS_API_KEY"), help="of that server")


def text_argument(given: str) -> str:
    """The type of an argument that is text."""
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise argparse.ArgumentTypeError("it is not UTF-8 text") from error
    return given


def new_file(given: str) -> Path:
    """The type of an argument that names a file to be written: its folder is there."""
    path = Path(given)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}")
    return path


def wav_file(given: str) -> Path:
    """The type of an argument that names a WAV file to be written."""
    if Path(given).suffix.lower() != ".wav":
        raise argparse.ArgumentTypeError(
            f"only .wav files are written; make one and convert it: ffmpeg -i speech.wav {given}"
        )
    return new_file(given)


def run_program(program: Coroutine[Any, Any, None], *expected: type[Exception]) -> int:
    """Run to the end; returns the exit status. ``expected``: errors of its own, told like those of the client.

    An error of a text's source ends the speech as well; the source's is told.
    """
    status = EXIT_OK
    expected = (TextError, *expected)
    known: tuple[type[Exception], ...] = (ClientError, OSError, *expected)
    try:
        asyncio.run(program)
    except* known as errors:
        error = _first(errors)
        tell(error.__cause__ if isinstance(error.__cause__, expected) else error)
        status = EXIT_FAILED
    return status


def tell(error: BaseException) -> None:
    """Say on standard error what happened, and what to do where that is known."""
    print(f"footlights: {error}{advice(error)}", file=sys.stderr)


def advice(error: BaseException) -> str:
    """A line of its own on what to do, or nothing."""
    match error:
        case AuthenticationError():
            return "\nGive the key with --api-key or in FOOTLIGHTS_API_KEY."
        case ConnectError():
            return "\nStart a server with `footlights serve`."
        case ClientError(retryable=True):
            return "\nIt may work if you try again."
    return ""


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
