"""A flush shortly before the end: its pause is not left behind the last word, whatever came in between."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import AudioChunk, Cancelled, Finished, SamplingParams, Utterance
from engine.pace import Pace
from engine.streams.guesses import Guessing
from tests.engine.doubles import Stage, stage
from tests.engine.test_rewind import Listener

TEXT = "One two three, four five six."
MORE = " Seven eight nine, ten eleven twelve."
"""Clauses are long enough to be turns with a flush and without."""
FORMS = pytest.mark.parametrize("form", ["aligned", "turns"])
END_MS = 40
STEP_S = 0.02
FRAME_MS = 50
NO_GUESSES = Guessing(fewest_words=99, most_words=99, fewest_later=99, most_joined=0)
"""Clauses become turns one by one, so that nothing depends on timing."""


def silent_stage(form: str) -> Stage:
    """Turns see their symbols."""
    return stage(form == "aligned", guessing=None if form == "aligned" else NO_GUESSES)


def opened(form: str, speed: float = 1.0) -> Stage:
    """An utterance ``u`` without text."""
    made = silent_stage(form)
    made.engine.add(Utterance("u", "heart", sampling=SamplingParams(seed=0), speed=speed))
    return made


def flushed(form: str, is_run: bool = True) -> Stage:
    """All of ``TEXT`` given and, unless not ``is_run``, made as far as that goes before the listener has heard any."""
    made = opened(form)
    made.engine.append_text("u", TEXT)
    made.engine.flush("u")
    if is_run:
        made.run()
    return made


def ended(form: str, text: str = TEXT, speed: float = 1.0) -> Stage:
    """``text`` without a flush, to its end."""
    made = opened(form, speed)
    made.engine.append_text("u", text)
    return finish(made)


def finish(made: Stage) -> Stage:
    made.engine.finish("u")
    made.run()
    assert isinstance(made.ending("u"), Finished)
    return made


def is_same(one: Stage, other: Stage) -> bool:
    return np.array_equal(one.audio("u"), other.audio("u")) and one.words("u") == other.words("u")


def behind_last_word_ms(made: Stage) -> float:
    return len(made.audio("u")) / 24 - made.words("u")[-1].end_ms


def play(made: Stage, most_s: float) -> None:
    """Time goes by for the listener, who is given what there is for it."""
    until_s = made.clock.now_s + most_s
    while made.clock.now_s < until_s:
        made.clock.now_s = min(until_s, made.clock.now_s + 0.01)
        made.run()


def left_s(made: Stage) -> float:
    """What the listener can still hear before speech goes on without more text."""
    return made.engine._scheduler.lead_s("u") - made.engine._sequences["u"].stream.held_to_s


def heard_after_s(made: Stage, wait_s: float) -> float:
    """When the first word of ``MORE`` is heard, by a listener to whom it is given after ``wait_s``, counted from then.

    A step takes ``STEP_S``.
    """
    begin_s, plays_s = made.clock.now_s, 0.0
    is_given = False
    starts = list[tuple[int, float]]()
    while not any(isinstance(event, Finished) for event in made.events):
        if not is_given and made.clock.now_s >= begin_s + wait_s:
            made.engine.append_text("u", MORE)
            made.engine.finish("u")
            is_given = True
        idle_s = made.engine.idle_s()
        if idle_s != 0:
            made.clock.now_s += STEP_S if idle_s is None else min(STEP_S, idle_s + 1e-6)
            continue
        made.clock.now_s += STEP_S
        for event in made.step():
            if isinstance(event, AudioChunk):
                plays_s = max(plays_s, made.clock.now_s)
                starts.append((event.first_sample, plays_s))
                plays_s += len(event.samples) / 24_000
    at = 24 * made.words("u")[6].start_ms
    first, start_s = [chunk for chunk in starts if chunk[0] <= at][-1]
    return start_s + (at - first) / 24_000 - begin_s - wait_s


@FORMS
class TestEnd:
    @pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
    def test_it_is_as_if_there_had_been_no_flush(self, form: str, speed: float) -> None:
        reference = ended(form, speed=speed)
        assert behind_last_word_ms(reference) <= END_MS
        for flushes, steps in product((1, 2), (0, 5, 1000)):
            made = opened(form, speed)
            made.engine.append_text("u", TEXT)
            for _ in range(flushes):
                made.engine.flush("u")
                for _ in range(steps):
                    if made.engine.has_work():
                        made.step()
            assert is_same(finish(made), reference), (flushes, steps)

    def test_a_space_is_no_more_text(self, form: str) -> None:
        made = flushed(form)
        made.engine.append_text("u", " \n")
        made.run()
        made.engine.flush("u")
        made.run()
        assert is_same(finish(made), ended(form))

    def test_it_may_come_until_the_last_word_is_nearly_heard(self, form: str) -> None:
        made = flushed(form)
        made.clock.now_s += left_s(made) - 0.001
        made.run()
        assert is_same(finish(made), ended(form))

    @given(late_s=st.floats(0, 1))
    @settings(max_examples=8, deadline=None)
    def test_of_the_pause_only_what_was_heard_meanwhile_and_the_reserve_is_left(self, form: str, late_s: float) -> None:
        made = flushed(form)
        made.clock.now_s += left_s(made)
        play(made, late_s)
        sound = made.audio("u")
        finish(made)
        assert np.array_equal(made.audio("u")[: len(sound)], sound)
        assert len(made.audio("u")) - len(sound) <= 24 * FRAME_MS / 2
        assert made.words("u") == ended(form).words("u")
        assert behind_last_word_ms(made) <= END_MS + 1000 * late_s + 2 * FRAME_MS


@FORMS
class TestMoreText:
    def test_the_pause_is_heard_and_the_sound_does_not_depend_on_when_text_came(self, form: str) -> None:
        made = []
        for wait_s in (0.0, 0.7, 100.0):
            one = flushed(form)
            play(one, min(wait_s, left_s(one) + 2))
            one.engine.append_text("u", MORE)
            made.append(finish(one))
        at_once = opened(form)
        at_once.engine.append_text("u", TEXT)
        at_once.engine.flush("u")
        at_once.engine.append_text("u", MORE)
        finish(at_once)
        assert all(is_same(one, at_once) for one in made)
        six, seven = at_once.words("u")[5:7]
        assert (six.text.strip(), seven.text.strip()) == ("six.", "Seven")
        assert seven.start_ms - six.end_ms >= 3 * FRAME_MS

    def test_a_listener_who_waits_hears_the_whole_pause_meanwhile(self, form: str) -> None:
        made = flushed(form)
        play(made, left_s(made) + 2)
        pause = made.audio("u")
        made.engine.append_text("u", MORE)
        finish(made)
        # What comes first is speech, but for what the model rests before it.
        assert 24 * made.words("u")[6].start_ms - len(pause) <= 24 * 2 * FRAME_MS

    def test_it_is_heard_no_later_than_if_the_pause_had_been_made_at_once(
        self, form: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        waits_s = [0.0, 0.8, 1.2, 1.5, 1.8, 2.5, 4.0]
        held = [heard_after_s(flushed(form, is_run=False), wait_s) for wait_s in waits_s]
        monkeypatch.setattr(Pace, "reserve_s", lambda *_: math.inf)
        made_at_once = [heard_after_s(flushed(form, is_run=False), wait_s) for wait_s in waits_s]
        later = [a - b for a, b in zip(held, made_at_once, strict=True)]
        assert max(later) <= STEP_S, later

    def test_a_held_frame_costs_no_steps(self, form: str) -> None:
        made = flushed(form)
        before = made.engine.stats().steps
        assert made.engine.idle_s() == pytest.approx(left_s(made))
        assert not made.engine.has_work()
        play(made, left_s(made) - 0.02)
        assert made.engine.stats().steps == before


@FORMS
class TestRevisedOrCancelled:
    @pytest.mark.parametrize("more", [TEXT[:10], TEXT + MORE])
    def test_a_revision_behind_a_flush_leaves_no_pause_at_its_end(self, form: str, more: str) -> None:
        listener = Listener(silent_stage(form))
        listener.append(TEXT)
        listener.stage.engine.flush("u")
        listener.take(listener.stage.run())
        listener.revise(10, more[10:])
        listener.finish()
        reference = ended(form, more)
        assert np.array_equal(listener.samples, reference.audio("u"))
        assert [listener.words[start] for start in sorted(listener.words)] == reference.words("u")

    def test_a_pause_that_nobody_has_heard_goes_with_the_text_behind_it(self, form: str) -> None:
        listener = Listener(silent_stage(form))
        listener.append(TEXT)
        listener.stage.engine.flush("u")
        listener.append(MORE)
        listener.take(listener.stage.run())
        listener.revise(len(TEXT), "")
        listener.finish()
        assert np.array_equal(listener.samples, ended(form).audio("u"))

    def test_cancelled_while_it_holds(self, form: str) -> None:
        made = flushed(form)
        audio, words = made.audio("u"), made.words("u")
        made.engine.abort("u")
        made.run()
        assert isinstance(made.ending("u"), Cancelled)
        assert np.array_equal(made.audio("u"), audio)
        assert [word.text for word in words] == [word.text for word in ended(form).words("u")]
        assert words[-1].end_ms <= len(audio) / 24 + FRAME_MS
