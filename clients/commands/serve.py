"""``footlights serve``: the server and its web page."""

import argparse
import os
import sys

from engine.errors import FootlightsError
from realtime import app, settings

EPILOG = """\
examples:
  footlights serve                                  then open http://127.0.0.1:8060
  footlights serve --port 9000 --log-level debug
  FOOTLIGHTS_API_KEY=… footlights serve --host 0.0.0.0
                                                    for other machines: a key is needed then
  footlights serve --config footlights.toml --set limits.sessions=8

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
        return app.serve(settings.load(parser.parse_args(argv), os.environ))
    except FootlightsError as error:
        print(f"footlights: {error}", file=sys.stderr)
        return 1
