"""Guesses of the turn form: when a turn is begun before its clause is whole, and what waits for more text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.streams.clauses import Clauses, Turn
from engine.streams.turn_place import TurnPlace
from engine.streams.turn_speech import USUAL_MS_PER_CHARACTER
from engine.text.segment import is_seam
from engine.text.words import Boundary, SpokenWord


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


class Guesses:
    """What is better now, by how much the listener has; without ``settings`` nothing is guessed and nothing waits."""

    def __init__(self, settings: Guessing | None) -> None:
        self._settings = settings
        self._lead_s, self._reserve_s, self._cost = 0.0, math.inf, 0.0

    @property
    def are_made(self) -> bool:
        """Whether turns may be begun on a guess at all."""
        return self._settings is not None

    @property
    def fewest_words(self) -> int:
        """Words wanted for the first guess; 0: there is none."""
        return self._settings.fewest_words if self._settings else 0

    def situate(self, lead_s: float, reserve_s: float, cost: float) -> None:
        """See ``TextStream``."""
        self._lead_s, self._reserve_s, self._cost = lead_s, reserve_s, cost

    @property
    def is_needed(self) -> bool:
        """Whether speech has to go on with what there is."""
        return self._lead_s <= self._reserve_s

    def words(self, loose: Sequence[SpokenWord], place: TurnPlace) -> int:
        """Words of a turn that would be begun on a guess now, of the ``loose`` ones behind ``place``; 0: better not."""
        if self._settings is None or self._reserve_s == math.inf:
            return 0
        fewest = self._settings.fewest_later if place.has_spoken else place.guess_words
        return next((n for n in range(len(loose), fewest - 1, -1) if is_seam(loose[n - 1])), 0)

    def was_early(self, place: TurnPlace) -> TurnPlace:
        """Behind a guess that was too early: more is wanted for the next one."""
        assert self._settings is not None
        return replace(place, guess_words=min(self._settings.most_words, 2 * place.guess_words))

    def was_right(self, place: TurnPlace) -> TurnPlace:
        """At the end of a turn that was spoken as it was begun."""
        return replace(place, guess_words=self.fewest_words) if place.is_guess else place

    def held_to_s(self, waiting: Sequence[Turn], place: TurnPlace) -> float:
        """The reserve, and for clauses that wait for others the time that it takes to make them."""
        length_s = sum(_length_s(turn.words, place.ms_per_character) for turn in waiting)
        return self._reserve_s + self._cost * length_s

    def gathers(self, clauses: Clauses, place: TurnPlace) -> bool:
        """Whether clauses wait for others of their sentence: turns grow with what the listener has."""
        waiting, text = clauses.waiting, clauses.text
        if self._settings is None or text.is_finished or text.flushes[-1:] >= [waiting[-1].end]:
            return False
        words = sum(len(turn.words) for turn in waiting)
        is_whole = any(turn.words[-1].boundary is Boundary.SENTENCE for turn in waiting)
        return not is_whole and words < self._settings.most_joined and self._lead_s > self.held_to_s(waiting, place)

    def take_next(self, clauses: Clauses) -> Turn:
        """The next clause; the whole sentence when it is there and the listener has enough to hear meanwhile."""
        turn = clauses.waiting.pop(0)
        while self._settings and clauses.waiting and not self.is_needed:
            following = clauses.waiting[0]
            begin = turn.end - len(turn.words)
            if turn.words[-1].boundary is Boundary.SENTENCE or following.end - begin > self._settings.most_joined:
                break
            clauses.waiting.pop(0)
            turn = clauses.turn(begin, following.end, following.cutter)
        return turn


def _length_s(words: Sequence[SpokenWord], ms_per_character: float | None) -> float:
    """How long they will sound."""
    characters = sum(1 + len(word.phonemes or word.spoken) for word in words)
    return characters * (ms_per_character or USUAL_MS_PER_CHARACTER) / 1000
