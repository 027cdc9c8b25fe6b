"""Pitch, energy and pauses of sounds that are known."""

import numpy as np
import pytest
from numpy.typing import NDArray

from clients.bench.prosody import FRAME_S, levels, marks, prosody

RATE = 24_000
NO_PITCH = np.zeros(10)


def tone(seconds: float, level: float = 0.3) -> NDArray[np.float32]:
    return (level * np.sin(2 * np.pi * 200 * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def rest(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * RATE), np.float32)


def test_levels_are_those_of_the_samples_around() -> None:
    db = levels(np.concatenate([rest(0.5), tone(0.5)]), RATE)
    assert len(db) == 200
    assert db[:95].max() == pytest.approx(-100)
    assert db[110:190] == pytest.approx(20 * np.log10(0.3 / np.sqrt(2)), abs=0.5)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("No mark within it.", 0),
        ("Yes, and no.", 1),
        ("One; two: three? Four!", 3),
        ("It is 9:45, at 3.5 percent...  ", 1),
        ("", 0),
    ],
)
def test_marks_are_those_within_the_text(text: str, count: int) -> None:
    assert marks(text) == count


def test_silence_around_and_the_longest_pauses_within() -> None:
    samples = np.concatenate(
        [rest(0.2), tone(0.4), rest(0.3), tone(0.4), rest(0.1), tone(0.4), rest(0.06), tone(0.3), rest(0.5)]
    )
    figures = prosody("One, two, three four.", samples, RATE, NO_PITCH)
    assert figures.before_s == pytest.approx(0.2, abs=0.02)
    assert figures.after_s == pytest.approx(0.5, abs=0.02)
    assert figures.pauses_s == [pytest.approx(0.3, abs=0.03), pytest.approx(0.1, abs=0.03)]


def test_a_mark_without_a_pause_counts_as_nought() -> None:
    samples = np.concatenate([tone(0.4), rest(0.03), tone(0.4)])
    assert prosody("One, two; three.", samples, RATE, NO_PITCH).pauses_s == [0, 0]


def test_silence_is_relative_to_the_take() -> None:
    samples = np.concatenate([tone(0.4), rest(0.3), tone(0.4), rest(0.2)])
    loud = prosody("One, two.", samples, RATE, NO_PITCH)
    soft = prosody("One, two.", samples * np.float32(0.05), RATE, NO_PITCH)
    assert soft.pauses_s == loud.pauses_s
    assert soft.after_s == loud.after_s
    assert loud.level_db - soft.level_db == pytest.approx(26, abs=0.1)


def test_pitch_range_is_in_semitones_of_what_is_voiced() -> None:
    contour = np.concatenate([np.zeros(50), np.full(50, 100.0), np.full(50, 200.0)])
    figures = prosody("Hello.", tone(150 * FRAME_S), RATE, contour)
    assert figures.pitch_range == pytest.approx(12)
    assert figures.pitch_hz == pytest.approx(150)


def test_a_monotone_has_no_range_and_a_whisper_no_pitch() -> None:
    assert prosody("Hello.", tone(1), RATE, np.full(200, 120.0)).pitch_range == pytest.approx(0)
    whisper = prosody("Hello.", tone(1), RATE, np.zeros(200))
    assert (whisper.pitch_hz, whisper.pitch_range) == (None, None)


def test_energy_range_leaves_pauses_out() -> None:
    samples = np.concatenate([tone(0.5, 0.3), rest(0.5), tone(0.5, 0.03)])
    assert prosody("One, two.", samples, RATE, NO_PITCH).energy_range == pytest.approx(20, abs=1)
