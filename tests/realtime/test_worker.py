"""The worker's loop, in a thread here: commands to calls, errors to events."""

import logging
import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection

import pytest

from engine.core import AudioChunk, Cancelled, EngineEvent, Failed, Finished, Revised, Utterance
from engine.errors import ConfigError
from realtime import worker
from realtime.commands import (
    STALE,
    Abort,
    Add,
    AppendText,
    Command,
    Finish,
    Flush,
    Imported,
    Pause,
    Probe,
    Ready,
    Rejected,
    Report,
    Resume,
    Revise,
    Start,
    Stop,
    WorkerEvent,
)
from tests.realtime.fake_engine import FakeEngine


@pytest.fixture
def pipe() -> Iterator[Connection]:
    """The gateway's end; the loop runs at the other."""
    ours, theirs = Pipe()
    loop = threading.Thread(target=worker.run, args=(theirs, FakeEngine()))
    loop.start()
    yield ours
    ours.send(Stop())
    loop.join(5)
    assert not loop.is_alive()
    ours.close()
    theirs.close()


def read_until(pipe: Connection, event_type: type) -> list[WorkerEvent]:
    """All events up to the first of that type."""
    events: list[WorkerEvent] = []
    while not any(isinstance(event, event_type) for event in events):
        assert pipe.poll(5), events
        report = pipe.recv()
        assert isinstance(report, Report)
        events += report.events
    return events


def test_text_becomes_audio_and_one_end(pipe: Connection) -> None:
    for command in (Add(Utterance("u", "heart")), AppendText("u", "one two", 0), Finish("u")):
        pipe.send(command)
    events = read_until(pipe, Finished)
    chunks = [event for event in events if isinstance(event, AudioChunk)]
    assert [chunk.first_sample for chunk in chunks] == [1200 * number for number in range(8)]
    assert [word.text for chunk in chunks for word in chunk.words] == ["one", "two"]
    assert len(events) == 9


def test_a_flush_speaks_the_last_word(pipe: Connection) -> None:
    for command in (Add(Utterance("u", "heart")), AppendText("u", "one", 0), Flush("u")):
        pipe.send(command)
    assert isinstance(read_until(pipe, AudioChunk)[0], AudioChunk)


def test_an_abort_is_confirmed(pipe: Connection) -> None:
    for command in (Add(Utterance("u", "heart")), Abort("u")):
        pipe.send(command)
    assert read_until(pipe, Cancelled) == [Cancelled("u")]


def test_a_pause_holds_audio_back(pipe: Connection) -> None:
    for command in (Add(Utterance("u", "heart")), Pause("u"), AppendText("u", "one ", 0), Probe(1)):
        pipe.send(command)
    assert pipe.poll(5)
    assert pipe.recv() == Report(probe=1)
    assert not pipe.poll(0.05)
    pipe.send(Resume("u"))
    assert read_until(pipe, AudioChunk)


def test_an_idle_loop_sends_nothing(pipe: Connection) -> None:
    pipe.send(Add(Utterance("u", "heart")))
    assert not pipe.poll(0.05)


def test_probes_are_answered_between_steps(pipe: Connection) -> None:
    pipe.send(Probe(7))
    assert pipe.poll(5)
    assert pipe.recv() == Report(probe=7)


def test_an_engine_that_is_due_later_is_stepped_then() -> None:
    class Patient(FakeEngine):
        due_s = time.monotonic() + 0.1

        def idle_s(self) -> float | None:
            idle_s = super().idle_s()
            return max(0.0, self.due_s - time.monotonic()) if idle_s == 0 else idle_s

    ours, theirs = Pipe()
    loop = threading.Thread(target=worker.run, args=(theirs, Patient()))
    loop.start()
    for command in (Add(Utterance("u", "heart")), AppendText("u", "one", 0), Finish("u")):
        ours.send(command)
    assert not ours.poll(0.02)
    assert read_until(ours, Finished)
    ours.send(Stop())
    loop.join(5)
    ours.close()
    theirs.close()


def test_a_worker_ends_with_its_gateway() -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=worker.main, args=(theirs, "tests.realtime.fake_engine:make"))
    process.start()
    theirs.close()
    assert ours.poll(20)
    assert ours.recv() == Imported()
    ours.send(Start({"step_s": 0.001}))
    assert ours.poll(20)
    assert isinstance(ours.recv(), Ready)
    for command in (Add(Utterance("u", "heart")), AppendText("u", "word " * 1000, 0)):
        ours.send(command)
    ours.close()
    process.join(10)
    assert process.exitcode == 0
    process.close()


class TestApply:
    def test_a_bad_add_fails_the_utterance(self) -> None:
        (event,) = worker.apply(FakeEngine(), Add(Utterance("u", "nobody")))
        assert isinstance(event, Failed)
        assert (event.utterance_id, event.code, event.retryable) == ("u", "unknown_voice", False)

    def test_bad_text_is_rejected_and_the_rest_goes_on(self) -> None:
        engine = FakeEngine()
        worker.apply(engine, Add(Utterance("u", "heart")))
        (event,) = worker.apply(engine, AppendText("u", "a<|im_end|>", 3))
        assert isinstance(event, Rejected)
        assert (event.edit_index, event.code) == (3, "structural_token")
        assert worker.apply(engine, AppendText("u", "fine ", 4)) == []

    @pytest.mark.parametrize("kind", [Flush, Finish, Abort, Pause, Resume])
    def test_commands_that_come_too_late_are_void(self, kind: type) -> None:
        assert worker.apply(FakeEngine(), kind("gone")) == []

    def test_text_that_comes_too_late_is_void(self) -> None:
        assert worker.apply(FakeEngine(), AppendText("gone", "x", 0)) == []

    def test_a_bug_costs_one_utterance_and_quotes_no_text(self, caplog: pytest.LogCaptureFixture) -> None:
        engine = FakeEngine()
        worker.apply(engine, Add(Utterance("u", "heart")))
        worker.apply(engine, Add(Utterance("v", "heart")))
        with caplog.at_level(logging.DEBUG):
            (event,) = worker.apply(engine, AppendText("u", "!bug my secret", 0))
        assert isinstance(event, Failed)
        assert (event.utterance_id, event.code, event.retryable) == ("u", "internal", True)
        assert "secret" not in caplog.text + event.message
        assert "RuntimeError" in caplog.text
        assert worker.apply(engine, AppendText("v", "x", 0)) == []
        assert worker.apply(engine, AppendText("u", "x", 1)) == []


