"""How far speech is behind its text, and what it leaves out."""

from dataclasses import replace

import pytest

from realtime.commands import Hurry
from realtime.lag import MOST_HURRY, MS_PER_CHARACTER, hurry, ms_per_character, skip_target
from realtime.limits import LimitSettings
from realtime.protocol import ContextOpen, Done, Error, SpeedChanged, TextEnd, TextSkipped
from tests.realtime.theatre import WORD_MS, Theatre

TEXT = "One two. Three four five six. Seven eight nine."


def test_the_pace_is_that_of_the_context_once_it_has_one() -> None:
    assert ms_per_character(0, 0) == MS_PER_CHARACTER
    assert ms_per_character(900, 10) == MS_PER_CHARACTER
    assert ms_per_character(2000, 40) == 50


@pytest.mark.parametrize(
    ("start", "characters", "rest"),
    [
        (0, 20, " Seven eight nine."),
        (0, 12, " eight nine."),
        (0, 30, " Seven eight nine."),
        (0, 9, " nine."),
        (40, 20, None),
        (0, 100, None),
        (0, 2, " nine."),
    ],
)
def test_where_to_go_on(start: int, characters: int, rest: str | None) -> None:
    target = skip_target(TEXT, start, characters)
    assert (None if target is None else TEXT[target:]) == rest


@pytest.mark.parametrize(
    ("lag_ms", "now", "speed"),
    [
        (0, 1.0, 1.0),
        (1000, 1.0, 1.0),
        (1500, 1.0, 1.2),
        (2000, 1.0, MOST_HURRY),
        (60_000, 1.0, MOST_HURRY),
        (1800, 1.4, 1.4),
        (1600, 1.4, 1.3),
        (1500, 1.2, 1.2),
        (900, 1.1, 1.0),
        (-5, 1.4, 1.0),
    ],
)
def test_haste_grows_with_the_lag_and_does_not_flutter(lag_ms: float, now: float, speed: float) -> None:
    assert hurry(lag_ms, 2000, now) == speed
    assert hurry(lag_ms, 2000, speed) == speed


class TestSpeed:
    def live(self, max_lag_ms: float = 4000) -> Theatre:
        theatre = Theatre(LimitSettings(revise_every_s=0.0))
        theatre.send(ContextOpen("main", max_lag_ms=max_lag_ms, lag_policy="speed"))
        return theatre

    def test_text_that_comes_a_little_too_fast_is_spoken_faster_and_nothing_is_left_out(self) -> None:
        theatre = self.live()
        for _ in range(80):
            theatre.append("w1 ")
            theatre.work(steps=12)
            theatre.deliver()
            theatre.wait(0.85 * WORD_MS / 1000)
        told = [message for message in theatre.messages if isinstance(message, SpeedChanged)]
        assert told
        assert all(1 <= message.speed <= MOST_HURRY and message.lag_ms >= 0 for message in told)
        # It settles at a pace instead of going up and down.
        assert len(told) <= 8
        theatre.send(TextEnd())
        theatre.settle()
        seat = theatre.seat()
        assert seat.skipped == []
        assert len(seat.words) == 80
        assert 80 * WORD_MS / MOST_HURRY < seat.ms < 80 * WORD_MS
        assert isinstance(seat.end, Done)

    def test_what_no_haste_can_catch_up_with_is_left_out(self) -> None:
        theatre = self.live(2000)
        theatre.append("w1 w2 w3 ")
        theatre.work(steps=12)
        theatre.deliver()
        theatre.append("w4 " * 60 + "w5. " + "w6 " * 8 + "w7 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert theatre.seat().skipped
        assert [message.speed for message in theatre.messages if isinstance(message, SpeedChanged)][0] == MOST_HURRY
        assert theatre.seat().ms < 2 * WORD_MS + 2000

    def test_it_slows_down_again(self) -> None:
        theatre = self.live(2000)
        theatre.append("w1 " * 8)
        theatre.settle()
        theatre.wait(10)
        for _ in range(12):
            theatre.append("w2 ")
            theatre.work(steps=12)
            theatre.deliver()
            theatre.wait(2 * WORD_MS / 1000)
        told = [message.speed for message in theatre.messages if isinstance(message, SpeedChanged)]
        assert max(told) > 1
        assert told[-1] == 1
        commands = [command.speed for command in theatre.log if isinstance(command, Hurry)]
        assert commands == told

    def test_a_model_that_cannot_refuses_it_by_name(self) -> None:
        theatre = Theatre()
        theatre.session.model_changed(replace(theatre.engine.info, speeds=(1.0, 1.0)))
        theatre.send(ContextOpen("main", max_lag_ms=1000, lag_policy="speed"))
        theatre.deliver()
        error = theatre.seat().end
        assert isinstance(error, Error)
        assert (error.code, error.terminal) == ("unsupported", True)


class TestSkip:
    def live(self, max_lag_ms: float = 2000) -> Theatre:
        theatre = Theatre(LimitSettings(revise_every_s=0.0))
        theatre.send(ContextOpen("main", max_lag_ms=max_lag_ms))
        return theatre

    def test_a_burst_is_cut_to_what_can_be_heard_in_time(self) -> None:
        theatre = self.live()
        theatre.append("w1 w2 w3 ")
        theatre.work(steps=12)
        theatre.deliver()
        theatre.append("w4 " * 60 + "w5. " + "w6 " * 8 + "w7 ")
        theatre.send(TextEnd())
        theatre.settle()
        seat = theatre.seat()
        (skipped,) = [message for message in theatre.messages if isinstance(message, TextSkipped)]
        assert skipped.lag_ms > 2000
        spoken = seat.manuscript.spoken
        assert spoken.startswith("w1 w2 ")
        assert spoken.endswith("w6 w7 ")
        assert len(spoken.split()) * WORD_MS == seat.ms
        assert seat.ms < 2 * WORD_MS + 2000
        assert spoken[: skipped.kept_to] + skipped.skipped + spoken[skipped.kept_to :] == seat.manuscript.text
        assert isinstance(seat.end, Done)
        assert seat.end.characters == len(spoken)

    def test_speech_that_keeps_up_is_left_alone(self) -> None:
        theatre = self.live()
        for _ in range(20):
            theatre.append("w1 ")
            theatre.work(steps=4)
            theatre.deliver()
            theatre.wait(WORD_MS / 1000)
        theatre.send(TextEnd())
        theatre.settle()
        assert theatre.seat().skipped == []
        assert len(theatre.seat().words) == 20

    def test_a_flood_that_never_ends_costs_bounded_work(self) -> None:
        theatre = Theatre()
        theatre.send(ContextOpen("main", max_lag_ms=1000))
        for _ in range(200):
            theatre.append("w1 w2 w3 ")
            theatre.wait(0.01)
            theatre.work()
            theatre.deliver()
        assert len(theatre.seat().skipped) <= 2 / theatre.limits.revise_every_s + 1
        theatre.send(TextEnd())
        theatre.settle()
        assert isinstance(theatre.seat().end, Done)

    def test_a_policy_without_a_limit_means_nothing(self) -> None:
        theatre = Theatre()
        theatre.send(ContextOpen("main", lag_policy="skip"))
        theatre.deliver()
        assert [error.code for error in theatre.seat().errors] == ["bad_message"]
