"""Programs for a running server: what they tell when it fails, and how they end."""

import argparse
from pathlib import Path

import pytest

from clients import captions, llm
from clients.commands.program import add_server, run_program
from clients.npc import server as npc
from clients.sdk import AuthenticationError, ClientError, ConnectError

Output = pytest.CaptureFixture[str]
NOWHERE = "ws://127.0.0.1:1"


class SourceError(Exception):
    """Of a program's own."""


async def succeed() -> None:
    """Nothing goes wrong."""


async def fail(error: BaseException, cause: BaseException | None = None) -> None:
    raise error from cause


def test_all_is_well(capsys: Output) -> None:
    assert run_program(succeed(), SourceError) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("error", "cause", "told"),
    [
        (ClientError("no"), None, "footlights: no\n"),
        (OSError(2, "no such file"), None, "footlights: [Errno 2] no such file\n"),
        (SourceError("dry"), None, "footlights: dry\n"),
        (ClientError("the text failed"), SourceError("dry"), "footlights: dry\n"),
        (ExceptionGroup("two", [ExceptionGroup("one", [SourceError("dry")])]), None, "footlights: dry\n"),
        (ConnectError("nobody"), None, "footlights: nobody\nStart a server with `footlights serve`.\n"),
        (
            AuthenticationError("a key"),
            None,
            "footlights: a key\nGive the key with --api-key or in FOOTLIGHTS_API_KEY.\n",
        ),
        (ClientError("full", retryable=True), None, "footlights: full\nIt may work if you try again.\n"),
    ],
)
def test_errors_are_told(error: Exception, cause: Exception | None, told: str, capsys: Output) -> None:
    assert run_program(fail(error, cause), SourceError) == 1
    assert capsys.readouterr().err == told


def test_faults_are_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        run_program(fail(ExceptionGroup("", [ZeroDivisionError("x")])))
    assert caught.group_contains(ZeroDivisionError)
    with pytest.raises(KeyboardInterrupt):
        run_program(fail(KeyboardInterrupt()))


def test_an_answer_without_a_server(capsys: Output) -> None:
    arguments = ["hello", "--recorded", "clients/recordings/answer.sse"]
    assert llm.main([*arguments, "--server", NOWHERE]) == 1
    assert "footlights serve" in capsys.readouterr().err


def test_captions_without_a_server(tmp_path: Path, capsys: Output) -> None:
    cues = tmp_path / "talk.srt"
    cues.write_text("1\n00:00:00,000 --> 00:00:01,000\nGood evening.\n", encoding="utf-8")
    assert captions.main(["--replay", str(cues), "--server", NOWHERE]) == 1
    assert "footlights serve" in capsys.readouterr().err


def test_captions_that_are_none(capsys: Output) -> None:
    assert captions.main(["--replay", "README.md", "--server", NOWHERE]) == 1
    assert "is it an .srt or .vtt file?" in capsys.readouterr().err


def test_a_scene_that_is_none(capsys: Output) -> None:
    assert npc.main(["--scene", "README.md"]) == 1
    assert capsys.readouterr().err.startswith("footlights: ")


def test_the_environment_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*given: str, default: str | None = None) -> argparse.Namespace:
        parser = argparse.ArgumentParser()
        add_server(parser, default)
        return parser.parse_args(given)

    assert read().server is None
    monkeypatch.setenv("FOOTLIGHTS_SERVER", "ws://a")
    monkeypatch.setenv("FOOTLIGHTS_API_KEY", "k")
    assert (read(default="ws://b").server, read().api_key) == ("ws://a", "k")
    assert read("--server", "ws://c", default="ws://b").server == "ws://c"
