"""Errors a session sends, and how its contexts end: every one is counted. No I/O."""

from dataclasses import dataclass

from realtime.actions import Action, Send, Submit
from realtime.commands import Abort
from realtime.context import Context
from realtime.metrics import Metrics
from realtime.protocol import Error
from realtime.roster import Roster


@dataclass
class SessionTotals:
    """What a session came to, for its last log line."""

    contexts: int = 0
    characters: int = 0
    audio_ms: float = 0.0
    cancels: int = 0
    errors: int = 0
    bad_messages: int = 0


class Answers:
    """Of one session."""

    def __init__(self, contexts: Roster, totals: SessionTotals, metrics: Metrics) -> None:
        self._contexts = contexts
        self._totals = totals
        self._metrics = metrics

    def refuse(self, code: str, text: str, context_id: str | None = None) -> Send:
        """An error about a message alone."""
        return self.error(code, text, context_id, is_terminal=False, is_retryable=False)

    def error(
        self, code: str, text: str, context_id: str | None = None, *, is_terminal: bool, is_retryable: bool
    ) -> Send:
        """An error; `Error` says what its fields mean."""
        self._totals.errors += 1
        self._metrics.errors.labels(str(code)).inc()
        return Send(Error(str(code), text, context_id, retryable=is_retryable, terminal=is_terminal))

    def fail(self, context: Context, code: str, text: str, *, is_retryable: bool) -> list[Action]:
        """The context ends with that error."""
        self.end(context, "error")
        error = self.error(code, text, context.context_id, is_terminal=True, is_retryable=is_retryable)
        # The engine may not know that it failed; for one that does the abort is void.
        return [Submit(Abort(context.utterance_id)), error]

    def end(self, context: Context, how: str) -> None:
        """The context lives no more; ``how`` is for the metrics."""
        self._contexts.end(context)
        self._metrics.contexts.dec()
        self._metrics.contexts_ended.labels(how).inc()
