"""Who is speaking: spectrogram and parts, likeness by leaving texts out, what is said where the encoder is missing."""

import argparse
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from clients.bench import fidelity
from clients.bench.assets import MissingError
from clients.bench.fidelity_report import sound_table
from clients.bench.judges import Judges, Verdict
from clients.bench.report import console
from clients.bench.speakers import (
    BANDS,
    HOP,
    PART,
    RATE_HZ,
    STEP,
    Encoder,
    SpeakerJudge,
    Vector,
    likeness,
    mel_bands,
    mel_spectrogram,
    parts,
    voices_apart,
)
from clients.bench.takes import Take
from clients.bench.variants import Variant
from clients.bench.words import word_errors


def unit(*values: float) -> Vector:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def test_bands_are_of_equal_area_and_rise_to_the_highest_frequency() -> None:
    bands = mel_bands()
    assert bands.shape == (201, BANDS)
    centres = bands.argmax(0)
    assert bool((centres[1:] >= centres[:-1]).all())
    # A bin is 40 Hz. Bands are three bins wide at the least, so sums are rough below and exact above.
    torch.testing.assert_close(40 * bands[:, -10:].sum(0), torch.ones(10), atol=0.02, rtol=0)


@pytest.mark.parametrize("hz", [300, 1000, 3000])
def test_a_tone_is_in_the_band_of_its_frequency(hz: int) -> None:
    tone = torch.sin(2 * torch.pi * hz * torch.arange(RATE_HZ) / RATE_HZ)
    mels = mel_spectrogram(tone)
    assert mels.shape == (RATE_HZ // HOP + 1, BANDS)
    assert int(mels[50].argmax()) == int(mel_bands()[round(hz / 40)].argmax())


@pytest.mark.parametrize(("frames", "count"), [(20, 1), (PART, 1), (STEP + 119, 1), (STEP + 120, 2), (400, 4)])
def test_parts_are_mostly_sound(frames: int, count: int) -> None:
    mels = torch.rand(frames, BANDS)
    made = parts(mels)
    assert made.shape == (count, PART, BANDS)
    whole = min(frames, PART)
    assert torch.equal(made[0, :whole], mels[:whole])
    assert not made[0, whole:].any()
    if count > 1:
        assert torch.equal(made[1, :100], mels[STEP : STEP + 100])


def test_vectors_have_length_1_and_do_not_depend_on_the_level() -> None:
    torch.manual_seed(0)
    judge = SpeakerJudge.__new__(SpeakerJudge)
    judge._encoder = Encoder()
    sound = np.random.default_rng(0).normal(size=30_000).astype(np.float32)
    quiet, quieter = (judge.embed(level * sound, 24_000) for level in (0.01, 0.001))
    assert np.linalg.norm(quiet) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(quiet, quieter, atol=1e-5)


def test_a_take_is_compared_with_other_texts_in_its_own_voice() -> None:
    original = {
        ("a", "one"): unit(1, 0, 0),
        ("a", "two"): unit(1, 0, 0),
        ("b", "one"): unit(0, 1, 0),
        ("b", "two"): unit(0, 1, 0),
    }
    same, changed = likeness(original, original), likeness({("a", "one"): unit(1, 1, 0)}, original)
    assert same is not None
    assert changed is not None
    assert same.value == pytest.approx(1)
    assert changed.value == pytest.approx(0.5**0.5)
    assert voices_apart(original) == pytest.approx(0)


def test_the_same_text_does_not_count() -> None:
    original = {("a", "one"): unit(1, 0), ("a", "two"): unit(0, 1)}
    found = likeness(original, original)
    assert found is not None
    assert found.value == pytest.approx(0)


def test_one_text_or_one_voice_is_not_enough() -> None:
    only = {("a", "one"): unit(1, 0)}
    assert likeness(only, only) is None
    assert voices_apart(only) is None


class FakeSpeakers(SpeakerJudge):
    """Hears the level."""

    def __init__(self) -> None:
        pass

    def embed(self, samples: np.ndarray, sample_rate: int) -> Vector:
        return unit(1, float(samples[0]))


class FakeVariant(Variant):
    """Reads at one level; an empty text silently."""

    level = 0.0

    def read(self, text: str, voice: str, seed: int) -> Take:
        return Take(np.full(100, self.level if text else 0, np.float32), RATE_HZ, 1.0, 1.0)

    def cpu_ms_of(self, take: Take) -> float | None:
        return 1.0


def fake(name: str, level: float) -> FakeVariant:
    made = FakeVariant(name, cast("Any", None), 1, ("a",), name, f"{name}-1")
    made.level = level
    return made


def read_by(
    variants: list[FakeVariant], texts: list[str], folder: Path, judges: Judges | None, speakers: SpeakerJudge | None
) -> float | None:
    arguments = argparse.Namespace(out=folder, fresh=False, seed=1)
    return fidelity._read(arguments, variants, texts, ["a"], judges, speakers)


def test_every_variant_is_measured_and_silence_is_not(tmp_path: Path) -> None:
    variants = [fake("original", 0.1), fake("near", 0.2), fake("far", 5.0)]
    assert read_by(variants, ["x", "y", ""], tmp_path, None, FakeSpeakers()) is None
    original, near, far = (variant.likeness for variant in variants)
    assert original is not None
    assert near is not None
    assert far is not None
    assert original.value == pytest.approx(1)
    assert original.value > near.value > far.value
    assert far.value == pytest.approx(float(unit(1, 5) @ unit(1, 0.1)), abs=1e-5)
    assert variants[0].as_json()["speaker"]["value"] == pytest.approx(1)


class SharpJudges(Judges):
    """Mishear one text where it is loud."""

    def __init__(self) -> None:
        pass

    def judge(self, text: str, samples: np.ndarray, sample_rate: int) -> Verdict:
        heard = text.replace("two", "ten") if samples[0] > 0.15 else text
        return Verdict(heard, word_errors(text, heard), 4.0)


def test_words_are_compared_sentence_by_sentence(tmp_path: Path) -> None:
    variants = [fake("original", 0.1), fake("other", 0.2)]
    read_by(variants, ["two small words", "and three more words"], tmp_path, SharpJudges(), None)
    assert variants[0].wer_above is None
    assert variants[1].wer_above is not None
    assert variants[1].as_json()["wer_above"]["value"] == pytest.approx(1 / 7)
    shown = console()
    with shown.capture() as captured:
        shown.print(sound_table(variants))
    assert "+14.3" in captured.get()


def test_a_missing_encoder_is_said_with_the_way_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("FOOTLIGHTS_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("clients.bench.assets.lacking", lambda asset: [f"{asset.name} files"])
    with pytest.raises(MissingError):
        SpeakerJudge()
    assert fidelity._judges() == (None, None)
    said = capsys.readouterr().err
    assert "without speaker similarity: resemblyzer is not installed" in said
    assert "footlights bench setup resemblyzer" in said
