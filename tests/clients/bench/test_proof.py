"""A reader beside its teacher: figures that can be worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.bench import sound, voice_report
from clients.bench.failures import find_failures
from clients.bench.proof import Instruments, Measured, Row, measure, voices_alike
from clients.bench.prosody import Pitch
from clients.bench.sound import Sound
from clients.bench.speakers import SpeakerJudge, Vector
from clients.bench.store import Reading, Store
from clients.bench.takes import Reader
from clients.bench.utterances import KINDS, utterances
from engine.errors import ConfigError
from tests.clients.bench.doubles import RATE, FakeJudges, FakeReader

ONE, TWO, THREE = "Yes, this is the first.", "And this one is the second.", "Here, and now, the third."
TEXTS = [ONE, TWO, THREE]


class FakeSpeakers(SpeakerJudge):
    """Every take sounds like the voice that the reader was asked for last, with a shade of its text."""

    def __init__(self, reader: FakeReader, wrong: str | None = None) -> None:
        self._reader, self._wrong = reader, wrong

    def embed(self, samples: NDArray[np.float32], sample_rate: int) -> Vector:
        voice, _, _ = self._reader.read_texts[-1]
        vector = np.zeros(4, np.float32)
        vector[self._reader.voices.index(self._wrong or voice)] = 1
        return vector


class Speaking(FakeReader):
    """A tone with a pause of ``pause_s`` in its middle."""

    pause_s = 0.2

    def read(self, text: str, voice: str, seed: int) -> Any:
        take = super().read(text, voice, seed)
        middle, half = len(take.samples) // 2, round(self.pause_s * RATE / 2)
        take.samples[middle - half : middle + half] = 0
        return take


@pytest.fixture(autouse=True)
def pitch(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Semitones that every take spans from now on, instead of a tracker."""
    spans = {"semitones": 12.0}

    def contour(samples: NDArray[np.float32], sample_rate: int) -> Pitch:
        return np.repeat([100.0, 100.0 * 2 ** (spans["semitones"] / 12)], 50)

    monkeypatch.setattr(sound, "pitch", contour)
    return spans


def measured(reader: FakeReader, folder: Path, **options: Any) -> Measured:
    instruments = Instruments(FakeJudges(reader), FakeSpeakers(reader, **options))
    readings = Store(folder / reader.folder / "readings.jsonl", Reading, reader)
    sounds = Store(folder / reader.folder / "sounds.jsonl", Sound, reader)
    return measure(reader, TEXTS, 1, instruments, readings, sounds)


def teacher_of(folder: Path) -> Measured:
    return measured(Speaking("Teacher", "teacher", "teacher-1"), folder)


def test_a_perfect_copy_has_all_of_the_teachers_figures(tmp_path: Path) -> None:
    teacher = teacher_of(tmp_path)
    row = Row.of("Copy", measured(Speaking("Copy", "copy", "copy-1"), tmp_path), teacher)
    assert (row.takes, row.failed) == (6, 0)
    for estimate in (row.pitch_share, row.energy_share, row.pause_share, row.length_share, row.speaker):
        assert estimate is not None
        assert estimate.value == pytest.approx(1, abs=1e-3)
    for estimate in (row.wer_above, row.mos_above):
        assert estimate is not None
        assert estimate.value == 0


def test_the_teacher_is_not_compared_with_itself_but_has_a_likeness(tmp_path: Path) -> None:
    teacher = teacher_of(tmp_path)
    row = Row.of("Teacher", teacher, teacher)
    assert (row.wer_above, row.mos_above, row.pitch_share, row.pause_share, row.length_share) == (None,) * 5
    assert row.speaker is not None
    assert row.speaker.value == pytest.approx(1, abs=1e-3)
    assert row.pitch_range == pytest.approx(12)


def test_a_monotone_is_told(tmp_path: Path, pitch: dict[str, float]) -> None:
    teacher = teacher_of(tmp_path)
    pitch["semitones"] = 3.0
    share = Row.of("Flat", measured(Speaking("Flat", "flat", "flat-1"), tmp_path), teacher).pitch_share
    assert share is not None
    assert share.value == pytest.approx(0.25)


def test_pauses_are_counted_where_the_text_has_marks(tmp_path: Path) -> None:
    teacher = teacher_of(tmp_path)
    hasty = Speaking("Hasty", "hasty", "hasty-1")
    hasty.pause_s = 0.1
    row = Row.of("Hasty", measured(hasty, tmp_path), teacher)
    # Three marks in three texts, one pause in each of the two that have any.
    assert row.paused == pytest.approx(2 / 3)
    assert row.pause_s == pytest.approx(0.1 * 2 / 3, abs=0.02)
    assert row.pause_share is not None
    assert row.pause_share.value == pytest.approx(0.5, abs=0.1)


