"""The worker process: one loop that drains its inbox, steps the engine and sends the events back.

It knows nothing of sockets or asyncio. An error of ``Engine.step`` ends the process: which utterances it spoilt is
unknown, so the gateway fails them all and starts another worker.
"""

import importlib
import logging
import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Protocol, cast

from engine.core import Cancelled, EngineEvent, Failed, Finished, Revised, Tally, Utterance
from engine.errors import ConfigError, FootlightsError, UnknownUtteranceError
from realtime.commands import (
    STALE,
    Abort,
    Add,
    AppendText,
    Command,
    Explain,
    Finish,
    Flush,
    Hurry,
    Imported,
    Pause,
    Probe,
    Ready,
    Rejected,
    Report,
    Resume,
    Revise,
    Start,
    StartFailed,
    Stop,
    VoiceCommand,
    WorkerEvent,
)
from realtime.explaining import ExplainEngine, Explainer
from realtime.faults import describe
from realtime.voice_desk import VoiceDesk, VoiceEngine

logger = logging.getLogger(__name__)

DRAIN_S = 0.02
"""Time for commands between two steps."""


class EngineLike(VoiceEngine, ExplainEngine, Protocol):
    """What the loop needs of an engine. Methods raise `FootlightsError`s; `step` returns what happened since."""

    def add(self, utterance: Utterance) -> None:
        """Begin an utterance."""

    def append_text(self, utterance_id: str, text: str) -> None:
        """More text."""

    def revise(self, utterance_id: str, start: int, text: str, heard_ms: float) -> None:
        """Other text from ``start`` on; `Revised` follows."""

    def flush(self, utterance_id: str) -> None:
        """Speak what is there."""

    def finish(self, utterance_id: str) -> None:
        """No more text."""

    def abort(self, utterance_id: str) -> None:
        """Stop; `Cancelled` follows."""

    def pause(self, utterance_id: str) -> None:
        """Make no audio for it."""

    def resume(self, utterance_id: str) -> None:
        """End of a pause."""

    def hurry(self, utterance_id: str, speed: float) -> None:
        """Speak so much faster than asked for from now on."""

    tally: Tally
    """What was done in vain or again so far."""

    def idle_s(self) -> float | None:
        """Seconds until `step` would do or return anything: 0 now, None not before the next call of another method."""

    def step(self) -> list[EngineEvent]:
        """At most one frame for each sequence that can make one."""


def resolve(factory: str) -> Callable[..., Any]:
    """The callable that ``module:function`` names.

    Raises:
        ConfigError: not of that form, no such module or function.
    """
    module_name, _, function_name = factory.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cannot load the engine factory {factory!r} (module:function): {error}") from error
    if not callable(function):
        raise ConfigError(f"the engine factory {factory!r} is not a function")
    return cast(Callable[..., Any], function)


def main(connection: Connection, factory: str) -> None:
    """Entry point of the process: import, wait for `Start`, make the engine, run until `Stop` or a closed pipe."""
    # A terminal's Ctrl-C and a service manager's stop reach every process of the group: the gateway drains first and
    # then closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        engine = _start(connection, factory)
        if engine is not None:
            run(connection, engine)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _start(connection: Connection, factory: str) -> EngineLike | None:
    """The engine, made and warm; None if the gateway has no more use for it."""
    with _report_failure(connection):
        make_engine = resolve(factory)
    connection.send(Imported())
    start = connection.recv()
    if isinstance(start, Stop):
        return None
    assert isinstance(start, Start), start
    started = time.perf_counter()
    with _report_failure(connection):
        engine: EngineLike = make_engine(**start.arguments)
    connection.send(Ready(engine.info, time.perf_counter() - started))
    return engine


@contextmanager
def _report_failure(connection: Connection) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        connection.send(StartFailed(f"{type(error).__name__}: {error}"))
        raise


