"""A drift is found where there is one, and none where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from clients.bench import drift
from clients.bench.drift import Drift, Ears, Line, Speech, by_minute, speak
from clients.bench.waveform import Samples
from clients.bench.words import WordErrors
from engine.core import Finished, Tally, Utterance
from engine.errors import ConfigError
from engine.loading import ContextLimits
from tests.clients.bench.test_waveform import RATE, buzz
from tests.engine.doubles import stage

TEXTS = ["One of them.", "Another one, longer.", "The third."]
ROUNDS = 3


def speech(*changes: tuple[float, float]) -> Speech:
    """Rounds of buzzing sentences; of each round, pitch and loudness to those of the first."""
    pieces, starts = list[Samples](), list[int]()
    for pitch, gain in changes:
        for number in range(len(TEXTS)):
            starts.append(sum(len(piece) for piece in pieces))
            pieces.append(gain * buzz((120 + 40 * number) * pitch))
    return Speech(np.concatenate(pieces), RATE, starts, [starts[1]], 2, Tally(), 1.0)


def heard(made: Speech) -> list[Line]:
    ears = Ears()
    return [
        ears.listen(TEXTS[n % 3], n // 3, start / RATE / 60, made.line(n), RATE) for n, start in enumerate(made.starts)
    ]


def test_without_a_drift_there_is_none() -> None:
    made = speech((1, 1), (1, 1), (1, 1))
    result = Drift.of(made, heard(made), ROUNDS)
    assert result.pitch.value == pytest.approx(0, abs=0.01)
    assert result.level_db.value == pytest.approx(0, abs=0.01)
    assert (result.speaker, result.wer, result.mos) == (None, None, None)
    assert result.minutes == pytest.approx(0.45)


def test_a_voice_that_rises_and_fades_is_told_by_how_much() -> None:
    made = speech((1, 1), (1.03, 0.9), (1.06, 0.8))
    lines = heard(made)
    result = Drift.of(made, lines, ROUNDS)
    assert result.pitch.value == pytest.approx(12 * np.log2(1.06), abs=0.15)
    assert result.level_db.value == pytest.approx(20 * np.log10(0.8), abs=0.2)
    _, levels = by_minute([replace(line, minute=line.round) for line in lines], lambda line: line.level_db)
    assert levels == sorted(levels, reverse=True)
    assert sum(levels) == pytest.approx(0, abs=1e-6)


def test_other_voices_and_wrong_words_are_told() -> None:
    made = speech((1, 1), (1, 1), (1, 1))
    voices = np.eye(2, dtype=np.float32)
    lines = [
        replace(line, speaker=voices[line.round // 2], errors=WordErrors(line.round, 4), mos=4.0 - line.round)
        for line in heard(made)
    ]
    result = Drift.of(made, lines, ROUNDS)
    assert result.speaker is not None
    assert [each.value for each in result.speaker] == pytest.approx([1, 0])
    assert result.wer is not None
    assert [each.value for each in result.wer] == [0, 0.5]
    assert result.mos is not None
    assert [each.value for each in result.mos] == [4, 2]
    shown = Console(width=120)
    with shown.capture() as captured:
        shown.print(drift.table(result))
    assert "50.00" in captured.get()


def test_a_click_at_a_join_is_told() -> None:
    made = speech((1, 1), (1, 1), (1, 1))
    assert Drift.of(made, heard(made), ROUNDS).loudest_join < 1.5
    made.samples[made.joins[0]] += 0.5
    assert Drift.of(made, heard(made), ROUNDS).loudest_join > 3


@pytest.mark.parametrize("is_aligned", [True, False])
def test_lines_and_joins_of_an_utterance_are_where_they_are(is_aligned: bool) -> None:
    made = stage(is_aligned, max_lead_s=2.0, limits=ContextLimits(renew_rows=60))
    begun = []

    def skip(seconds: float) -> None:
        made.clock.now_s += max(seconds, 0.001)

    spoken = speak(made.engine, skip, TEXTS * ROUNDS, Utterance("u", "heart"), lambda: begun.append(1))
    assert len(spoken.starts) == len(begun) == ROUNDS * len(TEXTS)
    assert spoken.starts == sorted(set(spoken.starts))
    assert sum(len(spoken.line(n)) for n in range(len(spoken.starts))) == len(spoken.samples) - spoken.starts[0]
    assert spoken.renewals >= 1
    assert spoken.joins == sorted(set(spoken.joins))
    assert len(spoken.joins) >= spoken.renewals if is_aligned else len(spoken.joins) > spoken.renewals
    assert all(join % 1200 == 0 for join in spoken.joins)


def test_what_cannot_be_spoken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage(limits=ContextLimits(most_rows=20))
    with pytest.raises(ConfigError, match="after .* s: .*no pause"):
        speak(made.engine, lambda _: None, TEXTS, Utterance("u", "heart"), lambda: None)
    assert not isinstance(made.engine.step(), Finished)
