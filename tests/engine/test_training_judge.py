"""Takes the teacher got wrong are found, those a recogniser merely spells otherwise are not."""

import json
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from engine.codec.vocoder import SAMPLE_RATE_HZ
from engine.train.closeness import errors, sounds
from engine.train.judge import errors_alone, listen, windows
from engine.train.reading import phonemes_of
from engine.train.recogniser import RATE_HZ
from engine.train.verdicts import JUDGED, Verdict, dropped, judged

SAID = {
    0.1: "The lantern was bright that evening.",
    0.2: "She walked to the harbour with her father.",
    0.3: "Nobody knew where the captain had gone.",
    0.4: "Kettle.",
    0.5: "Window.",
}


class Listener:
    """Understands a level as what it stands for; ``mistakes`` are what it writes instead."""

    def __init__(self, mistakes: dict[str, str]) -> None:
        self._mistakes = mistakes
        self.lengths: list[int] = []

    def __call__(self, sound: NDArray[np.float32]) -> str:
        self.lengths.append(len(sound))
        runs = [(level, len(list(run))) for level, run in groupby(np.round(np.abs(sound), 1))]
        levels = [level for level, length in runs if level > 0 and length > RATE_HZ // 4]
        texts = [SAID[round(float(level), 1)] for level in levels]
        return " ".join(self._mistakes.get(text, text) for text in texts)


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """A shard of takes, each two seconds of its level between silence."""
    entries, pieces, start = [], [], 0
    for level, text in SAID.items():
        wave = np.full(2 * SAMPLE_RATE_HZ, level, np.float32)
        wave[:6000] = wave[-6000:] = 0
        take = {"shard": "shard-0000.flac", "start": start, "samples": len(wave), "voice": "af_heart", "text": text}
        entries.append(take | {"phonemes": phonemes_of(text), "durations": [4]})
        pieces.append(wave)
        start += len(wave)
    write(tmp_path, "shard-0000.flac", entries, pieces)
    return tmp_path


def write(folder: Path, shard: str, entries: list[dict[str, object]], pieces: list[NDArray[np.float32]]) -> None:
    soundfile.write(folder / shard, np.concatenate(pieces), SAMPLE_RATE_HZ, subtype="PCM_16")
    with (folder / "index.jsonl").open("a", encoding="utf-8") as index:
        index.writelines(json.dumps(entry) + "\n" for entry in entries)


def test_what_is_understood_is_heard_once_with_others(speech: Path) -> None:
    listener = Listener({})
    listen(speech, speech / "out", listener)
    assert listener.lengths == [len(SAID) * 2 * RATE_HZ]
    verdicts = judged(speech / "out")
    assert [verdict.text for verdict in verdicts] == list(SAID.values())
    assert all(verdict.errors == 0 and not verdict.is_alone for verdict in verdicts)
    assert dropped(speech / "out") == set()


def test_a_sentence_got_wrong_is_heard_again_and_dropped(speech: Path) -> None:
    listener = Listener({SAID[0.2]: "Completely different words about mountains."})
    listen(speech, speech / "out", listener)
    assert len(listener.lengths) == 2
    assert dropped(speech / "out") == {("shard-0000.flac", SAID[0.2])}


def test_a_sentence_lost_among_others_is_kept_if_understood_alone(speech: Path) -> None:
    class Lossy(Listener):
        def __call__(self, sound: NDArray[np.float32]) -> str:
            heard = super().__call__(sound)
            return heard if len(sound) <= 2 * RATE_HZ else heard.replace(SAID[0.3], "")

    listen(speech, speech / "out", Lossy({}))
    assert [verdict.text for verdict in judged(speech / "out") if verdict.is_alone] == [SAID[0.3]]
    assert dropped(speech / "out") == set()


@pytest.mark.parametrize(("heard", "is_dropped"), [("Cattle.", False), ("Kettel!", False), ("", True), ("Mmm.", True)])
def test_a_word_alone_may_be_spelled_otherwise(speech: Path, heard: str, is_dropped: bool) -> None:
    listen(speech, speech / "out", Listener({SAID[0.4]: heard}))
    assert (("shard-0000.flac", SAID[0.4]) in dropped(speech / "out")) == is_dropped


def test_a_runaway_is_dropped(speech: Path) -> None:
    listen(speech, speech / "out", Listener({SAID[0.5]: "Window window window window window."}))
    assert dropped(speech / "out") == {("shard-0000.flac", SAID[0.5])}


def test_signs_written_together_are_the_same_signs() -> None:
    text = "B, Q, 53, 81."
    said = sounds(phonemes_of(text))
    assert errors_alone(text, said, "BQ5381") == 0
    assert errors_alone(text, said, "B Q fifty-three eighty-one") == 0
    assert errors_alone(text, said, "Be good.") > 0.5 * len(said)
    assert errors_alone("Kettle.", "kɛtəl", "") == 5


def test_shards_that_were_judged_are_not_heard_again(speech: Path) -> None:
    listen(speech, speech / "out", Listener({}))
    entry = {"shard": "shard-0001.flac", "start": 0, "samples": SAMPLE_RATE_HZ, "voice": "am_michael"}
    entry |= {"text": SAID[0.4], "phonemes": phonemes_of(SAID[0.4]), "durations": [4]}
    write(speech, "shard-0001.flac", [entry], [np.full(SAMPLE_RATE_HZ, 0.4, np.float32)])
    listener = Listener({})
    listen(speech, speech / "out", listener)
    assert listener.lengths == [RATE_HZ]
    assert [verdict.shard for verdict in judged(speech / "out")] == ["shard-0000.flac"] * 5 + ["shard-0001.flac"]


def test_nothing_is_dropped_where_nobody_listened(tmp_path: Path) -> None:
    assert dropped(tmp_path) == set()


def test_a_verdict_is_read_as_it_was_written(speech: Path) -> None:
    listen(speech, speech / "out", Listener({}))
    line = json.loads((speech / "out" / JUDGED).read_text(encoding="utf-8").splitlines()[0])
    assert Verdict(**line) == judged(speech / "out")[0]


def test_windows_hold_every_take_once() -> None:
    lengths = [7 * RATE_HZ] * 5 + [40 * RATE_HZ, RATE_HZ]
    assert list(windows(range(7), lengths)) == [[0, 1, 2, 3], [4], [5], [6]]
    assert list(windows([], [])) == []


def test_errors_are_those_of_the_part_they_lie_in() -> None:
    assert errors(["abc", "def"], "abcdef") == [0, 0]
    assert errors(["abc", "def"], "abcdxf") == [0, 1]
    assert errors(["abc", "def"], "def") == [3, 0]
    assert errors(["abc", "def"], "abcdefgg") == [0, 2]
    assert errors(["abc", "def"], "abcggdef") == [2, 2]
    assert errors(["abc"], "") == [3]
    assert errors([""], "") == [0]


def test_like_vowels_and_stress_are_no_errors() -> None:
    assert sounds("kˈʌm, hˈɪɹ") == sounds("kəm hᵻɹ.")
    assert sounds("kˈæt") != sounds("bˈæt")
