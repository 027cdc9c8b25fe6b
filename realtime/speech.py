"""What the engine says of a session's contexts, as messages to the client. No I/O."""

from collections.abc import Callable

from engine.core import AudioChunk, Failed, Finished, Notice, Revised
from realtime.actions import Action, Send, SendAudio
from realtime.answers import Answers, SessionTotals
from realtime.commands import STALE, Rejected, WorkerEvent
from realtime.context import Context
from realtime.editor import Editor
from realtime.metrics import Metrics
from realtime.pace import Pace
from realtime.protocol import AudioMessage, AudioStart, Done, ErrorCode, SessionStart, TextNotice, Word, Words


class Speech:
    """Of one session, which began with ``start``; its audio has ``output_rate``."""

    def __init__(
        self,
        start: SessionStart,
        output_rate: int,
        answers: Answers,
        pace: Pace,
        editor: Editor,
        totals: SessionTotals,
        clock: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._start = start
        self._output_rate = output_rate
        self._answers = answers
        self._pace = pace
        self._editor = editor
        self._totals = totals
        self._clock = clock
        self._metrics = metrics

    def take(self, context: Context, event: WorkerEvent) -> list[Action]:
        """Applies an event of a live context."""
        match event:
            case AudioChunk():
                if not context.is_next(event):
                    return self._answers.fail(
                        context, ErrorCode.INTERNAL, "audio was lost on the way", is_retryable=True
                    )
                return self._chunk(context, event)
            case Finished():
                return self._finished(context, event)
            case Failed():
                return self._answers.fail(context, event.code, event.message, is_retryable=event.retryable)
            case Rejected():
                return self._rejected(context, event)
            case Revised():
                return self._revised(context, event)
            case Notice():
                return [Send(TextNotice(context.context_id, event.message))]
            case _:
                return self._answers.fail(
                    context, ErrorCode.INTERNAL, "the engine gave the context up", is_retryable=True
                )

    def _chunk(self, context: Context, chunk: AudioChunk) -> list[Action]:
        actions = self._audio_start(context)
        messages = context.push(chunk, self._clock())
        if chunk.words and self._start.words:
            words = (
                Word(
                    text=word.text,
                    spoken=word.spoken,
                    start_ms=round(word.start_ms, 3),
                    end_ms=round(word.end_ms, 3),
                    char_start=word.char_start,
                    char_end=word.char_end,
                    estimated=word.is_estimated or None,
                )
                for word in chunk.words
            )
            actions.append(Send(Words(context.context_id, tuple(words))))
        actions += self._audio(context, messages) + self._pace.check_lead(context)
        return actions + self._editor.check_pace(context)

    def _finished(self, context: Context, event: Finished) -> list[Action]:
        actions = self._audio_start(context)
        if context.draft.is_waiting:
            text = "all of the text was spoken before the revision reached the engine"
            actions.append(self._answers.refuse(ErrorCode.BAD_STATE, text, context.context_id))
            context.draft.forget_waiting()
        actions += self._audio(context, context.finish())
        self._answers.end(context, "done")
        done = Done(
            context=context.context_id,
            audio_ms=round(context.audio_ms, 3),
            audio_messages=context.messages,
            characters=context.characters,
            ttfa_ms=context.ttfa_ms,
            retries=event.retries,
        )
        return [*actions, Send(done)]

    def _audio_start(self, context: Context) -> list[Action]:
        if context.has_audio_started:
            return []
        context.has_audio_started = True
        encoding = self._start.audio.encoding
        start = AudioStart(
            context.context_id, context.index, context.utterance_id, context.voice, encoding, self._output_rate
        )
        return [Send(start)]

    def _audio(self, context: Context, messages: list[AudioMessage]) -> list[Action]:
        if not messages:
            return []
        now_s = self._clock()
        before_ms = context.playout.queued_ms
        made_ms = context.audio_ms - before_ms
        gap_s = context.playout.push(made_ms, now_s)
        if gap_s > 0:
            self._metrics.underruns.labels(_underrun_cause(context, now_s - gap_s)).inc()
        if (ttfa_ms := context.note_audio(now_s)) is not None:
            self._metrics.ttfa_seconds.observe(ttfa_ms / 1000)
        self._metrics.audio_seconds.inc(made_ms / 1000)
        self._totals.audio_ms += made_ms
        return [SendAudio(message) for message in messages]

    def _revised(self, context: Context, event: Revised) -> list[Action]:
        if context.draft.flight is None:
            return self._answers.fail(
                context, ErrorCode.INTERNAL, "the engine revised without being asked", is_retryable=True
            )
        actions = self._editor.revised(context, event, self._output_rate)
        return actions + self._pace.check_lead(context) + self._editor.check_lag(context)

    def _rejected(self, context: Context, event: Rejected) -> list[Action]:
        if event.code == STALE:
            context.draft.retry()
            return self._editor.release(context)
        is_alone = context.draft.reject(event.edit_index)
        text = event.message if is_alone else f"{event.message}; edits that followed it closely went with it"
        return [self._answers.refuse(event.code, text, context.context_id), *self._editor.release(context)]


def _underrun_cause(context: Context, dry_since_s: float) -> str:
    if context.pause_causes:
        return "reader"
    # What the client sent after the listener ran dry may be what the speech had waited for.
    return "text" if context.last_input_s >= dry_since_s else "engine"
