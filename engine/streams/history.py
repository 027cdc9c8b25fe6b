"""Which turns a decoder is shown again when its context is renewed, and how they are kept until then."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.streams.base import SpokenTurn, Window


@dataclass(frozen=True, eq=False)
class Step:
    """A step of a turn and, behind it, those before: long turns share what they have in common."""

    before: "Step | None"
    window: Window | None
    heard: tuple[tuple[int, ...], ...] = ()
    """Frames that were to be heard with it, each [C]."""


def spoken_turn(text: str, made: Step | None) -> SpokenTurn | None:
    """The turn that asked for ``text`` and whose last step was ``made``; None if nothing of it was heard."""
    steps = list[Step]()
    while made is not None:
        steps.append(made)
        made = made.before
    steps.reverse()
    codes = tuple(frame for step in steps for frame in step.heard)
    if not codes or not text.strip():
        return None
    windows = [step.window for step in steps[: len(codes) + 1]]
    return SpokenTurn(text, codes, (*windows, *[None] * (len(codes) + 1 - len(windows))))


def pinned(spoken: Sequence[SpokenTurn]) -> tuple[SpokenTurn, ...]:
    """Of the turns ``spoken`` so far, what the next one follows: the first, which anchors the voice, and the last."""
    return (*spoken[:1], *spoken[1:][-1:])
