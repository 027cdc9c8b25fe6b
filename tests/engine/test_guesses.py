"""Turns begun on a guess and turns gone wrong, through the whole engine on the mock decoder and a clock of its own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, repeat

import pytest

from engine.core import AudioChunk, Failed, Finished, Utterance
from engine.pace import RESERVE_S
from engine.runner import Track
from engine.streams.base import Demand, Frame, Guide
from engine.streams.guesses import Guessing
from tests.engine.doubles import Stage, stage

TEXT = "I think that all of us should go home now, before it begins to rain and the roads get too wet to walk on."


def open_stage() -> Stage:
    opened = stage(is_aligned=False, guessing=Guessing())
    opened.engine.add(Utterance("u", "heart"))
    return opened


def let_pass(opened: Stage, seconds: float) -> None:
    """Steps whenever the engine wants one, at once where it takes no time, until the clock has gone on."""
    end_s = opened.clock.now_s + seconds
    while opened.clock.now_s < end_s:
        idle_s = opened.engine.idle_s()
        if idle_s == 0:
            opened.step()
            opened.clock.now_s += 0.01
        else:
            opened.clock.now_s = min(end_s, opened.clock.now_s + (math.inf if idle_s is None else idle_s) + 1e-6)


@pytest.mark.parametrize("gap_s", [0.0, 0.02, 0.1, 0.4, 1.5])
def test_every_word_is_spoken_once_however_it_comes(gap_s: float) -> None:
    opened = open_stage()
    for piece in TEXT.split(" "):
        opened.engine.append_text("u", piece + " ")
        let_pass(opened, gap_s)
    opened.engine.finish("u")
    let_pass(opened, 60)
    assert isinstance(opened.ending("u"), Finished)
    assert [word.text for word in opened.words("u")] == TEXT.split()
    times = [(word.start_ms, word.end_ms) for word in opened.words("u")]
    assert all(before[1] <= after[0] for before, after in zip(times, times[1:], strict=False))
    stats = opened.engine.stats()
    assert stats.tally.discarded_frames <= 0.15 * stats.frames
    # The end may cut the last frame.
    assert 0 <= 1200 * stats.frames - len(opened.audio("u")) < 1200


def test_three_words_are_enough_to_begin() -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked ")
    let_pass(opened, 0.2)
    assert not opened.events
    opened.engine.append_text("u", "home ")
    let_pass(opened, 0.2)
    assert isinstance(opened.events[0], AudioChunk)


def test_without_more_text_it_rests_before_the_last_word_until_the_listener_runs_dry() -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked home ")
    while opened.engine.idle_s() == 0:
        opened.step()
    assert [word.text for word in opened.words("u")] == ["Good", "friends"]
    lead_s = len(opened.audio("u")) / 24_000
    idle_s = opened.engine.idle_s() or 0.0
    assert idle_s == pytest.approx(lead_s - RESERVE_S, abs=0.01)
    opened.clock.now_s += idle_s + 0.001
    opened.run()
    assert [word.text for word in opened.words("u")] == ["Good", "friends", "walked"]


def test_with_more_text_the_last_word_opens_the_next_turn() -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked home ")
    while opened.engine.idle_s() == 0:
        opened.step()
    stream = opened.engine._sequences["u"].stream
    opened.engine.append_text("u", "together, and sang ")
    opened.step()
    assert stream.demand() is Demand.HOLD, "its clause waits for others as long as the listener has enough"
    while stream.demand() is Demand.HOLD:
        let_pass(opened, 0.01)
    turn = stream.place().words
    assert [word.text for word in turn] == ["walked", "home", "together,"]


@pytest.mark.parametrize("later", ["nothing", "a flush", "the end"])
def test_a_turn_that_was_flushed_at_its_end_is_not_ended_early_whatever_comes_later(later: str) -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked home ")
    while opened.engine.idle_s() == 0:
        opened.step()
    stream = opened.engine._sequences["u"].stream
    turn = stream.place().words
    assert stream.place().rests_behind == len(turn) - 1
    assert stream.extent == len(turn)
    stream.flush()
    stream.add(turn)
    if later == "a flush":
        stream.flush()
    elif later == "the end":
        stream.finish()
    stream.situate(lead_s=1.0, reserve_s=RESERVE_S)
    assert stream.place().words == turn


def test_a_guess_nobody_has_heard_is_begun_anew_when_twice_as_much_is_there() -> None:
    opened = open_stage()
    opened.engine.append_text("u", "Good friends walked home ")
    opened.step()
    assert not opened.events
    opened.engine.append_text("u", "together through the whole town ")
    opened.step()
    assert opened.engine.stats().tally.discarded_frames == 1
    assert len(opened.engine._sequences["u"].stream.place().words) > 6


def test_where_steps_take_all_the_time_nothing_is_guessed() -> None:
    opened = open_stage()
    opened.engine.add(Utterance("v", "bella"))
    opened.engine._pace.step_s = 0.05
    opened.engine.append_text("u", "Good friends walked home ")
    assert [opened.step() for _ in range(5)] == [[]] * 5


class TestNoSpeech:
    """Turns in which the model says nothing, or does not end."""

    def speak(self, monkeypatch: pytest.MonkeyPatch, is_end: Iterator[bool]) -> Stage:
        opened = stage(is_aligned=False)
        made = opened.runner.decode_step

        def decode_step(tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
            return [
                replace(frame, is_end=next(is_end)) if isinstance(frame, Frame) else frame
                for frame in made(tracks, guides)
            ]

        monkeypatch.setattr(opened.runner, "decode_step", decode_step)
        opened.say("u", "Good friends walked home.")
        opened.run()
        return opened

    @pytest.mark.parametrize("duds", [0, 1, 2])
    def test_a_turn_without_a_sound_is_made_again_with_other_random_numbers(
        self, monkeypatch: pytest.MonkeyPatch, duds: int
    ) -> None:
        spoken = self.speak(monkeypatch, chain(repeat(True, duds), repeat(False, 12), repeat(True)))
        ending = spoken.ending("u")
        assert isinstance(ending, Finished)
        assert (ending.retries, spoken.engine.stats().tally.retries) == (duds, duds)
        assert ending.frames in (11, 12)
        assert [word.text for word in spoken.words("u")] == ["Good", "friends", "walked", "home."]

    def test_again_and_again_it_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ending = self.speak(monkeypatch, repeat(True)).ending("u")
        assert isinstance(ending, Failed)
        assert (ending.code, ending.retryable) == ("bad_speech", True)

    def test_a_turn_that_does_not_end_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ending = self.speak(monkeypatch, repeat(False)).ending("u")
        assert isinstance(ending, Failed)
        assert ending.code == "bad_speech"
