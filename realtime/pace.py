"""Who of a session's contexts pauses, and why: its listener has enough, or its reader lags. No I/O."""

from collections.abc import Callable

from realtime.actions import Action, Submit
from realtime.commands import Pause, Resume
from realtime.context import Context
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.roster import Roster

LEAST_LEAD_MS = 500.0
"""Audio a listener may always have before it, however little its speech may lag."""
RESUME_SHARE = 0.75
"""A context paused for its lead goes on when the lead has fallen to this share of what is allowed."""


class Pace:
    """A context may be paused for several causes and goes on when the last of them is gone."""

    def __init__(self, contexts: Roster, limits: LimitSettings, clock: Callable[[], float], metrics: Metrics) -> None:
        self._contexts = contexts
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._is_congested = False

    def begin(self, context: Context) -> list[Action]:
        """The context has been opened."""
        return self._pause(context, "reader") if self._is_congested else []

    def set_congested(self, is_congested: bool) -> list[Action]:
        """The driver's outbox has filled up, or emptied again."""
        self._is_congested = is_congested
        change = self._pause if is_congested else self._resume
        return [action for context in self._contexts for action in change(context, "reader")]

    def check_lead(self, context: Context) -> list[Action]:
        """Pauses a context that is far enough ahead of its listener, and ends that pause."""
        lead_ms, most_ms = context.playout.lead_ms(self._clock()), self._most_lead_ms(context)
        if lead_ms > most_ms:
            return self._pause(context, "lead")
        return self._resume(context, "lead") if lead_ms <= RESUME_SHARE * most_ms else []

    def waits_s(self) -> list[float]:
        """Seconds until contexts that are paused for their lead go on."""
        now_s = self._clock()
        return [
            (context.playout.lead_ms(now_s) - RESUME_SHARE * self._most_lead_ms(context)) / 1000
            for context in self._contexts
            if "lead" in context.pause_causes
        ]

    def _most_lead_ms(self, context: Context) -> float:
        limits = self._limits
        if not context.is_revisable_often:
            return limits.lead_ms
        return min(limits.lead_ms, limits.revised_lead_ms, max(LEAST_LEAD_MS, context.most_ahead_ms))

    def _pause(self, context: Context, cause: str) -> list[Action]:
        if not self._contexts.live(context.context_id) or cause in context.pause_causes:
            return []
        was_paused = bool(context.pause_causes)
        context.pause_causes.add(cause)
        self._metrics.pauses.labels(cause).inc()
        return [] if was_paused else [Submit(Pause(context.utterance_id))]

    def _resume(self, context: Context, cause: str) -> list[Action]:
        if not self._contexts.live(context.context_id) or cause not in context.pause_causes:
            return []
        context.pause_causes.remove(cause)
        return [] if context.pause_causes else [Submit(Resume(context.utterance_id))]
