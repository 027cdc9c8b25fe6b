"""What is certain of the next turn's prompt before its text is whole (turn form)."""

from collections.abc import Callable, Sequence
from os.path import commonprefix

from engine.streams.clauses import Clauses
from engine.streams.turn_place import TurnPlace
from engine.text.segment import is_seam
from engine.text.words import SpokenWord


class PromptAhead:
    """Token ids that no later text changes, but for those of the last word.

    ``settle(text, known, is_first, is_closed)`` gives the token ids that no text behind the first ``known`` characters
    changes (None: they are not asked for). ``may_guess``: a turn may be begun on a guess, which may leave out words
    that lean on the next one.
    """

    def __init__(
        self,
        settle: Callable[[str, int, bool, bool], tuple[int, ...]] | None,
        render: Callable[[Sequence[SpokenWord]], str],
        may_guess: bool,
    ) -> None:
        self._settle, self._render, self._may_guess = settle, render, may_guess
        self._latest: tuple[object, tuple[int, ...]] = (None, ())
        """What it was worked out for, and the ids."""

    def forget(self) -> None:
        """The text was changed."""
        self._latest = None, ()

    def ids(self, clauses: Clauses, place: TurnPlace) -> tuple[int, ...]:
        """Between turns, those of the next one."""
        if self._settle is None or place.speech is not None:
            return ()
        waiting, words = clauses.waiting, clauses.text.words
        end = waiting[0].end if waiting else len(words)
        key = (place, end, len(waiting))
        if self._latest[0] != key:
            self._latest = key, self._settled(words[place.end : end], not waiting, place)
        return self._latest[1]

    def _settled(self, words: Sequence[SpokenWord], is_open: bool, place: TurnPlace) -> tuple[int, ...]:
        sure = len(words)
        if self._may_guess and is_open:
            sure = next((n for n in range(sure, 0, -1) if is_seam(words[n - 1])), 0)
        seen = min(sure + 1, len(words))
        text = self._render(words[:seen])
        # Tags that are open are closed at the end, so that even a model's own text changes there.
        known = len(commonprefix((text, self._render(words[: seen - 1]))))
        if self._settle is None or not text.strip() or not known:
            return ()
        return self._settle(text, known, not place.has_spoken, place.is_closed)
