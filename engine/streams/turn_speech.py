"""One turn while it is spoken: what each frame may be, when it is over, and when its words are said.

``GuessedTurn`` is for models that keep to themselves where they are in the turn, as Drama 3 does: word times are
proportional to length. ``AlignedTurn`` is for models whose audio rows see the turn's symbols: times are exact.
"""

import copy
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

from engine.core import WordTiming
from engine.sampler import TrailingClick
from engine.streams.aligned import AlignedStream
from engine.streams.aligned_symbols import AlignedSettings
from engine.streams.base import Fault, Frame, Guide, Spoken
from engine.streams.guards import GuardSettings, Repetition
from engine.text.words import Boundary, Kind, SpokenWord

COMMA_NEARER = 0.5
"""A seam with a comma counts as so much nearer to a pause than one without."""
MOST_OFF = 4.0
"""Characters that a pause may lie off the seam that it is taken for: else a word might be said twice, or not at all."""
USUAL_MS_PER_CHARACTER = 65.0
"""How long a character (or phoneme) sounds, pauses included."""
FEWEST_CHARACTERS = 12
"""Of a turn that tells how fast the model speaks."""


class TurnSpeech(Protocol):
    """A turn being spoken; its word times count from its own first frame."""

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended, by the model's own token or by a bound, or has nothing to say at all."""

    @property
    def is_closed(self) -> bool:
        """Whether the end-of-turn token is already among the rows."""

    @property
    def knows_its_place(self) -> bool:
        """Whether it is told which word is sounding; else it guesses by pauses."""

    @property
    def begun(self) -> int:
        """How many of the turn's words have begun, or may have."""

    def is_past(self, words: int) -> bool:
        """Whether the first ``words`` words have been spoken and nothing of the next; it may never be known."""

    @property
    def rests_behind(self) -> int:
        """Words behind which it could be ended early now, so that what follows begins another turn; 0: none."""

    @property
    def is_at_tail(self) -> bool:
        """Whether it would now go on to what falls at the end of a turn; it may be a guess."""

    @property
    def is_said(self) -> bool:
        """Whether its last sound ends before the next frame does; False where that is never known."""

    @property
    def ms_per_character(self) -> float | None:
        """How fast it was, where that is a help to those that follow."""

    def paced(self, ms_per_character: float | None) -> "TurnSpeech":
        """The same, before its first frame, expecting to be as fast as that."""

    def times(self, words: int) -> tuple[WordTiming, ...]:
        """Of the first ``words`` words if the turn ended here, where they are not told yet for good."""

    def hearing(self, levels_db: Sequence[float]) -> "TurnSpeech":
        """The same, with the loudness (dB of full scale) of the frames that are heard next."""

    def guide(self) -> Guide:
        """Bounds of the next decode step."""

    def accept(self, frame: Frame, is_last: bool) -> Spoken:
        """Take a frame in, or the end of the turn; gives what is to be heard now and words with their times.

        ``is_last``: nothing is to be heard behind what this turn says.
        """

    def pardon(self) -> None:
        """See ``TextStream``."""

    def copy(self) -> "TurnSpeech":
        """An independent copy."""


@dataclass(frozen=True)
class TurnSettings:
    """Lengths a turn may have, and the frame's length."""

    frame_ms: float
    expected_ms: float = USUAL_MS_PER_CHARACTER
    """Speech expected per character (or phoneme) of the turn."""
    cap_ms: float = 200.0
    """A turn may last ``spare_ms`` plus this per character: a model that will not stop is stopped."""
    spare_ms: float = 2500.0
    quiet_db: float = -45.0
    """Loudness below which a frame belongs to a pause .."""
    pause_ms: float = 60.0
    """.. that lasts as long as this at least."""

    @property
    def pause_frames(self) -> int:
        """Quiet frames in a row that are a pause."""
        return max(1, math.ceil(self.pause_ms / self.frame_ms))

    def expected_frames(self, length: int) -> float:
        """Usual frames of a turn of ``length`` characters."""
        return max(1.0, length * self.expected_ms / self.frame_ms)

    def most_frames(self, length: int) -> int:
        """Frames after which a turn of ``length`` characters is ended."""
        return int((self.spare_ms + length * self.cap_ms) / self.frame_ms) + 1


