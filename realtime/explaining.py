"""The worker's side of a dry run: texts read a little at a time, between the frames of those who speak."""

import logging
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from engine.core import Explanation, Failed, Utterance
from engine.errors import FootlightsError
from realtime.commands import Explain, Explained, WorkerEvent
from realtime.faults import describe

logger = logging.getLogger(__name__)


class ExplainEngine(Protocol):
    """What is needed of an engine."""

    def explain(self, utterance: Utterance, text: str) -> Iterator[Explanation | None]:
        """How the text would be read: None for each step that was not the last."""


class Explainer:
    """The texts that wait, one after the other."""

    def __init__(self, engine: ExplainEngine) -> None:
        self._engine = engine
        self._waiting: deque[Explain] = deque()
        self._reading: Iterator[Explanation | None] | None = None

    @property
    def has_work(self) -> bool:
        """Is there a text to read?"""
        return bool(self._waiting)

    def take(self, command: Explain) -> None:
        """A text to be read."""
        self._waiting.append(command)

    def step(self) -> list[WorkerEvent]:
        """Reads on, some milliseconds at most; what has come to its end comes back."""
        if not self._waiting:
            return []
        command = self._waiting[0]
        try:
            if self._reading is None:
                self._reading = self._engine.explain(command.utterance, command.text)
            explanation = next(self._reading)
        except FootlightsError as error:
            return self._ended(Failed(command.utterance_id, error.code, str(error), error.retryable))
        except Exception as error:
            logger.error("explain raised %s", describe(error))
            return self._ended(
                Failed(command.utterance_id, "internal", f"the text front failed ({type(error).__name__})")
            )
        return [] if explanation is None else self._ended(Explained(command.utterance_id, explanation))

    def _ended(self, event: WorkerEvent) -> list[WorkerEvent]:
        self._waiting.popleft()
        self._reading = None
        return [event]
