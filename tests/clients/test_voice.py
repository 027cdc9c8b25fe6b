"""``footlights voice``: on a server that makes voices of nothing, and in the folder of a tiny model."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.commands import voice
from clients.sdk.errors import AuthenticationError, ClientError, ConnectError, UnknownVoiceError
from clients.sdk.voices import Voice, add_voice, list_voices, remove_voice
from realtime.protocol import CONSENT_NOTICE
from tests.clients.conftest import running, settings_for
from tests.engine.voice_doubles import GOLDEN, clip, link_checkpoint

CODEC = GOLDEN.parent / "codec"
Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def studio() -> Iterator[str]:
    with running(settings_for()) as url:
        yield url


@pytest.fixture
def wav(tmp_path: Path) -> Path:
    path = tmp_path / "clip.wav"
    path.write_bytes(clip(1.1))
    return path


class TestSdk:
    def test_a_voice_comes_and_goes(self, studio: str) -> None:
        assert add_voice(studio, "ada", [(b"one", "One."), (b"two", "Two — ä.")]) == []
        assert list_voices(studio)[-1] == Voice("ada", 1, 6.0)
        remove_voice(studio, "ada")
        assert [each.name for each in list_voices(studio)] == ["heart", "michael", "bella"]

    def test_errors_have_their_code(self, studio: str) -> None:
        with pytest.raises(UnknownVoiceError):
            remove_voice(studio, "../../etc/passwd")
        with pytest.raises(ClientError, match="a bad recording") as caught:
            add_voice(studio, "ada", [(b"bad", "x")])
        assert caught.value.code == "bad_clip"

    def test_no_server(self) -> None:
        with pytest.raises(ConnectError, match="no server answers"):
            list_voices("127.0.0.1:1")

    def test_the_key(self, locked_server: str) -> None:
        with pytest.raises(ClientError) as caught:
            list_voices(locked_server)
        assert isinstance(caught.value, AuthenticationError)
        assert list_voices(locked_server, "open sesame")


class TestOnAServer:
    def test_add_list_remove(self, studio: str, wav: Path, capsys: Output) -> None:
        assert voice.main(["add", "eve", str(wav), "--transcript", "What is said.", "--server", studio]) == 0
        output = capsys.readouterr()
        assert output.err.strip() == CONSENT_NOTICE
        assert "voice eve is ready" in output.out
        assert voice.main(["list", "--server", studio]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "heart    the model's own"
        assert lines[-1].startswith("eve      1 recording, ")
        assert voice.main(["remove", "eve", "--server", studio]) == 0
        assert voice.main(["remove", "eve", "--server", studio]) == 1
        assert "no voice 'eve'" in capsys.readouterr().err

    def test_notes_are_shown(self, studio: str, tmp_path: Path, capsys: Output) -> None:
        (tmp_path / "dull.wav").write_bytes(b"dull")
        assert voice.main(["add", "dull", str(tmp_path / "dull.wav"), "-t", "x", "-s", studio]) == 0
        assert "note: it sounds like a telephone" in capsys.readouterr().err
        remove_voice(studio, "dull")

    def test_one_transcript_for_each_recording(self, studio: str, wav: Path, capsys: Output) -> None:
        assert voice.main(["add", "eve", str(wav), str(wav), "-t", "One.", "-s", studio]) == 1
        assert "2 recordings and 1 transcripts" in capsys.readouterr().err

    def test_a_file_that_is_not_there_or_too_large(
        self, studio: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert voice.main(["add", "eve", str(tmp_path / "none.wav"), "-t", "x", "-s", studio]) == 1
        assert "none.wav" in capsys.readouterr().err
        monkeypatch.setattr(voice, "MAX_RECORDING_BYTES", 10)
        (tmp_path / "big.wav").write_bytes(bytes(11))
        assert voice.main(["add", "eve", str(tmp_path / "big.wav"), "-t", "x", "-s", studio]) == 1
        assert "more than 10 bytes" in capsys.readouterr().err

    def test_remake_is_for_folders(self, studio: str, capsys: Output) -> None:
        assert voice.main(["remake", "eve", "-s", studio]) == 1
        assert "leave out --server" in capsys.readouterr().err


class TestInAFolder:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        """The tiny model with its codec, which really hears."""
        folder = link_checkpoint(tmp_path / "model")
        for name in ("codec.pth", "codec_config.json"):
            shutil.copy(CODEC / name, folder / name)
        return folder

    def test_add_list_remove(self, model: Path, wav: Path, capsys: Output) -> None:
        place = ["--model", str(model)]
        assert voice.main(["add", "ada", str(wav), "-t", "What is said.", *place]) == 0
        assert (model / "voices" / "ada.safetensors").is_file()
        assert CONSENT_NOTICE in capsys.readouterr().err
        assert voice.main(["list", *place]) == 0
        assert capsys.readouterr().out.splitlines() == ["default  the model's own", "ada      1 recording, 1.1 s"]
        assert voice.main(["add", "ada", str(wav), "-t", "What is said.", *place]) == 1
        assert "already" in capsys.readouterr().err
        assert voice.main(["remake", "ada", *place]) == 0
        assert voice.main(["remove", "ada", *place]) == 0
        assert list((model / "voices").iterdir()) == []
        for action in ("remove", "remake"):
            assert voice.main([action, "ada", *place]) == 1
            assert "no voice 'ada'" in capsys.readouterr().err

    def test_a_voice_of_another_model(self, model: Path, wav: Path, capsys: Output) -> None:
        place = ["--model", str(model)]
        assert voice.main(["add", "ada", str(wav), "-t", "What is said.", *place]) == 0
        config = model / "config.json"
        text = config.read_text(encoding="utf-8").replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 2e-06')
        config.unlink()
        config.write_text(text, encoding="utf-8")
        capsys.readouterr()
        assert voice.main(["list", *place]) == 0
        assert "`footlights voice remake ada`" in capsys.readouterr().out
        assert voice.main(["remake", "ada", *place]) == 0
        capsys.readouterr()
        assert voice.main(["list", *place]) == 0
        assert "1 recording" in capsys.readouterr().out

    def test_a_model_that_is_named_goes_before_the_servers_variable(
        self, model: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FOOTLIGHTS_SERVER", "127.0.0.1:1")
        assert voice.main(["list"]) == 1
        assert voice.main(["list", "--model", str(model)]) == 0
        assert "default" in capsys.readouterr().out

    def test_names_are_no_paths(self, model: Path, wav: Path, tmp_path: Path, capsys: Output) -> None:
        for name in ("../ada", str(tmp_path / "ada"), "Ada"):
            assert voice.main(["add", name, str(wav), "-t", "x", "--model", str(model)]) == 1
            assert "1 to 64 of" in capsys.readouterr().err
        assert not (model / "voices").exists()

    def test_the_understudy_says_that_it_cannot(self, wav: Path, capsys: Output) -> None:
        assert voice.main(["add", "ada", str(wav), "-t", "What is said."]) == 1
        assert "has learned its voices (heart, michael, bella, " in capsys.readouterr().err
        assert voice.main(["list"]) == 0
        assert "heart" in capsys.readouterr().out
        assert voice.main(["remove", "heart"]) == 1
        assert "own voice" in capsys.readouterr().err