class TextLengths:
    """How much text each utterance has: the gateway learns of a refused append too late for a revision on its way."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}
        self._revisions: dict[str, tuple[int, int]] = {}
        """Of a revision that the engine has not answered: length of its text, and of the text before it."""

    def stale(self, command: Command) -> list[WorkerEvent]:
        """The refusal of a revision that was made for a text of another length; else nothing."""
        if not isinstance(command, Revise) or self._lengths.get(command.utterance_id, command.length) == command.length:
            return []
        return [Rejected(command.utterance_id, command.edit_index, STALE, "made for another text")]

    def given(self, command: Command) -> None:
        """The engine has taken this command."""
        match command:
            case Add():
                self._lengths[command.utterance_id] = 0
            case AppendText(utterance_id, text) if utterance_id in self._lengths:
                self._lengths[utterance_id] += len(text)
            case Revise(utterance_id, _, text) if utterance_id in self._lengths:
                self._revisions[utterance_id] = len(text), self._lengths[utterance_id]

    def seen(self, events: Iterable[WorkerEvent]) -> None:
        """The engine has said this."""
        for event in events:
            match event:
                case Revised(utterance_id, _, kept_to, resumes_at) if utterance_id in self._revisions:
                    length, before = self._revisions.pop(utterance_id)
                    # What was appended since then follows.
                    self._lengths[utterance_id] += kept_to + length - resumes_at - before
                case Finished(utterance_id) | Failed(utterance_id) | Cancelled(utterance_id):
                    self._lengths.pop(utterance_id, None)
                    self._revisions.pop(utterance_id, None)


def run(connection: Connection, engine: EngineLike) -> None:
    """Drain, step, send, until `Stop`.

    Raises:
        EOFError, OSError: the gateway is gone.
    """
    lengths = TextLengths()
    desk = VoiceDesk(engine)
    explainer = Explainer(engine)
    told = Tally()
    while True:
        events: list[WorkerEvent] = []
        probe = None
        rest_s = math.inf
        # Sleeps until there is something to do, then takes what has come meanwhile, but not for long: those who speak
        # need their frames.
        while rest_s > 0 and desk.wait(
            connection, 0.0 if events or probe is not None or explainer.has_work else engine.idle_s()
        ):
            command = connection.recv()
            started = time.perf_counter()
            if isinstance(command, Stop):
                return
            if isinstance(command, Probe):
                probe = command.number
                desk.look()
            elif isinstance(command, VoiceCommand):
                desk.take(command)
            elif isinstance(command, Explain):
                explainer.take(command)
            else:
                events += carry_out(engine, command, lengths)
            rest_s = min(rest_s, DRAIN_S) - (time.perf_counter() - started)
        step_s = None
        if engine.idle_s() == 0:
            started = time.perf_counter()
            made = engine.step()
            step_s = time.perf_counter() - started
            lengths.seen(made)
            events += made
        events += explainer.step()
        answers, info = desk.collect()
        tally, told = None if engine.tally == told else engine.tally.since(told), engine.tally
        if events or probe is not None or step_s is not None or answers or info is not None or tally is not None:
            connection.send(Report(tuple(events), step_s, probe, answers, info, tally))


def carry_out(engine: EngineLike, command: Command, lengths: TextLengths) -> list[WorkerEvent]:
    """`apply`, unless it is a revision made for another text."""
    answers = lengths.stale(command) or apply(engine, command)
    if not answers:
        lengths.given(command)
    lengths.seen(answers)
    return answers


def apply(engine: EngineLike, command: Command) -> list[WorkerEvent]:
    """The command carried out; what it could not do comes back as events.

    Typed errors are the caller's: an add fails the utterance, an append or a revision is refused, and an operation on
    an utterance that has just ended is void. Anything else is a fault of ours that costs this one utterance.
    """
    utterance_id = command.utterance_id
    try:
        _dispatch(engine, command)
    except FootlightsError as error:
        if isinstance(command, Add):
            return [Failed(utterance_id, error.code, str(error), error.retryable)]
        if isinstance(command, AppendText | Revise) and not isinstance(error, UnknownUtteranceError):
            return [Rejected(utterance_id, command.edit_index, error.code, str(error))]
        logger.debug("%s of %s is void: %s", type(command).__name__, utterance_id, error.code)
    except Exception as error:
        logger.error("%s of %s raised %s", type(command).__name__, utterance_id, describe(error))
        _try_abort(engine, utterance_id)
        return [Failed(utterance_id, "internal", f"the engine failed ({type(error).__name__})", retryable=True)]
    return []


def _dispatch(engine: EngineLike, command: Command) -> None:
    match command:
        case Add(utterance):
            engine.add(utterance)
        case AppendText(utterance_id, text):
            engine.append_text(utterance_id, text)
        case Revise(utterance_id, start, text, heard_ms):
            engine.revise(utterance_id, start, text, heard_ms)
        case Flush(utterance_id):
            engine.flush(utterance_id)
        case Finish(utterance_id):
            engine.finish(utterance_id)
        case Abort(utterance_id):
            engine.abort(utterance_id)
        case Pause(utterance_id):
            engine.pause(utterance_id)
        case Resume(utterance_id):
            engine.resume(utterance_id)
        case Hurry(utterance_id, speed):
            engine.hurry(utterance_id, speed)


def _try_abort(engine: EngineLike, utterance_id: str) -> None:
    try:
        engine.abort(utterance_id)
    except Exception as error:
        logger.error("abort of %s raised %s", utterance_id, describe(error))