class GuessedTurn:
    """A turn bounded by nothing but its length.

    Words get times first by an expected rate and, when the turn has ended, by its true length. Where it pauses, by what
    is heard, it is between two words: those whose seam is expected nearest, rather one with a comma than one without.
    """

    def __init__(
        self, settings: TurnSettings, words: Sequence[SpokenWord], guards: GuardSettings | None = None
    ) -> None:
        self.is_over = self.is_closed = False
        self._settings, self._words = settings, tuple(words)
        self._guards = guards or GuardSettings()
        self._repetition = Repetition()
        said = sum(len(word.phonemes or word.spoken) for word in words if word.kind is Kind.WORD)
        self._fewest = max(1, round(said * self._guards.fewest_ms_per_character / settings.frame_ms))
        """Frames in which it could be said."""
        self._lengths = [max(1, len(word.phonemes or word.spoken)) for word in words]
        self._length = sum(self._lengths) + len(self._lengths) - 1
        self._made = 0
        """Frames so far, the held one included."""
        self._heard = 0
        self._announced = 0
        """Words whose expected times were given."""
        self._ms_per_character = settings.expected_ms
        self._loud = self._quiet = 0
        """Frames so far that were no pause; quiet ones since the last of them."""
        self._click: TrailingClick[tuple[int, ...]] = TrailingClick()

    @property
    def knows_its_place(self) -> bool:
        """No."""
        return False

    @property
    def begun(self) -> int:
        """All: which have, is not known."""
        return len(self._words)

    def is_past(self, words: int) -> bool:
        """Never known."""
        return False

    @property
    def rests_behind(self) -> int:
        """By where the seams between the words are expected."""
        if not self._loud or self._quiet < self._settings.pause_frames:
            return 0
        spoken = self._loud * self._settings.frame_ms / self._ms_per_character
        ends = list(accumulate(length + 1 for length in self._lengths))
        nearness = [
            abs(spoken - end) * (COMMA_NEARER if word.boundary is not Boundary.NONE else 1)
            for end, word in zip(ends, self._words, strict=True)
        ]
        nearest = 1 + nearness.index(min(nearness))
        return nearest if nearest < len(self._words) and nearness[nearest - 1] <= MOST_OFF else 0

    @property
    def is_at_tail(self) -> bool:
        """Whether all but the last word should have been said by now."""
        said = sum(self._lengths[:-1]) + len(self._lengths) - 1
        return len(self._words) > 1 and self._loud * self._settings.frame_ms >= said * self._ms_per_character

    @property
    def is_said(self) -> bool:
        """Never known."""
        return False

    @property
    def ms_per_character(self) -> float | None:
        """Pauses left out; of a turn that the model has ended itself and that was long enough to tell."""
        is_known = self.is_closed and self._loud and self._length >= FEWEST_CHARACTERS
        return self._loud * self._settings.frame_ms / self._length if is_known else None

    def paced(self, ms_per_character: float | None) -> "GuessedTurn":
        """The same at another pace."""
        if ms_per_character is None:
            return self
        twin = self.copy()
        twin._ms_per_character = ms_per_character
        return twin

    def times(self, words: int) -> tuple[WordTiming, ...]:
        """Shares of what was heard."""
        return _shares(self._words[:words], self._lengths[:words], self._heard * self._settings.frame_ms)

    def hearing(self, levels_db: Sequence[float]) -> "GuessedTurn":
        """A copy that knows them."""
        twin = self.copy()
        for level_db in levels_db:
            is_quiet = level_db < self._settings.quiet_db
            # What was quiet before a sound was a pause, and what was too short for one was speech.
            if not is_quiet:
                twin._loud += 1 + (twin._quiet if twin._loud and twin._quiet < self._settings.pause_frames else 0)
            twin._quiet = twin._quiet + 1 if is_quiet else 0
        return twin

    def guide(self) -> Guide:
        """The model says when the turn is over."""
        return Guide()

    def accept(self, frame: Frame, is_last: bool = False) -> Spoken:
        """What is heard may lag a frame behind (see ``TrailingClick``); where its last sound ends is not known."""
        if frame.is_end:
            self._click.end()
            self.is_over = self.is_closed = True
            return Spoken(words=self._times(self._heard), fault=None if self._heard >= self._fewest else Fault.SHORT)
        self._made += 1
        self._repetition = self._repetition.push(frame.codes, self._guards.longest_cycle)
        is_stuck = self._repetition.frames * self._settings.frame_ms >= self._guards.most_repeated_ms
        self.is_over = is_stuck or self._made >= self._settings.most_frames(self._length)
        heard = self._click.push(frame.codes, semantic_code=frame.codes[0])
        if self.is_over:
            heard += self._click.stop()
        self._heard += len(heard)
        words = self._times(self._heard) if self.is_over else self._expected_words()
        fault = Fault.RUNAWAY if self.is_over else None
        return Spoken(tuple(heard), words, fault, self._guards.most_silent_ms)

    def pardon(self) -> None:
        """Nothing: repetition ends with the first frame that is new, and the length is that of the whole turn."""

    def copy(self) -> "GuessedTurn":
        """An independent copy."""
        twin = copy.copy(self)
        twin._click = self._click.copy()
        return twin

    def _expected_words(self) -> tuple[WordTiming, ...]:
        """Words that begin, at the expected rate, before the end of what is heard now."""
        expected = max(self._settings.expected_frames(self._length), self._made)
        end_ms = self._heard * self._settings.frame_ms
        due = [word for word in self._times(expected)[self._announced :] if word.start_ms < end_ms]
        self._announced += len(due)
        return tuple(due)

    def _times(self, frames: float) -> tuple[WordTiming, ...]:
        """Times of all words if the turn lasts ``frames``."""
        return _shares(self._words, self._lengths, frames * self._settings.frame_ms)


