"""``footlights serve``: the server and its web page."""

import argparse
import dataclasses
import os
import sys

from engine.checkpoint.memory import has_room_for_two
from engine.checkpoint.source import find_model
from engine.errors import FootlightsError
from engine.manifest import Manifest
from realtime import app, settings

EPILOG = """\
examples:
  footlights serve                                  then open http://127.0.0.1:8060
  footlights serve --port 9000 --log-level debug
  FOOTLIGHTS_API_KEY=… footlights serve --host 0.0.0.0
                                                    for other machines: a key is needed then
  footlights serve --config footlights.toml --set limits.sessions=8
  footlights serve --model drama-3                  a folder with a Drama 3 checkpoint
  footlights serve --model fishaudio/drama-3@78e5ab7
                                                    the same from the Hugging Face hub, at a commit

The first Ctrl-C lets open speech end, the second stops at once.
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="footlights serve",
        description="Start the server: WebSocket at /v1/stream, a web page to try it at /, metrics at /metrics.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    settings.add_arguments(parser)
    try:
        return app.serve(with_model(settings.load(parser.parse_args(argv), os.environ)))
    except FootlightsError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1


def with_model(given: settings.Settings) -> settings.Settings:
    """The settings with their model fetched and its licence told; a large model gets one copy in memory.

    Raises a ``FootlightsError`` if it cannot be had.
    """
    if given.worker.model is None:
        return given
    folder = find_model(given.worker.model)
    print(Manifest.from_folder(folder).credit, file=sys.stderr)
    worker = dataclasses.replace(given.worker, model=str(folder))
    if worker.has_standby and worker.is_standby_warm and not has_room_for_two(folder):
        print(
            "footlights: two copies of the model do not fit into memory, so the standby worker gets none",
            file=sys.stderr,
        )
        worker = dataclasses.replace(worker, is_standby_warm=False)
    return dataclasses.replace(given, worker=worker)
