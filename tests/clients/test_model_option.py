"""``--model`` of ``footlights serve`` and ``say``: what is told, and how many copies are kept."""

from pathlib import Path

import pytest

from clients.commands import serve
from clients.commands.private_server import find_voice_model
from clients.sdk import ClientError
from engine.errors import DownloadError
from realtime import settings
from realtime.crew import WorkerSettings

GOLDEN = Path(__file__).parents[1] / "golden/drama3-tiny/checkpoint-bf16"


def given(model: str | None, has_standby: bool = True) -> settings.Settings:
    return settings.Settings(worker=WorkerSettings(model=model, has_standby=has_standby))


@pytest.fixture
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "has_room_for_two", lambda folder: False)


def unreachable(model: object) -> Path:
    raise DownloadError(f"{model} could not be fetched")


def test_the_licence_is_told_and_the_folder_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = serve.with_model(given(str(GOLDEN)))
    assert found.worker.model == str(GOLDEN)
    assert found.worker.is_standby_warm
    told = capsys.readouterr().err
    assert told.startswith("checkpoint-bf16: Fish Audio Community License. Built with Fish Audio. No hosted")


def test_the_built_in_model_needs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    unchanged = given(None)
    assert serve.with_model(unchanged) is unchanged
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("small_machine")
def test_a_model_that_fits_once_is_loaded_once(capsys: pytest.CaptureFixture[str]) -> None:
    found = serve.with_model(given(str(GOLDEN)))
    assert found.worker.has_standby
    assert not found.worker.is_standby_warm
    assert "two copies" in capsys.readouterr().err
    alone = given(str(GOLDEN), has_standby=False)
    assert serve.with_model(alone).worker == alone.worker
    assert "two copies" not in capsys.readouterr().err


def test_serve_ends_with_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(serve, "find_model", unreachable)
    assert serve.main(["--model", "nobody/nothing"]) == 1
    assert capsys.readouterr().err == "footlights: nobody/nothing could not be fetched\n"


def test_say_finds_it_before_anything_else(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_voice_model(str(GOLDEN), is_quiet=True) == str(GOLDEN)
    assert capsys.readouterr().err == ""
    find_voice_model(str(GOLDEN), is_quiet=False)
    assert "Built with Fish Audio" in capsys.readouterr().err
    monkeypatch.setattr("clients.commands.private_server.find_model", unreachable)
    with pytest.raises(ClientError, match="could not be fetched"):
        find_voice_model("nobody/nothing", is_quiet=False)
