"""The turn form: clauses become user turns, and speech goes on from live state after each.

Nothing can be added to a turn once its speech has begun, so a clause is prefilled as one turn when the cutter calls it
whole. What happens inside a turn is told in ``turn_speech.py``.

With ``Guessing`` a turn is begun before its clause is whole: when the listener has nothing more to hear and a few words
are there. If more words have come before its last one is begun, the turn ends there, and the last word opens the next
turn, so that no voice falls in the middle of a sentence; if not, speech waits there as long as the listener has audio.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine.streams.base import Demand, Frame, Guide, Spoken
from engine.streams.turn_speech import TurnSpeech
from engine.text.segment import is_seam
from engine.text.words import Boundary, SpokenWord


class Cutter(Protocol):
    """Groups words into clauses (``engine.text.segment.ClauseCutter``)."""

    def add(self, words: Sequence[SpokenWord]) -> list[list[SpokenWord]]:
        """Clauses that are whole now."""

    def flush(self) -> list[list[SpokenWord]]:
        """What is left, as clauses."""


@dataclass(frozen=True)
class Guessing:
    """When a turn is begun on a guess."""

    fewest_words: int = 3
    """Of the first turn; after a guess that was too early, twice as many .."""
    most_words: int = 12
    """.. up to this."""
    fewest_later: int = 2
    """Words with which an unfinished clause goes on when the listener runs dry."""
    most_joined: int = 25
    """Words of clauses that become one turn while the listener has enough to hear."""


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
    is_guess: bool = False
    """The turn was begun before its clause was whole."""
    guess_words: int = 0
    """Words wanted for a guess."""


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
        guessing: Guessing | None = None,
    ) -> None:
        self._guessing = guessing
        self._lead_s, self._reserve_s = 0.0, math.inf
        self._frame_ms = frame_ms
        self._open_turn = open_turn
        self._render = render
        self._prompt = prompt
        self._text = Text()
        self._place = Place(copy.deepcopy(cutter), guess_words=guessing.fewest_words if guessing else 0)
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

    def situate(self, lead_s: float, reserve_s: float) -> None:
        """End a turn that was begun on a guess before its last word, if more has come."""
        self._lead_s, self._reserve_s = lead_s, reserve_s
        if self._is_before_tail and self._has_more:
            self._place = replace(self._place, words=self._place.words[:-1], end=self._place.end - 1)
            self._valid_words = len(self._place.words)
            self._leave_turn(is_closed=False)
            assert self._guessing
            wanted = min(self._guessing.most_words, 2 * self._place.guess_words)
            self._place = replace(self._place, guess_words=wanted)
            self._valid_words = None

    def demand(self) -> Demand:
        """Decode inside a turn, prefill between turns; hold where more text would make it better."""
        is_needed = self._lead_s <= self._reserve_s
        if self._is_speaking:
            is_held = not is_needed and self._is_before_tail and not self._is_committed
            return Demand.HOLD if is_held else Demand.DECODE
        if self._waiting:
            return Demand.PREFILL
        if self._text.is_finished:
            return Demand.END
        if self._guess():
            return Demand.PREFILL if is_needed else Demand.HOLD
        return Demand.WAIT

    @property
    def wants_text(self) -> bool:
        """Whether there is no whole clause to go on with."""
        if self._is_speaking:
            return self._place.is_guess and not self._has_more
        return not self._waiting and not self._text.is_finished

    @property
    def would_restart(self) -> bool:
        """Whether the turn was begun too early: by now there is twice as much to say."""
        now = self._place
        return self._is_speaking and now.is_guess and len(self._text.words) - now.end >= len(now.words)

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        assert not self._is_speaking
        if self._place.speech is not None:
            self._leave_turn(is_closed=False)
        turn = self._next_turn() if self._waiting else self._guessed()
        now = self._place
        self._place = Place(
            turn.cutter,
            turn.speech,
            turn.words,
            turn.end,
            start=now.frames,
            frames=now.frames,
            has_spoken=True,
            is_guess=turn.is_guess,
            guess_words=now.guess_words,
        )
        # Behind a guess the clauses are other ones than those that were waiting.
        self._valid_words = None if turn.is_guess else len(turn.words)
        return self._prompt(turn.text, not now.has_spoken, now.is_closed)

    def retake(self, token_ids: tuple[int, ...], place: Place) -> bool:
        """Open the turn again that ``token_ids`` opened, leading to ``place``; if another is due, change nothing."""
        before = self._place
        if self._guessing is None:
            if self.demand() is Demand.PREFILL and self.take_prompt() == token_ids:
                return True
        elif not self._is_speaking:
            if before.speech is not None:
                self._leave_turn(is_closed=False)
            begin = self._place.end
            if tuple(self._text.words[begin : begin + len(place.words)]) == place.words:
                self.go_to(place)
                return True
        self.go_to(before)
        return False

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
            if now.is_guess and self._guessing:
                self._place = replace(self._place, guess_words=self._guessing.fewest_words)
            self._leave_turn(speech.is_closed)
        return replace(said, words=tuple(words))

    def pardon(self) -> None:
        """See ``TextStream``."""
        if self._place.speech is not None:
            speech = self._place.speech.copy()
            speech.pardon()
            self._place = replace(self._place, speech=speech)

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

    def _next_turn(self) -> Turn:
        """The next clause; the whole sentence when it is there and the listener has enough to hear meanwhile."""
        turn = self._waiting.pop(0)
        while self._guessing and self._waiting and self._lead_s > self._reserve_s:
            following = self._waiting[0]
            begin = turn.end - len(turn.words)
            if turn.words[-1].boundary is Boundary.SENTENCE or following.end - begin > self._guessing.most_joined:
                break
            self._waiting.pop(0)
            turn = self._turn(begin, following.end, following.cutter)
        return turn

    def _turn(self, begin: int, end: int, cutter: Cutter, is_guess: bool = False) -> Turn:
        words = tuple(self._text.words[begin:end])
        return Turn(words, end, self._render(words), self._open_turn(words), cutter, is_guess)

    # Guesses

    def _guess(self) -> int:
        """Words of a turn that would be begun on a guess now; 0: better not."""
        if self._guessing is None or self._reserve_s == math.inf:
            return 0
        now = self._place
        loose = self._text.words[now.end - len(now.words) + (self._valid_words or 0) :]
        fewest = self._guessing.fewest_later if now.has_spoken else now.guess_words
        return next((n for n in range(len(loose), fewest - 1, -1) if is_seam(loose[n - 1])), 0)

    def _guessed(self) -> Turn:
        begin = self._place.end
        return self._turn(begin, begin + self._guess(), self._place.cutter, is_guess=True)

    @property
    def _is_before_tail(self) -> bool:
        """Whether all but the last word of a guessed turn have been spoken."""
        now = self._place
        if not (self._is_speaking and now.is_guess and now.speech is not None):
            return False
        last = len(now.words) - 1
        return last > 0 and now.speech.begun <= last and now.speech.is_past(last)

    @property
    def _has_more(self) -> bool:
        """Whether there are words behind this turn that are not parted from it."""
        return len(self._text.words) > self._place.end and not self._is_committed

    @property
    def _is_committed(self) -> bool:
        """Whether the text was flushed or ended behind the turn's last word."""
        return self._place.end in self._text.flushes[-1:]

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
        self._place = replace(now, speech=None, words=(), end=end, is_closed=is_closed, is_guess=False)
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
