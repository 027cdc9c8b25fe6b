"""Reading with the engine: the same sound as the engine's own, every take bounded and paid for."""

from pathlib import Path

import numpy as np
import pytest

from clients.bench import decode
from clients.bench.decode import BatchSpeed, EngineReader, batch_speed, checkpoint_hash, read_batch
from engine.errors import ConfigError
from engine.speak import speak
from tests.engine.doubles import stage

TEXTS = ["Good morning.", "It is late, and the shop is closed.", "Yes."]


def test_takes_are_what_the_engine_says_and_cost_something() -> None:
    engine = stage(True).engine
    take = read_batch(engine, [TEXTS[0]], "heart", seed=0)[0]
    expected, _ = speak(stage(True).engine, TEXTS[0], "heart")
    np.testing.assert_array_equal(take.samples, expected)
    assert take.failure is None
    assert take.sample_rate == 24_000
    assert take.compute_s > 0
    assert take.cpu_s > 0
    assert take.rtf == pytest.approx(take.compute_s / take.audio_s)
    assert len(take.step_ms) >= len(take.samples) / 1200
    assert not engine.has_work()


def test_a_batch_reads_each_text_as_alone() -> None:
    takes = read_batch(stage(True).engine, TEXTS, "bella", seed=4)
    for number, text in enumerate(TEXTS):
        alone = read_batch(stage(True).engine, [text], "bella", seed=4 + number)[0]
        np.testing.assert_allclose(takes[number].samples, alone.samples, atol=1e-4)


def test_seeds_differ() -> None:
    engine = stage(True).engine
    first, again, other = (read_batch(engine, [TEXTS[1]], "heart", seed)[0].samples for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)


def test_a_take_without_end_is_stopped_and_the_engine_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = stage(True).engine
    monkeypatch.setattr(decode, "most_s", lambda text: 0.3 if text == TEXTS[1] else 60.0)
    takes = read_batch(engine, TEXTS, "heart", seed=0)
    assert [take.failure for take in takes] == [None, "no_end", None]
    assert 0.3 < takes[1].audio_s < 0.5
    assert engine.stats().open_utterances == 0
    assert read_batch(engine, TEXTS[:1], "heart", seed=0)[0].failure is None


def test_a_failed_utterance_is_a_failed_take(monkeypatch: pytest.MonkeyPatch) -> None:
    made = stage(True)
    broken = [ValueError("broken")]
    monkeypatch.setattr(made.engine.runner, "vocode", lambda tracks, frames, speeds: broken)
    take = read_batch(made.engine, TEXTS[:1], "heart", seed=0)[0]
    assert take.failure == "internal"
    assert len(take.samples) == 0
    assert take.rtf == 0


def test_speed_of_batches() -> None:
    speed = batch_speed(stage(True).engine, TEXTS * 2, batch=2, voice="heart", seed=0)
    assert speed.batch == 2
    assert speed.frame_ms == 50
    assert speed.rtf > 0
    half = BatchSpeed(1, [40.0, 60.0, 50.0, 51.0], 50.0, 0.5, 0.4)
    assert half.late_share == 0.5
    assert half.as_json()["step_ms"] == {"p50": 50.5, "p95": pytest.approx(58.65), "p99": pytest.approx(59.73)}


def test_unknown_voices_are_named() -> None:
    with pytest.raises(ConfigError, match=r"no voice zoe; there are heart"):
        EngineReader(stage(True).engine, "0123", ["heart", "zoe"])


def test_readings_of_other_weights_or_streams_are_others() -> None:
    aligned, turns = (EngineReader(stage(form).engine, "0123", ["heart"]) for form in (True, False))
    assert aligned.folder != turns.folder
    assert aligned.identity.startswith(aligned.folder)
    assert EngineReader(stage(True).engine, "4567", ["heart"]).identity != aligned.identity


def test_checkpoint_hash_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    before = checkpoint_hash(tmp_path)
    (tmp_path / "README.md").write_text("about it")
    assert checkpoint_hash(tmp_path) == before
    (tmp_path / "model.safetensors").write_bytes(b"Weights")
    assert checkpoint_hash(tmp_path) != before


def test_source_hash_is_of_the_part_that_is_used() -> None:
    assert decode.source_hash() == decode.source_hash() != decode.source_hash("text")


def test_no_checkpoint_says_which_option_to_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--model"):
        decode.open_engine(tmp_path)
