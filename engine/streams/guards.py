"""What cannot be speech: far too short, hurried, standing still, dragging, or silent where there should be a sound.

Bounds are wide: what people and models say comes nowhere near them, so that no good take is lost.
"""

import math
from dataclasses import dataclass, replace

from engine.streams.base import Fault


@dataclass(frozen=True)
class GuardSettings:
    """Bounds. "Seen" is what the shipped understudy did with sixty texts (``docs/experiments.md``)."""

    fewest_ms_per_character: float = 12.0
    """Of a turn whose sounds are not followed. Usual are 65; auctioneers need 25."""
    fewest_ms_per_sound: float = 30.0
    """Mean over ``fewest_sounds`` in a row by the pointer. Least seen: 33 over any sixteen; one that races needs 25."""
    fewest_sounds: int = 24
    """So many tell enough; all, where a text has fewer; .."""
    fewest_again: int = 8
    """.. and so many behind a fault that was heard: who hurries on is stopped soon."""
    most_ms_per_sound: float = 400.0
    """Mean of ``drag_sounds`` in a row. Most seen: 122 over eight; one alone may last 600."""
    drag_sounds: int = 4
    most_repeated_ms: float = 2000.0
    """Frames equal in every code, or a cycle of them. A pause in a sentence is shorter; live sound never repeats."""
    longest_cycle: int = 8
    """Frames."""
    most_mute_ms: float = 600.0
    """Silence while the pointer goes over sounds. The closure of a stop takes 100."""
    most_silent_ms: float = 2000.0
    """Silence where it is not known what should sound."""


@dataclass(frozen=True)
class Repetition:
    """How long the same frames have come again and again."""

    latest: tuple[tuple[int, ...], ...] = ()
    """The frames before the next one, the newest first."""
    runs: tuple[int, ...] = ()
    """By length of the cycle, from 1: frames in a row that were equal to the one a cycle before."""

    def push(self, codes: tuple[int, ...], longest_cycle: int) -> "Repetition":
        """With one more frame."""
        runs = [*self.runs, *[0] * (len(self.latest) - len(self.runs))]
        runs = [run + 1 if codes == before else 0 for run, before in zip(runs, self.latest, strict=True)]
        return Repetition((codes, *self.latest)[:longest_cycle], tuple(runs))

    @property
    def frames(self) -> int:
        """Frames in a row that brought nothing new."""
        return max(self.runs, default=0)


@dataclass(frozen=True)
class Pace:
    """How fast the pointer goes over the sounds; pauses do not count."""

    symbol: int = 0
    """Place of the one that is sounding .."""
    is_sound: bool = False
    lasted: int = 0
    """.. and its units so far."""
    recent: tuple[int, ...] = ()
    """Units of the sounds that ended last, as many as tell enough."""
    is_pardoned: bool = False
    """A fault was heard, and those before it are forgotten."""

    def push(self, symbol: int, is_sound: bool, fewest_sounds: int) -> "Pace":
        """With one more unit, on ``symbol``."""
        if symbol == self.symbol:
            return replace(self, lasted=self.lasted + 1)
        recent = (*self.recent, self.lasted)[-fewest_sounds:] if self.is_sound else self.recent
        return Pace(symbol, is_sound, 1, recent, self.is_pardoned and len(recent) < fewest_sounds)

    def fault(self, guards: GuardSettings, unit_ms: float, total: float = math.inf) -> Fault | None:
        """What is wrong, in a text of ``total`` sounds, if that is known."""
        fewest = guards.fewest_again if self.is_pardoned else guards.fewest_sounds
        is_known = len(self.recent) >= min(fewest, total) > 0
        if is_known and sum(self.recent) * unit_ms < guards.fewest_ms_per_sound * len(self.recent):
            return Fault.HURRIED
        dragged_ms = guards.most_ms_per_sound * guards.drag_sounds
        return Fault.RUNAWAY if sum(self.recent[-guards.drag_sounds :]) * unit_ms > dragged_ms else None


@dataclass(frozen=True)
class Watch:
    """What the guards know of speech whose pointer is known: its pace, and whether it stands still over sounds."""

    pace: Pace = Pace()
    repetition: Repetition = Repetition()

    def push(self, codes: tuple[int, ...], is_sounding: bool, guards: GuardSettings) -> "Watch":
        """With one more frame; one of a pause may be as the frame before."""
        seen = self.repetition.push(codes, guards.longest_cycle) if is_sounding else Repetition()
        return replace(self, repetition=seen)

    def move(self, symbol: int, is_sound: bool, guards: GuardSettings) -> "Watch":
        """With one more unit for which the pointer is on ``symbol``."""
        return replace(self, pace=self.pace.push(symbol, is_sound, guards.fewest_sounds))

    def pardon(self) -> "Watch":
        """The pace so far is judged no more. Repetition is: it ends with the first frame that is new."""
        return replace(self, pace=replace(self.pace, recent=(), is_pardoned=True))

    def fault(self, guards: GuardSettings, unit_ms: float, frame_ms: float, total: float) -> Fault | None:
        """What is wrong; see ``Pace.fault``."""
        is_stuck = self.repetition.frames * frame_ms >= guards.most_repeated_ms
        return Fault.RUNAWAY if is_stuck else self.pace.fault(guards, unit_ms, total)
