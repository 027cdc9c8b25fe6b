"""Speech that has a sound but cannot be right: found, made again where nobody heard it, and never a success."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core import Failed, Finished, Tally
from engine.runner import Track
from engine.streams.base import Fault, Frame, Guide
from engine.streams.guards import GuardSettings, Pace, Repetition
from engine.streams.turns import Guessing
from tests.engine.doubles import Stage, stage

GUARDS = GuardSettings()
UNIT_MS = 25.0
FRAME_MS = 50
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
    def fault(self, units: Sequence[int], total: int | None = None) -> Fault | None:
        """Of sounds that lasted so long, one by one, between two silences; the first fault there is."""
        total = total or len(units)
        is_sound, pace = [False, *[True] * total, False], Pace()
        for symbol, lasted in enumerate([1, *units, 1]):
            for _ in range(lasted):
                pace = pace.push(min(symbol, total + 1), is_sound, GUARDS.drag_sounds)
                fault = pace.fault(GUARDS, UNIT_MS, total)
                if fault:
                    return fault
        return None

    @pytest.mark.parametrize("sounds", [1, 2, 5, 23, 60])
    def test_a_pointer_that_races_is_a_dud(self, sounds: int) -> None:
        assert self.fault([1] * sounds) is Fault.DUD
        assert self.fault([2] * sounds) is None

    def test_it_is_told_before_the_turn_has_ended(self) -> None:
        assert self.fault([1] * GUARDS.fewest_sounds, total=99) is Fault.DUD
        assert self.fault([1] * (GUARDS.fewest_sounds - 1), total=99) is None

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
    opened.say("u", text)
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
        assert done.engine.tally == Tally(duds=1)
        assert len(done.audio("u")) > 0

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
        assert done.engine.tally == Tally(runaways=1)
        assert len(done.audio("u")) <= 1200 * (STUCK_FRAMES + cycle)


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

    @pytest.mark.parametrize(("is_fast", "tally"), [(True, Tally(duds=1)), (False, Tally(runaways=1))])
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
