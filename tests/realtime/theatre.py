"""A session, the fake engine and a listener in one thread: every delay between them is the test's to choose."""

from collections import deque
from dataclasses import dataclass, field
from functools import cache

from clients.sdk.manuscript import Manuscript
from realtime import worker
from realtime.actions import Action, Close, DropAudio, Send, SendAudio, Submit
from realtime.audio import to_pcm_s16le
from realtime.commands import Command, WorkerEvent
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.outbox import Outbox, Outgoing
from realtime.protocol import (
    AudioDiscard,
    AudioMessage,
    AudioStart,
    Cancelled,
    ClientMessage,
    Done,
    Error,
    ProtocolError,
    ServerMessage,
    SessionStart,
    TextAppend,
    TextRevise,
    TextRevised,
    TextSkipped,
    Word,
    Words,
    decode_server,
    encode,
)
from realtime.session import Session
from tests.realtime.fake_engine import SAMPLE_RATE, FakeEngine, tone

FRAMES_PER_WORD = 4
WORD_MS = 50 * FRAMES_PER_WORD


@dataclass
class Seat:
    """What the listener has of one context, by the rules of docs/protocol.md."""

    manuscript: Manuscript = field(default_factory=Manuscript)
    pcm: bytearray = field(default_factory=bytearray)
    words: dict[int, Word] = field(default_factory=dict)
    sequence: int = 0
    answered: int = 0
    skipped: list[str] = field(default_factory=list)
    errors: list[Error] = field(default_factory=list)
    end: Done | Cancelled | Error | None = None

    @property
    def ms(self) -> float:
        """Audio there is, at the model's rate."""
        return len(self.pcm) / 2 / SAMPLE_RATE * 1000

    @property
    def in_order(self) -> list[Word]:
        """The words that are valid."""
        return [word for _, word in sorted(self.words.items())]

    def sound(self) -> list[str]:
        """The words whose tones are heard; it must consist of nothing else."""
        pcm = bytes(self.pcm)
        length = len(pcm_of("w0"))
        assert len(pcm) % length == 0, len(pcm)
        return [TONES.get(pcm[at : at + length], "?") for at in range(0, len(pcm), length)]


TONES: dict[bytes, str] = {}
"""That `Seat.sound` knows."""


@cache
def pcm_of(word: str, voice: str = "heart") -> bytes:
    """The whole word as it comes out."""
    return to_pcm_s16le(tone(word, voice, FRAMES_PER_WORD))


def learn(words: list[str]) -> list[str]:
    """The words whose tones differ: from now on they are known."""
    made: dict[bytes, str] = {}
    for word in words:
        made.setdefault(pcm_of(word), word)
    TONES.update(made)
    return list(made.values())


