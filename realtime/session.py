"""One client's session: a message or an engine event in, actions out. No I/O, no asyncio, the clock is injected.

A driver (WebSocket, WebRTC) carries the actions out in order and tells the session what has left, when its outbox is
full, when the time asked for has come and when the connection is gone.
"""

from collections.abc import Callable
from dataclasses import asdict

from engine.core import ModelInfo, Policy, TextFormat, Utterance
from realtime.actions import Action, Close, DropAudio, Send, Submit
from realtime.answers import Answers, SessionTotals
from realtime.audio import MessageCutter
from realtime.commands import (
    Abort,
    Add,
    WorkerEvent,
)
from realtime.context import Context
from realtime.editor import Editor, submitted
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.pace import Pace
from realtime.pronunciation import entries_of, lexicon_problem
from realtime.protocol import (
    DEFAULT_CONTEXT,
    MAX_CLIENT_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    AudioMessage,
    Cancel,
    Cancelled,
    ClientMessage,
    CloseCode,
    ContextOpen,
    ErrorCode,
    Heard,
    Limits,
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
)
from realtime.roster import Roster
from realtime.speech import Speech


class Session:
    """The state machine of the native protocol, version 1. See docs/protocol.md for its rules."""

    def __init__(
        self, session_id: str, info: ModelInfo, limits: LimitSettings, clock: Callable[[], float], metrics: Metrics
    ) -> None:
        self.session_id = session_id
        self.totals = SessionTotals()
        self.is_closed = False
        self._info = info
        self._limits = limits
        self._clock = clock
        self._metrics = metrics
        self._defaults: SessionStart | None = None
        self._output_rate = info.sample_rate
        self._is_default_used = False
        self._contexts = Roster(session_id, info.sample_rate)
        self._answers = Answers(self._contexts, self.totals, metrics)
        self._pace = Pace(self._contexts, limits, clock, metrics)
        self._editor = Editor(limits, clock, metrics)
        self._speech: Speech | None = None

    @property
    def is_started(self) -> bool:
        """Has the client sent its `SessionStart`?"""
        return self._defaults is not None

    @property
    def open_contexts(self) -> int:
        """Contexts that have not ended."""
        return len(self._contexts)

    def model_changed(self, info: ModelInfo) -> None:
        """The model has other voices now."""
        self._info = info

    # ------------------------------------------------------------------------------------------ the client's messages

    def receive(self, message: ClientMessage | ProtocolError) -> list[Action]:
        """Applies a message, or the error of one that could not be decoded."""
        if self.is_closed:
            return []
        if isinstance(message, ProtocolError):
            return self._unreadable(message)
        if isinstance(message, Ping):
            return [Send(Pong(message.id))]
        if isinstance(message, SessionStart):
            return self._start(message)
        if self._defaults is None:
            return [self._answers.refuse(ErrorCode.BAD_STATE, "send session.start first", message.context)]
        match message:
            case ContextOpen():
                return self._open(message)
            case Played():
                return self._played(message)
            case Cancel():
                return self._cancel(message)
            case TextAppend() | TextFlush() | TextEnd() | TextRevise():
                return self._text(message)

    def _unreadable(self, error: ProtocolError) -> list[Action]:
        if error.code is ErrorCode.UNSUPPORTED_PROTOCOL:
            return self.shut(ErrorCode.UNSUPPORTED_PROTOCOL, error.message, CloseCode.PROTOCOL)
        self.totals.bad_messages += 1
        if self.totals.bad_messages > self._limits.bad_messages:
            return self.shut(ErrorCode.BAD_MESSAGE, "too many messages that cannot be read", CloseCode.POLICY)
        return [self._answers.refuse(error.code, error.message, error.context)]

    def _start(self, message: SessionStart) -> list[Action]:
        if self._defaults is not None:
            return [self._answers.refuse(ErrorCode.BAD_STATE, "the session has started already")]
        problem = self._unknown_name(message.voice, message.language)
        problem = problem or lexicon_problem(message.lexicon or (), self._info)
        if problem is not None:
            return [self._answers.refuse(*problem)]
        self._defaults = message
        self._output_rate = message.audio.sample_rate or self._info.sample_rate
        self._speech = Speech(
            message, self._output_rate, self._answers, self._pace, self._editor, self.totals, self._clock, self._metrics
        )
        ready = SessionReady(
            protocol=PROTOCOL_VERSION,
            session=self.session_id,
            model=self._info.name,
            voices=self._info.voices,
            languages=self._info.languages,
            encoding=message.audio.encoding,
            sample_rate=self._output_rate,
            frame_ms=self._info.frame_ms,
            limits=Limits(
                message_bytes=MAX_CLIENT_MESSAGE_BYTES,
                context_characters=self._limits.context_characters,
                contexts=self._limits.contexts,
                lead_ms=self._limits.lead_ms,
                audio_message_ms=MessageCutter.MAX_MS,
            ),
            licence=self._info.licence,
        )
        return [Send(ready)]

    def _open(self, message: ContextOpen) -> list[Action]:
        assert self._defaults is not None
        context_id = message.context
        if self._contexts.live(context_id):
            return [self._answers.refuse(ErrorCode.BAD_STATE, "the context is open already", context_id)]
        if message.lag_policy is not None and message.max_lag_ms is None:
            return [self._answers.refuse(ErrorCode.BAD_MESSAGE, "lag_policy needs max_lag_ms", context_id)]
        self._is_default_used |= context_id == DEFAULT_CONTEXT
        voice = message.voice or self._defaults.voice or self._info.voices[0]
        language = message.language or self._defaults.language or self._info.languages[0]
        context = self._contexts.make(context_id, voice, self._output_rate)
        context.max_lag_ms = message.max_lag_ms
        context.may_hurry = message.lag_policy == "speed"
        # Entries of the context come last: of two for a word the later one counts.
        lexicon = (*(self._defaults.lexicon or ()), *(message.lexicon or ()))
        problem = self._unknown_name(voice, language) or lexicon_problem(lexicon, self._info)
        if problem is None and context.may_hurry and self._info.speeds[1] <= 1:
            problem = ErrorCode.UNSUPPORTED, "this model cannot speak faster; lag_policy 'skip' leaves text out"
        if problem is None and len(self._contexts) >= self._limits.contexts:
            problem = ErrorCode.TOO_MANY_CONTEXTS, f"at most {self._limits.contexts} contexts at a time: end one first"
        if problem is not None:
            # It never began, and the client that waits for its end gets one.
            self._contexts.end(context)
            return [
                self._answers.error(
                    *problem, context_id, is_terminal=True, is_retryable=problem[0] == "too_many_contexts"
                )
            ]
        self._contexts.begin(context)
        self._metrics.contexts.inc()
        self.totals.contexts += 1
        utterance = Utterance(
            context.utterance_id,
            voice,
            language,
            Policy(message.policy or self._defaults.policy),
            text_format=TextFormat(message.text_format or self._defaults.text_format),
            lexicon=entries_of(lexicon),
            speed=message.speed or self._defaults.speed or 1.0,
        )
        actions: list[Action] = [Submit(Add(utterance))]
        return actions + self._pace.begin(context)

    def _text(self, message: TextAppend | TextFlush | TextEnd | TextRevise) -> list[Action]:
        """What a client says of a text. The first time `main` need not be opened for it."""
        actions: list[Action] = []
        if message.context == DEFAULT_CONTEXT and not self._is_default_used:
            actions = self._open(ContextOpen(DEFAULT_CONTEXT))
            if not self._contexts.live(DEFAULT_CONTEXT):
                return actions
        match message:
            case TextAppend():
                return actions + self._append(message)
            case TextRevise():
                return actions + self._revise(message)
            case TextFlush() | TextEnd():
                return actions + self._flush_or_end(message)

    def _append(self, message: TextAppend) -> list[Action]:
        context = self._writable(message.context)
        if isinstance(context, Send):
            return [context]
        draft = context.draft
        problem = self._too_long(draft.length + len(message.text), draft.spoken_length + len(message.text))
        if problem is not None:
            return [
                self._answers.refuse(ErrorCode.TEXT_TOO_LONG, f"{problem}; the append was dropped", message.context)
            ]
        context.touch(message.text, self._clock())
        self._count_text(message.text)
        return submitted(draft.append(message.text)) + self._editor.check_lag(context)

    def _flush_or_end(self, message: TextFlush | TextEnd) -> list[Action]:
        context = self._writable(message.context)
        if isinstance(context, Send):
            return [context]
        context.touch("", self._clock())
        return submitted(context.draft.flush() if isinstance(message, TextFlush) else context.draft.finish())

    def _revise(self, message: TextRevise) -> list[Action]:
        context = self._open_context(message.context)
        if isinstance(context, Send):
            return [context]
        draft, start = context.draft, message.from_char
        context.revisions += 1
        if start > draft.length:
            text = f"the text has {draft.length} characters: there is no {start} to revise from"
            return [self._answers.refuse(ErrorCode.BAD_REVISION, text, message.context)]
        problem = self._too_long(
            start + len(message.text), draft.spoken_length + start + len(message.text) - draft.length
        )
        if problem is not None:
            return [
                self._answers.refuse(ErrorCode.TEXT_TOO_LONG, f"{problem}; the revision was dropped", message.context)
            ]
        context.touch(message.text, self._clock())
        self._count_text(message.text)
        return self._editor.revise(context, start, message.text)

    def _count_text(self, text: str) -> None:
        self._metrics.text_characters.inc(len(text))
        self.totals.characters += len(text)

    def _too_long(self, *lengths: int) -> str | None:
        limit = self._limits.context_characters
        return (
            f"at most {limit} characters in a context; this would make {max(lengths)}" if max(lengths) > limit else None
        )

    def _played(self, message: Played) -> list[Action]:
        context = self._contexts.live(message.context) or self._contexts.ended(message.context)
        if context is None:
            return [self._unknown(message.context)]
        context.playout.acknowledge(message.ms, self._clock())
        return self._pace.check_lead(context)

    def _cancel(self, message: Cancel) -> list[Action]:
        now_s = self._clock()
        context = self._contexts.live(message.context) or self._contexts.ended(message.context)
        if context is None:
            return [self._unknown(message.context)]
        if message.played_ms is not None:
            context.playout.acknowledge(message.played_ms, now_s)
        account = asdict(context.account(now_s))
        drop = DropAudio(context.index)
        if not self._contexts.live(context.context_id):
            # Done was sent and its audio may still lie in the outbox: the listener wants no more of it.
            return [drop, Send(Heard(context.context_id, **account))]
        self._answers.end(context, "cancelled")
        self._metrics.cancels.labels("client").inc()
        self.totals.cancels += 1
        return [drop, Submit(Abort(context.utterance_id)), Send(Cancelled(context.context_id, **account))]

    def _open_context(self, context_id: str) -> "Context | Send":
        """The context, if it has not ended; else the answer that says so."""
        context = self._contexts.live(context_id)
        if context is None and self._contexts.ended(context_id):
            return self._answers.refuse(
                ErrorCode.BAD_STATE, "the context has ended; context.open starts it anew", context_id
            )
        return self._unknown(context_id) if context is None else context

    def _writable(self, context_id: str) -> "Context | Send":
        """The context, if it takes more text; else the answer that says why not."""
        context = self._open_context(context_id)
        if isinstance(context, Context) and context.is_text_ended:
            return self._answers.refuse(
                ErrorCode.BAD_STATE, "text.end was sent: no more text for this context", context_id
            )
        return context

    def _unknown(self, context_id: str) -> Send:
        return self._answers.refuse(ErrorCode.UNKNOWN_CONTEXT, "no such context; context.open opens one", context_id)

    def _unknown_name(self, voice: str | None, language: str | None) -> tuple[ErrorCode, str] | None:
        voices, languages = self._info.voices, self._info.languages
        if voice is not None and voice not in voices:
            problem = next((each.problem for each in self._info.cloned if each.name == voice), None)
            if problem is not None:
                return ErrorCode.BAD_VOICE, f"voice '{voice}' cannot be used: {problem}"
            return ErrorCode.UNKNOWN_VOICE, f"no voice '{voice:.40}'; there are: {', '.join(voices)}"
        if language is not None and language not in languages:
            return ErrorCode.UNKNOWN_LANGUAGE, f"no language '{language:.40}'; there are: {', '.join(languages)}"
        return None

    # ------------------------------------------------------------------------------------------ the engine's events

    def engine_event(self, event: WorkerEvent) -> list[Action]:
        """Applies an event. Those of utterances that have ended come too late and do nothing."""
        context = self._contexts.of_utterance(event.utterance_id)
        if context is None or self._speech is None:
            return []
        return self._speech.take(context, event)

    # ------------------------------------------------------------------------------------------ pace

    def audio_sent(self, audio: AudioMessage) -> None:
        """The driver has sent this audio."""
        context = self._contexts.of_index(audio.index)
        if context is not None:
            context.sent(audio)

    def set_congested(self, is_congested: bool) -> list[Action]:
        """The driver's outbox has filled up, or emptied again: the engine makes nothing for a reader that lags."""
        return self._pace.set_congested(is_congested)

    def next_wakeup_s(self) -> float | None:
        """Clock time at which `tick` has something to do, None if never."""
        now_s = self._clock()
        waits_s = self._pace.waits_s()
        waits_s += [
            self._editor.due_s(context) - now_s for context in self._contexts if context.draft.waits_from is not None
        ]
        return now_s + max(0.0, min(waits_s)) if waits_s else None

    def tick(self) -> list[Action]:
        """Resumes the contexts whose lead has been played away; hands on the revisions that waited."""
        return [
            action
            for context in self._contexts
            for action in self._editor.release(context) + self._pace.check_lead(context)
        ]

    # ------------------------------------------------------------------------------------------ ends

    def connection_lost(self) -> list[Action]:
        """The client is gone: every context is aborted and nothing more is sent."""
        if self.is_closed:
            return []
        self.is_closed = True
        actions: list[Action] = []
        for context in self._contexts:
            self._answers.end(context, "lost")
            self._metrics.cancels.labels("lost").inc()
            actions.append(Submit(Abort(context.utterance_id)))
        return actions

    def shut(self, code: ErrorCode, text: str, close_code: int, *, is_retryable: bool = False) -> list[Action]:
        """Ends every context and the session with this error; unsent audio is dropped."""
        if self.is_closed:
            return []
        actions: list[Action] = []
        for context in self._contexts:
            self._answers.end(context, "error")
            actions += [DropAudio(context.index), Submit(Abort(context.utterance_id))]
            actions.append(
                self._answers.error(code, text, context.context_id, is_terminal=True, is_retryable=is_retryable)
            )
        actions.append(self._answers.error(code, text, is_terminal=True, is_retryable=is_retryable))
        self.is_closed = True
        return [*actions, Close(close_code, text)]
