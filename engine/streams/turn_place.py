"""Where speech is in a text that is spoken in turns."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.core import WordTiming
from engine.streams.base import SpokenTurn
from engine.streams.clauses import Cutter, Turn
from engine.streams.history import Step, pinned, spoken_turn
from engine.streams.turn_speech import TurnSpeech
from engine.text.words import SpokenWord


@dataclass(frozen=True)
class TurnPlace:
    """In a turn, or between two; never changed, so that speech can go back there."""

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

    @property
    def begin(self) -> int:
        """Words of the text before the turn being spoken."""
        return self.end - len(self.words)

    @property
    def rests_behind(self) -> int:
        """Words behind which a turn that was begun on a guess could be ended now; 0: none."""
        return self.speech.rests_behind if self.is_guess and self.speech is not None else 0

    @property
    def is_at_tail(self) -> bool:
        """Whether a turn that was begun on a guess has only its last word left."""
        return self.is_guess and self.speech is not None and self.speech.is_at_tail

    @property
    def is_groping(self) -> bool:
        """Whether the turn was begun on a guess and is not told which of its words is sounding."""
        return self.is_guess and self.speech is not None and not self.speech.knows_its_place

    def is_in_turn_of(self, other: "TurnPlace") -> bool:
        """Whether both are in the same turn."""
        return (self.start_ms, self.end, self.words) == (other.start_ms, other.end, other.words)

    def in_utterance(self, times: Sequence[WordTiming]) -> tuple[WordTiming, ...]:
        """Times of the turn as times of the utterance."""
        before = self.start_ms
        return tuple(replace(w, start_ms=w.start_ms + before, end_ms=w.end_ms + before) for w in times)

    def opened(self, turn: Turn) -> "TurnPlace":
        """The place before the first frame of ``turn``."""
        return replace(
            self,
            cutter=turn.cutter,
            speech=turn.speech.paced(self.ms_per_character),
            words=turn.words,
            end=turn.end,
            start_ms=self.heard_ms,
            has_spoken=True,
            is_closed=False,
            is_guess=turn.is_guess,
            made=None,
        )

    def shortened(self, words: int) -> "TurnPlace":
        """The turn has only its first ``words`` words; times of them that were not told yet for good are to be told."""
        assert self.speech is not None
        untold = self.in_utterance(self.speech.times(words))
        return replace(self, words=self.words[:words], end=self.begin + words, untold=untold)

    def left(self, kept: int, text: str, is_closed: bool) -> "TurnPlace":
        """The place behind the turn, of which the first ``kept`` words count, which the model read as ``text``."""
        history = self.history
        if turn := spoken_turn(text, self.made):
            history = pinned([*history, turn])
        pace, latest = self.ms_per_character, self.speech.ms_per_character if self.speech else None
        if latest is not None:
            pace = latest if pace is None else (pace + latest) / 2
        return replace(
            self,
            speech=None,
            words=(),
            end=self.begin + kept,
            is_closed=is_closed,
            is_guess=False,
            made=None,
            history=history,
            ms_per_character=pace,
        )
