"""The turn form: clauses become user turns, and speech goes on from live state after each.

Nothing can be added to a turn once its speech has begun, so a clause is prefilled as one turn when the cutter calls it
whole. What happens inside a turn is told in ``turn_speech.py``.

With ``Guessing`` a turn is begun before its clause is whole: when the listener has nothing more to hear and a few words
are there. If more words have come before its last one is begun, the turn ends there, and the last word opens the next
turn, so that no voice falls in the middle of a sentence; if not, speech waits there as long as the listener has audio.
Where it is not known which word is sounding, the turn ends at a pause instead, if need be at one that lies behind.
"""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from typing import Protocol

from engine.core import WordTiming
from engine.streams.base import Demand, Frame, Guide, Spoken, SpokenTurn
from engine.streams.history import Step, pinned, spoken_turn
from engine.streams.turn_speech import USUAL_MS_PER_CHARACTER, TurnSpeech
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
    start_ms: float = 0.0
    """Heard before this turn."""
    heard_ms: float = 0.0
    has_spoken: bool = False
    is_closed: bool = False
    """The end-of-turn token of the last turn is already among the rows."""
    is_guess: bool = False
    """The turn was begun before its clause was whole."""
    guess_words: int = 0
    """Words wanted for a guess."""
    made: Step | None = field(default=None, compare=False, repr=False)
    """Frames of the turn being spoken, the last one first."""
    history: tuple[SpokenTurn, ...] = field(default=(), repr=False)
    """Turns to be shown again when the context is let go."""
    ms_per_character: float | None = None
    """How fast turns have been, where it has to be guessed."""
    untold: tuple[WordTiming, ...] = ()
    """Times of words of a turn that was ended early, to be told with the next frame."""


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
    ``settle(text, known, is_first, is_closed)`` gives the token ids that no text behind the first ``known`` characters
    changes (None: they are not asked for). ``keeps_history``: turns are kept for a context that is renewed.

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
        settle: Callable[[str, int, bool, bool], tuple[int, ...]] | None = None,
        keeps_history: bool = True,
    ) -> None:
        self._settle = settle
        self._keeps_history = keeps_history
        self._upcoming: tuple[object, tuple[int, ...]] = (None, ())
        """What it was worked out for, and the ids."""
        self._guessing = guessing
        self._lead_s, self._reserve_s, self._cost = 0.0, math.inf, 0.0
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

    def situate(self, lead_s: float, reserve_s: float, cost: float = 0.0) -> None:
        """End a turn that was begun on a guess before its last word, if more has come."""
        self._lead_s, self._reserve_s, self._cost = lead_s, reserve_s, cost
        if (kept := self._rests_behind) and self._has_more:
            now = self._place
            assert now.speech is not None
            told = self._of_the_text(now.speech.times(kept))
            left_out = len(now.words) - kept
            self._place = replace(now, words=now.words[:kept], end=now.end - left_out, untold=told)
            self._valid_words = kept
            self._leave_turn(is_closed=False)
            assert self._guessing
            wanted = min(self._guessing.most_words, 2 * self._place.guess_words)
            self._place = replace(self._place, guess_words=wanted)
            self._valid_words = None

    def demand(self) -> Demand:
        """Decode inside a turn, prefill between turns; hold where more text would make it better."""
        is_needed = self._lead_s <= self._reserve_s
        if self._is_speaking:
            is_held = not is_needed and self._is_at_tail and not self._is_committed and not self._has_more
            return Demand.HOLD if is_held else Demand.DECODE
        if self._waiting:
            return Demand.HOLD if self._gathers else Demand.PREFILL
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
        return (not self._waiting or self._gathers) and not self._text.is_finished

    @property
    def held_to_s(self) -> float:
        """The reserve, and for clauses that wait for others the time that it takes to make them."""
        waiting = 0.0 if self._is_speaking else sum(self._length_s(turn.words) for turn in self._waiting)
        return self._reserve_s + self._cost * waiting

    @property
    def _gathers(self) -> bool:
        """Whether clauses wait for others of their sentence: turns grow with what the listener has."""
        if self._guessing is None or self._text.is_finished or self._text.flushes[-1:] >= [self._waiting[-1].end]:
            return False
        words = sum(len(turn.words) for turn in self._waiting)
        is_whole = any(turn.words[-1].boundary is Boundary.SENTENCE for turn in self._waiting)
        return not is_whole and words < self._guessing.most_joined and self._lead_s > self.held_to_s

    def _length_s(self, words: Sequence[SpokenWord]) -> float:
        """How long they will sound."""
        characters = sum(1 + len(word.phonemes or word.spoken) for word in words)
        return characters * (self._place.ms_per_character or USUAL_MS_PER_CHARACTER) / 1000

    @property
    def would_restart(self) -> bool:
        """Whether the turn was begun too early: by now there is twice as much to say."""
        now = self._place
        return self._is_speaking and now.is_guess and len(self._text.words) - now.end >= len(now.words)

    def upcoming(self) -> tuple[int, ...]:
        """Those of the words that the next turn will have in any case, but for the last of them."""
        now = self._place
        if self._settle is None or self._is_speaking or now.speech is not None:
            return ()
        end = self._waiting[0].end if self._waiting else len(self._text.words)
        key = (now, end, len(self._waiting))
        if self._upcoming[0] != key:
            self._upcoming = key, self._settled(self._text.words[now.end : end])
        return self._upcoming[1]

    def _settled(self, words: Sequence[SpokenWord]) -> tuple[int, ...]:
        sure = len(words)
        if self._guessing is not None and not self._waiting:
            # A guess may leave out words that lean on the next one.
            sure = next((n for n in range(sure, 0, -1) if is_seam(words[n - 1])), 0)
        seen = min(sure + 1, len(words))
        text = self._render(words[:seen])
        # Tags that are open are closed at the end, so that even a model's own text changes there.
        known = len(commonprefix((text, self._render(words[: seen - 1]))))
        if self._settle is None or not text.strip() or not known:
            return ()
        return self._settle(text, known, not self._place.has_spoken, self._place.is_closed)

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        assert not self._is_speaking
        if self._place.speech is not None:
            self._leave_turn(is_closed=False)
        turn = self._next_turn() if self._waiting else self._guessed()
        now = self._place
        self._place = Place(
            turn.cutter,
            turn.speech.paced(now.ms_per_character),
            turn.words,
            turn.end,
            start_ms=now.heard_ms,
            heard_ms=now.heard_ms,
            has_spoken=True,
            is_guess=turn.is_guess,
            guess_words=now.guess_words,
            history=now.history,
            ms_per_character=now.ms_per_character,
            untold=now.untold,
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
        made = now.made
        if self._keeps_history:
            made = Step(made, now.speech.guide().window)
        speech = now.speech.copy()
        said = speech.accept(frame, is_last=self._text.is_finished and not self._waiting)
        if made is not None:
            made = replace(made, heard=said.frames)
        heard_ms = now.heard_ms + len(said.frames) * self._frame_ms / said.speed
        self._place = replace(now, speech=speech, heard_ms=heard_ms, made=made)
        words = (*now.untold, *self._of_the_text(said.words))
        self._place = replace(self._place, untold=())
        if speech.is_over:
            if now.is_guess and self._guessing:
                self._place = replace(self._place, guess_words=self._guessing.fewest_words)
            self._leave_turn(speech.is_closed)
        return replace(said, words=words)

    def _of_the_text(self, words: Sequence[WordTiming]) -> tuple[WordTiming, ...]:
        """Times of the turn as times of the utterance."""
        before = self._place.start_ms
        return tuple(replace(w, start_ms=w.start_ms + before, end_ms=w.end_ms + before) for w in words)

    def hear(self, levels_db: Sequence[float]) -> None:
        """Pauses show between which words the speech is, where nothing else does."""
        if self._place.speech is not None:
            self._place = replace(self._place, speech=self._place.speech.hearing(levels_db))

    def had_better_end_at(self, place: Place) -> bool:
        """Whether there was a pause of the turn being spoken, if that was begun on a guess and there is more now."""
        now = self._place
        if not self.is_tentative or not self._has_more or self._rests_behind or place.speech is None:
            return False
        return (place.start_ms, place.end, place.words) == (now.start_ms, now.end, now.words) and (
            place.speech.rests_behind > 0
        )

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

    @property
    def history(self) -> tuple[SpokenTurn, ...]:
        """The first turn, which holds the voice, and the last one."""
        is_left = self._place.speech is not None and not self._is_speaking
        return (self._left(is_closed=False) if is_left else self._place).history

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
    def _rests_behind(self) -> int:
        """Words behind which a turn that was begun on a guess could be ended now; 0: none."""
        now = self._place
        return now.speech.rests_behind if self._is_speaking and now.is_guess and now.speech is not None else 0

    @property
    def _is_at_tail(self) -> bool:
        """Whether a turn that was begun on a guess has only its last word left."""
        now = self._place
        return self._is_speaking and now.is_guess and now.speech is not None and now.speech.is_at_tail

    @property
    def is_tentative(self) -> bool:
        """Whether the turn was begun on a guess, and the text does not end with it."""
        speech = self._place.speech if self._is_speaking and self._place.is_guess else None
        return speech is not None and not speech.knows_its_place and not self._is_committed

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
        """The turn is over."""
        self._place, self._valid_words = self._left(is_closed), 0

    def _left(self, is_closed: bool) -> Place:
        """The place behind the turn; words that are no longer in the text do not count."""
        now = self._place
        assert self._valid_words is not None
        end = now.end - len(now.words) + self._valid_words
        history = now.history
        if turn := spoken_turn(self._render(now.words[: self._valid_words]), now.made):
            history = pinned([*history, turn])
        pace, latest = now.ms_per_character, now.speech.ms_per_character if now.speech else None
        if latest is not None:
            pace = latest if pace is None else (pace + latest) / 2
        return replace(
            now,
            speech=None,
            words=(),
            end=end,
            is_closed=is_closed,
            is_guess=False,
            made=None,
            history=history,
            ms_per_character=pace,
        )

    def _cut_anew(self) -> None:
        """Find out which words of the turn being spoken are still in the text, and cut those behind into turns."""
        now, text = self._place, self._text
        self._upcoming = None, ()
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
