"""Teacher speech on its way to training: labels that fit the sound, variations whose labels still fit."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.codec.vocoder import LOG_F0, NUM_FEATURES, VOICED
from engine.train.data import at_tempo, vary
from engine.train.features import LEADING_UNITS, SAMPLES_PER_UNIT, SUBFRAMES_PER_UNIT, Take
from engine.train.labels import LAG_SAMPLES, LONGEST_END_UNITS, fit_durations, trim

LOUD, SILENT = -20.0, -80.0


def levels(*runs: tuple[float, int]) -> NDArray[np.float64]:
    return np.concatenate([np.full(count, level) for level, count in runs])


def test_the_pause_before_a_comma_belongs_to_the_comma() -> None:
    # [silence] a , space b [silence]; "a" was given 9 units of which 3 sound.
    durations = [2, 9, 2, 1, 3, 2]
    fitted = fit_durations(durations, "a, b", levels((SILENT, 2), (LOUD, 3), (SILENT, 9), (LOUD, 3), (SILENT, 2)))
    assert fitted == [2, 4, 7, 1, 3, 2]


def test_a_sound_without_a_pause_behind_it_stays_as_it_is() -> None:
    durations = [2, 4, 3, 3, 2]
    assert fit_durations(durations, "abc", levels((SILENT, 2), (LOUD, 10), (SILENT, 2))) == durations


def test_a_sound_too_soft_to_hear_keeps_one_unit() -> None:
    fitted = fit_durations([2, 3, 6, 2, 1], "ab.", levels((SILENT, 2), (LOUD, 3), (SILENT, 9)))
    assert fitted[:3] == [2, 3, 1]


@pytest.mark.parametrize("phonemes", ["ab.", "ab", "ab...", "ab?!"])
def test_the_pause_at_the_end_is_short(phonemes: str) -> None:
    durations = [2, 3, 20, *[7] * (len(phonemes) - 2), 1]
    fitted = fit_durations(durations, phonemes, levels((SILENT, 2), (LOUD, 5), (SILENT, 60)))
    assert fitted[:3] == [2, 3, 3]
    assert sum(fitted[3:]) <= LONGEST_END_UNITS
    assert min(fitted) >= 1


def test_trimmed_sound_begins_and_ends_with_its_labels() -> None:
    durations = [18, 4, 20, 7, 1]
    onset = 18 * SAMPLES_PER_UNIT - LAG_SAMPLES
    wave = np.zeros(sum(durations) * SAMPLES_PER_UNIT)
    wave[onset : onset + 8 * SAMPLES_PER_UNIT] = 0.1
    trimmed, fitted = trim(wave, durations, "ab.")
    assert len(trimmed) == sum(fitted) * SAMPLES_PER_UNIT
    assert np.flatnonzero(trimmed)[0] == LEADING_UNITS * SAMPLES_PER_UNIT
    assert fitted[:3] == [LEADING_UNITS, 4, 5]


def test_a_take_that_begins_at_once_is_padded() -> None:
    wave = np.full(10 * SAMPLES_PER_UNIT, 0.1)
    trimmed, fitted = trim(wave, [1, 4, 3, 2], "ab")
    assert fitted[0] == 1
    assert np.flatnonzero(trimmed)[0] == LAG_SAMPLES


def speech(durations: tuple[int, ...]) -> Take:
    """A take whose level is the number of the symbol that sounds, pitch 100 Hz."""
    at = np.repeat(np.arange(len(durations)), np.array(durations) * SUBFRAMES_PER_UNIT)
    features = np.zeros((len(at), NUM_FEATURES), np.float32)
    features[:, 0] = at
    features[:, LOG_F0] = np.log(100)
    features[:, VOICED] = at % 2
    return Take("af_heart", "", "x" * (len(durations) - 2), durations, features)


@pytest.mark.parametrize("stretch", [0.9, 1.0, 1.1, 1.5])
def test_another_tempo_moves_labels_with_the_sound(stretch: float) -> None:
    take = speech((2, 3, 1, 1, 4, 2, 1, 6, 3))
    other = at_tempo(take, stretch)
    assert len(other.features) == sum(other.durations) * SUBFRAMES_PER_UNIT
    assert sum(other.durations) == pytest.approx(stretch * sum(take.durations), abs=2)
    assert min(other.durations) >= 1
    labels = np.repeat(np.arange(len(take.durations)), np.array(other.durations) * SUBFRAMES_PER_UNIT)
    # Rounding to units moves a border by one unit at most.
    assert np.abs(other.features[:, 0] - labels).mean() < 0.35
    assert set(np.unique(other.features[:, VOICED])) == {0, 1}
    np.testing.assert_allclose(other.features[:, LOG_F0], np.log(100), rtol=1e-6)


def test_the_same_tempo_changes_nothing() -> None:
    take = speech((2, 3, 4, 1))
    same = at_tempo(take, 1.0)
    assert same.durations == take.durations
    np.testing.assert_array_equal(same.features, take.features)


def test_variations_keep_a_label_for_every_unit() -> None:
    rng = np.random.default_rng(3)
    take = speech((2, 3, 1, 1, 4, 2, 1, 6, 3))
    for _ in range(50):
        varied = vary(take, rng)
        missing = sum(varied.durations) * SUBFRAMES_PER_UNIT - len(varied.features)
        assert abs(missing) <= 1
