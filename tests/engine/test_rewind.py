"""Revisions through the whole engine on the mock decoder, whose sound shows every frame lost, doubled or swapped."""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.core import AudioChunk, EngineEvent, Finished, Revised, SamplingParams, Utterance, WordTiming
from engine.corrections import REVISED_LEAD_S
from engine.errors import RevisionError, StructuralTokenError, UnknownUtteranceError, UtteranceStateError
from engine.loading import ContextLimits
from engine.rewind import MOST_SNAPSHOTS, SNAPSHOT_ENTRIES
from engine.text.front import explain
from tests.engine.doubles import VOICES, Stage, stage

TEXT = "The cat sat on the mat, and Dr. Smith paid $20 for it. Then we all went home again."
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "$20", "was", "paid,", "Dr.", "Smith!", "Go", "home.", "I",
         "like", "apples?", "well", "then", "dogs", "ran", "away;", "stop.")  # fmt: skip
FORMS = pytest.mark.parametrize("is_aligned", [True, False], ids=["aligned", "turns"])
FRAME = 1200


@dataclass
class Listener:
    """Keeps what is valid of one utterance, and checks what is promised."""

    stage: Stage
    name: str = "u"
    seed: int = 0
    text: str = ""
    samples: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    words: dict[int, WordTiming] = field(default_factory=dict)
    answers: list[Revised] = field(default_factory=list)
    is_finished: bool = False

    def __post_init__(self) -> None:
        self.stage.engine.add(Utterance(self.name, "heart", sampling=SamplingParams(seed=self.seed)))

    def append(self, text: str) -> None:
        self.stage.engine.append_text(self.name, text)
        self.text += text

    def revise(self, start: int, text: str, heard: int = 0) -> Revised:
        """With its answer taken in: nothing before sample ``heard`` may change."""
        before, old = self.samples[:heard].copy(), self.text
        self.stage.engine.revise(self.name, start, text, 1000 * heard / 24_000)
        self.step()
        answer = self.answers[-1]
        assert answer.start == start <= answer.kept_to
        self.text = old[: answer.kept_to] + text[answer.resumes_at :]
        assert np.array_equal(self.samples[:heard], before)
        return answer

    def step(self, clock_s: float = 0.05) -> None:
        self.stage.clock.now_s += clock_s
        self.take(self.stage.step())

    def take(self, events: Sequence[EngineEvent]) -> None:
        for event in events:
            match event:
                case AudioChunk(first_sample=first, samples=samples, words=words) if event.utterance_id == self.name:
                    assert first == len(self.samples)
                    self.samples = np.concatenate((self.samples, samples))
                    self.words.update((word.char_start, word) for word in words)
                case Revised(from_sample=start) if event.utterance_id == self.name:
                    assert start <= len(self.samples)
                    self.samples = self.samples[:start]
                    void = [
                        w.char_start for w in self.words.values() if 24 * w.start_ms >= start and w.end_ms > w.start_ms
                    ]
                    for char_start in void:
                        del self.words[char_start]
                    self.answers.append(event)
                case Finished() if event.utterance_id == self.name:
                    self.is_finished = True

    def run_to(self, samples: int) -> None:
        """At once, or until the text is used up."""
        while len(self.samples) < samples:
            made = len(self.samples)
            self.step(clock_s=0)
            if len(self.samples) == made and not self.stage.engine.has_work():
                return

    def finish(self) -> None:
        if not self.is_finished:
            with suppress(UtteranceStateError):
                self.stage.engine.finish(self.name)
        for _ in range(3000):
            if self.is_finished:
                return
            self.step(1.0)
        raise AssertionError("never ended")

    def spoken_text(self) -> str:
        """The words as they were told, in order; their places in the text are checked."""
        told = [self.words[start] for start in sorted(self.words)]
        assert all(self.text[word.char_start : word.char_end] == word.text for word in told)
        return "".join(word.text for word in told)