class Theatre:
    """Nothing moves but by a call: `work` for the engine, `deliver` for the network."""

    def __init__(
        self, limits: LimitSettings | None = None, start: SessionStart | None = None, rate: int = SAMPLE_RATE
    ) -> None:
        self.limits = limits or LimitSettings()
        self.rate = rate
        self.now_s = 100.0
        self.metrics = Metrics()
        self.engine = FakeEngine(frames_per_word=FRAMES_PER_WORD)
        self.session = Session("s", self.engine.info, self.limits, lambda: self.now_s, self.metrics)
        self.lengths = worker.TextLengths()
        self.commands: deque[Command] = deque()
        self.log: list[Command] = []
        self.outbox = Outbox(self.limits)
        self.seats: dict[str, Seat] = {}
        self.messages: list[ServerMessage] = []
        self._by_index: dict[int, Seat] = {}
        self.send(start or SessionStart(1))

    def send(self, *messages: ClientMessage | ProtocolError) -> None:
        """The client's messages arrive."""
        for message in messages:
            self.perform(self.session.receive(message))

    def append(self, text: str, context: str = "main") -> None:
        """The client appends."""
        self.seat(context).manuscript.append(text)
        self.send(TextAppend(text, context))

    def revise(self, start: int, text: str, context: str = "main") -> None:
        """The client revises."""
        self.seat(context).manuscript.revise(start, text)
        self.send(TextRevise(text, start, context))

    def seat(self, context: str = "main") -> Seat:
        """Of that context."""
        return self.seats.setdefault(context, Seat())

    def perform(self, actions: list[Action]) -> None:
        """As the driver does."""
        for action in actions:
            match action:
                case Send(message):
                    self.outbox.put(Outgoing(encode(message)))
                case SendAudio(audio):
                    self.outbox.put(Outgoing(audio.encode(), audio))
                case DropAudio(index, first_sample):
                    self.outbox.drop_audio(index, first_sample)
                case Submit(command):
                    self.commands.append(command)
                    self.log.append(command)
                case Close():
                    raise AssertionError("the session closed")

    def work(self, steps: int = 1, commands: int | None = None) -> None:
        """The worker takes so many commands (None: all) and makes so many steps."""
        for _ in range(len(self.commands) if commands is None else min(commands, len(self.commands))):
            self.report(worker.carry_out(self.engine, self.commands.popleft(), self.lengths))
        for _ in range(steps):
            made: list[WorkerEvent] = list(self.engine.step())
            self.lengths.seen(made)
            self.report(made)

    def report(self, events: list[WorkerEvent]) -> None:
        """Events reach the session."""
        for event in events:
            self.perform(self.session.engine_event(event))

    def deliver(self, messages: int | None = None) -> None:
        """So many messages (None: all) leave and arrive."""
        while self.outbox._items and (messages is None or messages > 0):
            messages = None if messages is None else messages - 1
            item = self.outbox._items.popleft()
            assert isinstance(item, Outgoing)
            if item.audio is not None:
                self.session.audio_sent(item.audio)
                self.hear(item.audio)
            else:
                assert isinstance(item.data, str)
                self.read(decode_server(item.data))

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now_s += seconds
        self.perform(self.session.tick())

    def settle(self) -> None:
        """Until nothing moves any more."""
        for _ in range(100_000):
            self.work()
            self.deliver()
            wakeup_s = self.session.next_wakeup_s()
            if wakeup_s is not None:
                self.wait(max(0.001, wakeup_s - self.now_s))
            elif not self.commands and self.engine.idle_s() is None:
                return
        raise AssertionError("it does not come to rest")

    def hear(self, audio: AudioMessage) -> None:
        seat = self._by_index[audio.index]
        assert seat.end is None, "audio after the end"
        assert audio.sequence == seat.sequence, (audio.sequence, seat.sequence)
        assert audio.first_sample == len(seat.pcm) // 2, (audio.first_sample, len(seat.pcm) // 2)
        seat.sequence += 1
        seat.pcm += audio.payload

    def read(self, message: ServerMessage) -> None:
        self.messages.append(message)
        context = getattr(message, "context", None)
        if context is None:
            return
        seat = self.seat(context)
        match message:
            case AudioStart(index=index):
                self._by_index[index] = seat
            case AudioDiscard(from_ms=from_ms):
                position = round(from_ms * self.rate / 1000)
                assert position < len(seat.pcm) // 2, "nothing to discard"
                del seat.pcm[2 * position :]
            case Words(words=words):
                seat.words.update((word.char_start, word) for word in words)
            case TextRevised(kept_to=kept_to, resumes_at=resumes_at, revision=revision):
                assert revision > seat.answered
                seat.answered = revision
                seat.manuscript.answered(kept_to, resumes_at, revision)
                self._forget(seat, kept_to)
            case TextSkipped(kept_to=kept_to, resumes_at=resumes_at, skipped=skipped):
                seat.skipped.append(skipped)
                seat.manuscript.skipped(kept_to, resumes_at)
                self._forget(seat, kept_to)
            case Error(terminal=False):
                seat.errors.append(message)
            case Done() | Cancelled() | Error():
                assert seat.end is None, "a second end"
                seat.end = message

    def _forget(self, seat: Seat, kept_to: int) -> None:
        seat.words = {start: word for start, word in seat.words.items() if start < kept_to}
