"""What the understudy's checkpoint speaks, through the engine: twenty sentences, several at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from clients.bench.judges import JUDGE_RATE_HZ, Recogniser
from clients.bench.words import word_errors
from engine.core import AudioChunk, Cancelled, Failed, Finished, Utterance, WordTiming
from engine.engine import Engine, load_engine
from engine.text.front import explain

SENTENCES = (
    "Good evening, and welcome.",
    "The train to Leeds leaves at 9:45.",
    "Dr. Smith paid $20 for it.",
    "What do you think?",
    "No no no no no.",
    "Her temperature was 98.6 degrees.",
    "THIS IS ALL IN CAPITALS.",
    "I will not wait any longer!",
    "**Bold** words, and `code`.",
    "Wait... what was that?",
    "She sells sea shells.",
    "It costs 5% more in May 2024.",
    "Turn left; then go straight on.",
    "Hmm, shh, brrr.",
    "Xylophones jazzed up the quartz quiz.",
    "Nobody knew why the lamp went out",
    "He said, yes, but not today.",
    "The NASA report came by e-mail.",
    "One, two, three, four, five.",
    "Thank you, and good night.",
)
VOICES = ("heart", "michael", "bella")
SYMBOL_MS = 75.0
TOLERANCE = 2.0
NO_WORDS = ("Hmm, shh, brrr.",)
MOST_MISHEARD = 0.08
"""Word error rate. Measured: 0.03 with these voices, 0.04 with each of the other two orders of them."""
RATE_HZ = 24_000


@dataclass
class Take:
    """One sentence spoken."""

    samples: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    words: dict[int, WordTiming] = field(default_factory=dict)
    ending: Finished | Cancelled | Failed | None = None

    @property
    def ms(self) -> float:
        return len(self.samples) / 24

    @property
    def timings(self) -> list[WordTiming]:
        return [self.words[start] for start in sorted(self.words)]


def speak(engine: Engine, sentences: Sequence[tuple[str, str, str]]) -> dict[str, Take]:
    """All of ``(name, voice, text)`` at once; takes by name."""
    takes = {name: Take() for name, _, _ in sentences}
    for name, voice, text in sentences:
        engine.add(Utterance(name, voice))
        engine.append_text(name, text)
        engine.finish(name)
    while engine.has_work():
        for event in engine.step():
            take = takes[event.utterance_id]
            assert take.ending is None
            if isinstance(event, AudioChunk):
                assert event.first_sample == len(take.samples)
                take.samples = np.concatenate((take.samples, event.samples))
                take.words.update((word.char_start, word) for word in event.words)
            else:
                assert isinstance(event, Finished | Cancelled | Failed), event
                take.ending = event
    return takes


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load_engine(is_warm=False)


@pytest.fixture(scope="module")
def takes(engine: Engine) -> Iterator[dict[str, Take]]:
    yield speak(engine, [(text, VOICES[i % 3], text) for i, text in enumerate(SENTENCES)])
    assert engine.stats().open_utterances == 0


@pytest.mark.parametrize("text", SENTENCES)
def test_a_take_has_a_plausible_length_and_is_heard(takes: dict[str, Take], text: str) -> None:
    take = takes[text]
    assert isinstance(take.ending, Finished)
    expected_ms = SYMBOL_MS * sum(len(word.phonemes) + 1 for word in explain(text))
    assert expected_ms / TOLERANCE < take.ms < expected_ms * TOLERANCE
    assert 0.01 < np.sqrt(np.mean(take.samples**2)) < 0.5
    assert np.isfinite(take.samples).all()


@pytest.mark.parametrize("text", SENTENCES)
def test_words_tell_where_they_are_written_and_when_they_are_heard(takes: dict[str, Take], text: str) -> None:
    take, words = takes[text], takes[text].timings
    assert [word.text for word in words] == [word.text for word in explain(text)]
    assert all(text[word.char_start : word.char_end] == word.text for word in words)
    assert all(word.start_ms < word.end_ms for word in words)
    assert all(before.end_ms <= after.start_ms for before, after in zip(words, words[1:], strict=False))
    assert words[0].start_ms <= 200
    assert take.ms - 800 <= words[-1].end_ms <= take.ms
    loud = np.abs(take.samples) > 0.01
    for word in words:
        assert loud[int(24 * word.start_ms) : int(24 * word.end_ms)].any(), word


@pytest.fixture(scope="module")
def recogniser() -> Recogniser:
    """Put there by ``make test``."""
    return Recogniser()


def word_error_rate(recogniser: Recogniser, said: Sequence[tuple[str, NDArray[np.float32]]]) -> float:
    """Of ``(text, samples)`` together."""
    heard = [recogniser.hear(soxr.resample(samples, RATE_HZ, JUDGE_RATE_HZ)) for _, samples in said]
    errors = [word_errors(text, transcript) for (text, _), transcript in zip(said, heard, strict=True)]
    return sum(e.errors for e in errors) / sum(e.words for e in errors)


def test_the_words_are_understood(takes: dict[str, Take], recogniser: Recogniser) -> None:
    said = [(text, takes[text].samples) for text in SENTENCES if text not in NO_WORDS]
    assert word_error_rate(recogniser, said) <= MOST_MISHEARD


def test_other_words_and_babble_are_not(takes: dict[str, Take], recogniser: Recogniser) -> None:
    others = [(SENTENCES[i - 1], takes[text].samples) for i, text in enumerate(SENTENCES[:10])]
    assert word_error_rate(recogniser, others) > 0.8
    rng, babble = np.random.default_rng(1), []
    for text in SENTENCES[:10]:
        # The take's own sounds, a fifth of a second each, in another order.
        pieces = np.array_split(takes[text].samples, max(2, round(takes[text].ms / 200)))
        babble.append((text, np.concatenate([pieces[k] for k in rng.permutation(len(pieces))])))
    assert word_error_rate(recogniser, babble) > 0.5


def test_batched_equals_alone(engine: Engine, takes: dict[str, Take]) -> None:
    for i in (0, 3):
        text = SENTENCES[i]
        alone = speak(engine, [("alone", VOICES[i % 3], text)])["alone"]
        assert alone.timings == takes[text].timings
        assert np.abs(alone.samples - takes[text].samples).max() < 1e-4


@pytest.mark.parametrize("text", ["", " \n", "🙂🎉", "*** --- !?", "\u200b\u0007"])
def test_nothing_to_say_is_a_moment_of_silence(engine: Engine, text: str) -> None:
    take = speak(engine, [("u", "bella", text)])["u"]
    assert isinstance(take.ending, Finished)
    assert take.ms == 40
    assert not take.samples.any()


def test_speech_begins_before_the_text_ends(engine: Engine) -> None:
    engine.add(Utterance("u", "heart"))
    engine.append_text("u", "Good evening and wel")
    events = [event for _ in range(3) for event in engine.step()]
    assert any(isinstance(event, AudioChunk) for event in events)
    engine.abort("u")
    assert engine.step() == [Cancelled("u")]
