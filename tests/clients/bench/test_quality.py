"""Readings, their figures, and going on after an interruption."""

import functools
import itertools
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clients.bench.quality import read_all, summarise, wav_keeper, wer_above
from clients.bench.store import Reading, Store
from clients.bench.takes import expected_s
from tests.clients.bench.doubles import FakeJudges, FakeReader

ONE, TWO, THREE = "This is number one of three.", "This one is the second one.", "And here is the last one."
TEXTS = [ONE, TWO, THREE]


def measure(
    reader: FakeReader, folder: Path, *, texts: Sequence[str] = TEXTS, is_fresh: bool = False
) -> tuple[list[Reading], int]:
    store = Store(folder / "readings.jsonl", Reading, reader, is_fresh=is_fresh)
    return read_all(reader, texts, 1, FakeJudges(reader), store)


def test_figures_of_faultless_reading(tmp_path: Path) -> None:
    reader = FakeReader()
    figures = summarise(reader, *measure(reader, tmp_path))
    assert (figures.takes, figures.reused, figures.failed_share) == (6, 0, 0)
    assert figures.wer.value == 0
    assert figures.mos is not None
    assert figures.mos.value == 3.5
    assert figures.mos_by_voice == {"heart": 4.0, "bella": 3.0}
    assert figures.length_ratio.value == pytest.approx(1, abs=1e-3)
    audio_s = 2 * sum(map(expected_s, TEXTS))
    assert figures.rtf == pytest.approx(6 / audio_s, abs=1e-3)
    assert figures.rtf_cpu == pytest.approx(3 / audio_s, abs=1e-3)


def test_errors_are_per_word_and_of_both_voices(tmp_path: Path) -> None:
    reader = FakeReader(says={ONE: "This is number one of the three."})
    figures = summarise(reader, *measure(reader, tmp_path))
    assert figures.wer.value == pytest.approx(2 / 36)
    assert figures.wer_by_voice == {"heart": pytest.approx(1 / 18), "bella": pytest.approx(1 / 18)}
    assert figures.wer.low == 0
    assert figures.worst[0].text == ONE


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"failures": {TWO: "no_end"}}, "no_end"),
        ({"lengths": {TWO: 2.1}}, "too_long"),
        ({"says": {TWO: "This one."}}, "wrong_words"),
        ({"silent": (TWO,)}, "wrong_words"),
    ],
)
def test_failed_takes_are_named_and_counted(fault: dict[str, Any], kind: str, tmp_path: Path) -> None:
    reader = FakeReader(**fault)
    figures = summarise(reader, *measure(reader, tmp_path))
    assert figures.failed == {kind: 2}
    assert figures.failed_share == pytest.approx(1 / 3)
    assert {reading.text for reading in figures.worst[:2]} == {TWO}


@pytest.mark.parametrize("length", [0.5, 1.9])
def test_a_take_of_unusual_length_is_no_failure(length: float, tmp_path: Path) -> None:
    reader = FakeReader(lengths={TWO: length})
    figures = summarise(reader, *measure(reader, tmp_path))
    assert figures.failed == {}


@pytest.mark.parametrize(("heard", "failed"), [("Hour.", {}), ("Ours.", {"wrong_words": 2}), ("", {"wrong_words": 2})])
def test_a_word_alone_may_be_written_as_another_that_sounds_the_same(
    heard: str, failed: dict[str, int], tmp_path: Path
) -> None:
    figures = summarise(FakeReader(), *measure(FakeReader(says={"Our!": heard}), tmp_path, texts=["Our!"]))
    assert figures.wer.value > 0
    assert figures.failed == failed


def test_half_of_the_words_wrong_is_not_yet_a_failure(tmp_path: Path) -> None:
    reader = FakeReader(says={ONE: "This is number"})
    assert summarise(reader, *measure(reader, tmp_path)).failed == {}


def test_silence_is_all_words_wrong_and_not_rated(tmp_path: Path) -> None:
    reader = FakeReader(silent=tuple(TEXTS))
    figures = summarise(reader, *measure(reader, tmp_path))
    assert figures.wer.value == 1
    assert figures.mos is None
    assert figures.as_json()["mos"] is None


