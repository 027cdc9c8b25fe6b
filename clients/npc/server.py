"""``footlights npc``: a small dialogue server for games. A game says what the player does, and hears who answers."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from clients.commands.program import add_server, make_parser, run_program
from clients.npc.performance import Performance
from clients.npc.scene import SceneError, load_scene
from clients.sdk import ClientError, connect

FOLDER = Path(__file__).parent
TAVERN = FOLDER / "tavern.json"
EPILOG = f"""\
the game connects to ws://127.0.0.1:8061 and sends JSON:
  {{"type": "act", "character": "guard", "action": "greet"}}     the player does something; "*" means everybody.
                                                               Whoever is meant falls silent at once, then answers
  {{"type": "act", "character": "guard", "action": "listen"}}    go on with what was cut short
  {{"type": "heard", "character": "guard", "line": 3, "ms": 840}}  how far the line has been played, every 100 ms or so

and gets:
  {{"type": "scene", "sample_rate": 24000, "characters": [{{"name", "index", "actions"}}]}}
  {{"type": "line", "character", "line", "text"}}                then its audio
  {{"type": "words", "character", "line", "words": [{{"text", "start_ms", "end_ms"}}]}}   for subtitles and mouths
  binary: uint16 index of the character, uint16 number of the line, uint32 first sample, then 16-bit mono samples
  {{"type": "over", "character", "line", "audio_ms"}}            all of the line was sent
  {{"type": "cut", "character", "line", "heard", "unheard"}}     drop its audio: the player has acted
  {{"type": "problem", "message"}}

samples to start from: footlights.gd for Godot 4 and Footlights.cs for Unity, in
  {FOLDER}
(tests play both: the Godot one in Godot 4.6, the Unity one with stand-ins for Unity's own classes)
a scene is a JSON file like {TAVERN.name} there: {{"name": {{"voice": "heart", "lines": {{"greet": ["..", ".."]}}}}}}

examples:
  footlights serve &
  footlights npc
  footlights npc --scene my_scene.json --port 9001
"""


def main(argv: list[str]) -> int:
    """Run the command; returns its exit status."""
    arguments = parser().parse_args(argv)
    return run_program(_run(arguments), SceneError)


def parser() -> argparse.ArgumentParser:
    """The arguments of ``footlights npc``."""
    made = make_parser(
        "npc", "A dialogue server for games: several characters who fall silent when the player acts.", EPILOG
    )
    made.add_argument("--scene", metavar="FILE", type=Path, default=TAVERN, help="who there is; default: a tavern")
    made.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    made.add_argument("--port", type=int, default=8061, help="default: %(default)s")
    add_server(made)
    return made


async def _run(arguments: argparse.Namespace) -> None:
    # For its errors: each game gets a scene of its own.
    load_scene(arguments.scene)
    async with dialogue_server(
        arguments.server, arguments.scene, arguments.host, arguments.port, arguments.api_key
    ) as port:
        print(f"games may connect to ws://{arguments.host}:{port}", file=sys.stderr, flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def dialogue_server(
    speech_url: str, scene: Path, host: str = "127.0.0.1", port: int = 0, api_key: str | None = None
) -> AsyncIterator[int]:
    """The port on which games are served while the block runs; each has the scene for itself."""

    async def play(game: ServerConnection) -> None:
        try:
            async with connect(speech_url, api_key=api_key) as session:
                performance = Performance(session, load_scene(scene), game.send)
                try:
                    await performance.begin()
                    async for message in game:
                        await performance.receive(message if isinstance(message, str) else "")
                finally:
                    await performance.end()
        except ClientError as error:
            await game.close(1011, str(error)[:100])
        except ConnectionClosed:
            return

    # A web page elsewhere must not talk to a game server on this machine: only clients without an origin may.
    async with serve(play, host, port, origins=[None], compression=None) as served:
        yield next(iter(served.sockets)).getsockname()[1]
