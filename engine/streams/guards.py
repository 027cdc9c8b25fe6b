"""What cannot be speech although it has a sound: far too short, standing still, or dragging.

Bounds are wide: what people and models say comes nowhere near them, so that no good take is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.streams.base import Fault


@dataclass(frozen=True)
class GuardSettings:
    """Bounds on a turn. "Seen" is what the shipped understudy did with sixty texts (``docs/experiments.md``)."""

    fewest_ms_per_character: float = 12.0
    """Usual are 65; auctioneers need 25."""
    fewest_ms_per_sound: float = 30.0
    """Mean over a turn by its pointer. Least seen: 50, and 33 over any sixteen; a pointer that runs away needs 25."""
    fewest_sounds: int = 24
    """So many are enough to tell before the turn has ended."""
    most_ms_per_sound: float = 400.0
    """Mean of ``drag_sounds`` in a row. Most seen: 122 over eight; one alone may last 600."""
    drag_sounds: int = 4
    most_repeated_ms: float = 2000.0
    """Frames equal in every code, or a cycle of them. A pause in a sentence is shorter; live sound never repeats."""
    longest_cycle: int = 8
    """Frames."""


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
    """How fast the pointer goes over the sounds of a turn; pauses do not count."""

    symbol: int = 0
    lasted: int = 0
    """Units of ``symbol`` so far."""
    sounds: int = 0
    """Sounds that have ended .."""
    units: int = 0
    """.. and how many units they lasted."""
    recent: tuple[int, ...] = ()
    """Units of the last of them."""

    def push(self, symbol: int, is_sound: Sequence[bool], drag_sounds: int) -> "Pace":
        """With one more unit, on ``symbol``."""
        if symbol == self.symbol:
            return replace(self, lasted=self.lasted + 1)
        if not is_sound[self.symbol]:
            return replace(self, symbol=symbol, lasted=1)
        recent = (*self.recent, self.lasted)[-drag_sounds:]
        return Pace(symbol, 1, self.sounds + 1, self.units + self.lasted, recent)

    def fault(self, guards: GuardSettings, unit_ms: float, total: int) -> Fault | None:
        """What is wrong, in a turn of ``total`` sounds."""
        is_known = self.sounds >= min(guards.fewest_sounds, total) > 0
        if is_known and self.units * unit_ms < guards.fewest_ms_per_sound * self.sounds:
            return Fault.DUD
        dragged_ms = guards.most_ms_per_sound * guards.drag_sounds
        return Fault.RUNAWAY if sum(self.recent) * unit_ms > dragged_ms else None
