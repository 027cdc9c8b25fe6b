"""``footlights voice``: voices made of recordings, on a server or in a model's folder."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clients.commands.program import EXIT_FAILED, EXIT_OK, add_server, make_parser, tell
from clients.sdk.errors import ClientError
from clients.sdk.voices import Voice, add_voice, list_voices, remove_voice
from realtime.protocol import CONSENT_NOTICE, MAX_RECORDING_BYTES

if TYPE_CHECKING:
    from engine.voices.local import Place

DESCRIPTION = "Make voices of recordings, list them, remove them."
EPILOG = f"""\
examples:
  footlights voice add ada clip.wav --transcript "What is said in it." --model drama-3
  footlights voice add ada one.flac two.mp3 --transcript "One." --transcript "Two." --model drama-3
  footlights voice list --model drama-3
  footlights voice remove ada --server 192.168.1.5:8060

With --server a running server makes the voice and speaks with it at once. Without it the files in the model's folder
are changed; a server that runs there sees it within seconds. A recording is WAV, FLAC, MP3 or OGG, 1 to 60 s long (the
recordings of a voice together, too); 10 to 30 s of calm speech without music are best, with an exact transcript.

{CONSENT_NOTICE}

environment:
  FOOTLIGHTS_SERVER, FOOTLIGHTS_API_KEY   in place of --server, --api-key; --model and --voices have precedence
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    from engine.errors import FootlightsError

    arguments = parser().parse_args(argv)
    try:
        if arguments.model is not None or arguments.voices is not None:
            arguments.server = None
        return ACTIONS[arguments.action](arguments)
    except (ClientError, FootlightsError, OSError) as error:
        tell(error)
        return EXIT_FAILED


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights voice``."""
    made = make_parser("voice", DESCRIPTION, EPILOG)
    place = argparse.ArgumentParser(add_help=False)
    add_server(place, default=None)
    place.add_argument(
        "--model", metavar="FOLDER", help="checkpoint folder, or ORG/NAME on the hub; its files are changed, no server"
    )
    place.add_argument("--voices", type=Path, metavar="FOLDER", help="of its voices (default: voices/ in the model's)")
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", parents=[place], help="make a voice of recordings")
    add.add_argument("name", help="1 to 64 of a-z, 0-9, '-' and '_'")
    add.add_argument("recordings", nargs="+", type=Path, metavar="FILE", help="WAV, FLAC, MP3 or OGG")
    add.add_argument(
        "-t", "--transcript", action="append", required=True, help="what is said, exactly; one for each recording"
    )
    actions.add_parser("list", parents=[place], help="show the voices")
    for action, text in (
        ("remove", "delete a voice"),
        ("remake", "make a voice anew that was made for another model, from its codes; not with --server"),
    ):
        actions.add_parser(action, parents=[place], help=text).add_argument("name")
    return made


def _add(arguments: argparse.Namespace) -> int:
    print(CONSENT_NOTICE, file=sys.stderr)
    if len(arguments.transcript) != len(arguments.recordings):
        raise ClientError(
            f"{len(arguments.recordings)} recordings and {len(arguments.transcript)} transcripts: give one "
            "--transcript for each recording, in the same order"
        )
    pairs = [(_read(path), text) for path, text in zip(arguments.recordings, arguments.transcript, strict=True)]
    if arguments.server is not None:
        notes = add_voice(arguments.server, arguments.name, pairs, arguments.api_key)
    else:
        from engine.core import Recording
        from engine.voices import local

        recordings = [Recording(audio, text) for audio, text in pairs]
        notes = list(local.add_voice(_place(arguments), arguments.name, recordings))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"voice {arguments.name} is ready")
    return EXIT_OK


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_RECORDING_BYTES + 1)
    if len(data) > MAX_RECORDING_BYTES:
        raise ClientError(f"{path} has more than {MAX_RECORDING_BYTES} bytes, the most a recording may have")
    return data


def _list(arguments: argparse.Namespace) -> int:
    if arguments.server is not None:
        voices = list_voices(arguments.server, arguments.api_key)
    else:
        from engine.voices import local

        found = local.list_voices(_place(arguments))
        voices = [
            *(Voice(name) for name in found.own),
            *(Voice(each.name, each.recordings, each.duration_s, each.problem) for each in found.cloned),
        ]
    print("\n".join(describe(voices)))
    return EXIT_OK


def describe(voices: Sequence[Voice]) -> list[str]:
    """A line for each voice."""
    width = max((len(voice.name) for voice in voices), default=0)
    return [f"{voice.name:{width}}  {_about(voice)}" for voice in voices]


def _about(voice: Voice) -> str:
    if voice.problem is not None:
        return f"cannot be used: {voice.problem}"
    if not voice.recordings:
        return "the model's own"
    return f"{voice.recordings} recording{'s' * (voice.recordings > 1)}, {voice.duration_s:.1f} s"


def _remove(arguments: argparse.Namespace) -> int:
    if arguments.server is not None:
        remove_voice(arguments.server, arguments.name, arguments.api_key)
    else:
        from engine.voices import local

        local.remove_voice(_place(arguments), arguments.name)
    print(f"voice {arguments.name} is removed")
    return EXIT_OK


def _remake(arguments: argparse.Namespace) -> int:
    if arguments.server is not None:
        raise ClientError("a voice is made anew in the model's folder: leave out --server and name the --model")
    from engine.voices import local

    local.remake_voice(_place(arguments), arguments.name)
    print(f"voice {arguments.name} is made anew")
    return EXIT_OK


def _place(arguments: argparse.Namespace) -> "Place":
    from engine.voices.local import Place

    return Place(arguments.model, arguments.voices)


ACTIONS = {"add": _add, "list": _list, "remove": _remove, "remake": _remake}
