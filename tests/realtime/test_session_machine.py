"""Random interleavings of client, engine and network keep the promises of the protocol."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine import core
from engine.core import AudioChunk, EngineEvent, Failed, Finished, Revised, WordTiming
from realtime.commands import Abort, Add, AppendText, Finish, Flush, Pause, Rejected, Resume, Revise, WorkerEvent
from realtime.limits import LimitSettings
from realtime.protocol import (
    AudioDiscard,
    AudioMessage,
    AudioStart,
    Cancel,
    Cancelled,
    ContextOpen,
    Done,
    Error,
    ErrorCode,
    Heard,
    Ping,
    Played,
    ProtocolError,
    TextAppend,
    TextEnd,
    TextFlush,
    TextRevise,
    TextRevised,
    Words,
)
from tests.realtime.stage import FRAME, RATE, Stage

CONTEXTS = st.sampled_from(["main", "a", "b"])
TEXTS = st.sampled_from(["", "one ", "two", " three, ", "… ", "🙂", "<bad>"])
LIMITS = LimitSettings(contexts=2, context_characters=40, lead_ms=1000, bad_messages=1000)


@dataclass
class Speech:
    """The engine's side of one utterance."""

    utterance_id: str
    samples: int = 0
    characters: int = 0
    words: int = 0
    revision: Revise | None = None
    """Not answered yet."""
    is_over: bool = False
    is_paused: bool = False
    is_finishing: bool = False


@dataclass
class Life:
    """The client's side of one life of a context, from opening to end."""

    text: str = ""
    """Of a life without revisions; their texts are the business of test_draft.py and test_revision.py."""
    revisions: int = 0
    answered: int = 0
    index: int | None = None
    samples: int = 0
    messages: int = 0
    ends: list[object] = field(default_factory=list)


