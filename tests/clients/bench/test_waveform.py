"""What is measured of sound, on sounds that are known."""

import numpy as np
import pytest

from clients.bench.waveform import Samples, loudness_db, pitches_hz, steps_at, voiced_step

RATE = 24_000


def buzz(hertz: float, seconds: float = 3.0) -> Samples:
    """Five partials, as a voice has them."""
    phase = 2 * np.pi * hertz * np.arange(int(seconds * RATE)) / RATE
    return np.asarray(sum(0.1 * np.cos(n * phase) / n for n in range(1, 6)), np.float32)


@pytest.mark.parametrize("hertz", [90.0, 180.0, 300.0])
def test_the_pitch_of_a_buzz_is_found(hertz: float) -> None:
    pitches = pitches_hz(buzz(hertz), RATE)
    assert len(pitches) > 50
    assert np.median(pitches) == pytest.approx(hertz, rel=0.02)


def test_what_does_not_repeat_has_no_pitch() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 3 * RATE).astype(np.float32)
    assert len(pitches_hz(noise, RATE)) == 0
    assert len(pitches_hz(np.zeros(RATE, np.float32), RATE)) == 0


def test_the_level_is_that_of_the_loud_part() -> None:
    tone = buzz(200)
    level = loudness_db(tone, RATE)
    assert loudness_db(np.concatenate((tone, np.zeros(2 * RATE, np.float32))), RATE) == pytest.approx(level, abs=0.1)
    assert loudness_db(tone * np.float32(0.5), RATE) == pytest.approx(level - 6.02, abs=0.01)
    assert loudness_db(np.zeros(RATE, np.float32), RATE) == -np.inf


def test_a_click_is_seen_at_its_place_alone() -> None:
    sound = buzz(200)
    sound[30_000] += 0.3
    quiet, loud = steps_at(sound, [20_000, 30_010], RATE) / voiced_step(sound)
    assert quiet < 1.5 < 3 < loud
    assert list(steps_at(sound, [], RATE)) == []
