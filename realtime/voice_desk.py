"""Voices in the worker process: made in a thread of their own, so that those who speak get their frames meanwhile."""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from engine.core import ModelInfo, Recording
from engine.errors import FootlightsError
from realtime.commands import AddVoice, LookAtVoices, RemoveVoice, VoiceAnswer, VoiceCommand
from realtime.faults import describe

logger = logging.getLogger(__name__)

NICENESS = 10
"""Of the thread, where threads have one: a voice can wait, a listener cannot."""


class Made(Protocol):
    """A voice that was made."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was allowed but will be heard."""


class VoiceEngine(Protocol):
    """What the desk needs of an engine."""

    @property
    def info(self) -> ModelInfo:
        """What model this is."""

    def make_voice(self, name: str, recordings: Iterable[Recording]) -> Made:
        """A new voice, stored; runs beside ``step``."""

    def keep_voice(self, made: Any) -> None:
        """Use it."""

    def remove_voice(self, name: str) -> None:
        """Delete one."""

    def refresh_voices(self) -> bool:
        """Look which there are; has ``info`` changed?"""


class VoiceDesk:
    """Carries voice commands out. All methods are the loop's; one thread, started when first needed, makes voices."""

    def __init__(self, engine: VoiceEngine) -> None:
        self._engine = engine
        self._jobs: queue.SimpleQueue[AddVoice] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[tuple[AddVoice, Any]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._bell, self._rope = Pipe(duplex=False)
        self._is_asked = False
        self._answers: list[VoiceAnswer] = []

    def wait(self, connection: Connection, timeout_s: float | None) -> bool:
        """Waits for a command on the ``connection`` or for something to ``collect``; is there a command?"""
        is_urgent = bool(self._answers) or self._is_asked
        return connection in wait([connection, self._bell], 0.0 if is_urgent else timeout_s)

    def take(self, command: VoiceCommand) -> None:
        """Begin, or do what is done at once."""
        match command:
            case AddVoice():
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="footlights-voices", daemon=True)
                    self._thread.start()
                self._jobs.put(command)
            case RemoveVoice(request, name):
                self._answers.append(_attempt(request, partial(self._engine.remove_voice, name)))
                self._is_asked = True
            case LookAtVoices():
                self._engine.refresh_voices()
                self._is_asked = True

    def look(self) -> None:
        """See whether others have changed the voices."""
        self._is_asked |= self._engine.refresh_voices()

    def collect(self) -> tuple[tuple[VoiceAnswer, ...], ModelInfo | None]:
        """What has been done since, and the model if its voices have changed or were asked for."""
        while self._bell.poll():
            self._bell.recv_bytes()
            command, outcome = self._made.get()
            if isinstance(outcome, VoiceAnswer):
                self._answers.append(outcome)
            else:
                answer = _attempt(command.request, partial(self._engine.keep_voice, outcome))
                self._answers.append(answer if answer.code else replace(answer, notes=outcome.notes))
                self._is_asked = True
        answers, self._answers = tuple(self._answers), []
        info = self._engine.info if self._is_asked else None
        self._is_asked = False
        return answers, info

    def _work(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while True:
            self._make(self._jobs.get())

    def _make(self, command: AddVoice) -> None:
        made: list[Any] = []
        answer = _attempt(
            command.request, lambda: made.append(self._engine.make_voice(command.name, command.recordings))
        )
        self._made.put((command, made[0] if made else answer))
        self._rope.send_bytes(b"!")


def _attempt(request: int, work: Callable[[], object]) -> VoiceAnswer:
    """The answer to what ``work`` does. An error that is not ours is told by its kind alone."""
    try:
        work()
    except FootlightsError as error:
        return VoiceAnswer(request, error.code, str(error))
    except Exception as error:
        logger.error("a voice command raised %s", describe(error))
        return VoiceAnswer(request, "internal", f"the engine failed ({type(error).__name__})")
    return VoiceAnswer(request)