def test_voices_read_the_same_sentences_with_the_same_seeds(tmp_path: Path) -> None:
    reader = FakeReader()
    measure(reader, tmp_path)
    seeds = {(text, seed) for _, text, seed in reader.read_texts}
    assert len(seeds) == 3
    assert len({seed for _, seed in seeds}) == 3


class TestGoingOn:
    def test_an_interrupted_run_goes_on_where_it_was(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            measure(FakeReader(dies_after=4), tmp_path)
        reader = FakeReader()
        readings, reused = measure(reader, tmp_path)
        assert reused == 4
        assert len(reader.read_texts) == 2
        assert [(r.voice, r.text) for r in readings] == [(v, t) for v in reader.voices for t in TEXTS]
        assert measure(FakeReader(dies_after=0), tmp_path) == (readings, 6)

    def test_a_line_cut_off_is_measured_again(self, tmp_path: Path) -> None:
        readings, _ = measure(FakeReader(), tmp_path)
        path = tmp_path / "readings.jsonl"
        path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
        again = FakeReader()
        assert measure(again, tmp_path) == (readings, 5)
        assert len(again.read_texts) == 1
        assert measure(FakeReader(dies_after=0), tmp_path) == (readings, 6)

    @pytest.mark.parametrize("change", ["weights", "seed", "judges"])
    def test_what_no_longer_holds_is_measured_again(
        self, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        measure(FakeReader(), tmp_path)
        reader = FakeReader(identity="fake-1-b" if change == "weights" else "fake-1-a")
        if change == "judges":
            monkeypatch.setattr(Reading, "CURRENT", "better ones")
        store = Store(tmp_path / "readings.jsonl", Reading, reader)
        _, reused = read_all(reader, TEXTS, 2 if change == "seed" else 1, FakeJudges(reader), store)
        assert reused == 0

    def test_fresh_forgets(self, tmp_path: Path) -> None:
        measure(FakeReader(), tmp_path)
        assert measure(FakeReader(), tmp_path, is_fresh=True)[1] == 0

    def test_steps_are_reported_for_old_and_new_alike(self, tmp_path: Path) -> None:
        for _ in range(2):
            reader, steps = FakeReader(), itertools.count()
            store = Store(tmp_path / "readings.jsonl", Reading, reader)
            read_all(reader, TEXTS, 1, FakeJudges(reader), store, advance=functools.partial(next, steps))
            assert next(steps) == 6


def test_audio_is_kept_on_request_even_of_known_takes(tmp_path: Path) -> None:
    measure(FakeReader(), tmp_path)
    reader = FakeReader()
    store = Store(tmp_path / "readings.jsonl", Reading, reader)
    read_all(reader, TEXTS, 1, FakeJudges(reader), store, keep=wav_keeper(tmp_path / "audio"))
    names = sorted(path.name for path in (tmp_path / "audio").iterdir())
    assert names == [f"Fake-{voice}-00{i}.wav" for voice in ("bella", "heart") for i in (1, 2, 3)]
    with wave.open(str(tmp_path / "audio" / names[0])) as file:
        assert file.getframerate() == 16_000
        assert file.getnframes() == int(expected_s(ONE) * 16_000)


class TestAboveTheTeacher:
    def test_pairs_are_of_the_same_sentence_and_voice(self, tmp_path: Path) -> None:
        mine, _ = measure(
            FakeReader(says={ONE: "This is number one of", TWO: "This one is the second"}), tmp_path / "a"
        )
        teacher = FakeReader(voices=("heart",), says={TWO: "This one is the second"})
        theirs, _ = measure(teacher, tmp_path / "b")
        above = wer_above(mine, theirs)
        assert above is not None
        assert above.value == pytest.approx(1 / 18)
        assert above.low >= 0

    def test_without_pairs_there_is_no_figure(self, tmp_path: Path) -> None:
        mine, _ = measure(FakeReader(), tmp_path / "a")
        theirs, _ = measure(FakeReader(voices=("joe",)), tmp_path / "b")
        assert wer_above(mine, theirs) is None
