"""The turn form: clauses become user turns, and speech goes on from live state after each.

Nothing can be added to a turn once its speech has begun, so a clause is prefilled as one turn when the cutter calls it
whole. Where words lie in a turn is not known: their times are proportional to their length, first by an expected rate
and, when the turn has ended, by the turn's true length.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.core import WordTiming
from engine.sampler import TrailingClick
from engine.streams.base import Demand, Frame, Guide, Spoken
from engine.text.words import SpokenWord


class Cutter(Protocol):
    """Groups words into clauses (``engine.text.segment.ClauseCutter``)."""

    def add(self, words: Sequence[SpokenWord]) -> list[list[SpokenWord]]:
        """Clauses that are whole now."""

    def flush(self) -> list[list[SpokenWord]]:
        """What is left, as clauses."""


@dataclass(frozen=True)
class TurnSettings:
    """Lengths a turn may have, and the frame's length."""

    frame_ms: float
    expected_ms: float = 65.0
    """Speech expected per character (or phoneme) of the turn."""
    cap_ms: float = 200.0
    """A turn may last ``spare_ms`` plus this per character: a model that will not stop is stopped."""
    spare_ms: float = 2500.0

    def expected_frames(self, length: int) -> float:
        """Usual frames of a turn of ``length`` characters."""
        return max(1.0, length * self.expected_ms / self.frame_ms)

    def most_frames(self, length: int) -> int:
        """Frames after which a turn of ``length`` characters is ended."""
        return int((self.spare_ms + length * self.cap_ms) / self.frame_ms) + 1


@dataclass(frozen=True)
class Turn:
    """A clause as the model gets it."""

    text: str
    words: tuple[SpokenWord, ...]


@dataclass
class Progress:
    """Everything that changes while an utterance is spoken."""

    waiting: list[Turn] = field(default_factory=list)
    turn: Turn | None = None
    turn_frames: int = 0
    """Frames made in this turn, the held one included."""
    turn_start: int = 0
    """Frames heard before this turn."""
    frames: int = 0
    """Frames heard."""
    announced: int = 0
    """Words of this turn whose expected times were given."""
    click: TrailingClick[tuple[int, ...]] = field(default_factory=TrailingClick)
    has_spoken: bool = False
    is_closed: bool = False
    """The end-of-turn token of the last turn is already among the rows."""
    is_finished: bool = False


class TurnStream:
    """Clauses to turns, turn lengths to word times.

    ``prompt(text, is_first, is_closed)`` gives the token ids that lead from the live state into the turn's speech;
    ``render(words)`` the text the model reads.
    """

    def __init__(
        self,
        settings: TurnSettings,
        cutter: Cutter,
        render: Callable[[Sequence[SpokenWord]], str],
        prompt: Callable[[str, bool, bool], tuple[int, ...]],
    ) -> None:
        self.settings = settings
        self._cutter = cutter
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
        if now.turn is not None:
            return Demand.DECODE
        if now.waiting:
            return Demand.PREFILL
        return Demand.END if now.is_finished else Demand.WAIT

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        now = self._now
        now.turn = now.waiting.pop(0)
        now.turn_frames, now.turn_start, now.announced = 0, now.frames, 0
        ids = self._prompt(now.turn.text, not now.has_spoken, now.is_closed)
        now.has_spoken = True
        return ids

    def guide(self) -> Guide:
        """A turn's frames are bounded by nothing but its length."""
        return Guide()

    def accept(self, frame: Frame) -> Spoken:
        """Take a frame in, or the end of the turn.

        What is heard may lag a frame behind (see ``TrailingClick``).
        """
        now = self._now
        assert now.turn is not None
        if frame.is_end:
            now.click.end()
            return Spoken(words=self._end_turn(is_closed=True))
        now.turn_frames += 1
        is_last = now.turn_frames >= self.settings.most_frames(len(now.turn.text))
        heard = now.click.push(frame.codes, semantic_code=frame.codes[0])
        if is_last:
            heard += now.click.stop()
        now.frames += len(heard)
        words = self._end_turn(is_closed=False) if is_last else self._expected_words()
        return Spoken(tuple(heard), words)

    @property
    def is_resting(self) -> bool:
        """Whether the decoder is between turns."""
        return self._now.turn is None

    def renew(self) -> None:
        """Open the next turn as the first one."""
        self._now.has_spoken = self._now.is_closed = False

    def snapshot(self) -> tuple[Progress, Cutter]:
        """Copy of turn, queue and the words the cutter still holds."""
        return copy.deepcopy((self._now, self._cutter))

    def restore(self, snapshot: tuple[Progress, Cutter]) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        self._now, self._cutter = copy.deepcopy(snapshot)

    def _queue(self, clauses: Sequence[Sequence[SpokenWord]]) -> None:
        for words in clauses:
            text = self._render(words)
            if text.strip():
                self._now.waiting.append(Turn(text, tuple(words)))

    def _end_turn(self, is_closed: bool) -> tuple[WordTiming, ...]:
        now = self._now
        words = self._times(now.frames - now.turn_start)
        now.turn, now.is_closed = None, is_closed
        return words

    def _expected_words(self) -> tuple[WordTiming, ...]:
        """Words of the turn that begin, at the expected rate, before the end of what is heard now."""
        now = self._now
        assert now.turn is not None
        expected = max(self.settings.expected_frames(len(now.turn.text)), now.turn_frames)
        end_ms = now.frames * self.settings.frame_ms
        due = [word for word in self._times(expected)[now.announced :] if word.start_ms < end_ms]
        now.announced += len(due)
        return tuple(due)

    def _times(self, frames: float) -> tuple[WordTiming, ...]:
        """Times of the turn's words if it lasts ``frames``: shares by the length of their sound."""
        now = self._now
        assert now.turn is not None
        lengths = [max(1, len(word.phonemes or word.spoken)) for word in now.turn.words]
        ms_each = frames * self.settings.frame_ms / sum(lengths)
        times: list[WordTiming] = []
        start_ms = now.turn_start * self.settings.frame_ms
        for word, length in zip(now.turn.words, lengths, strict=True):
            end_ms = start_ms + length * ms_each
            times.append(WordTiming(word.text, word.spoken, start_ms, end_ms, word.char_start, word.char_end))
            start_ms = end_ms
        return tuple(times)