def written(text: str) -> str:
    return "".join(word.text for word in explain(text))


def whole(text: str, is_aligned: bool = True, seed: int = 0) -> Listener:
    listener = Listener(stage(is_aligned), seed=seed)
    listener.append(text)
    listener.finish()
    return listener


class TestRevise:
    @FORMS
    def test_before_anything_is_heard_it_is_as_if_the_text_had_been_another(self, is_aligned: bool) -> None:
        listener = Listener(stage(is_aligned))
        listener.append("A completely different text, which nobody wants to hear. ")
        listener.run_to(20 * FRAME)
        answer = listener.revise(0, TEXT)
        assert (answer.kept_to, answer.resumes_at, answer.from_sample) == (0, 0, 0)
        listener.finish()
        reference = whole(TEXT, is_aligned)
        assert np.array_equal(listener.samples, reference.samples)
        assert listener.words == reference.words

    @FORMS
    def test_the_same_text_again_changes_nothing(self, is_aligned: bool) -> None:
        listener = Listener(stage(is_aligned))
        listener.append(TEXT)
        for at in (3, 12, 31):
            listener.run_to(at * FRAME)
            made = len(listener.samples)
            answer = listener.revise(0, TEXT, heard=made // 2)
            assert (answer.kept_to, answer.resumes_at, answer.from_sample) == (0, 0, made)
        listener.finish()
        assert np.array_equal(listener.samples, whole(TEXT, is_aligned).samples)

    def test_a_change_voids_only_what_has_seen_it(self) -> None:
        listener = Listener(stage())
        listener.append(TEXT)
        listener.run_to(60 * FRAME)
        start = TEXT.index("paid")
        answer = listener.revise(start, "gave us all of it.")
        changed = next(w for w in whole(TEXT).words.values() if w.char_start == start)
        assert 0 < answer.from_sample < 24 * changed.start_ms
        listener.finish()
        assert np.array_equal(listener.samples, whole(TEXT[:start] + "gave us all of it.").samples)

    @FORMS
    def test_words_that_have_begun_are_kept_whole(self, is_aligned: bool) -> None:
        listener = Listener(stage(is_aligned))
        listener.append("The elephants danced all night long in the old town hall. ")
        listener.run_to(40 * FRAME)
        begun = [w for w in listener.words.values() if 24 * w.start_ms < 10 * FRAME]
        answer = listener.revise(0, "Our mice slept for many days, and nobody saw them again.", heard=10 * FRAME)
        assert answer.kept_to >= max(w.char_end for w in begun)
        assert (
            listener.text[: answer.kept_to]
            == "The elephants danced all night long in the old town hall. "[: answer.kept_to]
        )
        listener.finish()
        assert listener.spoken_text() == written(listener.text)

    def test_text_after_a_revision_goes_on_behind_it(self) -> None:
        listener = Listener(stage())
        listener.append(TEXT)
        listener.run_to(10 * FRAME)
        listener.revise(8, "slept", heard=5 * FRAME)
        listener.append(" all day. And up.")
        listener.finish()
        assert listener.text == "The cat slept all day. And up."
        assert listener.spoken_text() == written(listener.text)

    def test_what_follows_a_word_that_was_kept_is_no_part_of_it(self) -> None:
        listener = Listener(stage())
        listener.append("The dogs was stop. and I went home again today.")
        listener.run_to(40 * FRAME)
        listener.revise(8, "", heard=30 * FRAME)
        listener.append("burger buns were here")
        listener.finish()
        assert listener.spoken_text() == written(listener.text)
        assert listener.text.endswith("burger buns were here")

    def test_after_the_end_the_text_stays_ended(self) -> None:
        listener = Listener(stage())
        listener.append(TEXT)
        listener.run_to(10 * FRAME)
        listener.stage.engine.finish("u")
        listener.run_to(20 * FRAME)
        listener.revise(20, "floor.", heard=9 * FRAME)
        with pytest.raises(UtteranceStateError):
            listener.stage.engine.append_text("u", "more")
        listener.finish()
        assert listener.text == TEXT[:20] + "floor."
        assert listener.spoken_text() == written(listener.text)

    def test_a_flush_of_what_is_replaced_goes_with_it_and_earlier_ones_stay(self) -> None:
        listener = Listener(stage())
        listener.append("Good morning ")
        listener.stage.engine.flush("u")
        listener.append("to you all my friends ")
        listener.stage.engine.flush("u")
        listener.run_to(8 * FRAME)
        listener.revise(13, "to the others, too, and to everybody else in the house.")
        listener.finish()
        reference = Listener(stage())
        reference.append("Good morning ")
        reference.stage.engine.flush("u")
        reference.append("to the others, too, and to everybody else in the house.")
        reference.finish()
        assert np.array_equal(listener.samples, reference.samples)

    def test_across_a_renewed_context(self) -> None:
        listener = Listener(stage(limits=ContextLimits(renew_rows=30)))
        text = "Good morning. We are here. They are not. " * 3
        listener.append(text)
        listener.run_to(100 * FRAME)
        start = text.index("They")
        answer = listener.revise(start, "You are gone. " * 3)
        assert answer.kept_to == start
        listener.finish()
        reference = Listener(stage(limits=ContextLimits(renew_rows=30)))
        reference.append(text[:start] + "You are gone. " * 3)
        reference.finish()
        assert np.array_equal(listener.samples, reference.samples)

    def test_wrong_calls_change_nothing(self) -> None:
        listener = Listener(stage())
        listener.append(TEXT)
        listener.run_to(10 * FRAME)
        engine = listener.stage.engine
        for start in (-1, len(TEXT) + 1):
            with pytest.raises(RevisionError):
                engine.revise("u", start, "x", 0)
        with pytest.raises(StructuralTokenError):
            engine.revise("u", 10, "so <|im_end|> it is", 0)
        with pytest.raises(UnknownUtteranceError):
            engine.revise("v", 0, "x", 0)
        listener.finish()
        assert np.array_equal(listener.samples, whole(TEXT).samples)
        assert not listener.answers


class TestGoingBack:
    @FORMS
    @pytest.mark.parametrize("neighbours", [0, 2])
    def test_from_every_entry_it_goes_on_as_if_it_had_never_branched(self, is_aligned: bool, neighbours: int) -> None:
        reference = whole(TEXT, is_aligned)
        listener = Listener(stage(is_aligned))
        for voice in VOICES[:neighbours]:
            listener.stage.say(voice, TEXT * 20, voice)
        listener.append(TEXT)
        listener.run_to(20 * FRAME)
        listener.stage.engine.finish("u")
        sequence = listener.stage.engine._sequences["u"]
        count = len(sequence.tape._entries)
        for index in range(count - 1, -1, -1 if neighbours == 0 else -5):
            samples, _ = sequence.tape._go_back(index)
            sequence.samples = samples
            listener.samples = listener.samples[:samples]
            while len(sequence.tape._entries) <= min(index + 6, count - 1):
                listener.step()
        listener.finish()
        assert np.array_equal(listener.samples, reference.samples)

    def test_memory_is_bounded_however_much_is_unheard(self) -> None:
        listener = Listener(stage())
        listener.append("Good morning to you all, and good night. " * 40)
        listener.stage.clock.now_s += 1
        most = 0
        for _ in range(MOST_SNAPSHOTS * SNAPSHOT_ENTRIES * 2):
            listener.take(listener.stage.step())
            entries = listener.stage.engine._sequences["u"].tape._entries
            most = max(most, sum(entry.snapshot is not None for entry in entries))
        assert most <= MOST_SNAPSHOTS + 1
        answer = listener.revise(0, "What a day it is. ")
        assert answer.from_sample == 0
        listener.finish()
        assert np.array_equal(listener.samples, whole("What a day it is. ").samples)

    def test_what_was_heard_is_forgotten(self) -> None:
        listener = Listener(stage(max_lead_s=1.0))
        listener.append("Good morning to you all, and good night. " * 10)
        for _ in range(300):
            listener.step()
        sequence = listener.stage.engine._sequences["u"]
        assert len(sequence.tape._entries) < 100
        assert len(sequence.script._checkpoints) < 6
        assert listener.stage.engine.stats().memory_bytes > sequence.tape.nbytes > 0


def sentence(rng: random.Random, most: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def change(rng: random.Random, listener: Listener, heard: int) -> tuple[int, str]:
    """A random revision of the text."""
    text = listener.text
    start = rng.choice([0, rng.randint(0, len(text)), len(text)])
    others: list[Callable[[], str]] = [
        lambda: sentence(rng, 8),
        lambda: text[start:] + " " + sentence(rng, 3),
        lambda: text[start : start + 5] + sentence(rng, 4),
    ]
    return start, rng.choice(others)()


class TestRandomRevisions:
    @FORMS
    @pytest.mark.parametrize("seed", range(4))
    def test_the_final_text_is_spoken_and_equals_what_is_made_without_looking_ahead(
        self, seed: int, is_aligned: bool
    ) -> None:
        """The same revisions reach one utterance that was far ahead, and another that had made nothing to be thrown
        away: both give the same audio.
        """
        rng = random.Random(seed)
        ahead, behind = (Listener(stage(is_aligned), seed=seed) for _ in range(2))
        opening = sentence(rng, 12)
        for listener in (ahead, behind):
            listener.append(opening)
        heard = 0
        for _ in range(6):
            for _ in range(rng.randint(0, 30)):
                ahead.step(rng.random() * 0.1)
            heard = max(heard, rng.randint(0, len(ahead.samples)))
            start, text = change(rng, ahead, heard)
            answer = ahead.revise(start, text, heard)
            valid = answer.from_sample
            while len(behind.samples) < valid and behind.stage.engine.has_work():
                behind.step()
            assert behind.revise(start, text, heard).from_sample == valid
            assert behind.text == ahead.text
        for listener in (ahead, behind):
            listener.finish()
            assert listener.spoken_text() == written(listener.text)
        assert np.array_equal(ahead.samples, behind.samples)
        assert ahead.words == behind.words

    def test_a_storm_costs_bounded_work(self) -> None:
        listener = Listener(stage())
        listener.append(TEXT)
        revisions = 60
        for i in range(revisions):
            for _ in range(30):
                listener.step(0.1 / 30)
            heard = int(24_000 * 0.1 * i)
            start = len(listener.text) // 2
            listener.revise(
                start, sentence(random.Random(i), 8) + " and so on, and on.", min(heard, len(listener.samples))
            )
        stats = listener.stage.engine.stats()
        assert stats.tally.revisions == revisions
        # A revision throws away no more than the lead, and after the first that is made anew at most once.
        assert stats.tally.discarded_frames <= revisions * REVISED_LEAD_S * 20
        listener.finish()
        assert listener.spoken_text() == written(listener.text)


class TestStalls:
    @pytest.mark.parametrize("text", ["I think, that we two should go.", "It costs $20; to be had on May 5."])
    def test_wherever_a_text_stalls_speech_waits_between_words_and_then_goes_on_the_same(self, text: str) -> None:
        reference = whole(text)
        for at in range(len(text)):
            listener = Listener(stage())
            listener.append(text[:at])
            for _ in range(200):
                listener.step()
            stream = listener.stage.engine._sequences["u"].stream
            told = [word for word in listener.words.values() if 24 * word.start_ms < len(listener.samples)]
            assert all(24 * word.end_ms <= len(listener.samples) and not word.is_estimated for word in told), stream
            listener.append(text[at:])
            listener.finish()
            assert np.array_equal(listener.samples, reference.samples)
            assert listener.words == reference.words
