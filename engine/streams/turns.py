"""The turn form: clauses become user turns, and speech goes on from live state after each.

Nothing can be added to a turn once its speech has begun, so a clause is prefilled as one turn when the cutter calls it
whole. What happens inside a turn is told in ``turn_speech.py``.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.streams.base import Demand, Frame, Guide, Spoken
from engine.streams.turn_speech import TurnSpeech
from engine.text.words import SpokenWord


class Cutter(Protocol):
    """Groups words into clauses (``engine.text.segment.ClauseCutter``)."""

    def add(self, words: Sequence[SpokenWord]) -> list[list[SpokenWord]]:
        """Clauses that are whole now."""

    def flush(self) -> list[list[SpokenWord]]:
        """What is left, as clauses."""


@dataclass(frozen=True)
class Turn:
    """A clause as the model gets it, and its speech before the first frame."""

    text: str
    speech: TurnSpeech


@dataclass
class Progress:
    """Everything that changes while an utterance is spoken."""

    waiting: list[Turn] = field(default_factory=list)
    speech: TurnSpeech | None = None
    """The turn being spoken."""
    start: int = 0
    """Frames heard before this turn."""
    frames: int = 0
    """Frames heard."""
    has_spoken: bool = False
    is_closed: bool = False
    """The end-of-turn token of the last turn is already among the rows."""
    is_finished: bool = False

    def copy(self) -> "Progress":
        """An independent copy."""
        return replace(self, waiting=[*self.waiting], speech=self.speech and self.speech.copy())


class TurnStream:
    """Clauses to turns, turns to frames.

    ``open_turn(words)`` begins a turn's speech; ``prompt(text, is_first, is_closed)`` gives the token ids that
    lead from the live state into it; ``render(words)`` the text the model reads, empty when there is nothing to say.
    """

    def __init__(
        self,
        frame_ms: float,
        cutter: Cutter,
        open_turn: Callable[[Sequence[SpokenWord]], TurnSpeech],
        render: Callable[[Sequence[SpokenWord]], str],
        prompt: Callable[[str, bool, bool], tuple[int, ...]],
    ) -> None:
        self._frame_ms = frame_ms
        self._cutter = cutter
        self._open_turn = open_turn
        self._render = render
        self._prompt = prompt
        self._now = Progress()

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words; clauses they complete are queued as turns."""
        assert not self._now.is_finished
        self._queue(self._cutter.add(words))

    def flush(self) -> None:
        """Queue what is left as a turn."""
        self._queue(self._cutter.flush())

    def finish(self) -> None:
        """Queue what is left and end after it."""
        self.flush()
        self._now.is_finished = True

    def demand(self) -> Demand:
        """Decode inside a turn, prefill between turns."""
        now = self._now
        if now.speech is not None:
            return Demand.DECODE
        if now.waiting:
            return Demand.PREFILL
        return Demand.END if now.is_finished else Demand.WAIT

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        now = self._now
        turn = now.waiting.pop(0)
        now.speech, now.start = turn.speech.copy(), now.frames
        ids = self._prompt(turn.text, not now.has_spoken, now.is_closed)
        now.has_spoken = True
        return ids

    def guide(self) -> Guide:
        """What the turn allows."""
        assert self._now.speech is not None
        return self._now.speech.guide()

    def accept(self, frame: Frame) -> Spoken:
        """Take a frame in, or the end of the turn."""
        now = self._now
        speech = now.speech
        assert speech is not None
        said = speech.accept(frame)
        now.frames += len(said.frames)
        start_ms = now.start * self._frame_ms
        words = [replace(w, start_ms=w.start_ms + start_ms, end_ms=w.end_ms + start_ms) for w in said.words]
        if speech.is_over:
            now.speech, now.is_closed = None, speech.is_closed
        return Spoken(said.frames, tuple(words))

    @property
    def is_resting(self) -> bool:
        """Whether the decoder is between turns."""
        return self._now.speech is None

    def renew(self) -> None:
        """Open the next turn as the first one."""
        self._now.has_spoken = self._now.is_closed = False

    def snapshot(self) -> tuple[Progress, Cutter]:
        """Copy of turn, queue and the words the cutter still holds."""
        return self._now.copy(), copy.deepcopy(self._cutter)

    def restore(self, snapshot: tuple[Progress, Cutter]) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        progress, cutter = snapshot
        self._now, self._cutter = progress.copy(), copy.deepcopy(cutter)

    def _queue(self, clauses: Sequence[Sequence[SpokenWord]]) -> None:
        for words in clauses:
            text = self._render(words)
            if not text.strip():
                continue
            speech = self._open_turn(words)
            if not speech.is_over:
                self._now.waiting.append(Turn(text, speech))
