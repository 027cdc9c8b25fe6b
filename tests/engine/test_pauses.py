"""Turns of a model that does not tell which word is sounding: ended early, or taken back, at a pause."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from torch import Tensor

from engine.core import AudioChunk, Finished, Utterance
from engine.delivery import KEPT_BACK_FRAMES
from engine.pace import RESERVE_S
from engine.streams.base import Demand, Frame
from engine.streams.guesses import Guessing
from engine.streams.turn_speech import GuessedTurn, TurnSettings
from engine.streams.turns import TurnStream
from engine.text.words import SpokenWord
from tests.engine.doubles import VOICES, Stage, SumCodec, SumMemory, stage
from tests.engine.test_guesses import TEXT, let_pass
from tests.engine.test_streams import FakeCutter, sentence, text_of

LOUD, QUIET = -20.0, -60.0
SETTINGS = TurnSettings(frame_ms=50, expected_ms=50)


def turn(text: str, levels: Sequence[float], settings: TurnSettings = SETTINGS) -> GuessedTurn:
    """A turn of which a frame was made for each of ``levels``."""
    speech = GuessedTurn(settings, sentence(text))
    for i, level in enumerate(levels):
        assert speech.accept(Frame((5 + i % 3, i))).frames
        speech = speech.hearing([level])
    return speech


class TestWhereItRests:
    def test_at_a_pause_behind_the_word_that_should_have_ended_there(self) -> None:
        # A character or a gap is a frame: "abcd " ends at 5, "abcd ef " at 8.
        for loud, words in ((5, 1), (6, 1), (7, 2), (8, 2), (9, 2)):
            assert turn("abcd ef gabc", [LOUD] * loud + [QUIET] * 2).rests_behind == words

    def test_not_far_from_where_any_word_should_end(self) -> None:
        text = "abcdabcdabcdabcd gabcgabcgabcgabc ef"
        expected = {12: 0, 13: 1, 17: 1, 21: 1, 22: 0, 29: 0, 30: 2}
        assert {at: turn(text, [LOUD] * at + [QUIET] * 2).rests_behind for at in expected} == expected

    def test_rather_at_a_comma(self) -> None:
        loud = [LOUD] * 7 + [QUIET] * 2
        assert turn("abcd ef gabc", loud).rests_behind == 2
        assert turn("abcd, fe gabc", [LOUD] * 8 + [QUIET] * 2).rests_behind == 1

    def test_not_while_it_speaks_nor_before_it_does_nor_in_the_gap_of_a_sound(self) -> None:
        assert turn("abcd ef gabc", [LOUD] * 8).rests_behind == 0
        assert turn("abcd ef gabc", [QUIET] * 9).rests_behind == 0
        assert turn("abcd ef gabc", [LOUD] * 8 + [QUIET]).rests_behind == 0
        assert turn("abcd ef gabc", [LOUD] * 8 + [QUIET] * 2 + [LOUD]).rests_behind == 0

    def test_nowhere_where_all_of_it_should_have_been_said(self) -> None:
        assert turn("abcd ef gabc", [LOUD] * 12 + [QUIET] * 2).rests_behind == 0

    def test_silence_before_and_between_is_no_speech_and_a_short_gap_is(self) -> None:
        quiet_first = turn("abcd ef gabc", [QUIET] * 6 + [LOUD] * 5 + [QUIET] * 2)
        assert quiet_first.rests_behind == 1
        gap = turn("abcd ef gabc", [LOUD] * 4 + [QUIET] + [LOUD] * 3 + [QUIET] * 2)
        assert gap.rests_behind == 2

    def test_the_pace_of_turns_before_counts(self) -> None:
        fast = GuessedTurn(SETTINGS, sentence("abcd ef gabc")).paced(25)
        for i in range(6):
            fast.accept(Frame((5, i)))
            fast = fast.hearing([LOUD if i < 4 else QUIET])
        assert fast.rests_behind == 2

    def test_only_a_turn_that_ended_by_itself_tells_the_pace(self) -> None:
        speech = turn("abcd ef gabc abcd", [LOUD] * 34 + [QUIET] * 6)
        assert speech.ms_per_character is None
        speech.accept(Frame((0,), is_end=True))
        assert speech.ms_per_character == pytest.approx(34 * 50 / 17)

    def test_the_tail_is_the_last_word(self) -> None:
        assert not turn("abcd ef gabc", [LOUD] * 7).is_at_tail
        assert turn("abcd ef gabc", [LOUD] * 8).is_at_tail


class TestStream:
    def stream(self) -> TurnStream:
        def prompt(text: str, is_first: bool, is_closed: bool) -> tuple[int, ...]:
            return (int(is_first), int(is_closed), *(ord(c) for c in text))

        def render(words: Sequence[SpokenWord]) -> str:
            return " ".join(w.text for w in words)

        def open_turn(words: Sequence[SpokenWord]) -> GuessedTurn:
            return GuessedTurn(SETTINGS, words)

        stream = TurnStream(50, FakeCutter(), open_turn, render, prompt, Guessing())
        stream.add(sentence("abcd ef gabc"))
        stream.situate(0, 0.3)
        stream.take_prompt()
        return stream

    def make(self, stream: TurnStream, levels: Sequence[float], lead_s: float = 1.0) -> None:
        for i, level in enumerate(levels):
            stream.situate(lead_s, 0.3)
            assert stream.demand() is Demand.DECODE
            assert stream.accept(Frame((5, i))).frames
            stream.hear([level])

    def test_with_more_text_it_ends_at_the_pause_and_the_rest_opens_the_next_turn(self) -> None:
        stream = self.stream()
        self.make(stream, [LOUD] * 5)
        stream.add(sentence("fe ga"))
        self.make(stream, [QUIET] * 2)
        stream.situate(0, 0.3)
        assert stream.demand() is Demand.PREFILL
        ids = stream.take_prompt()
        assert (ids[:2], text_of(ids)) == ((0, 0), "ef gabc fe ga")
        told = stream.accept(Frame((5, 1))).words
        assert [(w.text, w.start_ms, w.end_ms) for w in told][0] == ("abcd", 0, 350)
        assert told[1].start_ms == 350

    def test_without_more_text_it_holds_before_the_last_word(self) -> None:
        stream = self.stream()
        self.make(stream, [LOUD] * 8)
        stream.situate(1.0, 0.3)
        assert stream.demand() is Demand.HOLD
        stream.add(sentence("fe"))
        assert stream.demand() is Demand.DECODE, "to the next pause"
        stream.situate(0.0, 0.3)
        assert stream.demand() is Demand.DECODE

    def test_a_pause_that_lies_behind_is_where_it_had_better_end(self) -> None:
        stream = self.stream()
        places = [stream.place()]
        for level in [LOUD] * 5 + [QUIET] * 3 + [LOUD] * 2:
            self.make(stream, [level])
            places.append(stream.place())
        assert not any(stream.had_better_end_at(place) for place in places), "no more text"
        stream.add(sentence("fe ga"))
        assert [i for i, place in enumerate(places) if stream.had_better_end_at(place)] == [7, 8]
        stream.go_to(places[8])
        stream.situate(0, 0.3)
        assert text_of(stream.take_prompt()) == "ef gabc fe ga"
        assert not any(stream.had_better_end_at(place) for place in places), "another turn"


class PausingCodec(SumCodec):
    """One of three frames is silent, by its code."""

    def decode_step(self, codes: Tensor, state: SumMemory, speed: float = 1.0) -> Tensor:
        return super().decode_step(codes, state) * (codes[:, 0, -1:] % 5 > 1)


def open_stage(neighbours: int = 0, seed: int = 0) -> Stage:
    opened = stage(is_aligned=False, guessing=Guessing(), has_pointer=False)
    opened.runner.codec = PausingCodec()
    for voice in VOICES[:neighbours]:
        opened.say(voice, TEXT, voice, seed)
    opened.engine.add(Utterance("u", "heart"))
    return opened


@pytest.mark.parametrize(("neighbours", "seed"), [(0, 0), (0, 1), (0, 2), (2, 3)])
def test_every_word_is_spoken_once_and_nothing_given_out_changes(neighbours: int, seed: int) -> None:
    opened, rng = open_stage(neighbours, seed), random.Random(seed)
    for piece in (TEXT + " " + TEXT).split(" "):
        opened.engine.append_text("u", piece + " ")
        let_pass(opened, rng.choice([0.0, 0.02, 0.1, 0.3, 1.0]))
    opened.engine.finish("u")
    let_pass(opened, 120)
    assert isinstance(opened.ending("u"), Finished)
    assert [word.text for word in opened.words("u")] == (TEXT + " " + TEXT).split()
    # Chunks follow each other without a gap, whatever was taken back.
    stats = opened.engine.stats()
    assert sum(len(opened.audio(name)) for name in ("u", *VOICES[:neighbours])) == 1200 * stats.frames
    assert stats.tally.discarded_frames <= 0.15 * stats.frames


def test_text_that_comes_while_a_pause_is_kept_back_takes_the_turn_back_to_it() -> None:
    spliced = 0
    for seed in range(12):
        opened = open_stage(seed=seed)
        opened.engine.append_text("u", "Good friends walked home together through the whole old town ")
        for _ in range(14 + seed):
            opened.step()
        released = opened.audio("u")
        opened.engine.append_text("u", "and sang of it ")
        before = opened.engine.stats().tally.spliced_guesses
        opened.step()
        if opened.engine.stats().tally.spliced_guesses > before:
            spliced += 1
            assert np.array_equal(opened.audio("u")[: len(released)], released)
        opened.engine.finish("u")
        let_pass(opened, 60)
        assert isinstance(opened.ending("u"), Finished)
    assert spliced >= 2


def test_frames_are_kept_back_only_while_the_listener_has_enough() -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked home together through the whole old town ")
    held, leads = list[int](), list[float]()
    for _ in range(20):
        opened.step()
        sequence = opened.engine._sequences["u"]
        held.append(len(sequence.held))
        leads.append(sequence.released / 24_000)
        if sequence.stream.demand() is not Demand.DECODE:
            break
    assert held[1] == 0, "the first sound is not kept back"
    assert max(held) <= KEPT_BACK_FRAMES
    assert all(count == 0 or lead > RESERVE_S for count, lead in zip(held[1:], leads[1:], strict=True))
    assert max(held) > 0


def test_where_there_is_no_time_nothing_is_kept_back() -> None:
    opened = open_stage(neighbours=1)
    opened.engine.append_text("u", "Good friends walked home together through the whole old town ")
    for _ in range(3):
        opened.step()
    for _ in range(8):
        opened.engine._pace.step_s = 0.06
        opened.step()
        assert not opened.engine._sequences["u"].held
    assert math.isinf(opened.engine._reserve_s)


def test_words_of_chunks_are_told_in_time() -> None:
    opened = open_stage()
    opened.engine.append_text("u", TEXT + " ")
    let_pass(opened, 1.0)
    opened.engine.finish("u")
    let_pass(opened, 60)
    made = 0
    for event in opened.events:
        if isinstance(event, AudioChunk):
            made += len(event.samples)
            assert all(24 * word.start_ms <= made for word in event.words)