def test_somebody_else_is_told(tmp_path: Path) -> None:
    teacher = teacher_of(tmp_path)
    stranger = measured(Speaking("Stranger", "stranger", "stranger-1"), tmp_path, wrong="bella")
    found = {voice: Row.of(voice, stranger.of(voice), teacher).speaker for voice in ("heart", "bella")}
    assert found["heart"] is not None
    assert found["bella"] is not None
    assert found["heart"].value == pytest.approx(0, abs=1e-3)
    assert found["bella"].value == pytest.approx(1, abs=1e-3)
    assert voices_alike(stranger)["heart"]["bella"] == pytest.approx(1, abs=1e-3)
    assert voices_alike(teacher) == {"heart": {"bella": pytest.approx(0)}, "bella": {"heart": pytest.approx(0)}}


def test_wrong_words_and_silence(tmp_path: Path) -> None:
    teacher = teacher_of(tmp_path)
    bad = Speaking("Bad", "bad", "bad-1", says={ONE: "No."}, silent=(TWO,))
    row = Row.of("Bad", measured(bad, tmp_path), teacher)
    assert row.failed == 4
    assert row.wer_above is not None
    assert row.wer_above.value == pytest.approx(11 / 16)
    assert Row.of("Bad", measured(bad, tmp_path).of(texts=[THREE]), teacher).failed == 0


def test_it_goes_on_where_it_was_and_figures_survive_the_disk(tmp_path: Path) -> None:
    whole = teacher_of(tmp_path / "whole")
    reader = Speaking("Teacher", "teacher", "teacher-1", dies_after=3)
    with pytest.raises(KeyboardInterrupt):
        measured(reader, tmp_path / "cut")
    again = Speaking("Teacher", "teacher", "teacher-1")
    assert measured(again, tmp_path / "cut").sounds == whole.sounds
    assert len(again.read_texts) == 3
    assert [s.vector is None for s in measured(again, tmp_path / "cut").sounds] == [False] * 6


class TestFailures:
    def stores(self, folder: Path, *readers: Reader) -> dict[str, Store[Reading]]:
        return {r.identity: Store(folder / f"{r.identity}.jsonl", Reading, r) for r in readers}

    def test_only_what_failed_is_read_by_the_teacher(self, tmp_path: Path) -> None:
        lines = utterances(10, 1)
        garbled, hard = lines[1].text, lines[2].text
        model = FakeReader("Model", "model", "model-1", says={garbled: "la la la la la la la", hard: "la"})
        teacher = FakeReader("Teacher", "teacher", "teacher-1", says={hard: "mm"})

        class Both(FakeJudges):
            def judge(self, text: str, samples: Any, sample_rate: int) -> Any:
                self._reader = teacher if teacher.read_texts and teacher.read_texts[-1][1] == text else model
                return super().judge(text, samples, sample_rate)

        failures = find_failures(model, teacher, 10, 1, Both(model), self.stores(tmp_path, model, teacher))
        assert [reading.text for reading in failures.failed] == [garbled, hard]
        assert [text for _, text, _ in teacher.read_texts] == [garbled, hard]
        assert failures.shared == {("heart", hard)}
        # A round of kinds is one voice's.
        assert [voice for voice, _, _ in model.read_texts] == ["heart"] * 5 + ["bella"] * 5
        table = voice_report.failures_table(failures)
        assert "| fragment | 2 | 1 | 1 wrong_words | 0 |" in table
        assert "| sentence | 2 | 1 | 1 wrong_words | 1 |" in table
        assert "| all | 10 | 2 | 2 wrong_words | 1 |" in table

    def test_a_second_run_reads_nothing(self, tmp_path: Path) -> None:
        model, teacher = FakeReader("Model", "m", "m-1"), FakeReader("Teacher", "t", "t-1")
        for expected in (5, 5):
            find_failures(model, teacher, 5, 1, FakeJudges(model), self.stores(tmp_path, model, teacher))
            assert len(model.read_texts) == expected


class TestUtterances:
    def test_kinds_take_turns_and_nothing_comes_twice(self) -> None:
        lines = utterances(1000, 1)
        assert [line.kind for line in lines[:10]] == [*KINDS, *KINDS]
        assert len({line.text for line in lines}) == 1000
        assert utterances(1000, 1) == lines
        assert utterances(10, 2) != lines[:10]

    def test_they_are_as_short_and_long_as_they_say(self) -> None:
        words = {kind: [len(line.text.split()) for line in utterances(1000, 1) if line.kind == kind] for kind in KINDS}
        assert set(words["word"]) == {1}
        assert max(words["fragment"]) <= 5
        assert min(words["long"]) >= 15
        assert max(words["long"]) > 30
        assert all('"' in line.text or "?" in line.text for line in utterances(200, 1) if line.kind == "dialogue")


def test_figures_are_put_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "voice.md"
    page.write_text(f"before\n{voice_report.BEGIN}\nold\n{voice_report.END}\nafter\n", encoding="utf-8")
    voice_report.insert(page, "\nnew | figures\n\n")
    expected = f"before\n{voice_report.BEGIN}\nnew | figures\n{voice_report.END}\nafter\n"
    assert page.read_text(encoding="utf-8") == expected
    page.write_text("nothing", encoding="utf-8")
    with pytest.raises(ConfigError, match="to put figures between"):
        voice_report.insert(page, "new")
