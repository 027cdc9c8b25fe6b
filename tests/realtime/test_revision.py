"""Text that changes while it is spoken: session, worker and fake engine together, with every delay there may be."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime.commands import Revise, WorkerEvent
from realtime.limits import LimitSettings
from realtime.protocol import (
    AudioDiscard,
    AudioFormat,
    Cancel,
    Cancelled,
    ContextOpen,
    Done,
    Error,
    Played,
    SessionStart,
    TextAppend,
    TextEnd,
    TextFlush,
    TextRevise,
    TextRevised,
)
from tests.realtime.theatre import WORD_MS, Theatre, learn, pcm_of

WORDS = learn([f"w{number}" for number in range(16)])
AT_ONCE = LimitSettings(revise_every_s=0.0)


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


def said(theatre: Theatre, context: str = "main") -> list[str]:
    return theatre.seat(context).sound()


class TestOneRevision:
    def test_before_anything_was_spoken(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 ")
        theatre.revise(3, "w3 w4 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w3", "w4"]
        answer = next(message for message in theatre.messages if isinstance(message, TextRevised))
        assert answer == TextRevised("main", 3, 3, 3, False, 1)
        assert not any(isinstance(message, AudioDiscard) for message in theatre.messages)

    def test_what_the_listener_buffers_is_recalled(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 w3 w4 w5 ")
        theatre.work(steps=50)
        theatre.deliver()
        assert theatre.seat().ms > 4 * WORD_MS
        theatre.revise(6, "w6 w7 ")
        theatre.send(TextEnd())
        theatre.settle()
        discard = next(message for message in theatre.messages if isinstance(message, AudioDiscard))
        assert discard.from_ms == 2 * WORD_MS
        assert said(theatre) == ["w1", "w2", "w6", "w7"]
        assert [word.text for _, word in sorted(theatre.seat().words.items())] == ["w1", "w2", "w6", "w7"]

    def test_what_was_not_sent_is_dropped_and_nothing_is_recalled(self) -> None:
        theatre = Theatre(LimitSettings(revise_margin_ms=0))
        theatre.append("w1 w2 w3 ")
        theatre.work(steps=50)
        theatre.revise(3, "w4 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w4"]
        assert not any(isinstance(message, AudioDiscard) for message in theatre.messages)

    def test_what_may_have_been_heard_stays(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 w3 w4 w5 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.send(Played(WORD_MS + 10))
        theatre.revise(0, "w6 w7 w8 w9 w5 ")
        theatre.send(TextEnd())
        theatre.settle()
        # Heard to 210 ms; with the margin of 250 ms the third word has begun.
        assert said(theatre) == ["w1", "w2", "w3", "w9", "w5"]
        answer = next(message for message in theatre.messages if isinstance(message, TextRevised))
        assert answer == TextRevised("main", 0, 8, 8, True, 1)
        assert theatre.seat().manuscript.spoken == "w1 w2 w3 w9 w5 "

    def test_playout_runs_on_between_acknowledgements(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 w3 w4 w5 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.send(Played(10))
        theatre.wait(2 * WORD_MS / 1000)
        theatre.revise(0, "")
        theatre.work()
        theatre.deliver()
        assert said(theatre) == ["w1", "w2", "w3", "w4"]

    def test_to_the_same_text_is_answered_at_once(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 ")
        theatre.revise(0, "w1 w2 ")
        theatre.deliver()
        assert theatre.messages[-1] == TextRevised("main", 0, 6, 6, False, 1)
        assert not any(isinstance(command, Revise) for command in theatre.log)

    def test_a_longer_text_is_an_append(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 ")
        theatre.revise(0, "w1 w2 w3 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w2", "w3"]
        assert not any(isinstance(command, Revise) for command in theatre.log)

    def test_after_the_end(self, theatre: Theatre) -> None:
        theatre.append("w1 w2")
        theatre.send(TextEnd())
        theatre.revise(3, "w3 w4")
        theatre.settle()
        assert said(theatre) == ["w1", "w3", "w4"]
        assert isinstance(theatre.seat().end, Done)
        assert theatre.seat().end.characters == len("w1 w3 w4")  # type: ignore[union-attr]

    def test_at_another_rate_positions_still_fit(self) -> None:
        theatre = Theatre(start=SessionStart(1, audio=AudioFormat(sample_rate=44_100)), rate=44_100)
        theatre.append("w1 w2 w3 w4 ")
        theatre.work(steps=50)
        theatre.deliver(20)
        theatre.revise(3, "w5 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert len(theatre.seat().pcm) // 2 == 2 * WORD_MS * 44_100 // 1000

    def test_while_another_is_under_way_is_merged(self) -> None:
        theatre = Theatre(AT_ONCE)
        theatre.append("w1 w2 ")
        theatre.work(steps=0)
        theatre.revise(3, "w3 ")
        theatre.revise(3, "w4 ")
        theatre.append("w5 ")
        theatre.revise(6, "w6 ")
        theatre.send(TextFlush(), TextEnd())
        assert len(theatre.commands) == 1
        theatre.settle()
        assert said(theatre) == ["w1", "w4", "w6"]
        answers = [message for message in theatre.messages if isinstance(message, TextRevised)]
        assert answers == [TextRevised("main", 3, 3, 3, False, 1), TextRevised("main", 3, 3, 3, False, 3)]

    def test_a_cancel_meanwhile_reports_the_text_as_asked_for(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 w3 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.revise(3, "w4 w5")
        theatre.send(Cancel(played_ms=WORD_MS))
        theatre.deliver()
        assert theatre.seat().end == Cancelled("main", float(WORD_MS), "w1", " w4 w5", 2, "exact")

    def test_a_cancel_meanwhile_keeps_what_was_heard(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 w3 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.revise(0, "w4 w5 w6 w7")
        theatre.send(Cancel(played_ms=2 * WORD_MS))
        theatre.deliver()
        assert theatre.seat().end == Cancelled("main", 2.0 * WORD_MS, "w1 w2", " w6 w7", 5, "exact")

    def test_words_that_are_void_are_no_part_of_a_report(self) -> None:
        theatre = Theatre(LimitSettings(revise_margin_ms=0))
        theatre.append("w1 w2 w3333333 w4 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.revise(3, "w555 w6 w7 ")
        theatre.work(steps=50)
        theatre.deliver()
        theatre.send(Cancel(played_ms=3 * WORD_MS))
        theatre.deliver()
        assert theatre.seat().end == Cancelled("main", 3.0 * WORD_MS, "w1 w555 w6", " w7 ", 10, "exact")


def test_a_text_may_begin_with_a_revision(theatre: Theatre) -> None:
    theatre.seat().manuscript.revise(0, "w1 w2")
    theatre.send(TextRevise("w1 w2", 0), TextEnd())
    theatre.settle()
    assert said(theatre) == ["w1", "w2"]


class TestRefusals:
    def last_error(self, theatre: Theatre) -> Error:
        theatre.deliver()
        error = [message for message in theatre.messages if isinstance(message, Error)][-1]
        assert (error.terminal, error.context) == (False, "main")
        return error

    def test_beyond_the_end(self, theatre: Theatre) -> None:
        theatre.append("w1 ")
        theatre.send(TextRevise("x", 4))
        assert self.last_error(theatre).code == "bad_revision"
        theatre.revise(3, "w2")
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w2"]

    def test_too_long(self) -> None:
        theatre = Theatre(LimitSettings(context_characters=10))
        theatre.append("w1 ")
        theatre.send(TextRevise("w2 w3 w4 w5", 0))
        assert self.last_error(theatre).code == "text_too_long"

    def test_of_a_context_that_has_ended(self, theatre: Theatre) -> None:
        theatre.append("w1 ")
        theatre.send(TextEnd())
        theatre.settle()
        theatre.send(TextRevise("w2", 0))
        assert self.last_error(theatre).code == "bad_state"

    def test_text_that_cannot_be_spoken_leaves_the_old_one(self, theatre: Theatre) -> None:
        theatre.append("w1 w2 ")
        theatre.send(TextRevise("<|im_end|>", 3))
        theatre.work()
        assert self.last_error(theatre).code == "structural_token"
        theatre.append("w3 ")
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w2", "w3"]

    def test_edits_that_built_on_refused_text_go_with_it(self) -> None:
        theatre = Theatre(AT_ONCE)
        theatre.append("w1 w2 ")
        theatre.send(TextRevise("w3 <|im_end|> w4", 3), TextRevise("w5", 8), TextEnd())
        theatre.work()
        assert "went with it" in self.last_error(theatre).message
        theatre.settle()
        assert not any(isinstance(message, TextRevised) for message in theatre.messages)
        assert said(theatre) == ["w1", "w2"]

    def test_edits_that_replaced_refused_text_stand(self) -> None:
        theatre = Theatre(AT_ONCE)
        theatre.append("w1 w2 ")
        theatre.send(TextRevise("w3 <|im_end|> w4", 3), TextRevise("w5 w6", 0), TextEnd())
        theatre.work(steps=0)
        theatre.settle()
        assert said(theatre) == ["w5", "w6"]

    def test_an_append_that_was_just_refused_shifts_no_revision(self, theatre: Theatre) -> None:
        theatre.append("w1 ")
        theatre.send(TextAppend("<|im_end|> "), TextAppend("w2 w3 "), TextRevise("w4 ", 14 + 3))
        theatre.send(TextEnd())
        theatre.settle()
        assert said(theatre) == ["w1", "w2", "w4"]
        assert theatre.metrics.registry.get_sample_value("footlights_revisions_total", {"kind": "client"}) == 2

    def test_a_revision_that_is_overtaken_by_the_end_says_so(self, theatre: Theatre) -> None:
        theatre.append("w1")
        theatre.send(TextEnd())
        theatre.work(steps=0)
        # The engine has finished; its report is still on the way when the client revises.
        events: list[WorkerEvent] = [event for _ in range(10) for event in theatre.engine.step()]
        theatre.send(TextRevise("w2", 0))
        theatre.report(events)
        theatre.settle()
        assert said(theatre) == ["w1"]
        assert [error.code for error in theatre.seat().errors] == ["bad_state"]
        assert isinstance(theatre.seat().end, Done)


class TestStorms:
    @pytest.mark.parametrize("per_second", [10, 100])
    def test_cost_is_bounded_and_the_last_text_is_heard(self, per_second: int) -> None:
        theatre = Theatre()
        theatre.send(ContextOpen("quiet"))
        theatre.append("w0 " * 40, "quiet")
        theatre.send(TextEnd("quiet"))
        theatre.append("w1 ")
        generator = random.Random(per_second)
        for _ in range(2 * per_second):
            words = " ".join(generator.choices(WORDS, k=20))
            theatre.revise(0, words + " ")
            theatre.wait(1 / per_second)
            theatre.work()
            theatre.deliver()
        revisions = [command for command in theatre.log if isinstance(command, Revise)]
        assert len(revisions) <= 2 / theatre.limits.revise_every_s + 2
        theatre.send(TextEnd())
        theatre.settle()
        seat = theatre.seat()
        assert seat.manuscript.is_settled
        assert said(theatre) == seat.manuscript.spoken.split()
        assert isinstance(theatre.seat("quiet").end, Done)
        assert said(theatre, "quiet") == ["w0"] * 40

    def test_the_lead_is_short_once_a_text_is_revised(self) -> None:
        theatre = Theatre()
        theatre.append("w1 " * 200)
        theatre.work(steps=2)
        theatre.revise(0, "w2 " * 200)
        for _ in range(400):
            theatre.work()
            theatre.deliver()
        assert theatre.seat().ms <= theatre.limits.revised_lead_ms + 100


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3), st.booleans()),
        st.tuples(st.just("revise"), st.floats(0, 1), st.integers(0, 5)),
        st.tuples(st.just("work"), st.integers(0, 6), st.integers(0, 3)),
        st.tuples(st.just("deliver"), st.integers(0, 8), st.just(0)),
        st.tuples(st.just("wait"), st.floats(0, 0.6), st.just(0)),
        st.tuples(st.just("played"), st.floats(0, 1), st.just(0)),
        st.tuples(st.just("flush"), st.just(0), st.just(0)),
        st.tuples(st.just("refused"), st.booleans(), st.just(0)),
    ),
    max_size=60,
)


def play(theatre: Theatre, moves: list[tuple[str, float, int]], words: st.DataObject | random.Random) -> None:
    """Carries out the moves, whatever the text is then."""
    choose = words.choice if isinstance(words, random.Random) else lambda options: words.draw(st.sampled_from(options))
    seat = theatre.seat()
    for kind, how, extra in moves:
        if kind == "append":
            theatre.append("".join(f"{choose(WORDS)} " for _ in range(int(how))) + ("w1" if extra else ""))
        elif kind == "revise":
            text = seat.manuscript.text
            theatre.revise(int(how * len(text)), "".join(f"{choose(WORDS)} " for _ in range(extra)))
        elif kind == "work":
            theatre.work(steps=int(how), commands=extra)
        elif kind == "deliver":
            theatre.deliver(int(how))
        elif kind == "wait":
            theatre.wait(how)
        elif kind == "played":
            theatre.send(Played(how * seat.ms))
        elif kind == "flush":
            theatre.send(TextFlush())
        elif kind == "refused" and not theatre.session._contexts._live["main"].draft.is_waiting:
            # Merged with others it would take them with it.
            theatre.send(TextAppend("<|im_end|>"))
            theatre.work(steps=0)


@pytest.mark.parametrize("text", ["w0 ", "w0 w1 "])
def test_what_a_revision_does_not_change_stays(text: str) -> None:
    theatre = Theatre()
    theatre.send(ContextOpen("main"))
    theatre.append("w0 ")
    theatre.work(steps=3)
    theatre.revise(0, text)
    theatre.send(TextEnd())
    theatre.settle()
    check_whole(theatre)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES, st.data(), st.sampled_from([0.0, 0.05]), st.sampled_from([0, 250]))
def test_the_final_audio_is_the_final_text(
    moves: list[tuple[str, float, int]], data: st.DataObject, every_s: float, margin_ms: int
) -> None:
    theatre = Theatre(LimitSettings(revise_every_s=every_s, revise_margin_ms=margin_ms))
    theatre.send(ContextOpen("main"))
    play(theatre, moves, data)
    theatre.send(TextEnd())
    theatre.settle()
    check_whole(theatre)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MOVES, st.data(), st.none() | st.floats(0, 1), st.integers(0, 9))
def test_a_cancel_at_any_time_reports_what_was_heard(
    moves: list[tuple[str, float, int]], data: st.DataObject, share: float | None, delivered: int
) -> None:
    theatre = Theatre()
    theatre.send(ContextOpen("main"))
    play(theatre, moves, data)
    theatre.deliver(delivered)
    theatre.send(Cancel(played_ms=None if share is None else share * theatre.seat().ms))
    check_report(theatre)


def check_report(theatre: Theatre) -> None:
    """After a cancel: the report is right to the word, and not a byte comes after it."""
    before = len(theatre.log)
    theatre.settle()
    assert len(theatre.log) == before
    seat = theatre.seat()
    report = seat.end
    assert isinstance(report, Cancelled)
    assert report.char_end == len(report.spoken)
    by_ear = [word.text for at, word in enumerate(seat.in_order) if (at + 0.5) * WORD_MS <= report.played_ms]
    assert "".join(report.spoken.split()) == "".join(by_ear)
    for at, word in enumerate(by_ear):
        heard = bytes(seat.pcm)[at * len(pcm_of(word)) :][: len(pcm_of(word)) // 2]
        assert pcm_of(word).startswith(heard)


def check_whole(theatre: Theatre) -> None:
    """What is heard, and what is told about it, is the spoken text."""
    seat = theatre.seat()
    assert isinstance(seat.end, Done)
    spoken, words = seat.manuscript.spoken, seat.in_order
    # A flush may have cut a word in two.
    assert "".join(word.text for word in words) == "".join(spoken.split())
    assert [spoken[word.char_start : word.char_end] for word in words] == [word.text for word in words]
    assert [word.start_ms for word in words] == [WORD_MS * at for at in range(len(words))]
    assert bytes(seat.pcm) == b"".join(pcm_of(word.text) for word in words) or not words
    assert (seat.end.characters, seat.end.audio_messages) == (len(spoken), seat.sequence)


def test_a_thousand_random_revisions() -> None:
    generator = random.Random(1)
    revisions = 0
    while revisions < 1000:
        theatre = Theatre(AT_ONCE)
        theatre.send(ContextOpen("main"))
        kinds = ["append", "revise", "revise", "work", "work", "deliver", "wait", "played"]
        moves = [(generator.choice(kinds), generator.random() * 3, generator.randrange(4)) for _ in range(80)]
        play(
            theatre,
            [(kind, how % 1 if kind in ("revise", "played") else how, extra) for kind, how, extra in moves],
            generator,
        )
        theatre.send(TextEnd())
        theatre.settle()
        check_whole(theatre)
        revisions += sum(isinstance(command, Revise) for command in theatre.log)


def test_two_hundred_random_interruptions() -> None:
    """The report is right to the word, whatever was revised before and is still on its way."""
    generator = random.Random(2)
    kinds = ["append", "append", "revise", "work", "work", "work", "deliver", "deliver", "wait", "played"]
    for _ in range(200):
        theatre = Theatre()
        theatre.send(ContextOpen("main"))
        moves = [(generator.choice(kinds), generator.random() * 6, generator.randrange(4)) for _ in range(25)]
        play(
            theatre,
            [(kind, how % 1 if kind in ("revise", "played") else how, extra) for kind, how, extra in moves],
            generator,
        )
        theatre.deliver(generator.randrange(10))
        seat = theatre.seat()
        played_ms = generator.random() * seat.ms
        theatre.send(Cancel(played_ms=played_ms))
        check_report(theatre)
