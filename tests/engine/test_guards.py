"""Speech that has a sound but cannot be right: found, made again where nobody heard it, and never a success."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from engine.core import Failed, Finished, Notice, SamplingParams, Tally, TextFormat, Utterance
from engine.runner import Track
from engine.streams.base import Fault, Frame, Guide
from engine.streams.guards import GuardSettings, Pace, Repetition
from engine.streams.guesses import Guessing
from tests.engine.doubles import Stage, stage

GUARDS = GuardSettings()
UNIT_MS = 25.0
FRAME_MS = 50
HURRIED = Tally(duds=3, retries=2, heard_faults=2, discarded_frames=2)
DRAGGED = Tally(runaways=3, retries=2, heard_faults=2, discarded_frames=2)
STUCK_FRAMES = int(GUARDS.most_repeated_ms / FRAME_MS)


def repeated(frames: Sequence[int]) -> int:
    """The longest run of nothing new at any time."""
    repetition, most = Repetition(), 0
    for code in frames:
        repetition = repetition.push((code, 7), GUARDS.longest_cycle)
        most = max(most, repetition.frames)
    return most


class TestRepetition:
    @pytest.mark.parametrize("cycle", [1, 2, 3, GUARDS.longest_cycle])
    def test_a_cycle_is_found_and_ends_with_the_first_frame_that_is_new(self, cycle: int) -> None:
        frames = [*range(100, 110), *(i % cycle for i in range(40 + cycle))]
        assert repeated(frames) == 40
        assert repeated([*frames, 99, *range(200, 210)]) == 40

    def test_a_longer_cycle_is_none(self) -> None:
        assert repeated([i % (GUARDS.longest_cycle + 1) for i in range(60)]) == 0

    @given(st.lists(st.integers(0, 3), max_size=60))
    def test_it_is_the_longest_run_of_equal_frames_a_cycle_apart(self, frames: list[int]) -> None:
        longest = 0
        for cycle in range(1, GUARDS.longest_cycle + 1):
            run = 0
            for before, now in zip(frames, frames[cycle:], strict=False):
                run = run + 1 if before == now else 0
                longest = max(longest, run)
        assert repeated(frames) == longest


class TestPace:
    def fault(self, units: Sequence[int], total: float | None = None) -> Fault | None:
        """Of sounds that lasted so long, one by one, between two silences; the first fault there is."""
        total = len(units) if total is None else total
        pace = Pace()
        for symbol, lasted in enumerate([1, *units, 1]):
            for _ in range(lasted):
                pace = pace.push(symbol, 0 < symbol <= len(units), GUARDS.fewest_sounds)
                fault = pace.fault(GUARDS, UNIT_MS, total)
                if fault:
                    return fault
        return None

    @pytest.mark.parametrize("sounds", [1, 2, 5, 23, 60])
    def test_a_pointer_that_races_is_found(self, sounds: int) -> None:
        assert self.fault([1] * sounds) is Fault.HURRIED
        assert self.fault([2] * sounds) is None

    def test_it_is_told_before_the_text_has_ended(self) -> None:
        assert self.fault([1] * GUARDS.fewest_sounds, total=99) is Fault.HURRIED
        assert self.fault([1] * (GUARDS.fewest_sounds - 1), total=99) is None

    def test_and_in_the_midst_of_a_long_one(self) -> None:
        assert self.fault([3] * 200 + [1] * GUARDS.fewest_sounds + [3] * 200, total=math.inf) is Fault.HURRIED
        assert self.fault([3] * 200 + [1] * 10 + [3] * 200, total=math.inf) is None

    def test_a_pointer_that_drags_is_a_runaway(self) -> None:
        assert self.fault([2, 2, 17, 17, 17, 17, 2]) is Fault.RUNAWAY
        assert self.fault([2, 24, 24, 2, 2, 24]) is None

    def test_silence_alone_is_neither(self) -> None:
        assert self.fault([]) is None


def speak(
    monkeypatch: pytest.MonkeyPatch, opened: Stage, change: Callable[[int, Frame, Guide], Frame], text: str
) -> Stage:
    """The text spoken, with each frame changed; the first argument counts them."""
    made, count = opened.runner.decode_step, 0

    def decode_step(tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
        nonlocal count
        (frame,) = made(tracks, guides) or (None,)
        if not isinstance(frame, Frame):
            return []
        count += 1
        return [change(count, frame, guides[0])]

    monkeypatch.setattr(opened.runner, "decode_step", decode_step)
    text_format = TextFormat.SSML if text.startswith("<speak>") else TextFormat.MARKDOWN
    opened.engine.add(Utterance("u", "heart", sampling=SamplingParams(seed=0), text_format=text_format))
    opened.engine.append_text("u", text)
    opened.engine.finish("u")
    opened.run()
    return opened


class TestGuessedTurns:
    def ends_after(self, *lengths: int) -> Callable[[int, Frame, Guide], Frame]:
        """Turns of so many frames, one after the other; the last of them again and again."""
        ends = [sum(lengths[: i + 1]) + i + 1 for i in range(len(lengths))]
        return lambda count, frame, _: replace(frame, is_end=count in ends or count > ends[-1])

    def test_too_short_is_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        change = self.ends_after(1, 12)
        done = speak(monkeypatch, stage(is_aligned=False, guards=GUARDS), change, "Good friends walked home.")
        assert isinstance(done.ending("u"), Finished)
        tally = done.engine.tally
        assert (tally.duds, tally.retries, tally.runaways) == (1, 1, 0)
        assert len(done.audio("u")) == 1200 * done.engine.stats().frames

    def test_too_short_and_heard_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        change = self.ends_after(4)
        done = speak(monkeypatch, stage(is_aligned=False, guards=GUARDS), change, "Good friends walked home.")
        ending = done.ending("u")
        assert isinstance(ending, Failed)
        assert (ending.code, ending.retryable) == ("bad_speech", True)
        assert done.engine.tally == Tally(duds=3, retries=2)
        assert len(done.audio("u")) == 4 * 1200

    def test_too_short_and_heard_goes_on_if_it_can(self, monkeypatch: pytest.MonkeyPatch) -> None:
        change = self.ends_after(4, 20)
        done = speak(monkeypatch, stage(is_aligned=False, guards=GUARDS), change, "Good friends walked home.")
        assert isinstance(done.ending("u"), Finished)
        assert done.engine.tally == Tally(duds=1, retries=1)
        assert len(done.audio("u")) == 24 * 1200
        assert not notices(done)

    @pytest.mark.parametrize("text", ["Yes.", "No, thanks.", "Go on", "42"])
    def test_what_is_short_may_be_short(self, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        done = speak(monkeypatch, stage(is_aligned=False, guards=GUARDS), self.ends_after(6, 6), text)
        assert isinstance(done.ending("u"), Finished)
        assert done.engine.tally == Tally()

    @pytest.mark.parametrize("cycle", [1, 3])
    def test_standing_still_is_no_success(self, monkeypatch: pytest.MonkeyPatch, cycle: int) -> None:
        def change(count: int, frame: Frame, _: Guide) -> Frame:
            return replace(frame, is_end=False, codes=(count % cycle, 1, 2, 3))

        done = speak(monkeypatch, stage(is_aligned=False, guards=GUARDS), change, "Good friends walked home. " * 4)
        ending = done.ending("u")
        assert isinstance(ending, Failed)
        assert ending.code == "bad_speech"
        assert (done.engine.tally.runaways, done.engine.tally.retries) == (3, 2)
        # A frame that is made again is not always one of the cycle.
        assert len(done.audio("u")) <= 1200 * (3 if cycle > 1 else 1) * (STUCK_FRAMES + cycle)


class TestAlignedTurns:
    def test_a_short_turn_that_races_is_made_again_before_it_is_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def change(count: int, frame: Frame, guide: Guide) -> Frame:
            assert guide.moves is not None
            fastest = max(move for move in range(4) if guide.moves[move])
            slowest = min(move for move in range(4) if guide.moves[move])
            return replace(frame, is_end=False, move=fastest if count <= 2 else slowest)

        done = speak(monkeypatch, stage(is_aligned=False, guessing=Guessing()), change, "Oh!")
        assert isinstance(done.ending("u"), Finished)
        assert (done.engine.tally.duds, done.engine.tally.retries) == (1, 1)
        assert [word.text for word in done.words("u")] == ["Oh!"]

    @pytest.mark.parametrize(("is_fast", "tally"), [(True, HURRIED), (False, DRAGGED)])
    def test_a_long_one_that_races_or_drags_is_no_success(
        self, monkeypatch: pytest.MonkeyPatch, is_fast: bool, tally: Tally
    ) -> None:
        def change(_: int, frame: Frame, guide: Guide) -> Frame:
            assert guide.moves is not None
            moves = [move for move in range(4) if guide.moves[move]]
            return replace(frame, is_end=False, move=max(moves) if is_fast else min(moves))

        text = "Good friends walked home together through the whole town, and sang."
        done = speak(monkeypatch, stage(is_aligned=False, guessing=Guessing()), change, text)
        ending = done.ending("u")
        assert isinstance(ending, Failed)
        assert ending.code == "bad_speech"
        assert done.engine.tally == tally


class TestAligned:
    """The form in which the pointer is in one endless text."""

    TEXT = "Good friends walked home together through the whole town, and sang. " * 3

    def pace(self, is_fast: bool, frames: range) -> Callable[[int, Frame, Guide], Frame]:
        """A pointer that races or drags in some of the frames made, and otherwise takes two units for each symbol."""

        def change(count: int, frame: Frame, guide: Guide) -> Frame:
            assert guide.moves is not None
            allowed = [move for move in range(4) if guide.moves[move]]
            usual = 2 if guide.moves[2] else allowed[-1]
            return replace(frame, move=(max(allowed) if is_fast else min(allowed)) if count in frames else usual)

        return change

    def test_what_was_not_given_out_is_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        done = speak(monkeypatch, stage(guards=GUARDS), self.pace(True, range(1, 3)), "Oh!")
        assert isinstance(done.ending("u"), Finished)
        assert done.engine.tally == Tally(duds=1, retries=1, discarded_frames=2)
        assert [word.text for word in done.words("u")] == ["Oh!"]
        assert_counted(done)
        assert not notices(done)

    @pytest.mark.parametrize(("is_fast", "frames"), [(True, 14), (False, 60)])
    def test_what_was_given_out_is_told_and_speech_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, is_fast: bool, frames: int
    ) -> None:
        change = self.pace(is_fast, range(30, 30 + frames))
        done = speak(monkeypatch, stage(guards=GUARDS), change, self.TEXT)
        assert isinstance(done.ending("u"), Finished)
        tally = done.engine.tally
        assert (tally.duds, tally.runaways) == ((1, 0) if is_fast else (0, 1))
        assert (tally.retries, tally.heard_faults, tally.discarded_frames) == (1, 1, 1)
        assert "".join(word.text for word in done.words("u")) == "".join(self.TEXT.split())
        (told,) = notices(done)
        assert re.search(r"before second [1-5]\.\d the model (hurried|did not go on).*goes on from there", told)
        assert_counted(done)

    @pytest.mark.parametrize("is_fast", [True, False])
    def test_what_does_not_mend_is_no_success(self, monkeypatch: pytest.MonkeyPatch, is_fast: bool) -> None:
        done = speak(monkeypatch, stage(guards=GUARDS), self.pace(is_fast, range(1, 9999)), self.TEXT)
        ending = done.ending("u")
        assert isinstance(ending, Failed)
        assert (ending.code, ending.retryable) == ("bad_speech", True)
        assert done.engine.tally.retries == 2

    def test_retries_are_for_one_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fault now and then in a long session does not end it."""
        bad = [count for start in range(60, 600, 90) for count in range(start, start + 14)]
        change = self.pace(True, bad)  # type: ignore[arg-type]
        done = speak(monkeypatch, stage(guards=GUARDS), change, self.TEXT * 3)
        assert isinstance(done.ending("u"), Finished)
        assert done.engine.tally.retries > 3

    def test_standing_still_over_sounds_is_no_success(self, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = self.pace(True, range(0))

        def change(count: int, frame: Frame, guide: Guide) -> Frame:
            return replace(usual(count, frame, guide), codes=(7, 1, 2, 3))

        long_word = "good" * 40
        done = speak(monkeypatch, stage(guards=GUARDS), change, long_word)
        ending = done.ending("u")
        assert isinstance(ending, Failed)
        assert len(done.audio("u")) <= 1200 * (STUCK_FRAMES + 2)

    def test_pauses_may_be_the_same_frames(self, monkeypatch: pytest.MonkeyPatch) -> None:
        usual = self.pace(True, range(0))

        def change(count: int, frame: Frame, guide: Guide) -> Frame:
            return replace(usual(count, frame, guide), codes=(7, 1, 2, 3))

        done = speak(monkeypatch, stage(guards=GUARDS), change, '<speak>Oh <break time="5s"/> no</speak>')
        assert isinstance(done.ending("u"), Finished)
        assert len(done.audio("u")) > 4 * 24_000
        assert done.engine.tally == Tally()


class TestMute:
    def mute(self, monkeypatch: pytest.MonkeyPatch, opened: Stage, calls: range) -> Stage:
        """A codec that makes no sound for some frames."""
        decode, count = opened.codec.decode_step, 0

        def decode_step(*arguments: Any) -> Tensor:
            nonlocal count
            count += 1
            return decode(*arguments) * (count not in calls)

        monkeypatch.setattr(opened.codec, "decode_step", decode_step)
        return opened

    def test_silence_instead_of_sounds_is_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        frames = int(GUARDS.most_mute_ms / FRAME_MS) + 1
        opened = self.mute(monkeypatch, stage(guards=GUARDS), range(10, 10 + frames))
        done = speak(monkeypatch, opened, lambda _, frame, guide: slow(frame, guide), "good" * 40)
        assert isinstance(done.ending("u"), Finished)
        assert (done.engine.tally.duds, done.engine.tally.retries) == (1, 1)
        (told,) = notices(done)
        assert "made no sound" in told
        assert_counted(done)

    @pytest.mark.parametrize("is_aligned", [True, False])
    def test_for_good_it_is_no_success(self, monkeypatch: pytest.MonkeyPatch, is_aligned: bool) -> None:
        opened = self.mute(monkeypatch, stage(is_aligned, guards=GUARDS), range(10, 9999))

        def change(_: int, frame: Frame, guide: Guide) -> Frame:
            return slow(frame, guide) if is_aligned else replace(frame, is_end=False)

        done = speak(monkeypatch, opened, change, "good" * 40)
        assert isinstance(done.ending("u"), Failed)
        assert done.engine.tally.duds == 3

    def test_a_pause_is_as_long_as_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = self.mute(monkeypatch, stage(guards=GUARDS), range(9999))
        opened.engine.add(Utterance("u", "heart", text_format=TextFormat.SSML))
        opened.engine.append_text("u", '<speak>Oh <break time="5s"/> no</speak>')
        opened.engine.finish("u")
        opened.run()
        assert isinstance(opened.ending("u"), Finished)
        assert opened.engine.tally == Tally()


def slow(frame: Frame, guide: Guide) -> Frame:
    """With a pointer that takes two units for each symbol."""
    assert guide.moves is not None
    return replace(frame, move=2 if guide.moves[2] else max(move for move in range(4) if guide.moves[move]))


@pytest.mark.parametrize("is_aligned", [True, False])
def test_every_attempt_draws_other_numbers(monkeypatch: pytest.MonkeyPatch, is_aligned: bool) -> None:
    opened = stage(is_aligned, guards=GUARDS)
    seeds, made = set[int](), opened.runner.decode_step

    def decode_step(tracks: Sequence[Track], guides: Sequence[Guide]) -> list[Frame | Exception]:
        seeds.add(tracks[0].sampler.params.seed)
        frames = made(tracks, guides)
        if is_aligned:
            moves = [max(move for move in range(4) if guide.moves and guide.moves[move]) for guide in guides]
            return [replace(f, move=m) if isinstance(f, Frame) else f for f, m in zip(frames, moves, strict=True)]
        return [replace(frame, is_end=True) if isinstance(frame, Frame) else frame for frame in frames]

    monkeypatch.setattr(opened.runner, "decode_step", decode_step)
    opened.say("u", "Oh!")
    opened.run()
    assert isinstance(opened.ending("u"), Failed)
    assert len(seeds) == 3


def assert_counted(done: Stage) -> None:
    """What was given out are the frames that are counted; the last of them may end early."""
    frames = done.engine.stats().frames
    assert 1200 * (frames - 1) < len(done.audio("u")) <= 1200 * frames


def notices(done: Stage) -> list[str]:
    """What the listener was told."""
    return [event.message for event in done.of("u") if isinstance(event, Notice)]
