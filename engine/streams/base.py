"""What a text stream is to the engine: it says what the decoder must do next and what a frame meant."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from engine.core import WordTiming
from engine.text.words import SpokenWord


class Demand(Enum):
    """What an utterance needs now."""

    WAIT = "wait"
    """Nothing can be done until more text comes."""
    PREFILL = "prefill"
    """Prompt rows are ready."""
    DECODE = "decode"
    """A frame can be made."""
    HOLD = "hold"
    """It could go on, but more text would make it better: when the listener is about to run dry (see ``situate``)."""
    END = "end"
    """Everything has been spoken."""


@dataclass(frozen=True)
class Window:
    """The text beside the next frame (aligned form).

    ``symbols``: ids at ``A-2, A-1, A, B, B+1 .. B+L``, 0 where there is none; ``elapsed``: units the symbols of unit A
    and of unit B have lasted before that unit.
    """

    symbols: tuple[int, ...]
    elapsed: tuple[int, int]


@dataclass(frozen=True)
class Guide:
    """How the stream bounds one step: what the frame is told of the text, and what the model may choose."""

    window: Window | None = None
    moves: tuple[bool, bool, bool, bool] | None = None
    """Allowed pointer classes ``2a + b`` (aligned form)."""
    is_end_allowed: bool = True
    """Whether the end-of-turn token may be drawn."""


@dataclass(frozen=True)
class Frame:
    """One decoded frame: the main token's semantic code and the tower's, ``codes`` [C]."""

    codes: tuple[int, ...]
    is_end: bool = False
    """The end-of-turn token was drawn: there is no audio in this frame."""
    move: int = 0
    """Pointer class chosen for the frame after (aligned form)."""
    speed: float = 1.0
    """How much faster than usual it is to be heard, for the listener's sake."""


class Fault(Enum):
    """What a model did that is no speech, in words that go on from "the model"."""

    SHORT = "ended its turn before it could have said it"
    HURRIED = "hurried over its text"
    RUNAWAY = "did not go on in its text, or did not end it"
    MUTE = "made no sound where there should be one"


@dataclass(frozen=True)
class Spoken:
    """What a frame brought: frames to hear now, each [C], and words whose times became known or exact."""

    frames: tuple[tuple[int, ...], ...] = ()
    words: tuple[WordTiming, ...] = ()
    fault: Fault | None = None
    most_silent_ms: float = math.inf
    """Audio that has been silent for longer, up to the end of these frames, is a fault; endless: this is a pause."""
    speed: float = 1.0
    """How fast the frames are heard."""
    ends_at: float | None = None
    """Share of the last frame behind which nothing is heard any more; None: speech goes on."""


@dataclass(frozen=True)
class SpokenTurn:
    """A turn that was spoken, so that the decoder can be shown it again (turn form)."""

    text: str
    """As the decoder read it."""
    codes: tuple[tuple[int, ...], ...]
    """Of the frames that were heard, each [C]; one at least."""
    windows: tuple[Window | None, ...]
    """Beside the row before each frame, and beside the last frame's own."""


class TextStream(Protocol):
    """Words in, decoder steps out. Pure bookkeeping: no tensors, no clock, not a random number."""

    def add(self, words: Sequence[SpokenWord]) -> None:
        """Append words to be spoken."""

    def flush(self) -> None:
        """Speak what is there; more may come later."""

    def finish(self) -> None:
        """No more text will come."""

    def situate(self, lead_s: float, reserve_s: float, cost: float = 0.0) -> None:
        """Told before each step: the listener has ``lead_s`` of audio, and with ``reserve_s`` it is time to go on.

        ``cost``: seconds that a second of audio takes to make, beside whoever else speaks. An endless ``reserve_s``: do
        not wait for better text, and do not guess.
        """

    def demand(self) -> Demand:
        """What is needed now."""

    @property
    def held_to_s(self) -> float:
        """What the listener has left when it goes on without more text (``Demand.HOLD``)."""

    @property
    def wants_text(self) -> bool:
        """Whether unread text should be read."""

    def upcoming(self) -> tuple[int, ...]:
        """Token ids with which the next prompt begins, as far as is known and no later text can change it.

        ``take_prompt`` may still give others where the text is taken back, or a tokenizer does not keep to words.
        """

    def take_prompt(self) -> tuple[int, ...]:
        """Token ids of the prompt rows to append (``Demand.PREFILL``)."""

    def retake(self, token_ids: tuple[int, ...], place: Any) -> bool:
        """Take a prompt again that was taken before, leading to ``place``; if another is due, change nothing."""

    @property
    def would_restart(self) -> bool:
        """Whether what is being spoken was begun too early and should be begun anew, if nobody has heard it."""

    def guide(self) -> Guide:
        """Bounds of the next decode step (``Demand.DECODE``)."""

    def accept(self, frame: Frame) -> Spoken:
        """Take the decoded frame in."""

    def hear(self, levels_db: Sequence[float]) -> None:
        """Told how loud (dB of full scale, RMS) each frame is that ``accept`` gave last."""

    @property
    def is_tentative(self) -> bool:
        """Whether what is being made may be ended at a place before: better not given out before it has to be."""

    def had_better_end_at(self, place: Any) -> bool:
        """Whether what is being spoken would have been ended at that earlier place, had the text been known then."""

    def pardon(self) -> None:
        """A fault was found in what was given out already, and speech goes on: judge the pace of what comes now."""

    @property
    def is_resting(self) -> bool:
        """Whether the decoder may forget what was spoken before: between turns, or in a silence."""

    @property
    def history(self) -> tuple[SpokenTurn, ...]:
        """What the decoder should be shown again, the oldest first, when it has gone back to the voice's rows."""

    def renew(self) -> None:
        """The decoder has gone back to the voice's own rows (only when ``is_resting``) and was shown ``history``."""

    # Going back. Text and place are taken back apart from each other: text that is changed leaves the speech where it
    # is, and speech goes back without losing text.

    @property
    def extent(self) -> int:
        """Where the sound of a next word would begin, in the stream's own measure."""

    @property
    def reached(self) -> int:
        """How far speech is, in that measure: what begins here or before has begun."""

    def text_mark(self) -> Any:
        """How much text there is."""

    def cut_text(self, mark: Any) -> None:
        """Forget the text that came after ``mark``. Put back what has begun, and then the place, before going on."""

    def place(self) -> Any:
        """Where speech is in the text; small, and valid as long as the text up to there stays the same."""

    def go_to(self, place: Any) -> None:
        """Speak on from there."""

    def snapshot(self) -> Any:
        """Copy of all that changes, for ``restore``."""

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot; it may be restored again later."""
