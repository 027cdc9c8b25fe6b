"""Revisions, skips and haste in a session's contexts: when the engine is asked, what the client is told. No I/O."""

from collections.abc import Callable

from engine.core import Revised
from realtime.actions import Action, DropAudio, Send, Submit
from realtime.commands import AppendText, Command, Hurry, Revise
from realtime.context import Context
from realtime.draft import Outcome
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.protocol import AudioDiscard, SpeedChanged, TextRevised, TextSkipped


class Editor:
    """Its methods take a live context and return what its driver is asked to do."""

    def __init__(self, limits: LimitSettings, clock: Callable[[], float], metrics: Metrics) -> None:
        self._limits = limits
        self._clock = clock
        self._metrics = metrics

    def revise(self, context: Context, start: int, text: str) -> list[Action]:
        """The client revises from ``start``, which there is, on."""
        may_start = self.due_s(context) <= self._clock()
        commands = context.draft.revise(start, text, self._fixed_ms(context), may_start=may_start)
        return self._launched(context, commands, start)

    def revised(self, context: Context, event: Revised, output_rate: int) -> list[Action]:
        """The engine's answer: void audio is dropped or recalled, the client told, and what waited goes on."""
        rewound = context.rewind(event)
        left_off = context.draft.of_client(event.kept_to)
        outcome = context.draft.revised(event)
        self._metrics.void_audio_seconds.inc(rewound.void_ms / 1000)
        actions: list[Action] = [DropAudio(context.index, rewound.position)]
        if rewound.was_sent:
            actions.append(Send(AudioDiscard(context.context_id, round(1000 * rewound.position / output_rate, 3))))
        news = self._skipped(context, outcome, left_off) if outcome.is_skip else self._answer(context, outcome)
        return [*actions, news, *self.release(context)]

    def release(self, context: Context) -> list[Action]:
        """Edits that waited, given to the engine if it is time."""
        from_char, has_revision = context.draft.waits_from, context.draft.has_revision_waiting
        if from_char is None or self.due_s(context) > self._clock():
            return []
        commands = context.draft.release(self._fixed_ms(context))
        return self._launched(context, commands, from_char) if has_revision else submitted(commands)

    def check_lag(self, context: Context) -> list[Action]:
        """A skip ahead, if the speech is too far behind its text and haste, where it is allowed, does not help."""
        return self.check_pace(context) + self._check_skip(context)

    def check_pace(self, context: Context) -> list[Action]:
        """Faster speech or slower, where the context may hurry and its lag has changed."""
        if not context.change_hurry(self._clock()):
            return []
        told = SpeedChanged(context.context_id, context.hurry, round(context.lag_ms, 3))
        return [Submit(Hurry(context.utterance_id, context.hurry)), Send(told)]

    def _check_skip(self, context: Context) -> list[Action]:
        skip = context.skip(self._clock(), self._limits.revise_margin_ms)
        if skip is None or self.due_s(context) > self._clock():
            return []
        context.revised_s = self._clock()
        self._metrics.revisions.labels("skip").inc()
        return submitted(context.draft.skip(skip.spoken_start, skip.target, self._fixed_ms(context)))

    def due_s(self, context: Context) -> float:
        """Clock time from which on the engine may be given the next revision."""
        return 0.0 if context.revised_s is None else context.revised_s + self._limits.revise_every_s

    def _fixed_ms(self, context: Context) -> float:
        """What may have been heard before an answer can reach the listener."""
        return context.playout.bound_ms(self._clock()) + self._limits.revise_margin_ms

    def _launched(self, context: Context, commands: list[Command], from_char: int) -> list[Action]:
        """The commands of a revision on their way, or with the answer to one that needs no answer of the engine."""
        if any(isinstance(command, Revise) for command in commands):
            context.revised_s = self._clock()
            context.revisions_taken = context.revisions
            self._metrics.revisions.labels("client").inc()
        elif not context.draft.is_waiting:
            context.revisions_taken = context.revisions
            appended = sum(len(command.text) for command in commands if isinstance(command, AppendText))
            return [*submitted(commands), self._answer(context, context.draft.outcome(from_char, appended))]
        return submitted(commands)

    def _answer(self, context: Context, outcome: Outcome) -> Send:
        return Send(
            TextRevised(
                context=context.context_id,
                from_char=outcome.from_char,
                kept_to=outcome.kept_to,
                resumes_at=outcome.resumes_at,
                late=outcome.is_late,
                revision=context.revisions_taken,
            )
        )

    def _skipped(self, context: Context, outcome: Outcome, left_off: int) -> Send:
        """The news of a skip from this offset of the client's text."""
        skipped = context.draft.text[left_off : outcome.resumes_at]
        lag_ms = round(context.lag_ms, 3)
        return Send(TextSkipped(context.context_id, outcome.kept_to, outcome.resumes_at, skipped, lag_ms))


def submitted(commands: list[Command]) -> list[Action]:
    """The commands as actions."""
    return [Submit(command) for command in commands]
