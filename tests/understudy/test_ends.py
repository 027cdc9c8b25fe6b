"""Where speech ends: with its last word, and nothing audible is cut."""

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core import AudioChunk, Utterance, WordTiming
from engine.engine import Engine, load_engine
from engine.speak import speak

SENTENCES = (
    "Good evening.",
    "Your table is ready at half past eight.",
    "She sells sea shells by the sea shore.",
    "Come back soon!",
    "Where did you put it?",
    "The lamp is off.",
    "It cost twenty dollars and a smile.",
    "We will meet again tomorrow morning",
    "They laughed and walked home together.",
    "Nothing is lost if you ask.",
)
MOST_APART_MS = 40
AUDIBLE_DB = -45.0
RATE_PER_MS = 24


@pytest.fixture(scope="module", params=["aligned", "turns"])
def takes(request: pytest.FixtureRequest) -> list[tuple[NDArray[np.float32], list[WordTiming]]]:
    engine: Engine = load_engine(text_stream=request.param)
    voices = engine.info.voices
    return [speak(engine, text, voices[i % len(voices)]) for i, text in enumerate(SENTENCES)]


def levels_db(samples: NDArray[np.float32]) -> NDArray[np.float64]:
    """RMS of each 10 ms."""
    blocks = samples[: len(samples) // 240 * 240].reshape(-1, 240).astype(np.float64)
    levels: NDArray[np.float64] = 10 * np.log10((blocks**2).mean(1) + 1e-12)
    return levels


def test_the_audio_ends_when_the_last_word_does(takes: list[tuple[NDArray[np.float32], list[WordTiming]]]) -> None:
    for samples, words in takes:
        assert 0 <= len(samples) / RATE_PER_MS - words[-1].end_ms <= MOST_APART_MS
        assert not words[-1].is_estimated


def test_nothing_audible_is_cut(takes: list[tuple[NDArray[np.float32], list[WordTiming]]]) -> None:
    last = [float(levels_db(samples[-600:])[0]) for samples, _ in takes]
    assert sum(level < AUDIBLE_DB for level in last) >= len(takes) - 1, last


def test_the_sound_ends_when_the_last_word_does(takes: list[tuple[NDArray[np.float32], list[WordTiming]]]) -> None:
    early = []
    for samples, words in takes:
        audible = np.flatnonzero(levels_db(samples) > AUDIBLE_DB)
        early.append(words[-1].end_ms - 10 * (int(audible[-1]) + 1))
    # A stop may be closed at the end of a word, and its last sound is a unit longer than it is heard.
    assert np.median(early) <= MOST_APART_MS, early
    # The pointer of the turn form leaves some last sounds late, by 115 ms at most.
    assert sum(each <= 2 * MOST_APART_MS for each in early) >= len(early) - 2, early


@pytest.mark.parametrize("form", ["aligned", "turns"])
def test_a_flush_before_the_end_changes_nothing(form: str) -> None:
    engine = load_engine(text_stream=form)
    text, voice = SENTENCES[3], engine.info.voices[0]
    engine.add(Utterance("flushed", voice))
    engine.append_text("flushed", text)
    engine.flush("flushed")
    engine.finish("flushed")
    chunks = list[AudioChunk]()
    while engine.has_work():
        chunks += [event for event in engine.step() if isinstance(event, AudioChunk)]
    expected, _ = speak(engine, text, voice)
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), expected)
