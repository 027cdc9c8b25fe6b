"""The session's rules, one class per section of docs/protocol.md."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from engine import core
from engine.core import AudioChunk, Failed, Policy, Utterance
from realtime.commands import Abort, Add, AppendText, Finish, Flush, Pause, Rejected, Resume
from realtime.limits import LimitSettings
from realtime.protocol import (
    AudioFormat,
    AudioMessage,
    AudioStart,
    Cancel,
    Cancelled,
    ClientMessage,
    ContextOpen,
    Done,
    Error,
    ErrorCode,
    Heard,
    Ping,
    Played,
    Pong,
    ProtocolError,
    SessionReady,
    SessionStart,
    TextAppend,
    TextEnd,
    TextFlush,
    TextRevise,
    Words,
)
from realtime.roster import CONTEXT_INDEXES, REMEMBERED_CONTEXTS
from tests.realtime.stage import FRAME, RATE, Stage, word


def measured_ttfa(stage: Stage) -> float | None:
    return stage.metrics.registry.get_sample_value("footlights_ttfa_seconds_count")


@pytest.fixture
def stage() -> Stage:
    return Stage().start()


class TestStart:
    def test_ready_tells_what_the_session_is(self) -> None:
        stage = Stage()
        stage.receive(SessionStart(1, audio=AudioFormat(sample_rate=8_000)))
        ready = stage.last
        assert isinstance(ready, SessionReady)
        assert (ready.protocol, ready.session, ready.model) == (1, "s", "fake")
        assert (ready.sample_rate, ready.frame_ms, ready.voices) == (8_000, 50.0, ("heart", "michael", "bella"))

    @pytest.mark.parametrize("message", [ContextOpen("a"), TextAppend("x"), TextEnd(), Cancel(), Played(1)])
    def test_nothing_before_the_start(self, message: ClientMessage) -> None:
        stage = Stage()
        stage.receive(message)
        assert (stage.last_error.code, stage.last_error.terminal) == ("bad_state", False)
        assert stage.commands == []

    def test_pings_are_answered_before_the_start(self) -> None:
        stage = Stage()
        stage.receive(Ping("7"))
        assert stage.messages == [Pong("7")]

    def test_a_second_start_changes_nothing(self, stage: Stage) -> None:
        stage.receive(SessionStart(1, voice="bella"), TextAppend("x"))
        assert isinstance(stage.messages[0], Error)
        assert stage.commands[0] == Add(Utterance("s.0", "heart"))

    def test_an_unknown_voice_lists_those_there_are_and_start_may_be_repeated(self) -> None:
        stage = Stage()
        stage.receive(SessionStart(1, voice="nobody"))
        assert stage.last_error.code == "unknown_voice"
        assert not stage.last_error.terminal
        assert "heart, michael, bella" in stage.last_error.message
        stage.receive(SessionStart(1, voice="bella"))
        assert isinstance(stage.last, SessionReady)

    def test_an_unknown_language(self) -> None:
        stage = Stage()
        stage.receive(SessionStart(1, language="tlh"))
        assert stage.last_error.code == "unknown_language"

    def test_an_unknown_version_ends_the_session(self) -> None:
        stage = Stage()
        stage.receive(ProtocolError(ErrorCode.UNSUPPORTED_PROTOCOL, "protocol 2 is not supported; supported: 1"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("unsupported_protocol", True)
        assert stage.close is not None
        assert stage.close.code == 1002


class TestContexts:
    def test_main_opens_with_its_first_text(self, stage: Stage) -> None:
        stage.receive(TextAppend("Hi "))
        assert stage.commands == [Add(Utterance("s.0", "heart")), AppendText("s.0", "Hi ", 0)]

    def test_defaults_and_overrides(self) -> None:
        stage = Stage().start(SessionStart(1, voice="michael", policy="whole"))
        stage.receive(ContextOpen("a"), ContextOpen("b", voice="bella", policy="clause"))
        assert stage.commands == [
            Add(Utterance("s.0", "michael", policy=Policy.WHOLE)),
            Add(Utterance("s.1", "bella", policy=Policy.CLAUSE)),
        ]

    @pytest.mark.parametrize(
        "message",
        [
            TextFlush("x"),
            TextEnd("x"),
            TextRevise("a", 0, "x"),
            Cancel("x"),
            Played(1, "x"),
            TextAppend("a", "x"),
        ],
    )
    def test_unknown_contexts(self, stage: Stage, message: ClientMessage) -> None:
        stage.receive(message)
        assert (stage.last_error.code, stage.last_error.context) == ("unknown_context", "x")
        assert not stage.last_error.terminal
        assert stage.commands == []

    @pytest.mark.parametrize("message", [Cancel(), Played(1)])
    def test_only_messages_about_text_open_main(self, stage: Stage, message: ClientMessage) -> None:
        stage.receive(message)
        assert stage.last_error.code == "unknown_context"
        stage.receive(TextAppend("a"))
        assert stage.commands == [Add(Utterance("s.0", "heart")), AppendText("s.0", "a", 0)]

    def test_main_can_end_without_a_text(self, stage: Stage) -> None:
        stage.receive(TextEnd())
        assert stage.commands == [Add(Utterance("s.0", "heart")), Finish("s.0")]
        stage.speak("main", 0, FRAME)
        stage.finish()
        done = stage.last
        assert isinstance(done, Done)
        assert (done.context, done.characters, done.ttfa_ms) == ("main", 0, None)
        stage.receive(TextEnd())
        assert stage.last_error.code == "bad_state"

    @pytest.mark.parametrize("message", [TextFlush(), TextRevise("Hi", 0)])
    def test_main_may_begin_with_a_flush_or_a_revision(self, stage: Stage, message: ClientMessage) -> None:
        stage.receive(message)
        added, *told = stage.commands
        assert added == Add(Utterance("s.0", "heart"))
        assert told
        assert not stage.of_type(Error)

    def test_main_opens_by_itself_once(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"), Cancel(), TextAppend("b"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("bad_state", False)
        stage.receive(ContextOpen("main"), TextAppend("b"))
        assert stage.commands[-1] == AppendText("s.1", "b", 0)

    def test_opening_twice_disturbs_nothing(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a"), ContextOpen("a"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("bad_state", False)
        stage.receive(TextAppend("x", "a"))
        assert stage.commands[-1] == AppendText("s.0", "x", 0)

    def test_a_refused_open_is_an_end(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a", voice="nobody"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("unknown_voice", True)
        stage.receive(TextAppend("x", "a"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("bad_state", False)
        assert stage.commands == []

    def test_too_many(self) -> None:
        stage = Stage(LimitSettings(contexts=2)).start()
        stage.receive(ContextOpen("a"), ContextOpen("b"), TextAppend("x"))
        assert (stage.last_error.code, stage.last_error.context) == ("too_many_contexts", "main")
        assert (stage.last_error.terminal, stage.last_error.retryable) == (True, True)
        stage.receive(Cancel("a"), ContextOpen("c"))
        assert len(stage.of_type(Error)) == 1

    def test_indexes_differ_while_they_matter(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a"))
        stage.speak("a", 0, FRAME)
        stage.session._contexts._numbers = itertools.count(CONTEXT_INDEXES - 10)
        for number in range(20):
            stage.receive(ContextOpen(f"c{number}"), Cancel(f"c{number}"))
        utterances = [command.utterance_id for command in stage.commands if isinstance(command, Add)]
        assert len(set(utterances)) == 21
        stage.session._contexts._numbers = itertools.count(2 * CONTEXT_INDEXES)
        stage.receive(ContextOpen("b"))
        stage.speak("a", FRAME, FRAME)
        stage.speak("b", 0, FRAME)
        assert [message.index for message in stage.of_type(AudioMessage)] == [0, 0, 11]


class TestText:
    def test_nothing_is_added_or_stripped(self, stage: Stage) -> None:
        stage.receive(TextAppend(" a"), TextAppend(""), TextAppend("\n b "))
        assert [c.text for c in stage.commands if isinstance(c, AppendText)] == [" a", "", "\n b "]

    def test_flush_and_end(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"), TextFlush(), TextFlush(), TextEnd())
        assert stage.commands[2:] == [Flush("s.0"), Flush("s.0"), Finish("s.0")]

    @pytest.mark.parametrize("message", [TextAppend("late"), TextFlush(), TextEnd()])
    def test_text_after_the_end_does_not_end_it_twice(self, stage: Stage, message: ClientMessage) -> None:
        stage.receive(TextAppend("a"), TextEnd(), message)
        error = stage.last_error
        assert (error.code, error.context, error.terminal) == ("bad_state", "main", False)
        stage.finish()
        assert isinstance(stage.last, Done)
        assert stage.last.characters == 1

    def test_limit_of_a_context(self) -> None:
        stage = Stage(LimitSettings(context_characters=10)).start()
        stage.receive(TextAppend("123456"), TextAppend("78901"))
        assert (stage.last_error.code, stage.last_error.terminal) == ("text_too_long", False)
        stage.receive(TextAppend("7890"), Cancel())
        assert isinstance(stage.last, Cancelled)
        assert stage.last.unspoken == "1234567890"

    def test_rejected_text_is_no_part_of_the_text(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"), TextAppend("<|im_end|>"), TextAppend("b"))
        stage.perform(stage.session.engine_event(Rejected("s.0", 1, "structural_token", "no")))
        error = stage.last_error
        assert (error.code, error.context, error.terminal) == ("structural_token", "main", False)
        stage.receive(Cancel())
        assert isinstance(stage.last, Cancelled)
        assert stage.last.unspoken == "ab"


class TestAudio:
    def test_order_of_a_context(self, stage: Stage) -> None:
        stage.receive(TextAppend("one two"), TextEnd())
        stage.speak("main", 0, FRAME, word("one", 0, 50, 0))
        stage.speak("main", FRAME, FRAME, word("two", 50, 100, 4))
        stage.finish()
        kinds = [type(message) for message in stage.messages]
        assert kinds == [AudioStart, Words, AudioMessage, Words, AudioMessage, AudioMessage, Done]
        assert isinstance(stage.last, Done)
        assert (stage.last.audio_ms, stage.last.audio_messages, stage.last.characters) == (100.0, 3, 7)

    def test_sequence_and_position(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"), TextEnd())
        for number in range(5):
            stage.speak("main", number * 3 * FRAME, 3 * FRAME)
        stage.finish()
        position = 0
        for sequence, audio in enumerate(stage.of_type(AudioMessage)):
            assert (audio.sequence, audio.first_sample) == (sequence, position)
            position += len(audio.payload) // 2
        assert position == 15 * FRAME

    def test_contexts_do_not_mix(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a"), ContextOpen("b"))
        stage.speak("b", 0, FRAME)
        stage.speak("a", 0, FRAME)
        starts = {message.context: message.index for message in stage.of_type(AudioStart)}
        assert [m.index for m in stage.of_type(AudioMessage)] == [starts["b"], starts["a"]]

    def test_no_words_if_not_wanted(self) -> None:
        stage = Stage().start(SessionStart(1, words=False))
        stage.receive(TextAppend("one"))
        stage.speak("main", 0, FRAME, word("one", 0, 50, 0))
        assert stage.of_type(Words) == []
        stage.receive(Cancel(played_ms=40))
        assert isinstance(stage.last, Cancelled)
        assert stage.last.spoken == "one"

    @pytest.mark.parametrize("texts", [[""], ["…"], ["🙂", " "], []])
    def test_nothing_to_speak_is_a_short_silence(self, stage: Stage, texts: list[str]) -> None:
        stage.receive(ContextOpen("a"), *[TextAppend(text, "a") for text in texts], TextEnd("a"))
        stage.finish("a")
        start, audio, done = stage.messages
        assert isinstance(start, AudioStart)
        assert isinstance(audio, AudioMessage)
        assert audio.payload == bytes(2 * RATE * 40 // 1000)
        assert isinstance(done, Done)
        assert (done.audio_ms, done.ttfa_ms) == (40.0, None)

    def test_ttfa_starts_with_the_first_speakable_text(self, stage: Stage) -> None:
        stage.receive(TextAppend(" … "))
        stage.now_s += 5
        stage.receive(TextAppend("Hello "))
        stage.now_s += 0.125
        stage.speak("main", 0, FRAME, word("Hello", 0, 50, 3))
        stage.finish()
        assert isinstance(stage.last, Done)
        assert stage.last.ttfa_ms == 125.0

    @pytest.mark.parametrize("text", ["你好", "<|im_end|>", "🙂", "… !", "<break time='2s'/>"])
    def test_no_ttfa_without_a_word(self, stage: Stage, text: str) -> None:
        stage.receive(TextAppend(text), TextEnd())
        stage.speak("main", 0, FRAME)
        stage.finish()
        assert isinstance(stage.last, Done)
        assert stage.last.ttfa_ms is None
        assert measured_ttfa(stage) == 0

    def test_ttfa_ends_with_the_first_audio_and_counts_once_there_is_a_word(self, stage: Stage) -> None:
        stage.receive(TextAppend("Hello there "))
        stage.now_s += 0.1
        stage.speak("main", 0, FRAME)
        assert measured_ttfa(stage) == 0
        stage.now_s += 0.1
        for number, text in enumerate(("Hello", "there")):
            stage.speak("main", (1 + number) * FRAME, FRAME, word(text, 50, 90, 6 * number))
        assert measured_ttfa(stage) == 1
        stage.receive(TextRevise("Goodbye", 0))
        stage.perform(stage.session.engine_event(core.Revised(stage.utterance(), 0, 0, 0, 0)))
        stage.speak("main", 0, FRAME, word("Goodbye", 0, 50, 0))
        stage.finish()
        assert measured_ttfa(stage) == 1

    def test_lost_audio_is_a_fault_not_a_gap(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"))
        stage.speak("main", 0, FRAME)
        stage.speak("main", 2 * FRAME, FRAME)
        assert (stage.last_error.code, stage.last_error.terminal) == ("internal", True)
        assert stage.commands[-1] == Abort("s.0")


class TestCancel:
    @pytest.fixture
    def speaking(self, stage: Stage) -> Stage:
        stage.receive(TextAppend("one two three"))
        stage.speak("main", 0, 12_000, word("one", 0, 200, 0), word("two", 200, 400, 4))
        stage.messages.clear()
        return stage

    def cancelled(self, stage: Stage, **arguments: float) -> Cancelled:
        stage.receive(Cancel(**arguments))  # type: ignore[arg-type]
        assert isinstance(stage.last, Cancelled)
        assert stage.commands[-1] == Abort("s.0")
        return stage.last

    def test_before_any_audio(self, stage: Stage) -> None:
        stage.receive(TextAppend("one two"))
        assert self.cancelled(stage) == Cancelled("main", 0.0, "", "one two", 0, "exact")

    def test_with_a_position(self, speaking: Stage) -> None:
        report = self.cancelled(speaking, played_ms=300)
        assert report == Cancelled("main", 300.0, "one two", " three", 7, "exact")

    def test_less_than_half_a_word(self, speaking: Stage) -> None:
        assert self.cancelled(speaking, played_ms=299).spoken == "one"

    def test_with_an_acknowledgement(self, speaking: Stage) -> None:
        speaking.receive(Played(210))
        assert self.cancelled(speaking) == Cancelled("main", 210.0, "one", " two three", 3, "exact")

    def test_an_acknowledgement_never_goes_back(self, speaking: Stage) -> None:
        speaking.receive(Played(310), Played(5))
        assert self.cancelled(speaking, played_ms=0).spoken == "one two"

    def test_positions_are_clamped_to_what_was_sent(self, speaking: Stage) -> None:
        assert self.cancelled(speaking, played_ms=1e9).played_ms == pytest.approx(495)

    def test_unsent_audio_was_not_heard_and_is_dropped(self, stage: Stage) -> None:
        stage.receive(TextAppend("one two"))
        stage.is_sending = False
        stage.speak("main", 0, 12_000, word("one", 0, 200, 0))
        assert stage.queued
        assert self.cancelled(stage, played_ms=400) == Cancelled("main", 0.0, "", "one two", 0, "exact")
        assert stage.queued == []

    @pytest.mark.parametrize(("exact_end_ms", "spoken"), [(140, "one"), (460, "")])
    def test_the_exact_end_of_a_word_replaces_the_estimate(
        self, stage: Stage, exact_end_ms: float, spoken: str
    ) -> None:
        stage.receive(TextAppend("one two"))
        stage.speak("main", 0, FRAME, word("one", 0, 300, 0))
        stage.speak("main", FRAME, 10 * FRAME, word("one", 0, exact_end_ms, 0), word("two", 460, 500, 4))
        played_ms = 100 if spoken else 200
        assert self.cancelled(stage, played_ms=played_ms).spoken == spoken

    def test_without_a_position_time_is_the_estimate(self, speaking: Stage) -> None:
        speaking.now_s += 0.25
        report = self.cancelled(speaking)
        assert report.played_ms == pytest.approx(250)
        assert (report.spoken, report.precision) == ("one", "estimated")

    def test_the_estimate_never_exceeds_what_was_sent(self, speaking: Stage) -> None:
        speaking.now_s += 100
        assert self.cancelled(speaking).played_ms == pytest.approx(495)

    def test_no_audio_after_it(self, speaking: Stage) -> None:
        utterance_id = speaking.utterance()
        self.cancelled(speaking)
        count = len(speaking.messages)
        late: list[core.EngineEvent] = [
            AudioChunk(utterance_id, 12_000, np.zeros(FRAME, np.float32)),
            core.Cancelled(utterance_id),
            Failed(utterance_id, "internal", "late"),
        ]
        for event in late:
            assert speaking.session.engine_event(event) == []
        assert len(speaking.messages) == count

    def test_twice_is_the_same_account(self, speaking: Stage) -> None:
        first = self.cancelled(speaking, played_ms=300)
        speaking.receive(Cancel(), Cancel(played_ms=250))
        again = speaking.messages[-2:]
        assert again == [Heard("main", first.played_ms, first.spoken, first.unspoken, first.char_end, "exact")] * 2

    def test_after_done_it_tells_what_was_heard(self, speaking: Stage) -> None:
        speaking.receive(TextEnd())
        speaking.finish()
        speaking.receive(Cancel(played_ms=210))
        assert speaking.last == Heard("main", 210.0, "one", " two three", 3, "exact")

    def test_acknowledgements_count_after_done(self, speaking: Stage) -> None:
        speaking.receive(TextEnd())
        speaking.finish()
        speaking.receive(Played(500), Cancel())
        assert speaking.last == Heard("main", 500.0, "one two three", "", 13, "exact")

    def test_after_the_end_of_text(self, speaking: Stage) -> None:
        speaking.receive(TextEnd())
        assert self.cancelled(speaking, played_ms=0).unspoken == "one two three"

    def test_ended_contexts_are_forgotten_in_time(self, stage: Stage) -> None:
        for number in range(REMEMBERED_CONTEXTS + 1):
            stage.receive(ContextOpen(f"c{number}"), Cancel(f"c{number}"))
        assert len(stage.session._contexts._by_index) == REMEMBERED_CONTEXTS
        stage.receive(Cancel("c0"))
        assert stage.last_error.code == "unknown_context"
        stage.receive(Cancel("c1"))
        assert isinstance(stage.last, Heard)

    def test_long_texts_are_forgotten_sooner(self, stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.receive(ContextOpen(name), TextAppend("x" * 90_000, name), Cancel(name))
        stage.receive(Cancel("a"))
        assert stage.last_error.code == "unknown_context"
        stage.receive(Cancel("b"))
        assert isinstance(stage.last, Heard)


class TestFailures:
    def test_a_lost_worker_ends_its_contexts_and_not_the_session(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"))
        stage.perform(stage.session.engine_event(Failed("s.0", "worker_lost", "lost", retryable=True)))
        assert stage.last == Error("worker_lost", "lost", "main", retryable=True, terminal=True)
        stage.receive(ContextOpen("main"), TextAppend("a"))
        assert stage.commands[-1] == AppendText("s.1", "a", 0)

    def test_an_engine_that_gives_up_is_an_error(self, stage: Stage) -> None:
        stage.receive(TextAppend("a"))
        stage.perform(stage.session.engine_event(core.Cancelled("s.0")))
        assert (stage.last_error.code, stage.last_error.terminal) == ("internal", True)

    def test_unreadable_messages_are_answered_up_to_a_limit(self) -> None:
        stage = Stage(LimitSettings(bad_messages=3)).start()
        stage.receive(TextAppend("a"))
        for _ in range(3):
            stage.receive(ProtocolError(ErrorCode.BAD_MESSAGE, "what?"))
            assert not stage.last_error.terminal
        stage.receive(ProtocolError(ErrorCode.BAD_MESSAGE, "what?"))
        assert [error.context for error in stage.of_type(Error) if error.terminal] == ["main", None]
        assert stage.close is not None
        assert stage.close.code == 1008
        stage.receive(TextAppend("b"))
        assert stage.commands[-1] == Abort("s.0")

    def test_a_lost_connection_aborts_everything_and_says_nothing(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a"), ContextOpen("b"))
        stage.perform(stage.session.connection_lost())
        assert stage.commands[-2:] == [Abort("s.0"), Abort("s.1")]
        assert stage.messages == []
        stage.receive(TextAppend("x", "a"))
        assert stage.session.connection_lost() == []
        assert stage.messages == []


class TestPace:
    def limits(self) -> LimitSettings:
        return LimitSettings(lead_ms=1000)

    def test_a_long_lead_rests_until_it_is_played_away(self) -> None:
        stage = Stage(self.limits()).start()
        stage.receive(TextAppend("a"))
        stage.speak("main", 0, RATE)
        assert stage.session.next_wakeup_s() is None
        stage.speak("main", RATE, RATE)
        assert stage.commands[-1] == Pause("s.0")
        wakeup_s = stage.session.next_wakeup_s()
        assert wakeup_s is not None
        assert wakeup_s == pytest.approx(101.245)
        stage.now_s = wakeup_s - 0.01
        stage.perform(stage.session.tick())
        assert stage.commands[-1] == Pause("s.0")
        stage.now_s = wakeup_s + 0.001
        stage.perform(stage.session.tick())
        assert stage.commands[-1:] == [Resume("s.0")]
        assert stage.session.next_wakeup_s() is None

    def test_a_listener_who_stopped_is_not_fed(self) -> None:
        stage = Stage(self.limits()).start()
        stage.receive(TextAppend("a"))
        stage.speak("main", 0, 2 * RATE)
        for _ in range(100):
            stage.now_s += 0.5
            stage.receive(Played(100))
            stage.perform(stage.session.tick())
        assert stage.commands[-1] == Pause("s.0")
        stage.receive(Played(1500))
        assert stage.commands[-1:] == [Resume("s.0")]

    def test_a_slow_reader_pauses_all_contexts_once(self, stage: Stage) -> None:
        stage.receive(ContextOpen("a"), ContextOpen("b"))
        stage.perform(stage.session.set_congested(True))
        stage.perform(stage.session.set_congested(True))
        assert stage.commands[2:] == [Pause("s.0"), Pause("s.1")]
        stage.receive(ContextOpen("c"))
        assert stage.commands[4:] == [Add(Utterance("s.2", "heart")), Pause("s.2")]
        stage.perform(stage.session.set_congested(False))
        assert stage.commands[6:] == [Resume("s.0"), Resume("s.1"), Resume("s.2")]

    def test_two_causes_are_one_pause(self) -> None:
        stage = Stage(self.limits()).start()
        stage.receive(TextAppend("a"))
        stage.speak("main", 0, 2 * RATE)
        stage.perform(stage.session.set_congested(True))
        stage.now_s += 10
        stage.perform(stage.session.tick())
        assert [type(command) for command in stage.commands[2:]] == [Pause]
        stage.perform(stage.session.set_congested(False))
        assert [type(command) for command in stage.commands[2:]] == [Pause, Resume]

    @pytest.mark.parametrize(
        ("between", "cause"),
        [(lambda stage: None, "engine"), (lambda stage: stage.receive(TextAppend("more ")), "text")],
    )
    def test_underruns_have_a_cause(self, stage: Stage, between: Callable[[Stage], None], cause: str) -> None:
        stage.receive(TextAppend("one two "))
        stage.speak("main", 0, FRAME)
        stage.now_s += 0.3
        between(stage)
        stage.now_s += 0.1
        stage.speak("main", FRAME, FRAME)
        value = stage.metrics.registry.get_sample_value("footlights_underruns_total", {"cause": cause})
        assert value == 1.0
