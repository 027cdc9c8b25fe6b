"""``footlights bench voice`` and ``samples`` with readers, judges and recordings that need no model."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from clients.bench import assets, cli, decode, run, sound, stages, voice, voice_plots, voice_report
from clients.bench.decode import EngineReader, read_batch
from clients.bench.kept import KeptReader
from clients.bench.peers import TEACHER_VOICE
from clients.bench.pieces import PiecesReader, pieces
from clients.bench.samples import MOST_BYTES, TEXTS, page, record
from clients.bench.stages import CodecReader, VocoderReader
from clients.bench.takes import Take
from engine.codec.understudy import UnderstudyCodec
from engine.codec.vocoder import SAMPLES_PER_FRAME, SUBFRAMES_PER_FRAME
from engine.errors import ConfigError
from engine.train.recipe import TEACHER_STYLES, VOICES
from tests.clients.bench.doubles import FakeJudges, FakeReader
from tests.clients.bench.test_proof import FakeSpeakers
from tests.engine.doubles import stage


def test_the_teachers_voices_are_those_of_the_recipe() -> None:
    assert dict(zip(VOICES, TEACHER_STYLES, strict=True)) == TEACHER_VOICE
    assert assets.TEACHER_STYLES == TEACHER_STYLES


class TestPieces:
    TEXT = "Good evening, and welcome to the house. We have waited for you."

    @pytest.mark.parametrize("words", [1, 2, 3, 99])
    def test_they_make_up_the_text(self, words: int) -> None:
        cut = pieces(self.TEXT, words)
        assert "".join(cut) == self.TEXT
        assert {len(piece.split()) for piece in cut[:-1]} <= {words}

    @pytest.mark.parametrize("words", [2, 3])
    def test_every_word_is_said_and_the_engine_goes_on(self, words: int) -> None:
        engine = stage(True).engine
        reader = PiecesReader(EngineReader(engine, "0123", ["heart"]), words)
        take = reader.read(self.TEXT, "heart", 1)
        assert take.failure is None
        whole = read_batch(stage(True).engine, [self.TEXT], "heart", 1)[0]
        assert 0.5 * len(whole.samples) < len(take.samples) < 3 * len(whole.samples)
        assert not engine.has_work()
        assert take.cpu_s > 0

    def test_they_are_told_from_whole_texts(self) -> None:
        whole = EngineReader(stage(True).engine, "0123", ["heart"])
        assert len({reader.identity for reader in (whole, PiecesReader(whole, 2), PiecesReader(whole, 3))}) == 3


class TestKept:
    def test_a_take_is_made_once_and_comes_back_with_its_cost(self, tmp_path: Path) -> None:
        reader = FakeReader(failures={"No.": "no_end"})
        kept = KeptReader(reader, tmp_path / "takes")
        first = kept.read("Yes.", "heart", 1)
        again = KeptReader(reader, tmp_path / "takes").read("Yes.", "heart", 1)
        assert len(reader.read_texts) == 1
        np.testing.assert_array_equal(first.samples, again.samples)
        assert np.abs(again.samples - 0.1).max() < 1e-4
        assert (again.sample_rate, again.compute_s, again.cpu_s, again.failure) == (16_000, 1.0, 0.5, None)
        assert kept.read("No.", "heart", 1).failure == "no_end"

    def test_voice_text_seed_and_weights_make_another(self, tmp_path: Path) -> None:
        reader = FakeReader()
        kept = KeptReader(reader, tmp_path)
        for text, name, seed in (("Yes.", "heart", 1), ("Yes.", "bella", 1), ("No.", "heart", 1), ("Yes.", "heart", 2)):
            kept.read(text, name, seed)
        KeptReader(FakeReader(identity="fake-2"), tmp_path).read("Yes.", "heart", 1)
        assert len(list(tmp_path.iterdir())) == 5


class TestStages:
    """Parts of the codec on speech whose parameters are known."""

    @pytest.fixture
    def codec(self) -> UnderstudyCodec:
        torch.manual_seed(0)
        codec = UnderstudyCodec(width=16, blocks=1)
        codec.vocoder.get_buffer("envelope_basis")[0] = 1
        codec.vocoder.get_buffer("band_offset").fill_(-60)
        for name, buffer in codec.features.named_buffers():
            if "codebook" in name or "components" in name:
                buffer.normal_(0, 0.1)
        codec.features.get_buffer("spectrum_mean").view(8, 40)[:, 0] = -4
        return codec.for_streaming()

    @pytest.fixture(autouse=True)
    def parameters(self, monkeypatch: pytest.MonkeyPatch, codec: UnderstudyCodec) -> NDArray[np.float32]:
        parameters = np.zeros((3 * SUBFRAMES_PER_FRAME + 5, 45), np.float32)
        parameters[:, 0], parameters[:, 43], parameters[:, 44] = -4, np.log(120), 1
        monkeypatch.setattr(stages, "_parameters", lambda take: parameters)
        return parameters

    def test_the_vocoder_gets_the_teachers_own_parameters(self, codec: UnderstudyCodec) -> None:
        teacher = FakeReader()
        take = VocoderReader(teacher, codec, "0123").read("Yes.", "heart", 1)
        assert teacher.read_texts == [("heart", "Yes.", 1)]
        assert len(take.samples) == 3 * SAMPLES_PER_FRAME
        sound = take.samples[SAMPLES_PER_FRAME:]
        spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
        hertz = np.fft.rfftfreq(len(sound), 1 / take.sample_rate)
        loudest = hertz[np.argmax(spectrum[hertz < 180])]
        assert loudest == pytest.approx(120, abs=15)

    def test_the_codec_gets_codes_and_nothing_else(self, codec: UnderstudyCodec) -> None:
        reader = CodecReader(FakeReader(), codec, "0123")
        take = reader.read("Yes.", "heart", 1)
        assert len(take.samples) == 3 * SAMPLES_PER_FRAME
        vocoder = VocoderReader(FakeReader(), codec, "0123")
        assert not np.array_equal(take.samples, vocoder.read("Yes.", "heart", 1).samples)
        assert reader.identity != vocoder.identity


class TestCommand:
    @pytest.fixture(autouse=True)
    def stand_in(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(sys, "path", sys.path.copy())
        teacher = FakeReader("Teacher", "teacher", "teacher-1")
        model, part = FakeReader("Model", "model", "model-1"), FakeReader("codec alone", "codec", "codec-1")
        last = FakeReader("in pieces", "pieces", "pieces-1")
        readers = [teacher, model, part, last]

        class Judges(FakeJudges):
            def judge(self, text: str, samples: Any, sample_rate: int) -> Any:
                self._reader = max(readers, key=lambda reader: len(reader.read_texts))
                return super().judge(text, samples, sample_rate)

        contour = np.repeat([100.0, 200.0], 50)
        monkeypatch.setattr(voice, "Judges", lambda: Judges(teacher))
        monkeypatch.setattr(voice, "SpeakerJudge", lambda: FakeSpeakers(teacher))
        monkeypatch.setattr(voice, "open_readers", lambda arguments: voice.Readers(teacher, model, [part, last, last]))
        monkeypatch.setattr(sound, "pitch", lambda samples, sample_rate: contour)
        monkeypatch.setattr(voice_plots, "pitch", lambda samples, sample_rate: contour.copy())

    def test_it_ends_with_the_json_line_tables_and_pictures(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        docs = tmp_path / "docs"
        docs.mkdir()
        (docs / "voice.md").write_text(f"# A voice\n{voice_report.BEGIN}\n{voice_report.END}\n", encoding="utf-8")
        arguments = ["--sentences", "4", "--parts", "2", "--utterances", "5", "--voices", "heart,bella"]
        assert cli.main(["voice", *arguments, "--out", str(tmp_path), "--docs", str(docs)]) == cli.EXIT_OK
        *text, last = capsys.readouterr().out.splitlines()
        line = json.loads(last)
        readers = line["results"]["readers"]
        assert {name: row["takes"] for name, row in readers.items()} == {
            "Teacher": 8,
            "Model": 8,
            "codec alone": 4,
            "in pieces": 4,
        }
        assert readers["Model"]["wer_above"]["value"] == 0
        assert readers["Teacher"]["wer_above"] is None
        assert set(line["results"]["voices"]) == {"heart", "bella"}
        assert line["results"]["failures"]["takes"] == 5
        assert json.loads((tmp_path / "model" / "voice.json").read_text(encoding="utf-8")) == line
        assert any(row.startswith("| codec alone | 4 |") for row in text)
        assert any(row.startswith("| all | 5 | 0 |") for row in text)
        written = (docs / "voice.md").read_text(encoding="utf-8")
        assert "footlights bench voice --sentences 4 --parts 2 --utterances 5 --seed 1" in written
        assert "| codec alone | 4 |" in written
        assert sorted(path.name for path in (docs / "images").iterdir()) == [
            "voice-manner.png",
            "voice-pitch.png",
            "voice-spectrograms.png",
        ]

    def test_parts_and_utterances_can_be_left_out(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        arguments = ["--sentences", "2", "--parts", "0", "--utterances", "0", "--out", str(tmp_path)]
        assert cli.main(["voice", *arguments]) == cli.EXIT_OK
        line = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert set(line["results"]["readers"]) == {"Teacher", "Model"}
        assert line["results"]["failures"] is None
        assert (tmp_path / "model" / "voice-pitch.png").exists()

    @pytest.mark.parametrize("bench", ["voice", "quality"])
    def test_unknown_voices_are_refused_before_judges_are_loaded(
        self, bench: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.undo()
        monkeypatch.setattr(decode, "open_engine", lambda folder, text_stream: stage(True).engine)
        monkeypatch.setattr(decode, "checkpoint_hash", lambda folder: "0123")
        for judge in ("Judges", "SpeakerJudge", "KokoroReader"):
            monkeypatch.setattr(voice, judge, lambda *_: pytest.fail("loaded"))
        monkeypatch.setattr(run, "Judges", lambda: pytest.fail("loaded"))
        assert cli.main([bench, "--voices", "nobody", "--out", str(tmp_path)]) == cli.EXIT_FAILED
        assert "no voice nobody; there are" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [(["--utterances", "100000"], "there are 1800"), (["--parts", "1000"], "there are 360 sentences")],
    )
    def test_wrong_numbers_are_explained(
        self, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit):
            cli.main(["voice", *arguments])
        assert said in capsys.readouterr().err


class TestSamples:
    def test_every_voice_says_every_text_and_the_teacher_one(self, tmp_path: Path) -> None:
        (tmp_path / "old.ogg").touch()
        teacher = FakeReader("Teacher", voices=("heart",))
        made = record(FakeReader(), teacher, ["heart", "bella"], 1, tmp_path)
        assert len(made) == 2 * len(TEXTS) + 1
        assert {path.name for path in tmp_path.iterdir()} == {sample.file for sample in made}
        for sample in made:
            samples, rate = soundfile.read(tmp_path / sample.file)
            assert len(samples) / rate > 1
            assert (tmp_path / sample.file).stat().st_size <= MOST_BYTES
        html = page(made, "about")
        assert all(f'src="{sample.file}"' in html for sample in made)
        assert html.count("<h2>") == 2

    def test_a_file_that_is_too_large_is_refused(self, tmp_path: Path) -> None:
        class Endless(FakeReader):
            def read(self, text: str, voice: str, seed: int) -> Take:
                noise = np.random.default_rng(1).normal(0, 0.2, 60 * 24_000).astype(np.float32)
                return Take(noise, 24_000, 1, 1)

        with pytest.raises(ConfigError, match="more than the"):
            record(Endless(), None, ["heart"], 1, tmp_path)

    def test_the_command_writes_the_page(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv(assets.CACHE_VARIABLE, str(tmp_path / "cache"))
        monkeypatch.setattr(sys, "path", sys.path.copy())
        monkeypatch.setattr(decode, "open_engine", lambda folder, text_stream: stage(True).engine)
        monkeypatch.setattr(decode, "checkpoint_hash", lambda folder: "0123")
        assert cli.main(["samples", "--out", str(tmp_path / "samples"), "--voices", "heart"]) == cli.EXIT_OK
        assert f"{len(TEXTS)} samples" in capsys.readouterr().out
        assert "checkpoint 0123" in (tmp_path / "samples" / "index.html").read_text(encoding="utf-8")
