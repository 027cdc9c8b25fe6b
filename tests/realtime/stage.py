"""A session without I/O: a clock that is told the time, an outbox that is read at once, an engine played by hand."""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from engine.core import AudioChunk, Finished, ModelInfo, WordTiming
from realtime.actions import Action, Close, DropAudio, Send, SendAudio, Submit
from realtime.commands import Command
from realtime.limits import LimitSettings
from realtime.metrics import Metrics
from realtime.protocol import AudioMessage, ClientMessage, Error, ProtocolError, ServerMessage, SessionStart
from realtime.session import Session

M = TypeVar("M")

RATE = 24_000
FRAME = 1_200
INFO = ModelInfo("fake", RATE, FRAME, "aligned", ("heart", "michael", "bella"))


@dataclass
class Stage:
    """Carries out a session's actions; ``is_sending`` False leaves audio in the queue."""

    limits: LimitSettings = field(default_factory=LimitSettings)
    now_s: float = 100.0
    is_sending: bool = True

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.session = Session("s", INFO, self.limits, lambda: self.now_s, self.metrics)
        self.messages: list[ServerMessage | AudioMessage] = []
        self.queued: list[AudioMessage] = []
        self.commands: list[Command] = []
        self.close: Close | None = None

    def start(self, message: SessionStart | None = None) -> "Stage":
        self.receive(message or SessionStart(1))
        self.messages.clear()
        return self

    def receive(self, *messages: ClientMessage | ProtocolError) -> None:
        for message in messages:
            self.perform(self.session.receive(message))

    def perform(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Send(message):
                    self.messages.append(message)
                case SendAudio(audio) if self.is_sending:
                    self.messages.append(audio)
                    self.session.audio_sent(audio)
                case SendAudio(audio):
                    self.queued.append(audio)
                case DropAudio(index, first_sample):
                    kept = [audio.until(first_sample) if audio.index == index else audio for audio in self.queued]
                    self.queued = [audio for audio in kept if audio is not None]
                case Submit(command):
                    self.commands.append(command)
                case Close():
                    assert self.close is None
                    self.close = action

    def utterance(self, context: str = "main") -> str:
        return self.session._contexts._live[context].utterance_id

    def speak(self, context: str, first_sample: int, samples: int, *words: WordTiming) -> None:
        chunk = AudioChunk(self.utterance(context), first_sample, np.zeros(samples, np.float32), words)
        self.perform(self.session.engine_event(chunk))

    def finish(self, context: str = "main") -> None:
        self.perform(self.session.engine_event(Finished(self.utterance(context), 1, 0.1, 1.0)))

    def of_type(self, message_type: type[M]) -> list[M]:
        return [message for message in self.messages if isinstance(message, message_type)]

    @property
    def last(self) -> ServerMessage | AudioMessage:
        return self.messages[-1]

    @property
    def last_error(self) -> Error:
        assert isinstance(self.last, Error), self.last
        return self.last


def word(text: str, start_ms: float, end_ms: float, char_start: int) -> WordTiming:
    return WordTiming(text, text, start_ms, end_ms, char_start, char_start + len(text))
