"""The dialogue server of `clients.npc`, against a real speech server, with a game that listens closely."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from clients.npc.performance import HEADER
from clients.npc.scene import Character, SceneError, load_scene
from clients.npc.server import TAVERN, dialogue_server

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 90.0


@dataclass
class Game:
    """A player's machine: keeps what it is sent, by character."""

    socket: ClientConnection
    messages: list[dict[str, Any]] = field(default_factory=list)
    audio: dict[tuple[int, int], bytearray] = field(default_factory=dict)

    async def act(self, character: str, action: str) -> None:
        await self.socket.send(json.dumps({"type": "act", "character": character, "action": action}))

    async def until(self, kind: str, character: str | None = None) -> dict[str, Any]:
        while True:
            data = await asyncio.wait_for(self.socket.recv(), 20)
            if isinstance(data, bytes):
                index, line, first = HEADER.unpack_from(data)
                pcm = self.audio.setdefault((index, line), bytearray())
                assert first == len(pcm) // 2
                pcm += data[HEADER.size :]
                continue
            message: dict[str, Any] = json.loads(data)
            self.messages.append(message)
            if message["type"] == kind and character in (None, message.get("character")):
                return message


@pytest_asyncio.fixture
async def game(server: str) -> AsyncIterator[Game]:
    async with dialogue_server(server, TAVERN) as port, connect(f"ws://127.0.0.1:{port}", proxy=None) as socket:
        made = Game(socket)
        scene = await made.until("scene")
        assert [character["name"] for character in scene["characters"]] == ["guard", "keeper"]
        assert scene["sample_rate"] == 24_000
        yield made


async def test_characters_speak_at_the_same_time_on_one_socket(game: Game) -> None:
    await game.act("*", "greet")
    over = [await game.until("over"), await game.until("over")]
    assert {message["character"] for message in over} == {"guard", "keeper"}
    for message in over:
        index = ["guard", "keeper"].index(message["character"])
        assert len(game.audio[(index, message["line"])]) // 2 == message["audio_ms"] * 24
    words = [word["text"] for message in game.messages if message["type"] == "words" for word in message["words"]]
    assert {"Halt.", "Lantern.", "p.m.,"} <= set(words)


async def test_whoever_is_addressed_falls_silent_and_answers(game: Game) -> None:
    await game.act("guard", "greet")
    await game.act("keeper", "greet")
    line = await game.until("words", "guard")
    while len(game.audio.get((0, line["line"]), b"")) < 2 * 24 * 600:
        await game.until("words", "guard")
    await game.socket.send(json.dumps({"type": "heard", "character": "guard", "line": line["line"], "ms": 500}))
    await game.act("guard", "bribe")
    cut = await game.until("cut")
    assert (cut["character"], cut["heard"]) == ("guard", "Halt. The gate")
    assert cut["heard"] + cut["unheard"] == load_scene(TAVERN)[0].lines["greet"][0]
    sent = len(game.audio[(0, cut["line"])])
    answer = await game.until("line", "guard")
    assert answer["text"].startswith("Put that away")
    await game.until("over", "guard")
    assert len(game.audio[(0, cut["line"])]) == sent
    # The other one has not been disturbed.
    await game.until("over", "keeper")


async def test_what_was_cut_short_is_said_when_the_player_listens(game: Game) -> None:
    await game.act("guard", "greet")
    await game.until("over", "guard")
    line = game.messages[-1]["line"]
    await game.socket.send(json.dumps({"type": "heard", "character": "guard", "line": line, "ms": 1000}))
    await game.act("guard", "listen")
    assert (await game.until("cut"))["heard"] == "Halt. The gate closes at"
    assert (await game.until("line"))["text"].startswith("As I was saying: 9 p.m.")


async def test_a_line_that_was_heard_is_over(game: Game) -> None:
    await game.act("guard", "bribe")
    over = await game.until("over", "guard")
    await game.socket.send(
        json.dumps({"type": "heard", "character": "guard", "line": over["line"], "ms": over["audio_ms"]})
    )
    await asyncio.sleep(0.1)
    await game.act("guard", "bribe")
    assert (await game.until("line"))["text"].startswith("I have seen")
    assert not any(message["type"] == "cut" for message in game.messages)


@pytest.mark.parametrize(
    "message",
    ["no", "[]", '{"type": "act"}', '{"type": "dance", "character": "guard"}', '{"type": "act", "character": "x"}'],
)
async def test_what_is_not_understood_is_answered(game: Game, message: str) -> None:
    await game.socket.send(message)
    assert "not understood" in (await game.until("problem"))["message"]
    await game.act("guard", "nothing it knows")
    await game.act("guard", "bribe")
    await game.until("over")