class TestRevise:
    """`carry_out`: as `apply`, and a revision must be made for the text there is."""

    def start(self) -> tuple[FakeEngine, worker.TextLengths]:
        engine, lengths = FakeEngine(), worker.TextLengths()
        for command in (Add(Utterance("u", "heart")), AppendText("u", "one two ", 0)):
            assert worker.carry_out(engine, command, lengths) == []
        return engine, lengths

    def step(self, engine: FakeEngine, lengths: worker.TextLengths) -> list[EngineEvent]:
        events = engine.step()
        lengths.seen(events)
        return events

    def test_it_is_answered_with_the_next_step(self) -> None:
        engine, lengths = self.start()
        assert worker.carry_out(engine, Revise("u", 4, "three four ", 0.0, 8, 1), lengths) == []
        assert self.step(engine, lengths)[0] == Revised("u", 4, 4, 0, 0)
        assert worker.carry_out(engine, Revise("u", 15, "five", 0.0, 15, 2), lengths) == []

    def test_one_made_for_another_text_is_stale(self) -> None:
        engine, lengths = self.start()
        (refused,) = worker.carry_out(engine, AppendText("u", "<|im_end|>", 1), lengths)
        assert isinstance(refused, Rejected)
        (event,) = worker.carry_out(engine, Revise("u", 18, "three", 0.0, 18, 2), lengths)
        assert isinstance(event, Rejected)
        assert (event.edit_index, event.code) == (2, STALE)
        assert worker.carry_out(engine, Revise("u", 8, "three", 0.0, 8, 3), lengths) == []

    def test_appends_behind_it_count(self) -> None:
        engine, lengths = self.start()
        worker.carry_out(engine, Revise("u", 0, "a ", 0.0, 8, 1), lengths)
        worker.carry_out(engine, AppendText("u", "b ", 2), lengths)
        self.step(engine, lengths)
        assert worker.carry_out(engine, Revise("u", 4, "c", 0.0, 4, 3), lengths) == []

    def test_what_cannot_be_spoken_is_refused(self) -> None:
        engine, lengths = self.start()
        (event,) = worker.carry_out(engine, Revise("u", 0, "<|im_end|>", 0.0, 8, 1), lengths)
        assert isinstance(event, Rejected)
        assert (event.edit_index, event.code) == (1, "structural_token")
        assert worker.carry_out(engine, Revise("u", 0, "fine", 0.0, 8, 2), lengths) == []

    def test_one_that_comes_too_late_is_void(self) -> None:
        engine, lengths = self.start()
        worker.carry_out(engine, Abort("u"), lengths)
        self.step(engine, lengths)
        assert worker.carry_out(engine, Revise("u", 0, "x", 0.0, 8, 1), lengths) == []


class TestFactories:
    def test_a_factory_is_found_by_name(self) -> None:
        assert worker.resolve("tests.realtime.fake_engine:make")().info.name == "fake"

    @pytest.mark.parametrize(
        "name", ["", "nothing", "no.such.module:make", "tests.realtime.fake_engine:nothing", "engine.core:", ":make"]
    )
    def test_names_that_lead_nowhere(self, name: str) -> None:
        with pytest.raises(ConfigError, match="module:function"):
            worker.resolve(name)

    def test_what_is_found_must_be_callable(self) -> None:
        with pytest.raises(ConfigError, match="not a function"):
            worker.resolve("tests.realtime.fake_engine:SAMPLE_RATE")


def test_a_flood_of_commands_does_not_keep_the_others_from_their_frames() -> None:
    class Slow(FakeEngine):
        def append_text(self, utterance_id: str, text: str) -> None:
            time.sleep(0.01)
            super().append_text(utterance_id, text)

    ours, theirs = Pipe()
    commands: list[Command] = [
        Add(Utterance("u", "heart")),
        AppendText("u", "one two ", 0),
        Add(Utterance("v", "heart")),
    ]
    commands += [AppendText("v", "three ", number) for number in range(100)]
    for command in (*commands, Probe(1)):
        ours.send(command)
    loop = threading.Thread(target=worker.run, args=(theirs, Slow()))
    loop.start()
    try:
        assert ours.poll(5)
        first = ours.recv()
        assert isinstance(first, Report)
        assert first.probe is None
        assert any(isinstance(event, AudioChunk) and event.utterance_id == "u" for event in first.events)
    finally:
        ours.send(Stop())
        # Unread reports would fill the pipe, and the loop would wait for room instead of reading on.
        deadline = time.monotonic() + 20
        while loop.is_alive() and time.monotonic() < deadline:
            if ours.poll(0.02):
                ours.recv()
        assert not loop.is_alive()
        ours.close()
        theirs.close()
