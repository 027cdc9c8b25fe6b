"""The text of the turn form, and how what no turn has spoken yet is cut into clauses, each to be a turn."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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
    is_guess: bool = False


@dataclass(frozen=True)
class TextMark:
    """How much text there was."""

    words: int
    flushes: int
    is_finished: bool


@dataclass
class Text:
    """All there is to say."""

    words: list[SpokenWord] = field(default_factory=list)
    flushes: list[int] = field(default_factory=list)
    """Words before each flush."""
    is_finished: bool = False

    def copy(self) -> "Text":
        """An independent copy."""
        return Text([*self.words], [*self.flushes], self.is_finished)


class Clauses:
    """Words in, turns out.

    ``open_turn(words)`` begins a turn's speech; ``render(words)`` gives the text the model reads, empty when there is
    nothing to say.
    """

    def __init__(
        self,
        cutter: Cutter,
        render: Callable[[Sequence[SpokenWord]], str],
        open_turn: Callable[[Sequence[SpokenWord]], TurnSpeech],
    ) -> None:
        self.text = Text()
        self.waiting: list[Turn] = []
        """Whole clauses that are not spoken yet."""
        self.kept: int | None = None
        """Words of the turn being spoken that the text still has; None: not known, and turns are to be cut anew."""
        self._cutter = cutter
        """Holds the words that are not in a turn yet."""
        self._render, self._open_turn = render, open_turn

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words; clauses they complete are queued as turns."""
        assert not self.text.is_finished
        for word in words:
            self.text.words.append(word)
            if self.kept is not None:
                self._queue(self._cutter.add([word]), len(self.text.words))

    def flush(self) -> None:
        """Queue what is left as a turn."""
        if not self.is_parted_at(len(self.text.words)):
            self.text.flushes.append(len(self.text.words))
        if self.kept is not None:
            self._queue(self._cutter.flush(), len(self.text.words))

    def finish(self) -> None:
        """Queue what is left; nothing comes after it."""
        self.flush()
        self.text.is_finished = True

    def is_parted_at(self, end: int) -> bool:
        """Whether the text was flushed or ended behind its first ``end`` words."""
        return end in self.text.flushes

    def may_end_at(self, end: int) -> bool:
        """Whether there are ``end`` words so far, and more may come."""
        return len(self.text.words) == end and not self.text.is_finished

    def goes_on_behind(self, end: int) -> bool:
        """Whether there are words behind the first ``end`` that are not parted from them."""
        return len(self.text.words) > end and not self.is_parted_at(end)

    def turn(self, begin: int, end: int, cutter: Cutter, is_guess: bool = False) -> Turn:
        """Those words of the text as a turn, behind which the cutter is ``cutter``."""
        words = tuple(self.text.words[begin:end])
        return Turn(words, end, self._render(words), self._open_turn(words), cutter, is_guess)

    def cut_anew(self, begin: int, words: Sequence[SpokenWord], cutter: Cutter) -> int:
        """Find out how many ``words``, those of the turn that began at word ``begin``, are still in the text, and cut
        those behind into turns by a ``cutter`` that stands there.
        """
        same = [a == b for a, b in zip(words, self.text.words[begin : begin + len(words)], strict=False)]
        self.kept = [*same, False].index(False)
        first = begin + self.kept
        self._cutter, self.waiting = copy.deepcopy(cutter), []
        flushes = [count for count in self.text.flushes if count >= first]
        for count, word in enumerate(self.text.words[first:], first):
            while flushes and flushes[0] == count:
                self._queue(self._cutter.flush(), flushes.pop(0))
            self._queue(self._cutter.add([word]), count + 1)
        for count in flushes:
            self._queue(self._cutter.flush(), count)
        return self.kept

    def _queue(self, clauses: Sequence[Sequence[SpokenWord]], end: int) -> None:
        for words in clauses:
            text = self._render(words)
            speech = self._open_turn(words)
            if text.strip() and not speech.is_over:
                self.waiting.append(Turn(tuple(words), end, text, speech, copy.deepcopy(self._cutter)))

    def mark(self) -> TextMark:
        """How much text there is."""
        return TextMark(len(self.text.words), len(self.text.flushes), self.text.is_finished)

    def cut_text(self, mark: TextMark) -> None:
        """Forget the text that came after ``mark``."""
        del self.text.words[mark.words :], self.text.flushes[mark.flushes :]
        self.text.is_finished = mark.is_finished
        self.kept = None

    def restore(self, text: Text) -> None:
        """Other text altogether."""
        self.text = text.copy()
        self.kept = None