def _shares(words: Sequence[SpokenWord], lengths: Sequence[int], total_ms: float) -> tuple[WordTiming, ...]:
    """Times of ``words`` that last ``total_ms`` together: shares by the length of their sound."""
    ms_each = total_ms / max(1, sum(lengths))
    times: list[WordTiming] = []
    start_ms = 0.0
    for word, length in zip(words, lengths, strict=True):
        end_ms = start_ms + length * ms_each
        times.append(WordTiming(word.text, word.spoken, start_ms, end_ms, word.char_start, word.char_end, True))
        start_ms = end_ms
    return tuple(times)


class AlignedTurn:
    """A turn whose audio rows see its symbols, and nothing of the turns around it.

    The end-of-turn token may be drawn once the pointer has been on the closing silence; after ``end_frames`` there the
    turn is over in any case. A pointer that races or drags is a fault.
    """

    def __init__(
        self, settings: AlignedSettings, words: Sequence[SpokenWord], guards: GuardSettings | None = None
    ) -> None:
        self.is_closed = False
        self._stream = AlignedStream(settings, guards, trims_end=False)
        self._sounding = [0]
        """Words with a sound among the first n, by n."""
        for word in words:
            self._stream.add([word])
            self._sounding.append(self._stream.sounding_words)
        self._stream.finish()

    @property
    def is_over(self) -> bool:
        """Whether the turn has ended; a turn without any sound is over before it begins."""
        return self.is_closed or self._stream.is_ended

    @property
    def knows_its_place(self) -> bool:
        """Yes, by the pointer."""
        return True

    @property
    def begun(self) -> int:
        """Words that frames made so far have begun, and silent ones before them."""
        return bisect_left(self._sounding, self._stream.begun_words)

    def is_past(self, words: int) -> bool:
        """Whether the pointer has left the last sound of the last of them."""
        return self._stream.is_past(self._sounding[words])

    @property
    def rests_behind(self) -> int:
        """All words but the last, when nothing of that has begun."""
        last = len(self._sounding) - 2
        return last if last > 0 and self.begun <= last and self.is_past(last) else 0

    @property
    def is_at_tail(self) -> bool:
        """Whether only the last word is left."""
        return self.rests_behind > 0

    @property
    def is_said(self) -> bool:
        """By the pointer."""
        return self._stream.is_said

    @property
    def ms_per_character(self) -> float | None:
        """Nobody asks: the pointer tells."""
        return None

    def paced(self, ms_per_character: float | None) -> "AlignedTurn":
        """The same."""
        return self

    def times(self, words: int) -> tuple[WordTiming, ...]:
        """None: they were told."""
        return ()

    def hearing(self, levels_db: Sequence[float]) -> "AlignedTurn":
        """The same: the pointer tells."""
        return self

    def guide(self) -> Guide:
        """The symbols beside the next frame, the moves they allow, and whether the turn may end here."""
        return replace(self._stream.guide(), is_end_allowed=self._stream.has_rested)

    def accept(self, frame: Frame, is_last: bool = False) -> Spoken:
        """Move the pointer, or end; behind the last sound if that is the ``is_last`` of all."""
        if frame.is_end:
            self.is_closed = True
            return Spoken()
        self._stream.trims_end = is_last
        return self._stream.accept(frame)

    def pardon(self) -> None:
        """See ``TextStream``."""
        self._stream.pardon()

    def copy(self) -> "AlignedTurn":
        """An independent copy."""
        twin = copy.copy(self)
        # The text of a turn never changes, and its place is replaced, not changed.
        twin._stream = copy.copy(self._stream)
        return twin
