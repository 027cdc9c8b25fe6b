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

    words: tuple[SpokenWord, ...]
    end: int
    """Words of the text up to its end."""
    text: str
    speech: TurnSpeech
    cutter: Cutter
    """As it was behind this turn."""


@dataclass(frozen=True)
class TextMark:
    """How much text there was."""

    words: int
    flushes: int
    is_finished: bool


@dataclass(frozen=True)
class Place:
    """Where the speech is in the text."""

    cutter: Cutter
    """As it was behind the last turn that was begun."""
    speech: TurnSpeech | None = None
    """Of the turn being spoken; never changed."""
    words: tuple[SpokenWord, ...] = ()
    """Of the turn being spoken."""
    end: int = 0
    """Words of the text up to the end of the last turn that was begun."""
    start: int = 0
    """Frames heard before this turn."""
    frames: int = 0
    """Frames heard."""
    has_spoken: bool = False
    is_closed: bool = False
    """The end-of-turn token of the last turn is already among the rows."""


@dataclass
class Text:
    """All there is to say."""

    words: list[SpokenWord] = field(default_factory=list)
    flushes: list[int] = field(default_factory=list)
    """Words before each flush."""
    is_finished: bool = False


class TurnStream:
    """Clauses to turns, turns to frames.

    ``open_turn(words)`` begins a turn's speech; ``prompt(text, is_first, is_closed)`` gives the token ids that
    lead from the live state into it; ``render(words)`` the text the model reads, empty when there is nothing to say.

    A turn whose text is changed while it is spoken ends behind its last word that stayed the same.
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
        self._open_turn = open_turn
        self._render = render
        self._prompt = prompt
        self._text = Text()
        self._place = Place(copy.deepcopy(cutter))
        self._cutter = cutter
        """Holds the words that are not in a turn yet."""
        self._waiting: list[Turn] = []
        self._valid_words: int | None = None
        """Words of the turn being spoken that the text still has; None: not known, and turns are to be cut anew."""

    # Text in

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words; clauses they complete are queued as turns."""
        assert not self._text.is_finished
        for word in words:
            self._text.words.append(word)
            if self._valid_words is not None:
                self._queue(self._cutter.add([word]), len(self._text.words))

    def flush(self) -> None:
        """Queue what is left as a turn."""
        self._text.flushes.append(len(self._text.words))
        if self._valid_words is not None:
            self._queue(self._cutter.flush(), len(self._text.words))

    def finish(self) -> None:
        """Queue what is left and end after it."""
        self.flush()
        self._text.is_finished = True

    # Steps out

    def demand(self) -> Demand:
        """Decode inside a turn, prefill between turns."""
        if self._is_speaking:
            return Demand.DECODE
        if self._waiting:
            return Demand.PREFILL
        return Demand.END if self._text.is_finished else Demand.WAIT

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        assert not self._is_speaking
        if self._place.speech is not None:
            self._leave_turn(is_closed=False)
        now, turn = self._place, self._waiting.pop(0)
        self._place = Place(turn.cutter, turn.speech, turn.words, turn.end, now.frames, now.frames, has_spoken=True)
        self._valid_words = len(turn.words)
        return self._prompt(turn.text, not now.has_spoken, now.is_closed)

    def guide(self) -> Guide:
        """What the turn allows."""
        assert self._place.speech is not None
        return self._place.speech.guide()

    def accept(self, frame: Frame) -> Spoken:
        """Take a frame in, or the end of the turn."""
        assert self._is_speaking
        now = self._place
        assert now.speech is not None
        speech = now.speech.copy()
        said = speech.accept(frame)
        self._place = replace(now, speech=speech, frames=now.frames + len(said.frames))
        start_ms = now.start * self._frame_ms
        words = [replace(w, start_ms=w.start_ms + start_ms, end_ms=w.end_ms + start_ms) for w in said.words]
        if speech.is_over:
            self._leave_turn(speech.is_closed)
        return Spoken(said.frames, tuple(words))

    @property
    def is_resting(self) -> bool:
        """Whether the decoder is between turns."""
        return not self._is_speaking

    def renew(self) -> None:
        """Open the next turn as the first one."""
        if self._place.speech is not None:
            self._leave_turn(is_closed=False)
        self._place = replace(self._place, has_spoken=False, is_closed=False)

    # Going back

    @property
    def extent(self) -> int:
        """The number of the next word."""
        return len(self._text.words)

    @property
    def reached(self) -> int:
        """The number of the word that is sounding."""
        now = self._place
        return now.end - 1 if now.speech is None else now.end - len(now.words) + now.speech.begun - 1

    def text_mark(self) -> TextMark:
        """How much text there is."""
        return TextMark(len(self._text.words), len(self._text.flushes), self._text.is_finished)

    def cut_text(self, mark: TextMark) -> None:
        """Forget the text that came after ``mark``."""
        del self._text.words[mark.words :], self._text.flushes[mark.flushes :]
        self._text.is_finished = mark.is_finished
        self._valid_words = None

    def place(self) -> Place:
        """Where speech is."""
        return self._place

    def go_to(self, place: Place) -> None:
        """Speak on from there."""
        if place is not self._place:
            self._place = place
            self._valid_words = None

    def snapshot(self) -> tuple[Text, Place]:
        """Copy of text and place."""
        return Text([*self._text.words], [*self._text.flushes], self._text.is_finished), self._place

    def restore(self, snapshot: tuple[Text, Place]) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        text, self._place = snapshot
        self._text = Text([*text.words], [*text.flushes], text.is_finished)
        self._valid_words = None

    @property
    def _is_speaking(self) -> bool:
        """Whether the turn goes on; one whose text has changed ends where the change begins."""
        if self._valid_words is None:
            self._cut_anew()
        speech, valid = self._place.speech, self._valid_words
        assert valid is not None
        return speech is not None and (valid == len(self._place.words) or not speech.is_past(valid))

    def _leave_turn(self, is_closed: bool) -> None:
        """The turn is over; words that are no longer in the text do not count."""
        now = self._place
        assert self._valid_words is not None
        end = now.end - len(now.words) + self._valid_words
        self._place = replace(now, speech=None, words=(), end=end, is_closed=is_closed)
        self._valid_words = 0

    def _cut_anew(self) -> None:
        """Find out which words of the turn being spoken are still in the text, and cut those behind into turns."""
        now, text = self._place, self._text
        begin = now.end - len(now.words)
        same = [a == b for a, b in zip(now.words, text.words[begin : now.end], strict=False)]
        self._valid_words = [*same, False].index(False)
        first = begin + self._valid_words
        self._cutter, self._waiting = copy.deepcopy(now.cutter), []
        flushes = [count for count in text.flushes if count >= first]
        for count, word in enumerate(text.words[first:], first):
            while flushes and flushes[0] == count:
                self._queue(self._cutter.flush(), flushes.pop(0))
            self._queue(self._cutter.add([word]), count + 1)
        for count in flushes:
            self._queue(self._cutter.flush(), count)

    def _queue(self, clauses: Sequence[Sequence[SpokenWord]], end: int) -> None:
        for words in clauses:
            text = self._render(words)
            speech = self._open_turn(words)
            if text.strip() and not speech.is_over:
                self._waiting.append(Turn(tuple(words), end, text, speech, copy.deepcopy(self._cutter)))