async def test_web_pages_are_not_let_in(server: str) -> None:
    async with dialogue_server(server, TAVERN) as port:
        with pytest.raises(InvalidStatus):
            async with connect(f"ws://127.0.0.1:{port}", origin="http://elsewhere.example", proxy=None):  # type: ignore[arg-type]
                pass


def holds(output: str) -> None:
    """The sample greeted the guard, showed his words as they were heard, interrupted him and heard his answer."""
    told = [line.split("\t") for line in output.splitlines()]
    greeting, answer = (lines[0] for name in ("greet", "bribe") for lines in [load_scene(TAVERN)[0].lines[name]])
    kinds = "".join(line[0][0] for line in told)
    assert re.fullmatch("lw{3,}clw{3,}l", kinds), kinds
    cut = kinds.index("c")
    assert told[0][1:] == ["guard", greeting]
    assert [word for _, _, word in told[1:cut]] == greeting.split()[: cut - 1]
    assert greeting.startswith(told[cut][2])
    # What was printed was heard; the report may know of a word more or less.
    assert abs(len(told[cut][2].split()) - (cut - 1)) <= 1
    assert told[cut + 1][1:] == ["guard", answer]
    assert [told[-1][0], told[-1][1].lower()] == ["loud", "true"]


@pytest.mark.skipif(not (shutil.which("mcs") and shutil.which("mono")), reason="needs Mono (mcs, mono)")
async def test_the_unity_sample_plays_a_scene(server: str, tmp_path: Path) -> None:
    """Compiled with what it uses of Unity as stand-ins, it greets the guard and interrupts him."""
    game, folder = tmp_path / "game.exe", Path(__file__).parent / "unity"
    sources = [folder / "UnityEngine.cs", folder / "Play.cs", TAVERN.parent / "Footlights.cs"]
    compiler = ["mcs", "-langversion:7.2", "-nowarn:649", "-warnaserror", "-r:System.Web.Extensions"]
    await asyncio.to_thread(lambda: subprocess.run([*compiler, f"-out:{game}", *sources], check=True))
    async with dialogue_server(server, TAVERN) as port:
        playing = ["mono", str(game), f"ws://127.0.0.1:{port}"]
        done = await asyncio.to_thread(
            lambda: subprocess.run(playing, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S)
        )
    holds(done.stdout)


@pytest.mark.skipif(not shutil.which("godot"), reason="needs Godot 4 (godot)")
async def test_the_godot_sample_plays_a_scene(server: str, tmp_path: Path) -> None:
    """In Godot itself, without a screen, it greets the guard and interrupts him."""
    shutil.copytree(Path(__file__).parent / "godot", tmp_path, dirs_exist_ok=True)
    shutil.copy(TAVERN.parent / "footlights.gd", tmp_path)
    async with dialogue_server(server, TAVERN) as port:
        playing = ["godot", "--headless", "--path", str(tmp_path), "--script", "res://play.gd"]
        done = await asyncio.to_thread(
            lambda: subprocess.run(
                [*playing, "--", f"ws://127.0.0.1:{port}"], capture_output=True, text=True, timeout=PATIENCE_S
            )
        )
    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    holds(done.stdout[done.stdout.index("line\t") :])


def test_the_help_teaches_and_the_samples_are_there() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "clients.cli", "npc", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for word in ("footlights.gd", "Footlights.cs", '"act"', '"heard"', "--scene"):
        assert word in done.stdout
    for name in ("footlights.gd", "Footlights.cs"):
        text = (TAVERN.parent / name).read_text()
        for kind in ("scene", "line", "words", "cut", "act", "heard"):
            assert f'"{kind}"' in text.replace('\\"', '"')


def test_scenes(tmp_path: Path) -> None:
    guard = Character("guard", None, {"greet": ["a", "b"]})
    assert [guard.answer("greet") for _ in range(3)] == ["a", "b", "a"]
    assert guard.answer("dance") is None
    guard.unsaid = " more"
    assert guard.answer("listen") == "As I was saying: more"
    assert guard.answer("listen") is None
    for number, body in enumerate(
        ["", "[]", "{}", '{"a": 1}', '{"a": {"lines": {"x": "y"}}}', '{"a": {"voice": 1, "lines": {}}}']
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(body)
        with pytest.raises(SceneError):
            load_scene(path)
