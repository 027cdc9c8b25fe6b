"""The turn form: clauses become user turns, and speech goes on from live state after each.

Nothing can be added to a turn once its speech has begun, so a clause is prefilled as one turn when the cutter calls it
whole. What happens inside a turn is told in ``turn_speech.py``.

With ``Guessing`` a turn is begun before its clause is whole: when the listener has nothing more to hear and a few words
are there. If more words have come before its last one is begun, the turn ends there, and the last word opens the next
turn, so that no voice falls in the middle of a sentence; if not, speech waits there as long as the listener has audio.
Where it is not known which word is sounding, the turn ends at a pause instead, if need be at one that lies behind.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.streams.base import Demand, Frame, Guide, Spoken, SpokenTurn
from engine.streams.clauses import Clauses, Cutter, Text, TextMark
from engine.streams.guesses import Guesses, Guessing
from engine.streams.history import Step
from engine.streams.prompt_ahead import PromptAhead
from engine.streams.turn_place import TurnPlace
from engine.streams.turn_speech import TurnSpeech
from engine.text.words import SpokenWord


class TurnStream:
    """Clauses to turns, turns to frames.

    ``open_turn(words)`` begins a turn's speech; ``prompt(text, is_first, is_closed)`` gives the token ids that
    lead from the live state into it; ``render(words)`` the text the model reads, empty when there is nothing to say.
    ``settle``: see ``PromptAhead``. ``keeps_history``: turns are kept for a context that is renewed.

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
        self._frame_ms, self._keeps_history = frame_ms, keeps_history
        self._prompt, self._render = prompt, render
        self._guesses = Guesses(guessing)
        self._ahead = PromptAhead(settle, render, self._guesses.are_made)
        self._place = TurnPlace(copy.deepcopy(cutter), guess_words=self._guesses.fewest_words)
        self._clauses = Clauses(cutter, lambda words: self._render(words), open_turn)

    # Text in

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words; clauses they complete are queued as turns."""
        self._clauses.add(words)

    def flush(self) -> None:
        """Queue what is left as a turn."""
        self._clauses.flush()

    def finish(self) -> None:
        """Queue what is left and end after it."""
        self._clauses.finish()

    # Steps out

    def situate(self, lead_s: float, reserve_s: float, cost: float = 0.0) -> None:
        """End a turn that was begun on a guess before its last word, if more has come."""
        self._guesses.situate(lead_s, reserve_s, cost)
        if self._is_speaking and (kept := self._place.rests_behind) and self._has_more:
            self._place = self._place.shortened(kept)
            self._clauses.kept = kept
            self._leave_turn(is_closed=False)
            self._go_to(self._guesses.was_early(self._place))

    def demand(self) -> Demand:
        """Decode inside a turn, prefill between turns; hold where more text would make it better."""
        is_needed = self._guesses.is_needed
        if self._is_speaking:
            is_before_tail = self._place.is_at_tail and not self._is_committed and not self._has_more
            return Demand.HOLD if not is_needed and (is_before_tail or self._may_end_here) else Demand.DECODE
        if self._clauses.waiting:
            return Demand.HOLD if self._gathers else Demand.PREFILL
        if self._clauses.text.is_finished:
            return Demand.END
        if self._guesses.words(self._loose, self._place):
            return Demand.PREFILL if is_needed else Demand.HOLD
        return Demand.WAIT

    @property
    def wants_text(self) -> bool:
        """Whether there is no whole clause to go on with, or what is spoken depends on what comes."""
        if self._is_speaking:
            return (self._place.is_guess and not self._has_more) or self._may_end_here
        return (not self._clauses.waiting or self._gathers) and not self._clauses.text.is_finished

    @property
    def held_to_s(self) -> float:
        """The reserve, and for clauses that wait for others the time that it takes to make them."""
        return self._guesses.held_to_s(() if self._is_speaking else self._clauses.waiting, self._place)

    @property
    def would_restart(self) -> bool:
        """Whether the turn was begun too early: by now there is twice as much to say."""
        now = self._place
        return self._is_speaking and now.is_guess and len(self._clauses.text.words) - now.end >= len(now.words)

    def upcoming(self) -> tuple[int, ...]:
        """Those of the words that the next turn will have in any case, but for the last of them."""
        return () if self._is_speaking else self._ahead.ids(self._clauses, self._place)

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids that open the next turn."""
        assert not self._is_speaking
        if self._place.speech is not None:
            self._leave_turn(is_closed=False)
        before = self._place
        if self._clauses.waiting:
            turn = self._guesses.take_next(self._clauses)
        else:
            words = self._guesses.words(self._loose, before)
            turn = self._clauses.turn(before.end, before.end + words, before.cutter, is_guess=True)
        self._place = before.opened(turn)
        # Behind a guess the clauses are other ones than those that were waiting.
        self._clauses.kept = None if turn.is_guess else len(turn.words)
        return self._prompt(turn.text, not before.has_spoken, before.is_closed)

    def retake(self, token_ids: tuple[int, ...], place: TurnPlace) -> bool:
        """Open the turn again that ``token_ids`` opened, leading to ``place``; if another is due, change nothing."""
        before = self._place
        if not self._guesses.are_made:
            if self.demand() is Demand.PREFILL and self.take_prompt() == token_ids:
                return True
        elif not self._is_speaking:
            if before.speech is not None:
                self._leave_turn(is_closed=False)
            begin = self._place.end
            if tuple(self._clauses.text.words[begin : begin + len(place.words)]) == place.words:
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
        said = speech.accept(frame, is_last=self._clauses.text.is_finished and not self._clauses.waiting)
        if made is not None:
            made = replace(made, heard=said.frames)
        heard_ms = now.heard_ms + len(said.frames) * self._frame_ms / said.speed
        self._place = replace(now, speech=speech, heard_ms=heard_ms, made=made, untold=())
        if speech.is_over:
            self._place = self._guesses.was_right(self._place)
            self._leave_turn(speech.is_closed)
        return replace(said, words=(*now.untold, *now.in_utterance(said.words)))

    def hear(self, levels_db: Sequence[float]) -> None:
        """Pauses show between which words the speech is, where nothing else does."""
        if self._place.speech is not None:
            self._place = replace(self._place, speech=self._place.speech.hearing(levels_db))

    @property
    def is_tentative(self) -> bool:
        """Whether the turn was begun on a guess, and the text does not end with it."""
        return self._is_speaking and self._place.is_groping and not self._is_committed

    def had_better_end_at(self, place: TurnPlace) -> bool:
        """Whether there was a pause of the turn being spoken, if that was begun on a guess and there is more now."""
        if not self.is_tentative or not self._has_more or self._place.rests_behind:
            return False
        return place.is_in_turn_of(self._place) and place.speech is not None and place.speech.rests_behind > 0

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
        return len(self._clauses.text.words)

    @property
    def reached(self) -> int:
        """The number of the word that is sounding."""
        now = self._place
        return now.end - 1 if now.speech is None else now.begin + now.speech.begun - 1

    def text_mark(self) -> TextMark:
        """How much text there is."""
        return self._clauses.mark()

    def cut_text(self, mark: TextMark) -> None:
        """Forget the text that came after ``mark``."""
        self._clauses.cut_text(mark)

    def place(self) -> TurnPlace:
        """Where speech is."""
        return self._place

    def go_to(self, place: TurnPlace) -> None:
        """Speak on from there."""
        if place is not self._place:
            self._go_to(place)

    def snapshot(self) -> tuple[Text, TurnPlace]:
        """Copy of text and place."""
        return self._clauses.text.copy(), self._place

    def restore(self, snapshot: tuple[Text, TurnPlace]) -> None:
        """Go back to a snapshot: text that came after it is forgotten too."""
        text, self._place = snapshot
        self._clauses.restore(text)

    def _go_to(self, place: TurnPlace) -> None:
        """Be there, and cut the text anew from there."""
        self._place = place
        self._clauses.kept = None

    # The turn being spoken

    @property
    def _is_speaking(self) -> bool:
        """Whether the turn goes on; one whose text has changed ends where the change begins."""
        speech, kept = self._place.speech, self._kept
        return speech is not None and (kept == len(self._place.words) or not speech.is_past(kept))

    @property
    def _kept(self) -> int:
        """Words of the turn that are still in the text."""
        if (kept := self._clauses.kept) is not None:
            return kept
        self._ahead.forget()
        return self._clauses.cut_anew(self._place.begin, self._place.words, self._place.cutter)

    @property
    def _is_committed(self) -> bool:
        """Whether the text was flushed or ended behind the turn's last word."""
        return self._clauses.is_parted_at(self._place.end)

    @property
    def _has_more(self) -> bool:
        """Whether there are words behind this turn that are not parted from it."""
        return self._clauses.goes_on_behind(self._place.end)

    @property
    def _may_end_here(self) -> bool:
        """Whether the end, should it come now, would leave out some of the next frame of the turn."""
        speech = self._place.speech
        return speech is not None and speech.is_said and self._clauses.may_end_at(self._place.end)

    @property
    def _gathers(self) -> bool:
        """Whether whole clauses wait for others of their sentence."""
        return self._guesses.gathers(self._clauses, self._place)

    @property
    def _loose(self) -> list[SpokenWord]:
        """Words behind the turn, or behind what the text still has of it."""
        return self._clauses.text.words[self._place.begin + self._kept :]

    def _leave_turn(self, is_closed: bool) -> None:
        """The turn is over."""
        self._place, self._clauses.kept = self._left(is_closed), 0

    def _left(self, is_closed: bool) -> TurnPlace:
        """The place behind the turn; words that are no longer in the text do not count."""
        kept = self._clauses.kept
        assert kept is not None
        return self._place.left(kept, self._render(self._place.words[:kept]), is_closed)