class SessionMachine(RuleBasedStateMachine):
    """Actions are carried out at once by `Stage`; what it collects is checked message by message."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(LIMITS).start()
        self.speeches: dict[str, Speech] = {}
        self.lives: dict[str, Life] = {}
        self.by_index: dict[int, Life] = {}
        self.seen_commands = 0
        self.rejectable: list[tuple[str, int, str, str]] = []
        self.is_lost = False

    # -- the client

    @rule(context=CONTEXTS)
    def open(self, context: str) -> None:
        was_open = context in self.lives and not self.lives[context].ends
        self.client(ContextOpen(context))
        if not was_open and not self.is_lost:
            assert context in self.lives

    @rule(context=CONTEXTS, text=TEXTS)
    def append(self, context: str, text: str) -> None:
        before = len(self.stage.commands)
        self.client(TextAppend(text, context))
        for command in self.stage.commands[before:]:
            if isinstance(command, AppendText):
                self.lives[context].text += text
                if text == "<bad>":
                    self.rejectable.append((command.utterance_id, command.edit_index, context, text))

    @precondition(lambda self: len(self.stage.session._contexts) > 0)
    @rule(data=st.data(), share=st.floats(0, 1.1), text=TEXTS)
    def revise(self, data: st.DataObject, share: float, text: str) -> None:
        live = data.draw(st.sampled_from(list(self.stage.session._contexts)), label="context")
        self.lives[live.context_id].revisions += 1
        self.client(TextRevise(text, int(share * live.draft.length), live.context_id))

    @rule(context=CONTEXTS)
    def flush(self, context: str) -> None:
        self.client(TextFlush(context))

    @rule(context=CONTEXTS)
    def end(self, context: str) -> None:
        self.client(TextEnd(context))

    @rule(context=CONTEXTS, ms=st.floats(0, 3000))
    def played(self, context: str, ms: float) -> None:
        self.client(Played(ms, context))

    @rule(context=CONTEXTS, ms=st.none() | st.floats(0, 3000))
    def cancel(self, context: str, ms: float | None) -> None:
        self.client(Cancel(context, ms))

    @rule()
    def ping(self) -> None:
        self.client(Ping())

    @rule()
    def garbage(self) -> None:
        self.client(ProtocolError(ErrorCode.BAD_MESSAGE, "garbage", "a"))

    def client(self, message: object) -> None:
        self.stage.perform(self.stage.session.receive(message))  # type: ignore[arg-type]
        self.observe()

    # -- the engine

    @precondition(lambda self: self.speeches)
    @rule(data=st.data(), samples=st.integers(0, 4 * FRAME), has_word=st.booleans())
    def chunk(self, data: st.DataObject, samples: int, has_word: bool) -> None:
        speech = self.pick(data)
        words: tuple[WordTiming, ...] = ()
        start_ms = 1000 * speech.samples / RATE
        end_ms = start_ms + 1000 * samples / RATE
        if has_word and speech.words < speech.characters:
            words = (WordTiming("w", "w", start_ms, end_ms, speech.words, speech.words + 1),)
            speech.words += 1
        self.engine(AudioChunk(speech.utterance_id, speech.samples, np.zeros(samples, np.float32), words))
        speech.samples += samples

    @precondition(lambda self: any(speech.revision for speech in self.speeches.values()))
    @rule(data=st.data(), back=st.integers(0, 5 * FRAME))
    def answer(self, data: st.DataObject, back: int) -> None:
        speech = data.draw(st.sampled_from([speech for speech in self.speeches.values() if speech.revision]))
        assert speech.revision is not None
        start, speech.revision = speech.revision.start, None
        speech.samples = max(0, speech.samples - back)
        self.engine(Revised(speech.utterance_id, start, start, 0, speech.samples))

    @precondition(lambda self: self.speeches)
    @rule(data=st.data(), how=st.sampled_from(["finished", "failed", "cancelled", "gap"]))
    def terminal(self, data: st.DataObject, how: str) -> None:
        speech = self.pick(data)
        utterance_id = speech.utterance_id
        events: dict[str, EngineEvent] = {
            "finished": Finished(utterance_id, 1, 0.0, 0.0),
            "failed": Failed(utterance_id, "worker_lost", "lost", retryable=True),
            "cancelled": core.Cancelled(utterance_id),
            "gap": AudioChunk(utterance_id, speech.samples + 1, np.zeros(FRAME, np.float32)),
        }
        self.engine(events[how])

    @precondition(lambda self: self.rejectable)
    @rule()
    def reject(self) -> None:
        utterance_id, edit_index, context, text = self.rejectable.pop()
        life = self.lives[context]
        if not self.speeches[utterance_id].is_over:
            head, _, tail = life.text.rpartition(text)
            life.text = head + tail
        self.engine(Rejected(utterance_id, edit_index, "structural_token", "no"))

    def pick(self, data: st.DataObject) -> Speech:
        """Any utterance there ever was: events may come late."""
        return self.speeches[data.draw(st.sampled_from(sorted(self.speeches)))]

    def engine(self, event: WorkerEvent) -> None:
        self.stage.perform(self.stage.session.engine_event(event))
        self.observe()

    # -- network and time

    @rule(wait_s=st.floats(0, 2))
    def wait(self, wait_s: float) -> None:
        self.stage.now_s += wait_s
        self.stage.perform(self.stage.session.tick())
        self.observe()

    @rule(is_congested=st.booleans())
    def congestion(self, is_congested: bool) -> None:
        self.stage.perform(self.stage.session.set_congested(is_congested))
        self.observe()

    @rule()
    def hold_back(self) -> None:
        self.stage.is_sending = False

    @rule()
    def send(self) -> None:
        self.stage.is_sending = True
        queued, self.stage.queued = self.stage.queued, []
        for audio in queued:
            self.stage.messages.append(audio)
            self.stage.session.audio_sent(audio)
        self.observe(is_late_audio=True)

    @precondition(lambda self: not self.is_lost)
    @rule(how=st.sampled_from(["lost", "shut"]), chance=st.integers(0, 9))
    def leave(self, how: str, chance: int) -> None:
        if chance:
            return
        self.is_lost = True
        live = {speech.utterance_id for speech in self.speeches.values() if not speech.is_over}
        before = len(self.stage.commands)
        if how == "lost":
            self.stage.perform(self.stage.session.connection_lost())
        else:
            self.stage.perform(self.stage.session.shut(ErrorCode.SHUTTING_DOWN, "bye", 1012))
            assert self.stage.close is not None
        aborted = {command.utterance_id for command in self.stage.commands[before:] if isinstance(command, Abort)}
        assert aborted == live
        self.observe()

    # -- what must hold

    def observe(self, *, is_late_audio: bool = False) -> None:
        """Checks new commands and messages, in order."""
        for command in self.stage.commands[self.seen_commands :]:
            self.check_command(command)
        self.seen_commands = len(self.stage.commands)
        messages, self.stage.messages = self.stage.messages, []
        for message in messages:
            match message:
                case AudioMessage():
                    self.check_audio(message, may_be_late=is_late_audio)
                case AudioStart(context, index):
                    life = self.lives[context]
                    assert life.index is None
                    assert not life.ends
                    life.index = index
                    self.by_index[index] = life
                case AudioDiscard(context, from_ms):
                    life = self.lives[context]
                    assert not life.ends
                    position = round(from_ms * RATE / 1000)
                    assert position < life.samples
                    life.samples = position
                case TextRevised(context):
                    life = self.lives[context]
                    assert not life.ends
                    assert life.answered < message.revision <= life.revisions
                    life.answered = message.revision
                case Words(context):
                    assert not self.lives[context].ends
                    assert self.lives[context].index is not None
                case Done(context):
                    self.end_life(context, message)
                case Cancelled(context):
                    self.check_account(message)
                    self.end_life(context, message)
                case Heard(context):
                    assert self.lives[context].ends
                    self.check_account(message)
                case Error(context=str() as context, terminal=True):
                    if context not in self.lives or self.lives[context].ends:
                        # An open that was refused: begun and ended at once.
                        assert message.code == "too_many_contexts"
                        self.lives[context] = Life()
                    self.end_life(context, message)
                case Error(terminal=True):
                    assert self.is_lost

    def check_command(self, command: object) -> None:
        match command:
            case Add(utterance):
                assert utterance.utterance_id not in self.speeches
                self.speeches[utterance.utterance_id] = Speech(utterance.utterance_id)
                context = next(
                    name
                    for name, live in self.stage.session._contexts._live.items()
                    if live.utterance_id == utterance.utterance_id
                )
                assert context not in self.lives or self.lives[context].ends
                self.lives[context] = Life()
            case AppendText(utterance_id, text):
                speech = self.speeches[utterance_id]
                assert not speech.is_over
                assert not speech.is_finishing
                speech.characters += len(text)
            case Revise(utterance_id):
                speech = self.speeches[utterance_id]
                assert not speech.is_over
                assert speech.revision is None, "one at a time"
                speech.revision = command
            case Flush(utterance_id):
                assert not self.speeches[utterance_id].is_over
            case Finish(utterance_id):
                assert not self.speeches[utterance_id].is_finishing
                self.speeches[utterance_id].is_finishing = True
            case Pause(utterance_id):
                assert not self.speeches[utterance_id].is_paused
                self.speeches[utterance_id].is_paused = True
            case Resume(utterance_id):
                assert self.speeches[utterance_id].is_paused
                self.speeches[utterance_id].is_paused = False
            case Abort(utterance_id):
                self.speeches[utterance_id].is_over = True

    def check_audio(self, audio: AudioMessage, *, may_be_late: bool) -> None:
        life = self.by_index[audio.index]
        # Held back here, it would have left before the `done` that a real outbox keeps behind it.
        assert not life.ends or (may_be_late and isinstance(life.ends[0], Done | Error))
        assert (audio.sequence, audio.first_sample) == (life.messages, life.samples)
        assert 0 < len(audio.payload) <= 2 * RATE // 10
        life.messages += 1
        life.samples += len(audio.payload) // 2

    def check_account(self, account: Cancelled | Heard) -> None:
        life = self.lives[account.context]
        assert account.spoken + account.unspoken == life.text or life.revisions
        assert account.char_end == len(account.spoken)
        assert 0 <= account.played_ms <= 1000 * life.samples / RATE + 0.001
        if not life.samples:
            assert account.spoken == ""

    def end_life(self, context: str, message: object) -> None:
        life = self.lives[context]
        assert not life.ends
        life.ends.append(message)
        for speech in self.speeches.values():
            if speech.utterance_id not in self.stage.session._contexts._by_utterance:
                speech.is_over = True
        if isinstance(message, Done) and self.stage.is_sending:
            assert message.audio_messages == life.messages
            assert abs(message.audio_ms - 1000 * life.samples / RATE) < 0.001

    @initialize(texts=st.lists(TEXTS, min_size=1, max_size=4))
    def begin(self, texts: list[str]) -> None:
        assert self.stage.session.is_started
        for text in texts:
            self.append("main", text)

    @invariant()
    def tables_are_bounded(self) -> None:
        roster = self.stage.session._contexts
        assert len(roster._live) <= LIMITS.contexts
        assert set(roster._by_utterance) == {context.utterance_id for context in roster._live.values()}
        assert not set(roster._live) & set(roster._ended)
        assert len(roster._by_index) == len(roster._live) + len(roster._ended)
        gauge = self.stage.metrics.registry.get_sample_value("footlights_contexts")
        assert gauge == len(roster._live)


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
